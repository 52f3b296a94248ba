//! Voice notes become text, one at a time, with ffmpeg and whisper.cpp as processes of their own.
//!
//! It keeps nothing: the hub knows which notes wait and gives one out again when this worker died over
//! it. It must not decide what becomes of a note, only what was said in it.

mod convert;
mod gate;
mod guard;
mod job;
mod level;
pub mod tools;
mod whisper;

pub use guard::guard;

use job::Job;
use leo_ipc::{
    CallKey, ExitCode, IpcError,
    client::Client,
    config::Config,
    hub::HubRequest,
    voice::{CheckNote, EndNote, Note, NoteEnd, TakeNote},
};
use leo_runtime::{Threads, Worker, WorkerError};
use std::{path::PathBuf, time::Duration};
use tokio::sync::{mpsc, oneshot, watch};

/// How long one question for work waits before it is asked anew: it only has to be longer than nothing.
const ASK_FOR: Duration = Duration::from_secs(3600);

/// How long to tell the hub how a note ended, over its restarts.
const TELL_FOR: Duration = Duration::from_secs(600);

/// How often the hub is asked whether the note in hand is still wanted.
const CHECK_EVERY: Duration = Duration::from_secs(3);

/// Pause after a hub that cannot be asked.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs the worker to its end.
pub fn worker() -> ExitCode {
    leo_runtime::run("transcribe", Threads::One, run)
}

async fn run(mut worker: Worker) -> Result<(), WorkerError> {
    let notes = Notes {
        hub: worker.hub(),
        config: worker.config(),
        leo: PathBuf::from(&worker.start.program),
        scratch: worker.home.state().join("transcribe"),
    };
    // Recordings that a predecessor was reading when it died.
    job::clear(&notes.scratch);
    let (ask, mut probe) = mpsc::channel::<oneshot::Sender<()>>(1);
    worker.ready(move || {
        let ask = ask.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            if ask.send(answer).await.is_ok() {
                let _ = answered.await;
            }
        }
    })?;
    let drain = worker.drain.clone();
    let mut work = std::pin::pin!(notes.serve());
    loop {
        tokio::select! {
            // What is dropped here kills its programs; the note is given out again.
            () = drain.cancelled() => break,
            Some(answer) = probe.recv() => {
                // Whoever asked may have stopped waiting.
                let _ = answer.send(());
            }
            () = work.as_mut() => break,
        }
    }
    job::clear(&notes.scratch);
    Ok(())
}

struct Notes {
    hub: Client<HubRequest>,
    config: watch::Receiver<Config>,
    leo: PathBuf,
    scratch: PathBuf,
}

impl Notes {
    /// Takes notes for ever.
    async fn serve(&self) {
        let mut key = CallKey::fresh();
        loop {
            let note = match self.hub.call(TakeNote { key: key.clone() }, ASK_FOR).await {
                Ok(note) => note,
                Err(IpcError::Deadline { .. }) => continue,
                Err(error) => {
                    tracing::warn!(%error, "the hub gives no voice note");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            key = CallKey::fresh();
            let ended = tokio::select! {
                ended = self.one(&note) => ended,
                () = self.unwanted(&note) => {
                    tracing::info!(message = %note.message_id, "the voice note was taken back");
                    continue;
                }
            };
            let end = EndNote { message_id: note.message_id, attempt: note.attempt, end: ended };
            if let Err(error) = self.hub.call(end, TELL_FOR).await {
                // It is given out again, and heard again.
                tracing::error!(%error, "the hub does not learn what was said");
            }
        }
    }

    async fn one(&self, note: &Note) -> NoteEnd {
        // The configuration of now: a model that was just set counts.
        let chat = self.config.borrow().chat.clone();
        let at = self.scratch.join(note.message_id.as_str());
        tracing::info!(message = %note.message_id, attempt = note.attempt, "transcribing");
        let ended = match job::folder(&at) {
            Ok(folder) => {
                let job = Job { leo: &self.leo, folder: &folder, chat: &chat };
                job.transcribe(&note.recordings).await
            }
            Err(e) => NoteEnd::Failed { why: job::Failure::Disk(e).to_string() },
        };
        job::clear(&at);
        match &ended {
            NoteEnd::Failed { why } => tracing::warn!(message = %note.message_id, why, "not transcribed"),
            _ => tracing::info!(message = %note.message_id, "done"),
        }
        ended
    }

    /// Returns when a note is not wanted any more.
    async fn unwanted(&self, note: &Note) {
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            let check = CheckNote { message_id: note.message_id.clone(), attempt: note.attempt };
            if self.hub.call(check, CHECK_EVERY).await.is_ok_and(|answer| !answer.wanted) {
                return;
            }
        }
    }
}
