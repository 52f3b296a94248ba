//! The session: its id, its transcript in the shape that Claude's has, and the file that tells the
//! daemon what the agent is doing.

use leo_ipc::Time;
use serde_json::{Value, json};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use uuid::Uuid;

/// What the agent is doing, in Claude's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// It waits for a prompt.
    Idle,
    /// A turn runs.
    Busy,
    /// A permission dialog is open.
    Waiting,
    /// A dialog with questions is open.
    Asking,
}

/// The session, shared between the terminal and the running turn.
#[derive(Debug)]
pub(crate) struct Session {
    /// The file for the daemon, when there is one.
    file: Option<PathBuf>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: String,
    status: Status,
    /// When it became that, in milliseconds since 1970.
    changed_at_ms: i64,
    draft: bool,
    /// Nothing is written before the terminal is ready, nor after the end.
    shown: bool,
}

impl Session {
    /// A session with this id, or a new one. `file` is where the daemon looks; its folder also keeps
    /// the transcripts.
    pub(crate) fn new(file: Option<PathBuf>, resume: Option<String>) -> Session {
        let id = resume.unwrap_or_else(new_id);
        let inner = Inner {
            id,
            status: Status::Idle,
            changed_at_ms: Time::now().millis(),
            draft: false,
            shown: false,
        };
        Session { file, inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session's id.
    pub(crate) fn id(&self) -> String {
        self.lock().id.clone()
    }

    /// Where the transcript is, when one is kept.
    pub(crate) fn transcript(&self) -> Option<PathBuf> {
        self.transcript_of(&self.lock().id)
    }

    fn transcript_of(&self, id: &str) -> Option<PathBuf> {
        Some(self.file.as_ref()?.parent()?.join("transcripts").join(format!("{id}.jsonl")))
    }

    /// Begins a new session in the same process, as `/clear` does.
    pub(crate) fn renew(&self) {
        let mut inner = self.lock();
        inner.id = new_id();
        self.write(&inner);
    }

    /// Shows the session to the daemon from now on, or no longer.
    pub(crate) fn show(&self, shown: bool) {
        let mut inner = self.lock();
        inner.shown = shown;
        if shown {
            self.write(&inner);
        } else if let Some(file) = &self.file {
            // Gone is what it should be.
            let _ = fs::remove_file(file);
        }
    }

    /// Changes the status.
    pub(crate) fn set_status(&self, status: Status) {
        let mut inner = self.lock();
        if inner.status != status {
            inner.status = status;
            inner.changed_at_ms = Time::now().millis();
            self.write(&inner);
        }
    }

    /// Says whether a person is writing something.
    pub(crate) fn set_draft(&self, draft: bool) {
        let mut inner = self.lock();
        if inner.draft != draft {
            inner.draft = draft;
            self.write(&inner);
        }
    }

    /// Written under the lock, so that the file never goes back to an older state.
    fn write(&self, inner: &Inner) {
        let Some(file) = self.file.as_ref().filter(|_| inner.shown) else { return };
        let mut state = json!({
            "pid": std::process::id(),
            "sessionId": inner.id,
            "status": match inner.status {
                Status::Idle => "idle",
                Status::Busy => "busy",
                Status::Waiting | Status::Asking => "waiting",
            },
            "statusUpdatedAt": inner.changed_at_ms,
            "draft": inner.draft,
            "transcript": self.transcript_of(&inner.id),
            "version": env!("CARGO_PKG_VERSION"),
        });
        match inner.status {
            Status::Waiting => state["waitingFor"] = Value::from("permission prompt"),
            Status::Asking => state["waitingFor"] = Value::from("input needed"),
            Status::Idle | Status::Busy => {}
        }
        // The daemon then sees no session, which it takes for an agent that does not respond.
        let _ = replace(file, state.to_string().as_bytes());
    }

    /// Appends the prompt that starts a turn.
    pub(crate) fn record_prompt(&self, prompt_id: &str, text: &str) {
        self.append(json!({
            "type": "user",
            "promptId": prompt_id,
            "message": { "role": "user", "content": text },
        }));
    }

    /// Appends something that the agent said.
    pub(crate) fn record_answer(&self, text: &str) {
        self.append(json!({
            "type": "assistant",
            "message": { "role": "assistant", "content": [{ "type": "text", "text": text }] },
        }));
    }

    fn append(&self, mut row: Value) {
        let inner = self.lock();
        let Some(path) = self.transcript_of(&inner.id) else { return };
        row["uuid"] = Value::from(new_id());
        row["sessionId"] = Value::from(inner.id.as_str());
        let append = || -> io::Result<()> {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            // One write a row, so that a reader never sees the rows of two turns mixed.
            file.write_all(format!("{row}\n").as_bytes())
        };
        // A full disk must not end the conversation; the hooks carry the same text.
        let _ = append();
    }
}

/// A fresh id for a session, a prompt or a tool call.
pub(crate) fn new_id() -> String {
    Uuid::new_v4().to_string()
}

fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut temp = file.as_os_str().to_owned();
    temp.push(format!(".{}.tmp", std::process::id()));
    let temp = PathBuf::from(temp);
    File::create(&temp)?.write_all(content)?;
    fs::rename(&temp, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> Value {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn the_file_follows_the_session() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("session.json");
        let session = Session::new(Some(file.clone()), Some("s1".into()));
        session.set_status(Status::Busy);
        assert!(!file.exists(), "nothing to see before the terminal is ready");
        session.show(true);
        assert_eq!(read(&file)["status"], "busy");
        assert_eq!(read(&file)["sessionId"], "s1");
        session.set_status(Status::Waiting);
        session.set_draft(true);
        assert_eq!(read(&file)["waitingFor"], "permission prompt");
        assert_eq!(read(&file)["draft"], true);
        session.set_status(Status::Asking);
        assert_eq!(read(&file)["status"], "waiting");
        assert_eq!(read(&file)["waitingFor"], "input needed");
        assert!(read(&file)["statusUpdatedAt"].as_i64().unwrap() > 0);
        session.set_status(Status::Idle);
        assert!(read(&file).get("waitingFor").is_none());
        session.renew();
        assert_ne!(read(&file)["sessionId"], "s1");
        session.show(false);
        session.set_status(Status::Busy);
        assert!(!file.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_resumed_session_appends_to_its_transcript() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("session.json");
        for turn in ["a", "b"] {
            let session = Session::new(Some(file.clone()), Some("s1".into()));
            session.record_prompt(turn, "hi\nthere");
            session.record_answer("hello");
        }
        let session = Session::new(Some(file), Some("s1".into()));
        let text = fs::read_to_string(session.transcript().unwrap()).unwrap();
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[2]["promptId"], "b");
        assert_eq!(rows[2]["message"]["content"], "hi\nthere");
        assert_eq!(rows[3]["message"]["content"][0]["text"], "hello");
    }
}
