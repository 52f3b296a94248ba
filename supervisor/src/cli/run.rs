//! `leo run`: a task in the foreground. It does what the tasks worker does for a schedule, with the same
//! lock and the same record, and works without a daemon too.

use super::{
    api::Api,
    failure::Failure,
    out::{self, Paint},
    text,
};
use crate::config;
use clap::Args;
use leo_ipc::{
    ExitCode, Generation, TaskName,
    client::Client,
    config::{Config, TaskConfig, TaskRuntime},
    hello::Role,
    paths::Home,
    task::{
        ClaimRun, EndRun, ListRuns, ReportTaskFailure, RunState, TaskFailureCard, TaskRun, Trigger,
        fresh_run_id,
    },
};
use leo_tasks::{Ended, Hold, HoldError, Job, Lock, LockError, Recorded, Stream};
use std::{
    io::{self, Write},
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// How long a daemon that is there is asked over its restarts; a run is not lost for want of a record.
const PATIENCE: Duration = Duration::from_secs(15);

/// Output waiting to be shown; beyond it the run waits, as at any terminal that does not read.
const OUTPUT_QUEUE: usize = 32;

/// Pause between looks at a run that an agent carries out.
const LOOK: Duration = Duration::from_millis(300);

/// Looks for a task in the hub that leo.yaml has, before a person is told to reload.
const RELOAD_LOOKS: u32 = 4;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The task's name in leo.yaml.
    task: TaskName,
}

/// Runs a task and shows what it prints.
pub(crate) async fn run(home: &Home, arguments: &Arguments) -> Result<ExitCode, Failure> {
    let name = &arguments.task;
    let whole = config::read(&home.config(), user_home().as_deref())
        .map_err(|e| Failure::new(ExitCode::Config, e.to_string()))?;
    let Some(task) = whole.tasks.get(name) else { return Err(unknown(home, name, &whole)) };
    let _lock = Lock::take(home, name).await.map_err(|e| {
        let code = if matches!(e, LockError::Busy(_)) { ExitCode::Temporary } else { ExitCode::Failure };
        Failure::new(code, e.to_string())
    })?;
    let program = std::env::current_exe()
        .map_err(|e| Failure::new(ExitCode::Failure, format!("leo does not know where it is: {e}")))?;
    let hold = Hold {
        home: home.clone(),
        hub: Client::new(home.hub_socket(), Role::Cli, Generation(0)),
        leo: program.display().to_string(),
        base: leo_launch::ours(),
        patience: Some(PATIENCE),
    };
    let stop = stop_on_ctrl_c();
    let began = Instant::now();
    let recorded = is_served(home);
    let done = match recorded {
        true => with_daemon(&hold, name, task, &stop).await?,
        false => without_daemon(&hold, name, task, &whole, &stop).await?,
    };
    say(name, task, &whole, &done, began.elapsed());
    Ok(if done.ended.state == RunState::Succeeded { ExitCode::Ok } else { ExitCode::Failure })
}

/// What came of it.
struct Done {
    run_id: String,
    ended: Ended,
    log: Option<PathBuf>,
    /// Why it is not recorded, when it is not.
    unrecorded: Option<String>,
}

fn user_home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

fn unknown(home: &Home, name: &TaskName, config: &Config) -> Failure {
    let file = text::path(&home.config().display().to_string());
    let known: Vec<&str> = config.tasks.keys().map(TaskName::as_str).collect();
    let hint = if known.is_empty() {
        format!("{file} has no tasks")
    } else {
        format!("{file} has: {}", known.join(", "))
    };
    Failure::new(ExitCode::Failure, format!("there is no task `{name}`; {hint}"))
}

/// Whether a supervisor holds the hub's socket: then a hub that does not answer will.
fn is_served(home: &Home) -> bool {
    std::os::unix::net::UnixStream::connect(home.hub_socket()).is_ok()
}

/// The first Ctrl-C ends the run, the second this command too.
fn stop_on_ctrl_c() -> CancellationToken {
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            told.cancel();
        }
        if tokio::signal::ctrl_c().await.is_ok() {
            #[expect(
                clippy::exit,
                reason = "a person who asks twice wants the prompt back; the guard ends the run"
            )]
            std::process::exit(ExitCode::Failure as i32);
        }
    });
    stop
}

async fn with_daemon(
    hold: &Hold,
    name: &TaskName,
    task: &TaskConfig,
    stop: &CancellationToken,
) -> Result<Done, Failure> {
    let claim = ClaimRun {
        task: name.clone(),
        run_id: fresh_run_id(),
        trigger: Trigger::Manual,
        due_at: None,
        skipped: None,
    };
    let mut looks = 0;
    let run = loop {
        match hold.ask(claim.clone()).await {
            Ok(run) => break run,
            // Right after a reload the hub may not have the new configuration yet.
            Err(HoldError::Refused(fault)) if fault.code == "unknown_task" && looks < RELOAD_LOOKS => {
                looks += 1;
                tokio::time::sleep(LOOK).await;
            }
            Err(HoldError::Refused(fault)) if fault.code == "unknown_task" => {
                let what =
                    format!("the running Leo does not know the task `{name}` yet: run `leo reload` first");
                return Err(Failure::new(ExitCode::Failure, what));
            }
            Err(e) => return Err(Failure::new(ExitCode::Temporary, format!("{name} was not run: {e}"))),
        }
    };
    let (live, shown) = show();
    let outcome = leo_tasks::hold(hold, &run, task, Some(&live), stop).await;
    drop(live);
    shown_or_stopped(shown, stop).await;
    let mut done = Done {
        run_id: run.id.clone(),
        log: (task.runtime != TaskRuntime::Persistent).then(|| hold.home.task_log(name, &run.id)),
        ended: outcome.ended,
        unrecorded: match outcome.recorded {
            Recorded::Yes(_) => None,
            Recorded::No(why) => Some(why.to_string()),
        },
    };
    if done.ended.state == RunState::Running {
        done.ended = follow(hold, &run, stop).await?;
    }
    Ok(done)
}

