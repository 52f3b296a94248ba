//! Hooks as Claude calls them: `leo hook` with the event's JSON on its standard input.

use crate::session::Session;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Longest wait for a hook, which bounds itself to a second.
const WITHIN: Duration = Duration::from_secs(5);

/// Pause between looks at a hook that has not ended.
const PAUSE: Duration = Duration::from_millis(2);

/// A hook that was told to end has this long, as with Claude.
const KILL_AFTER: Duration = Duration::from_millis(1500);

/// Most bytes of a decision that are read.
const MAX_VERDICT: u64 = 1024 * 1024;

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
        // A hook that cannot be run is not the person's problem; Claude goes on too.
        if let Some(mut child) = self.start(session, event, prompt_id, fields, Stdio::null()) {
            wait(&mut child);
        }
    }

    /// Asks a hook for permission, beside the dialog. `decided` is called when it has decided, and not
    /// when it leaves that to the dialog.
    pub(crate) fn ask(
        &self,
        session: &Session,
        prompt_id: &str,
        fields: &Value,
        decided: impl FnOnce(Verdict) + Send + 'static,
    ) -> Option<Asking> {
        let mut child = self.start(session, "PermissionRequest", Some(prompt_id), fields, Stdio::piped())?;
        let stdout = child.stdout.take()?;
        let asking = Asking(Arc::new(Mutex::new(child)));
        let asked = asking.0.clone();
        let read = move || {
            let mut printed = String::new();
            let _ = stdout.take(MAX_VERDICT).read_to_string(&mut printed);
            if let Some(verdict) = Verdict::read(&printed) {
                decided(verdict);
            }
            // It has closed its output, so its end is near.
            wait(&mut lock(&asked));
        };
        std::thread::Builder::new().name("permission".to_owned()).spawn(read).ok()?;
        Some(asking)
    }

    fn start(
        &self,
        session: &Session,
        event: &str,
        prompt_id: Option<&str>,
        fields: &Value,
        stdout: Stdio,
    ) -> Option<Child> {
        let program = self.program.as_ref()?;
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
            .stdout(stdout)
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.ok()?;
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(input.to_string().as_bytes());
        }
        Some(child)
    }
}

/// What a hook has decided.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// Go on, perhaps with another input.
    Allow(Option<Value>),
    /// Do not, and tell the model this.
    Deny(Option<String>),
}

impl Verdict {
    /// Reads what a hook has printed; `None` when that is no decision.
    fn read(printed: &str) -> Option<Verdict> {
        let json: Value = serde_json::from_str(printed).ok()?;
        let decision = json.pointer("/hookSpecificOutput/decision")?;
        match decision.get("behavior").and_then(Value::as_str) {
            Some("allow") => Some(Verdict::Allow(decision.get("updatedInput").cloned())),
            Some("deny") => {
                let message = decision.get("message").and_then(Value::as_str);
                Some(Verdict::Deny(message.map(str::to_owned)))
            }
            _ => None,
        }
    }
}

/// A hook that asks for permission.
pub(crate) struct Asking(Arc<Mutex<Child>>);

impl Asking {
    /// Tells it to end, as Claude does after No and Esc: SIGTERM, and SIGKILL a little later.
    pub(crate) fn end(self) {
        if !signal(&mut lock(&self.0), Signal::SIGTERM) {
            return;
        }
        let kill_later = move || {
            std::thread::sleep(KILL_AFTER);
            signal(&mut lock(&self.0), Signal::SIGKILL);
        };
        // Without a thread for it the hook still ends by itself.
        let _ = std::thread::Builder::new().name("hook-end".to_owned()).spawn(kill_later);
    }
}

/// Signals a child that has not been waited for: until then the number is its own.
fn signal(child: &mut Child, signal: Signal) -> bool {
    let Ok(None) = child.try_wait() else { return false };
    i32::try_from(child.id()).is_ok_and(|pid| kill(Pid::from_raw(pid), signal).is_ok())
}

fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::mpsc::channel};

    const SOON: Duration = Duration::from_secs(20);

    fn hooks(dir: &Path, script: &str) -> Hooks {
        let program = dir.join("hook.sh");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        Hooks::new(Some(program))
    }

    #[test]
    fn a_hook_decides_from_its_output() {
        let dir = tempfile::tempdir().unwrap();
        let input = dir.path().join("input");
        let printed = r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"no"}}}"#;
        let hooks = hooks(dir.path(), &format!("cat > {}; echo '{printed}'", input.display()));
        let (tx, rx) = channel();
        let session = Session::new(None, Some("s1".into()));
        let fields = json!({"tool_name": "Bash", "tool_input": {"command": "ls"}});
        let asking = hooks.ask(&session, "p1", &fields, move |verdict| tx.send(verdict).unwrap()).unwrap();
        assert_eq!(rx.recv_timeout(SOON), Ok(Verdict::Deny(Some("no".into()))));
        let input: Value = serde_json::from_slice(&fs::read(input).unwrap()).unwrap();
        assert_eq!(input["hook_event_name"], "PermissionRequest");
        assert_eq!((&input["prompt_id"], &input["tool_input"]["command"]), (&json!("p1"), &json!("ls")));
        asking.end();
    }

    #[test]
    fn a_hook_that_is_ended_decides_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let hooks = hooks(dir.path(), "exec sleep 600");
        let (tx, rx) = channel::<Verdict>();
        let session = Session::new(None, None);
        let asking = hooks.ask(&session, "p1", &json!({}), move |verdict| tx.send(verdict).unwrap()).unwrap();
        asking.end();
        // The sender is dropped when the hook has ended.
        assert_eq!(rx.recv_timeout(SOON), Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
    }

    #[test]
    fn verdicts() {
        let of = |decision: Value| {
            Verdict::read(&json!({"hookSpecificOutput": {"decision": decision}}).to_string())
        };
        assert_eq!(of(json!({"behavior": "allow"})), Some(Verdict::Allow(None)));
        let updated = json!({"behavior": "allow", "updatedInput": {"a": 1}});
        assert_eq!(of(updated), Some(Verdict::Allow(Some(json!({"a": 1})))));
        assert_eq!(of(json!({"behavior": "deny"})), Some(Verdict::Deny(None)));
        assert_eq!(of(json!("allow")), None);
        assert_eq!(Verdict::read(""), None);
    }
}
