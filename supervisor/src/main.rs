//! The `leo` binary. It chooses by the first arguments before anything heavy starts: hooks and shims are
//! run for every tool call of every agent, and workers must be ready within milliseconds.

mod board;
mod cli;
mod config;
mod console;
mod control;
mod daemon;
mod fds;
mod health;
mod keeper;
mod link;
mod lock;
mod logs;
mod machine;
mod measure;
mod policy;
mod ready;
mod sockets;
mod spawn;
mod standin;
mod stderr;
mod token;
mod worker;

use leo_ipc::ExitCode;
use std::ffi::OsString;

fn main() -> std::process::ExitCode {
    let mut args = std::env::args_os().skip(1);
    let first = text(args.next());
    if first == "guard" {
        // Its exit code is another program's.
        return leo_transcribe::guard();
    }
    match first.as_str() {
        "hook" => leo_hooks::main(),
        "mcp-server" => leo_mcp::shim(),
        "demo-agent" => return leo_demo::main(),
        // A guard ends with the code of what it guards, which need not be one of ours.
        "task-guard" => return leo_tasks::guard(),
        "worker" => worker(&text(args.next())),
        _ => cli::main(),
    }
    .into()
}

/// The worker processes, which only the supervisor starts; `leo worker list` and the like are a
/// person's.
fn worker(kind: &str) -> ExitCode {
    match kind {
        "hub" => leo_hub::worker(),
        "http" => leo_http::worker(),
        "agents" => leo_agents::worker(),
        "tasks" => leo_tasks::worker(),
        "mcp" => leo_mcp::worker(),
        "reminders" => leo_reminders::worker(),
        "transcribe" => leo_transcribe::worker(),
        _ => cli::main(),
    }
}

/// An argument as text; one that is not UTF-8 names nothing of ours.
fn text(arg: Option<OsString>) -> String {
    arg.and_then(|arg| arg.into_string().ok()).unwrap_or_default()
}
