//! `leo worker`

use super::{
    Json,
    failure::Failure,
    out, rpc,
    table::{self, Cell, Column, Tone, plain},
    text,
};
use crate::control::RESTART_DEADLINE;
use clap::Subcommand;
use leo_ipc::{
    ExitCode,
    control::{GetStatus, RestartWorker, WorkerState, WorkerStatus},
    paths::Home,
};
use std::time::{Duration, Instant};

/// The supervisor's own deadline, and time for its answer.
const RESTART: Duration = RESTART_DEADLINE.saturating_add(Duration::from_secs(5));

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List the worker processes.
    List(Json),
    /// Replace a worker's process; one that was given up is tried again.
    Restart {
        /// Its name, as in `leo worker list`, or `all`.
        name: String,
    },
}

/// Runs the command.
pub(crate) async fn run(home: &Home, verb: Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::List(Json { json }) => {
            let status = rpc::ask(home, GetStatus { measure: true }, rpc::QUICK).await?;
            if json {
                out::json(&serde_json::json!({ "workers": status.workers }));
            } else {
                for line in render(&status.workers, out::width(), out::Paint::stdout()) {
                    out::line(&line);
                }
            }
        }
        Verb::Restart { name } => {
            let asked = Instant::now();
            rpc::ask(home, RestartWorker { name: name.clone() }, RESTART).await?;
            let what = if name == "all" { "All workers are".to_owned() } else { format!("{name} is") };
            out::line(&format!("{what} ready again, after {} ms.", asked.elapsed().as_millis()));
        }
    }
    Ok(ExitCode::Ok)
}

/// The workers as a table, each with what is wrong with it below.
pub(crate) fn render(workers: &[WorkerStatus], width: usize, paint: out::Paint) -> Vec<String> {
    let head = [
        Column::flexible("WORKER"),
        Column::text("STATE"),
        Column::number("PID"),
        Column::number("UPTIME"),
        Column::number("RESTARTS"),
        Column::number("MEMORY"),
        Column::number("CPU"),
    ];
    let rows: Vec<Vec<Cell>> = workers.iter().map(row).collect();
    let mut lines = table::render(&head, &rows, width, paint);
    // Below the table, so that a long reason does not tear it apart.
    for worker in workers {
        if let (Some(reason), true) = (&worker.reason, worker.state != WorkerState::Running) {
            let said = format!("{}: {}", worker.name, text::visible(reason));
            lines.extend(wrap(&said, width.saturating_sub(2)).map(|l| format!("  {}", paint.yellow(&l))));
        }
    }
    lines
}

fn row(worker: &WorkerStatus) -> Vec<Cell> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let (state, tone) = match worker.state {
        WorkerState::Starting => ("starting", Tone::Warn),
        WorkerState::Running => ("running", Tone::Good),
        WorkerState::Backoff => ("waiting", Tone::Warn),
        WorkerState::Degraded => ("degraded", Tone::Warn),
        WorkerState::Failed => ("failed", Tone::Bad),
        WorkerState::Stopping => ("stopping", Tone::Dim),
        WorkerState::Stopped => ("stopped", Tone::Dim),
        WorkerState::Unknown => ("unknown", Tone::Dim),
    };
    vec![
        (text::visible(&worker.name), Tone::Bold),
        (state.to_owned(), tone),
        plain(or_dash(worker.pid.map(|pid| pid.to_string()))),
        plain(or_dash(worker.since.map(text::since))),
        plain(worker.restarts.to_string()),
        plain(or_dash(worker.rss_bytes.map(text::bytes))),
        plain(or_dash(worker.cpu_percent.map(|p| format!("{p:.1} %")))),
    ]
}

/// A sentence over lines of at most so many columns, broken between words.
pub(crate) fn wrap(sentence: &str, width: usize) -> impl Iterator<Item = String> + use<> {
    let mut lines: Vec<String> = Vec::new();
    for word in sentence.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text::columns(line) + 1 + text::columns(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(text::cut(word, width.max(1))),
        }
    }
    lines.into_iter()
}
