//! The commands of `leo`, one file a verb. Each finds out what it needs, prints it, and says in one
//! sentence what to do when it cannot; none holds logic of the running system.

mod agent;
mod api;
mod chat;
mod client;
mod completions;
mod consent;
mod doctor;
mod failure;
mod harness;
mod out;
mod reload;
mod reminder;
mod rpc;
mod run;
mod serve;
mod status;
mod supervise;
mod table;
mod task;
mod text;
mod up;
mod web;
mod worker;

use clap::{Args, Parser, Subcommand};
use failure::Failure;
use leo_ipc::{ExitCode, paths::Home};
use std::future::Future;

/// Talk to your coding agents from anywhere.
///
/// Leo keeps long-lived coding agents running in tmux and carries messages between them and your
/// phone, browser or terminal. Start with `leo up`.
#[derive(Parser)]
#[command(
    name = "leo",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Start everything in the foreground; Ctrl-C stops it and leaves the agents running.
    Up,
    /// As `up`, for a service manager: logs as JSON lines on standard error, nothing else.
    Supervise,
    /// Show the supervisor, its workers and the agents.
    Status(Json),
    /// Look at the worker processes, or replace them.
    #[command(subcommand)]
    Worker(worker::Verb),
    /// Read leo.yaml again.
    Reload,
    /// Add, list and control agents.
    #[command(subcommand)]
    Agent(agent::Verb),
    /// Talk to an agent: one message and its reply, or the chat screen.
    Chat(chat::Arguments),
    /// Tokens for scripts and CI: what may message agents, or post into their threads.
    #[command(subcommand)]
    Client(client::Verb),
    /// See and take back what agents will remind you of.
    #[command(subcommand)]
    Reminder(reminder::Verb),
    /// Run a task now, in the foreground.
    Run(run::Arguments),
    /// List tasks, and switch their schedules on and off.
    #[command(subcommand)]
    Task(task::Verb),
    /// Check this machine and this home for what would keep Leo from working.
    Doctor(Json),
    /// Print the completion script of a shell.
    Completions(completions::Arguments),
    /// The web app.
    #[command(subcommand)]
    Web(web::Verb),
}

/// For commands that read.
#[derive(Args, Clone, Copy)]
struct Json {
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the command that this process was started as.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version arrive here too, and belong on standard output.
            let _ = e.print();
            return if e.use_stderr() { ExitCode::Usage } else { ExitCode::Ok };
        }
    };
    match run(cli.verb) {
        Ok(code) => code,
        Err(failure) => {
            failure.print();
            failure.code
        }
    }
}

fn run(verb: Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Completions(arguments) => completions::run(&arguments),
        Verb::Up => up::run(&home()?),
        Verb::Supervise => supervise::run(home()?),
        Verb::Status(Json { json }) => within(status::run(&home()?, json)),
        Verb::Worker(verb) => within(worker::run(&home()?, verb)),
        Verb::Reload => within(reload::run(&home()?)),
        Verb::Agent(verb) => within(agent::run(&home()?, verb)),
        Verb::Chat(arguments) => within(chat::run(&home()?, arguments)),
        Verb::Client(verb) => within(client::run(&home()?, verb)),
        Verb::Reminder(verb) => within(reminder::run(&home()?, verb)),
        Verb::Run(arguments) => within(run::run(&home()?, &arguments)),
        Verb::Task(verb) => within(task::run(&home()?, verb)),
        Verb::Doctor(Json { json }) => within(doctor::run(json)),
        Verb::Web(verb) => within(web::run(&home()?, verb)),
    }
}

fn home() -> Result<Home, Failure> {
    Home::from_env().map_err(|e| Failure::new(ExitCode::Config, e.to_string()))
}

/// Runs a command that talks to the daemon.
fn within(command: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    let runtime = runtime()?;
    let result = runtime.block_on(command);
    // A thread that still waits for a key must not keep a finished command alive.
    runtime.shutdown_background();
    result
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::new(ExitCode::Temporary, format!("the runtime cannot be started: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
