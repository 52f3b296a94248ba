//! Turns: what happens between a prompt and its answer, on a thread of its own so that the terminal
//! stays awake. The hooks fire in Claude's order.

mod permission;

use crate::{
    app::{Block, TurnEvent},
    hooks::Hooks,
    mcp::{CallError, Mcp},
    script::{self, HELP, Prompt, Step},
    session::{Session, Status, new_id},
};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::{Value, json};
use std::{
    io::Read,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

/// Pause between looks at whether the turn was interrupted.
const PAUSE: Duration = Duration::from_millis(50);

/// Most bytes of a command's output that are kept.
const MAX_OUTPUT: u64 = 64 * 1024;

/// Something for the turn thread to do.
#[derive(Debug)]
pub(crate) enum Job {
    /// Tell the hooks that the session has begun.
    Start {
        /// Why: `startup`, `resume` or `clear`.
        source: &'static str,
    },
    /// End this session and begin another.
    Clear,
    /// Run a turn.
    Prompt(String),
}

/// A person's wish that the turn ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Wishes it, or takes the wish back for the next turn.
    pub(crate) fn set(&self, stop: bool) {
        self.0.store(stop, Ordering::Release);
    }

    /// Whether it is wished.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Waits, but not beyond the wish; whether the whole time passed.
    fn sleep(&self, duration: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < duration {
            if self.is_set() {
                return false;
            }
            std::thread::sleep(PAUSE.min(duration.saturating_sub(start.elapsed())));
        }
        !self.is_set()
    }
}

/// What a turn needs.
pub(crate) struct Turns {
    /// The session.
    pub(crate) session: Arc<Session>,
    /// The hooks.
    pub(crate) hooks: Hooks,
    /// The tools, where there is a program to serve them.
    pub(crate) mcp: Option<Mcp>,
    /// The terminal.
    pub(crate) ui: Sender<TurnEvent>,
    /// The person's wish to end the turn.
    pub(crate) stop: Stop,
}

/// How a turn ended.
enum End {
    /// With an answer.
    Said(String),
    /// As one whose model could not be reached.
    Failed(String),
    /// By a person: no hook fires.
    Interrupted,
}

impl Turns {
    /// Does jobs until there are no more to come.
    pub(crate) fn run(&self, jobs: &Receiver<Job>) {
        for job in jobs {
            match job {
                Job::Start { source } => self.fire("SessionStart", None, &json!({ "source": source })),
                Job::Clear => {
                    self.fire("SessionEnd", None, &json!({ "reason": "clear" }));
                    self.session.renew();
                    self.fire("SessionStart", None, &json!({ "source": "clear" }));
                    self.print(Block::Note("A new session; the last one's transcript is kept.".to_owned()));
                }
                Job::Prompt(text) => self.turn(&text),
            }
            let _ = self.ui.send(TurnEvent::Done);
        }
    }

    fn fire(&self, event: &str, prompt_id: Option<&str>, fields: &Value) {
        self.hooks.fire(&self.session, event, prompt_id, fields);
    }

    fn print(&self, block: Block) {
        // Without a terminal there is nobody to read it.
        let _ = self.ui.send(TurnEvent::Print(block));
    }

    fn turn(&self, prompt: &str) {
        self.session.set_status(Status::Busy);
        let prompt_id = new_id();
        self.session.record_prompt(&prompt_id, prompt);
        self.fire("UserPromptSubmit", Some(&prompt_id), &json!({ "prompt": prompt }));
        let end = match script::parse(prompt) {
            Prompt::Help => End::Said(HELP.to_owned()),
            Prompt::Text(text) => End::Said(echo(&text)),
            Prompt::Script(steps) => self.play(&prompt_id, steps),
        };
        match end {
            End::Said(text) => {
                self.say(&text);
                let fields = json!({ "stop_hook_active": false, "last_assistant_message": text });
                self.fire("Stop", Some(&prompt_id), &fields);
            }
            End::Failed(text) => {
                let fields = json!({ "error": "unknown", "last_assistant_message": text });
                self.print(Block::Error(text));
                self.fire("StopFailure", Some(&prompt_id), &fields);
            }
            End::Interrupted => {
                self.session.record_prompt(&prompt_id, "[Request interrupted by user]");
                self.print(Block::Note("Interrupted.".to_owned()));
            }
        }
    }

    fn say(&self, text: &str) {
        self.session.record_answer(text);
        self.print(Block::Agent(text.to_owned()));
    }

    fn play(&self, prompt_id: &str, steps: Vec<Step>) -> End {
        // Only the last thing said is the answer; what came before is shown at once.
        let mut said: Option<String> = None;
        for step in steps {
            if self.stop.is_set() {
                return End::Interrupted;
            }
            match step {
                Step::Say(text) => {
                    if let Some(earlier) = said.replace(text) {
                        self.say(&earlier);
                    }
                }
                Step::Sleep(seconds) => {
                    if !self.stop.sleep(Duration::from_secs_f64(seconds)) {
                        return End::Interrupted;
                    }
                }
                Step::Tool { name, arguments } => {
                    if !self.tool(prompt_id, &name, &arguments) {
                        return End::Interrupted;
                    }
                }
                Step::Run(command) => {
                    if !self.command(prompt_id, &command) {
                        return End::Interrupted;
                    }
                }
                Step::Questions(list) => {
                    if !self.questions(prompt_id, &list) {
                        return End::Interrupted;
                    }
                }
                Step::Fail(text) => return End::Failed(text),
                Step::Crash(code) => {
                    // As a crash is: no hook, no tidying up, except of the person's terminal.
                    let _ = crossterm::terminal::disable_raw_mode();
                    std::process::exit(i32::from(code));
                }
                Step::Bad(why) => self.print(Block::Error(why)),
            }
        }
        End::Said(said.unwrap_or_else(|| "Done.".to_owned()))
    }

