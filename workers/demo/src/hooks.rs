//! Hooks as Claude calls them: `leo hook` with the event's JSON on its standard input.

use crate::session::Session;
use serde_json::{Value, json};
use std::{
    io::Write,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Longest wait for a hook, which bounds itself to a second.
const WITHIN: Duration = Duration::from_secs(5);

/// Pause between looks at a hook that has not ended.
const PAUSE: Duration = Duration::from_millis(2);

/// Calls the hooks, when there is a program to call.
#[derive(Debug, Clone)]
pub(crate) struct Hooks {
    program: Option<PathBuf>,
    cwd: String,
}

impl Hooks {
    /// Hooks that run `program hook`; none without a program.
    pub(crate) fn new(program: Option<PathBuf>) -> Hooks {
        let cwd = std::env::current_dir().map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default();
        Hooks { program, cwd }
    }

    /// Reports an event and waits until it was taken. `fields` are the event's own.
    pub(crate) fn fire(&self, session: &Session, event: &str, prompt_id: Option<&str>, fields: &Value) {
        let Some(program) = &self.program else { return };
        let mut input = json!({
            "session_id": session.id(),
            "transcript_path": session.transcript(),
            "cwd": self.cwd,
            "permission_mode": "default",
            "hook_event_name": event,
        });
        if let Some(prompt_id) = prompt_id {
            input["prompt_id"] = Value::from(prompt_id);
        }
        if let (Value::Object(input), Value::Object(fields)) = (&mut input, fields) {
            input.extend(fields.clone());
        }
        let child = Command::new(program)
            .arg("hook")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        // A hook that cannot be run is not the person's problem; Claude goes on too.
        let Ok(mut child) = child else { return };
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(input.to_string().as_bytes());
        }
        wait(&mut child);
    }
}

fn wait(child: &mut Child) {
    let start = Instant::now();
    while let Ok(None) = child.try_wait() {
        if start.elapsed() > WITHIN {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::sleep(PAUSE);
    }
}
