//! `leo hook`: one event from a harness to the hub, without an async runtime or an argument parser.
//! It must never disturb the harness: it is silent, always succeeds, and takes at most a second. Only
//! the hook of a permission prompt waits for a person, beside the harness's own dialog, and prints what
//! they decided.

mod bridge;
mod deliver;
mod input;
mod permission;
mod settings;
mod spool;

pub use bridge::{FIRST_CLAUDE, write_mod};
pub use permission::{decision as permission_decision, prompt as permission_prompt};
pub use settings::{CLAUDE_EVENTS, CLAUDE_OWN_TOOLS, claude_settings};

use leo_ipc::{
    CallKey, ExitCode, Time,
    blocking::Patience,
    hook::{HookEvent, ReportHook, Source},
    paths::Home,
};
use std::time::{Duration, Instant};

/// Reading the input and telling the hub must be over this long after the start. The rest of the
/// second that a hook may take is for the spool.
const BUDGET: Duration = Duration::from_millis(800);

/// How long to look for a hub that is not there. While the daemon runs, the supervisor holds the socket
/// even when the hub is dead, so an absent one means that the daemon is down or being started: the
/// spool then serves as well, and the agent is not delayed at each step.
const ABSENT: Duration = Duration::from_millis(100);

/// Left for the hub when the input took nearly all of the budget.
const LEAST: Duration = Duration::from_millis(50);

/// Runs the hook: reads the harness's JSON from standard input and reports it. Always succeeds, and
/// writes nothing but a decision about a permission prompt.
pub fn main() -> ExitCode {
    // A panic of ours must not reach the harness, neither as text nor as a status.
    std::panic::set_hook(Box::new(|_| {}));
    let _ = std::panic::catch_unwind(run);
    ExitCode::Ok
}

fn run() {
    let start = Instant::now();
    let at_ms = Time::now().millis();
    // Without these the harness was not started by us, or not for us.
    let Some(token) = std::env::var("LEO_API_TOKEN").ok().filter(|token| !token.is_empty()) else { return };
    if std::env::var_os("LEO_HOME").is_none_or(|home| home.is_empty()) {
        return;
    }
    let Ok(home) = Home::from_env() else { return };
    let input = input::read_bounded(&std::io::stdin(), start + BUDGET);
    let Ok(event) = HookEvent::from_json(&input) else { return };
    if event.name == permission::EVENT {
        let Some(ask) = permission::prompt(&input, token, at_ms) else { return };
        drop(input);
        return permission::run(&home.hub_socket(), ask);
    }
    drop(input);
    let report = ReportHook { hook_key: CallKey::fresh(), token, at_ms, event, source: Source::Hook };
    let total = BUDGET.saturating_sub(start.elapsed()).max(LEAST);
    deliver::deliver(&home.hub_socket(), &home.spool(), &report, Patience { absent: ABSENT, total });
}