    /// Calls a tool between its hooks; false when a person interrupted it.
    fn tool(&self, prompt_id: &str, name: &str, arguments: &Value) -> bool {
        // The name as a person may have seen it in Claude is good too.
        let name = name.strip_prefix("mcp__leo__").unwrap_or(name);
        let use_id = new_id();
        let fields = json!({
            "tool_name": format!("mcp__leo__{name}"), "tool_input": arguments, "tool_use_id": use_id
        });
        self.print(Block::Tool { name: name.to_owned(), detail: arguments.to_string() });
        self.fire("PreToolUse", Some(prompt_id), &fields);
        let result = match &self.mcp {
            Some(mcp) => mcp.call(name, arguments, &self.stop),
            None => Err(CallError::Failed(
                "there are no tools: this agent was not started by Leo (LEO_PROGRAM is not set)".to_owned(),
            )),
        };
        match result {
            Ok(text) => {
                self.print(Block::Output(text.clone()));
                self.used(prompt_id, &fields, Value::from(text));
            }
            Err(CallError::Interrupted) => return false,
            Err(error) => {
                let mut text = error.to_string();
                if let (true, Some(mcp)) = (text.starts_with("unknown tool"), &self.mcp)
                    && let Ok(names) = mcp.tools(&self.stop)
                {
                    text = format!("{text}; there are {}", names.join(", "));
                }
                self.print(Block::Error(text.clone()));
                self.failed(prompt_id, &fields, text);
            }
        }
        true
    }

    /// A tool has done its work.
    fn used(&self, prompt_id: &str, fields: &Value, response: Value) {
        let mut fields = fields.clone();
        fields["tool_response"] = response;
        self.fire("PostToolUse", Some(prompt_id), &fields);
        self.batch(prompt_id, &fields, &fields["tool_response"]);
    }

    /// A tool has failed.
    fn failed(&self, prompt_id: &str, fields: &Value, error: String) {
        let mut fields = fields.clone();
        let response = Value::from(error.as_str());
        fields["error"] = Value::from(error);
        self.fire("PostToolUseFailure", Some(prompt_id), &fields);
        self.batch(prompt_id, &fields, &response);
    }

    /// All tools of one step are done: there is always one.
    fn batch(&self, prompt_id: &str, fields: &Value, response: &Value) {
        let call = json!({
            "tool_name": fields["tool_name"], "tool_input": fields["tool_input"],
            "tool_use_id": fields["tool_use_id"], "tool_response": response,
        });
        self.fire("PostToolBatch", Some(prompt_id), &json!({ "tool_calls": [call] }));
    }
}

fn echo(text: &str) -> String {
    format!(
        "You said:\n\n{text}\n\n(I am Leo's demo agent, an echo without a model. Send help to see what I can do.)"
    )
}

/// Runs a command in the shell and returns its exit code and its output; `None` when it was
/// interrupted, and then it and what it started are killed.
fn run(command: &str, stop: &Stop) -> Option<(Option<i32>, String)> {
    let spawned = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(e) => return Some((Some(127), format!("the shell cannot be started: {e}"))),
    };
    let (tx, rx) = sync_channel(2);
    let readers =
        usize::from(collect(child.stdout.take(), &tx)) + usize::from(collect(child.stderr.take(), &tx));
    drop(tx);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if stop.is_set() => {
                kill(&mut child);
                return None;
            }
            Ok(None) => std::thread::sleep(PAUSE),
            Err(e) => return Some((Some(127), e.to_string())),
        }
    };
    // Something left in the background may hold the pipe open; it is not waited for.
    let output: Vec<String> = (0..readers).filter_map(|_| rx.recv_timeout(PAUSE * 4).ok()).collect();
    Some((status.code(), output.concat()))
}

fn collect(pipe: Option<impl Read + Send + 'static>, out: &SyncSender<String>) -> bool {
    let (Some(pipe), out) = (pipe, out.clone()) else { return false };
    let read = move || {
        let mut bytes = Vec::new();
        let mut pipe = pipe;
        let _ = pipe.by_ref().take(MAX_OUTPUT).read_to_end(&mut bytes);
        let _ = out.send(String::from_utf8_lossy(&bytes).into_owned());
        // The rest is read and dropped, so that the command does not wait for a reader.
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    };
    std::thread::Builder::new().name("output".to_owned()).spawn(read).is_ok()
}

fn kill(child: &mut Child) {
    if let Ok(pid) = i32::try_from(child.id()) {
        // The group is the command's own, and it has not been waited for: the number is still its.
        let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_run_and_can_be_interrupted() {
        let stop = Stop::default();
        let (code, output) = run("echo out; echo err >&2; exit 3", &stop).unwrap();
        assert_eq!(code, Some(3));
        assert!(output.contains("out") && output.contains("err"), "{output}");
        let wisher = stop.clone();
        std::thread::spawn(move || wisher.set(true));
        assert!(run("sleep 600 & sleep 600", &stop).is_none());
    }

    #[test]
    fn a_long_output_is_cut_and_the_command_still_ends() {
        let (code, output) = run("head -c 1000000 /dev/zero | tr '\\0' x", &Stop::default()).unwrap();
        assert_eq!(code, Some(0));
        assert_eq!(output.len() as u64, MAX_OUTPUT);
    }
}
