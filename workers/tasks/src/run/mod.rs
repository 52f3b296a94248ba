//! Running a task: every attempt of one run, from its prompt to how it ended. The worker and `leo run`
//! both do it with this; what is recorded of it is theirs.

mod attempt;
mod launch;
mod lock;
mod log;

pub use attempt::Live;
pub use lock::{Lock, LockError};
pub use log::Stream;

use attempt::{Ending, Place, attempt};
use leo_ipc::{TaskName, config::TaskConfig, paths::Home, task::RunState};
use leo_launch::{Env, Ties, write_private};
use log::{Log, SharedLog};
use std::{
    fs::DirBuilder,
    future::Future,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Pause before the first attempt after a failed one, doubled each time: what is overloaded or restarted
/// needs a while.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Characters of a run's last words in its error; the card shows the first 500 of the whole.
const LAST_WORDS: usize = 400;

/// Largest prompt: as long as a message may be.
const MAX_PROMPT: u64 = leo_ipc::chat::MAX_TEXT as u64;

/// Opens a lock file.
pub(crate) use lock::open as open_lock;

/// One run.
pub struct Job<'a> {
    /// The home.
    pub home: &'a Home,
    /// The task.
    pub task: &'a TaskName,
    /// Its configuration.
    pub config: &'a TaskConfig,
    /// The run's id.
    pub run_id: &'a str,
    /// What ties its process to its owner's thread; absent where no daemon runs.
    pub ties: Option<Ties>,
    /// The folder where its configuration names none.
    pub workspace: Option<String>,
    /// Absolute path of `leo`.
    pub leo: &'a str,
    /// The environment that it is built from.
    pub base: &'a Env,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Succeeded, failed or interrupted.
    pub state: RunState,
    /// Exit code of the last attempt, when it had one.
    pub exit_code: Option<i32>,
    /// Why, unless it succeeded.
    pub error: Option<String>,
    /// Attempts that were begun.
    pub attempts: u32,
}

impl Ended {
    /// A run that could not be started.
    pub fn not_started(why: impl Into<String>) -> Ended {
        Ended { state: RunState::Failed, exit_code: None, error: Some(why.into()), attempts: 1 }
    }
}

/// Reads a task's prompt.
///
/// # Errors
/// A sentence for people: the file cannot be read, or there is nothing in it.
pub fn prompt(config: &TaskConfig) -> Result<String, String> {
    use std::io::Read;
    let text = match (&config.prompt, &config.prompt_file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => {
            let cannot = |e: std::io::Error| format!("its prompt {path} cannot be read: {e}");
            let mut text = String::new();
            let file = std::fs::File::open(path).map_err(cannot)?;
            file.take(MAX_PROMPT + 1).read_to_string(&mut text).map_err(cannot)?;
            text
        }
        (None, None) => return Err("it has no prompt".to_owned()),
    };
    if text.len() as u64 > MAX_PROMPT {
        return Err(format!("its prompt has more than {MAX_PROMPT} bytes"));
    }
    if text.trim().is_empty() { Err("its prompt is empty".to_owned()) } else { Ok(text) }
}