/// Waits for the end of a run that an agent carries out as a turn of its own.
async fn follow(hold: &Hold, run: &TaskRun, stop: &CancellationToken) -> Result<Ended, Failure> {
    out::note(&format!("{} is with its agent; waiting for its turn to end.", run.task));
    loop {
        let asked = ListRuns { task: run.task.clone(), limit: leo_ipc::task::KEPT_RUNS };
        let runs = hold.ask(asked).await.map_err(|e| Failure::new(ExitCode::Temporary, e.to_string()))?.runs;
        if let Some(run) = runs.into_iter().find(|r| r.id == run.id && r.state.is_over()) {
            return Ok(ended(&run));
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = stop.cancelled() => {
                let error = Some("it was stopped; the agent may be at it still".to_owned());
                let end = EndRun { run_id: run.id.clone(), state: RunState::Interrupted, exit_code: None, error };
                let run = hold.ask(end).await.map_err(|e| Failure::new(ExitCode::Temporary, e.to_string()))?;
                return Ok(ended(&run));
            }
        }
    }
}

fn ended(run: &TaskRun) -> Ended {
    Ended { state: run.state, exit_code: run.exit_code, error: run.error.clone(), attempts: run.attempts }
}

async fn without_daemon(
    hold: &Hold,
    name: &TaskName,
    task: &TaskConfig,
    whole: &Config,
    stop: &CancellationToken,
) -> Result<Done, Failure> {
    if task.runtime == TaskRuntime::Persistent {
        return Err(Failure::not_running(&hold.home));
    }
    out::warning("no daemon is running: this run is not recorded, and has no chat tools");
    let run_id = fresh_run_id();
    // Only the configured agents are known here; the hub knows the others.
    let owner = task.owner.as_deref().unwrap_or("assistant");
    let workspace =
        owner.parse().ok().and_then(|owner| whole.agents.get(&owner)).map(|a| a.workspace.clone());
    let job = Job {
        home: &hold.home,
        task: name,
        config: task,
        run_id: &run_id,
        ties: None,
        workspace,
        leo: &hold.leo,
        base: &hold.base,
    };
    let (live, shown) = show();
    let ended = leo_tasks::run(&job, Some(&live), stop, |_| async {}).await;
    drop(live);
    shown_or_stopped(shown, stop).await;
    let log = hold.home.task_log(name, &run_id);
    // A daemon that came meanwhile still takes the failure.
    if ended.state == RunState::Failed && task.notify_on_fail {
        let report = ReportTaskFailure {
            task: name.clone(),
            run_id: run_id.clone(),
            attempts: ended.attempts,
            error: ended.error.clone().unwrap_or_default(),
            log_path: log.display().to_string(),
        };
        let posted = Api::new(&hold.home).post::<_, TaskFailureCard>("/chat/task-failure", &report).await;
        if let Err(e) = posted {
            out::warning(&format!("no card was posted: {e}"));
        }
    }
    Ok(Done { run_id, ended, log: Some(log), unrecorded: None })
}

/// Shows what a run prints, as it prints it.
fn show() -> (leo_tasks::Live, JoinHandle<()>) {
    let (live, mut output) = mpsc::channel::<(Stream, Vec<u8>)>(OUTPUT_QUEUE);
    // A thread: a terminal that does not read must not keep Ctrl-C from being heard.
    let shown = tokio::task::spawn_blocking(move || {
        while let Some((stream, bytes)) = output.blocking_recv() {
            match stream {
                Stream::Out => out::raw(&bytes),
                Stream::Err => {
                    let mut err = io::stderr().lock();
                    let _ = err.write_all(&bytes).and_then(|()| err.flush());
                }
            }
        }
    });
    (live, shown)
}

/// Waits until everything was shown, or nobody wants to see it.
async fn shown_or_stopped(shown: JoinHandle<()>, stop: &CancellationToken) {
    tokio::select! {
        _ = shown => {}
        () = stop.cancelled() => {}
    }
}

/// Says on standard error how it ended, so that standard output is the task's own.
fn say(name: &TaskName, task: &TaskConfig, whole: &Config, done: &Done, took: Duration) {
    let took = text::duration(took.as_secs());
    let paint = Paint::stderr();
    let (word, why) = match done.ended.state {
        RunState::Succeeded => (paint.green("succeeded"), String::new()),
        RunState::Interrupted => (paint.yellow("was interrupted"), String::new()),
        _ => {
            let error = done.ended.error.as_deref().unwrap_or("no reason is known");
            (paint.red("failed"), format!(": {}", text::visible(error.lines().next().unwrap_or_default())))
        }
    };
    let log = done.log.as_ref().map(|log| format!(" Log: {}", text::path(&log.display().to_string())));
    out::note(&format!("{name} {word} after {took} (run {}){why}.{}", done.run_id, log.unwrap_or_default()));
    if let Some(why) = &done.unrecorded {
        out::warning(&format!("how it ended is not recorded: {why}"));
    }
    let failed = done.ended.state == RunState::Failed;
    if failed && task.notify_on_fail && done.unrecorded.is_none() && !whole.chat.enabled {
        out::warning("chat is off (chat.enabled), so no card was posted");
    }
}
