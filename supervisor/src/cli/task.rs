//! `leo task`

use super::{
    Json,
    api::{Api, segment},
    failure::Failure,
    out::{self, Paint},
    table::{self, Cell, Column, Tone, plain},
    text,
};
use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use leo_ipc::{
    ExitCode, TaskName, Time,
    config::TaskRuntime,
    paths::Home,
    task::{RunState, Runs, TaskInfo, TaskRun, Tasks, Trigger},
};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List the tasks: when each runs next, and how its last run ended.
    List(Json),
    /// Follow a task's schedule from now on, whatever leo.yaml says.
    Enable(Name),
    /// Follow a task's schedule no longer; `leo run` still works.
    Disable(Name),
    /// Show a task's newest runs.
    History(History),
    /// Print the log of a task's newest run, or of another one.
    Log(Log),
}

#[derive(Args)]
pub(crate) struct Name {
    /// The task's name.
    task: TaskName,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct History {
    /// The task's name.
    task: TaskName,
    /// At most so many runs, 1 to 100.
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Log {
    /// The task's name.
    task: TaskName,
    /// The run, as `leo task history` shows it; the newest one that was started unless given.
    run: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(home: &Home, verb: Verb) -> Result<ExitCode, Failure> {
    let api = Api::new(home);
    match verb {
        Verb::List(Json { json }) => {
            let tasks: Tasks = api.get("/api/v1/tasks").await?;
            if json {
                out::json(&tasks);
            } else if tasks.tasks.is_empty() {
                let file = text::path(&home.config().display().to_string());
                out::line(&format!("No tasks yet. Add one below `tasks:` in {file}, then run `leo reload`."));
            } else {
                let now = Time::now();
                list(&tasks.tasks, now, &TimeZone::system(), out::width(), Paint::stdout())
                    .iter()
                    .for_each(|line| out::line(line));
            }
        }
        Verb::Enable(name) => change(&api, &name, "enable").await?,
        Verb::Disable(name) => change(&api, &name, "disable").await?,
        Verb::History(History { task, limit, json }) => {
            let runs: Runs = api.get(&path(&task, &format!("/runs?limit={limit}"))).await?;
            if json {
                out::json(&runs);
            } else if runs.runs.is_empty() {
                out::line(&format!("{task} has not run yet. Run it now: leo run {task}"));
            } else {
                let zone = TimeZone::system();
                history(&runs.runs, &zone, out::width(), Paint::stdout()).iter().for_each(|l| out::line(l));
            }
        }
        Verb::Log(Log { task, run }) => log(&api, &task, run.as_deref()).await?,
    }
    Ok(ExitCode::Ok)
}

fn path(task: &TaskName, rest: &str) -> String {
    format!("/api/v1/tasks/{}{rest}", segment(task.as_str()))
}

async fn change(api: &Api, name: &Name, verb: &str) -> Result<(), Failure> {
    let task: TaskInfo = api.post(&path(&name.task, &format!("/{verb}")), &()).await?;
    if name.json {
        out::json(&task);
    } else if !task.enabled {
        out::line(&format!("{} no longer runs by itself. Run it by hand: leo run {0}", task.name));
    } else if task.schedule.is_none() {
        out::line(&format!("{} is enabled, but has no schedule: it runs only by hand.", task.name));
    } else {
        out::line(&format!("{} runs by its schedule again.", task.name));
    }
    Ok(())
}

async fn log(api: &Api, task: &TaskName, run: Option<&str>) -> Result<(), Failure> {
    let runs: Runs = api.get(&path(task, "/runs?limit=100")).await?;
    let wanted = |r: &&TaskRun| match run {
        Some(id) => r.id.starts_with(id),
        None => r.log_path.is_some(),
    };
    let found = runs.runs.iter().find(wanted);
    let found = found.ok_or_else(|| {
        let what = match run {
            Some(id) => format!("{task} has no run `{}`: see leo task history {task}", text::visible(id)),
            None => format!("{task} has no run with a log yet"),
        };
        Failure::new(ExitCode::Failure, what)
    })?;
    let Some(log) = &found.log_path else {
        let what = "that run has no log: it was not started, or ran inside its agent";
        return Err(Failure::new(ExitCode::Failure, what));
    };
    let text = std::fs::read(log)
        .map_err(|e| Failure::new(ExitCode::Failure, format!("{log} cannot be read: {e}")))?;
    String::from_utf8_lossy(&text).lines().for_each(|line| out::line(&text::visible(line)));
    Ok(())
}

/// The tasks as a table, each with why its last run failed below.
fn list(tasks: &[TaskInfo], now: Time, zone: &TimeZone, width: usize, paint: Paint) -> Vec<String> {
    let head = [
        Column::text("TASK"),
        Column::flexible("SCHEDULE"),
        Column::text("NEXT RUN"),
        Column::flexible("LAST RUN"),
        Column::flexible("OWNER"),
    ];
    let rows: Vec<Vec<Cell>> = tasks.iter().map(|task| row(task, now, zone)).collect();
    let mut lines = table::render(&head, &rows, width, paint);
    for task in tasks {
        let Some(run) = task.last_run.as_ref().filter(|run| needs_a_word(run.state)) else { continue };
        if let Some(error) = &run.error {
            let first = error.lines().next().unwrap_or_default();
            let said = format!("{}: {}", task.name, text::visible(first));
            let width = width.saturating_sub(2);
            lines.extend(super::worker::wrap(&said, width).map(|l| format!("  {}", paint.yellow(&l))));
        }
    }
    lines
}

fn needs_a_word(state: RunState) -> bool {
    matches!(state, RunState::Failed | RunState::Skipped)
}

fn row(task: &TaskInfo, now: Time, zone: &TimeZone) -> Vec<Cell> {
    let schedule = match (&task.schedule, &task.timezone) {
        (None, _) => ("by hand".to_owned(), Tone::Dim),
        (Some(pattern), None) => plain(text::visible(pattern)),
        (Some(pattern), Some(zone)) => plain(text::visible(&format!("{pattern} {zone}"))),
    };
    let next = match (task.enabled, &task.schedule, task.next_at) {
        (_, None, _) => ("–".to_owned(), Tone::Dim),
        (false, ..) => ("off".to_owned(), Tone::Warn),
        (true, _, Some(at)) => plain(leo_tasks::in_words(at, zone)),
        (true, _, None) => ("not known yet".to_owned(), Tone::Dim),
    };
    let owner = match (&task.agent, task.runtime) {
        (None, _) => ("nobody".to_owned(), Tone::Bad),
        (Some(agent), TaskRuntime::Persistent) => plain(format!("{agent} (its own turn)")),
        (Some(agent), _) => plain(agent.to_string()),
    };
    vec![(task.name.to_string(), Tone::Bold), schedule, next, last(task, now), owner]
}

fn last(task: &TaskInfo, now: Time) -> Cell {
    let Some(run) = &task.last_run else { return ("never".to_owned(), Tone::Dim) };
    let ago = |at: Option<Time>| {
        at.map_or_else(String::new, |at| {
            let seconds = now.millis().saturating_sub(at.millis()).max(0).unsigned_abs() / 1000;
            format!(" {} ago", text::duration(seconds))
        })
    };
    let (word, tone) = state(run.state);
    match run.state {
        RunState::Queued => (word.to_owned(), tone),
        RunState::Running => (format!("running for{}", ago(run.started_at).replace(" ago", "")), tone),
        RunState::Failed if task.failures > 1 => {
            (format!("failed {} times,{}", task.failures, ago(run.ended_at)), tone)
        }
        _ => (format!("{word}{}", ago(run.ended_at)), tone),
    }
}

fn state(state: RunState) -> (&'static str, Tone) {
    match state {
        RunState::Queued => ("about to start", Tone::Dim),
        RunState::Running => ("running", Tone::Good),
        RunState::Succeeded => ("succeeded", Tone::Good),
        RunState::Failed => ("failed", Tone::Bad),
        RunState::Interrupted => ("interrupted", Tone::Warn),
        RunState::Skipped => ("skipped", Tone::Warn),
        RunState::Unknown => ("unknown", Tone::Dim),
    }
}

fn history(runs: &[TaskRun], zone: &TimeZone, width: usize, paint: Paint) -> Vec<String> {
    let head = [
        Column::text("RUN"),
        Column::text("WHEN"),
        Column::text("RESULT"),
        Column::number("TOOK"),
        Column::number("ATTEMPTS"),
        Column::text("BY"),
        Column::flexible("WHY"),
    ];
    let row = |run: &TaskRun| {
        let (word, tone) = state(run.state);
        let when = run.started_at.or(run.due_at).or(run.ended_at);
        let took = run.started_at.zip(run.ended_at).map(|(from, to)| {
            text::duration(to.millis().saturating_sub(from.millis()).max(0).unsigned_abs() / 1000)
        });
        let why = run.error.as_deref().and_then(|error| error.lines().next()).unwrap_or_default();
        vec![
            plain(text::visible(&run.id)),
            plain(when.map_or_else(|| "–".to_owned(), |at| leo_tasks::in_words(at, zone))),
            (word.to_owned(), tone),
            plain(took.unwrap_or_else(|| "–".to_owned())),
            plain(run.attempts.to_string()),
            plain(if run.trigger == Trigger::Schedule { "schedule" } else { "hand" }),
            plain(text::visible(why)),
        ]
    };
    let rows: Vec<Vec<Cell>> = runs.iter().map(row).collect();
    table::render(&head, &rows, width, paint)
}
