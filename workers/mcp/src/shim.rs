//! `leo mcp-server`: the stdio server that a harness starts. It holds the conversation and nothing
//! else, so that it never has to end: no harness starts a dead server again. Its agent's worker, which
//! may be replaced at any time, does the work.
//!
//! Threads instead of a runtime: one reads the client, one the worker, one waits for the parent's end,
//! and the main thread decides. Nothing but JSON-RPC goes to standard output.

mod input;
mod link;
mod message;
mod platform;
mod state;

use crate::tools;
use input::Line;
use leo_ipc::{AgentName, CallKey, ExitCode, ask::Run, mcp::FromShim, paths::Home};
use link::{Link, Writer};
use serde_json::Value;
use state::{Action, Event, State};
use std::{
    io::Write,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    time::{Duration, Instant},
};

/// Lines waiting for the main loop. Beyond it their readers wait, and then their writers.
const QUEUE: usize = 64;

/// Stack of a thread that only reads.
const STACK: usize = 256 * 1024;

/// After the client has closed its end, open requests may still be answered for this long: a script
/// that pipes its requests in wants to see the answers.
const LINGER: Duration = Duration::from_millis(500);

/// What the main loop waits for.
pub(crate) enum Input {
    /// Something for the state.
    Event(Event),
    /// A worker is there.
    Up(Writer),
    /// The client has closed its end.
    End,
}

/// Runs the shim until its client or its parent is gone.
pub fn shim() -> ExitCode {
    let (tx, rx) = sync_channel(QUEUE);
    let key_prefix = format!("{}-{}", env("LEO_LAUNCH").unwrap_or_default(), CallKey::fresh());
    let tools = serde_json::to_value(tools::list()).unwrap_or(Value::Array(Vec::new()));
    let mut state = State::new(key_prefix, tools);
    let start = Instant::now();
    let client = tx.clone();
    let mut threads = vec![spawn("parent", end_with_parent), spawn("client", move || read_client(&client))];
    match link_from_env() {
        Ok(link) => threads.push(spawn("worker", move || link::run(&link, &tx))),
        Err(reason) => {
            // It goes on all the same, to say so to whoever calls a tool.
            state.step(Event::Denied(reason), start.elapsed());
        }
    }
    if threads.iter().any(Result::is_err) {
        return ExitCode::Temporary;
    }
    run(&mut state, start, &rx);
    // Threads that still read end with the process.
    ExitCode::Ok
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(body).map(drop)
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The way to the worker, from the variables that the agent's launch has set.
fn link_from_env() -> Result<Link, String> {
    let needed = |name: &str| {
        env(name).ok_or_else(|| {
            format!("{name} is not set: `leo mcp-server` is started by an agent that Leo has launched")
        })
    };
    needed("LEO_HOME")?;
    let home = Home::from_env().map_err(|e| e.to_string())?;
    let agent: AgentName = needed("LEO_AGENT")?.parse().map_err(|e| format!("LEO_AGENT: {e}"))?;
    let token = FromShim::Token {
        token: needed("LEO_API_TOKEN")?,
        cwd: std::env::current_dir().ok().and_then(|dir| dir.to_str().map(str::to_owned)),
        dispatched: env("LEO_DISPATCH_ID").is_some(),
        run: env("LEO_TASK").zip(env("LEO_RUN_ID")).map(|(task, run_id)| Run { task, run_id }),
    };
    Ok(Link { socket: home.mcp_socket(&agent), token })
}

fn end_with_parent() {
    platform::wait_for_parent_end();
    #[expect(clippy::exit, reason = "the main thread may be writing to a client that is gone")]
    std::process::exit(ExitCode::Ok as i32);
}

fn read_client(events: &SyncSender<Input>) {
    let mut stdin = std::io::stdin().lock();
    while let Ok(Some(line)) = input::next(&mut stdin) {
        let event = match line {
            Line::Text(text) => Event::Client(text),
            Line::TooLong(id) => Event::ClientTooLong(id),
        };
        if events.send(Input::Event(event)).is_err() {
            return;
        }
    }
    let _ = events.send(Input::End);
}

fn run(state: &mut State, start: Instant, inputs: &Receiver<Input>) {
    let mut writer: Option<Writer> = None;
    let mut ends_at: Option<Duration> = None;
    loop {
        let now = start.elapsed();
        if ends_at.is_some_and(|at| at <= now || !state.is_waiting()) {
            return;
        }
        let event = match next(inputs, state.deadline().into_iter().chain(ends_at).min(), now) {
            Ok(Input::Event(event)) => event,
            Ok(Input::Up(up)) => {
                writer = Some(up);
                Event::LinkUp
            }
            Ok(Input::End) => {
                ends_at = Some(now + LINGER);
                Event::Tick
            }
            Err(RecvTimeoutError::Timeout) => Event::Tick,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if event == Event::LinkDown {
            writer = None;
        }
        for action in state.step(event, start.elapsed()) {
            match action {
                // Nobody to write to is the end, as the end of the input is.
                Action::ToClient(line) if write_line(&line).is_err() => return,
                Action::ToClient(_) => {}
                Action::ToWorker { json, call_key, age_ms } => {
                    if let Some(writer) = &writer {
                        writer.line(json, call_key, age_ms);
                    }
                }
                Action::DropLink => {
                    if let Some(writer) = &writer {
                        writer.close();
                    }
                }
            }
        }
    }
}

fn next(inputs: &Receiver<Input>, due: Option<Duration>, now: Duration) -> Result<Input, RecvTimeoutError> {
    match due {
        Some(due) => inputs.recv_timeout(due.saturating_sub(now)),
        None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
    }
}

fn write_line(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}