/// Makes attempts until one succeeds, all are used, or `stop` is cancelled. `begins` is told the number
/// of each before it begins. The caller holds the task's [`Lock`].
pub async fn run<F, Fut>(job: &Job<'_>, live: Option<&Live>, stop: &CancellationToken, begins: F) -> Ended
where
    F: Fn(u32) -> Fut,
    Fut: Future<Output = ()>,
{
    let log = match Log::create(job.home, job.task, job.run_id) {
        Ok((log, _)) => log,
        Err(e) => {
            // A full disk is no reason not to run, and the hub keeps the outcome.
            tracing::warn!(error = %e, "a run has no log");
            Log::to(None)
        }
    };
    let log = SharedLog::new(log);
    let ended = attempts(job, &log, live, stop, begins).await;
    if let Some(error) = &ended.error {
        log.with(|log| log.note(error.lines().next().unwrap_or_default()));
    }
    clean_up(job.home, job.task, job.run_id);
    ended
}

/// Deletes the files of a run. They hold its token, which is no longer good.
pub(crate) fn clean_up(home: &Home, task: &TaskName, run_id: &str) {
    // What is not there needs no deleting.
    let _ = std::fs::remove_dir_all(folder(home, task, run_id));
}

fn folder(home: &Home, task: &TaskName, run_id: &str) -> PathBuf {
    home.task_dir(task).join(run_id)
}

async fn attempts<F, Fut>(
    job: &Job<'_>,
    log: &SharedLog,
    live: Option<&Live>,
    stop: &CancellationToken,
    begins: F,
) -> Ended
where
    F: Fn(u32) -> Fut,
    Fut: Future<Output = ()>,
{
    let attempts = job.config.retries + 1;
    let mut pause = FIRST_PAUSE;
    let mut number = 0;
    loop {
        number += 1;
        begins(number).await;
        log.with(|log| log.begin(number, attempts));
        let ending = one(job, log, live, stop).await;
        let (exit_code, error) = match ending {
            Ending::Exited(0) => {
                return Ended {
                    state: RunState::Succeeded,
                    exit_code: Some(0),
                    error: None,
                    attempts: number,
                };
            }
            Ending::Stopped => return interrupted(number),
            Ending::Exited(code) => {
                (Some(code), exited(job, code, &log.with(|log| log.last_words(LAST_WORDS))))
            }
            Ending::NotStarted(why) => (None, why),
            Ending::TimedOut => (None, format!("it took longer than {} s", job.config.timeout_s)),
        };
        if number == attempts {
            return Ended { state: RunState::Failed, exit_code, error: Some(error), attempts: number };
        }
        log.with(|log| log.note(error.lines().next().unwrap_or_default()));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return interrupted(number),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn interrupted(attempts: u32) -> Ended {
    let error = Some("it was stopped".to_owned());
    Ended { state: RunState::Interrupted, exit_code: None, error, attempts }
}

fn exited(job: &Job<'_>, code: i32, words: &str) -> String {
    let how = match code {
        129..=192 => format!("{} was ended by signal {}", job.config.harness, code - 128),
        _ => format!("{} ended with exit code {code}", job.config.harness),
    };
    if words.is_empty() { how } else { format!("{how}: {words}") }
}

async fn one(job: &Job<'_>, log: &SharedLog, live: Option<&Live>, stop: &CancellationToken) -> Ending {
    let folder = folder(job.home, job.task, job.run_id);
    let prepared = prepare(job, &folder);
    let (plan, workspace, input) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return Ending::NotStarted(why),
    };
    let place = Place {
        leo: job.leo,
        lock: &job.home.task_dir(job.task).join("guard.lock"),
        input: &input,
        workspace: &workspace,
        timeout: Duration::from_secs(job.config.timeout_s),
    };
    attempt(&place, &plan, log, live, stop).await
}

fn prepare(job: &Job<'_>, folder: &Path) -> Result<(launch::Plan, PathBuf, PathBuf), String> {
    let text = prompt(job.config)?;
    let workspace = job.config.workspace.as_ref().or(job.workspace.as_ref()).filter(|w| !w.is_empty());
    let workspace = workspace.ok_or("it has no workspace: set one, or an owner that has one")?;
    let workspace = PathBuf::from(workspace);
    if !workspace.is_dir() {
        return Err(format!("the workspace {} does not exist or is no folder", workspace.display()));
    }
    let plan =
        launch::plan(job.config, job.ties.as_ref(), job.leo, job.base, folder).map_err(|e| e.to_string())?;
    let written = || -> std::io::Result<PathBuf> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        for (path, text) in &plan.files {
            write_private(path, text.as_bytes())?;
        }
        let input = folder.join("prompt");
        write_private(&input, text.as_bytes())?;
        Ok(input)
    };
    let input = written().map_err(|e| format!("{} cannot be written: {e}", folder.display()))?;
    Ok((plan, workspace, input))
}
