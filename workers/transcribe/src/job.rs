//! One voice note: each recording converted, looked at, transcribed, judged. Everything that is written
//! lies in a folder of the note's own, which is gone afterwards.

use crate::{
    convert, gate,
    guard::RunError,
    tools::{Missing, Tools},
    whisper,
};
use leo_ipc::{config::Chat, voice::NoteEnd};
use std::{
    io,
    path::{Path, PathBuf},
};

/// Why a note has no transcript although somebody may have spoken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Something is not installed.
    #[error("The voice note could not be transcribed: {}.", list(.0))]
    Missing(Vec<Missing>),
    /// The recording is broken.
    #[error("The voice note cannot be read{}.", because(.0.as_deref()))]
    Unreadable(Option<String>),
    /// The recording is longer than is transcribed.
    #[error("The voice note is longer than {} minutes, which is not transcribed.", convert::MAX_SECONDS / 60)]
    TooLong,
    /// The file is not there any more.
    #[error("The recording of the voice note is not there any more.")]
    Gone,
    /// A program did not come to an end, or not at all.
    #[error("The voice note could not be transcribed: {0}: {1}.")]
    Run(&'static str, #[source] RunError),
    /// Whisper gave up.
    #[error("The voice note could not be transcribed: whisper-cli failed{}.", because(.0.as_deref()))]
    Whisper(Option<String>),
    /// Our own disk failed.
    #[error("The voice note could not be transcribed: {0} in Leo's folder.")]
    Disk(#[from] io::Error),
}

fn because(why: Option<&str>) -> String {
    why.map(|why| format!(" ({why})")).unwrap_or_default()
}

fn list(missing: &[Missing]) -> String {
    missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; and ")
}

/// What a job works with.
pub(crate) struct Job<'a> {
    /// This binary, for its guard.
    pub(crate) leo: &'a Path,
    /// The job's folder, made for it and removed after it.
    pub(crate) folder: &'a Path,
    /// The configuration as it is now.
    pub(crate) chat: &'a Chat,
}

impl Job<'_> {
    /// Transcribes recordings, in their order.
    pub(crate) async fn transcribe(&self, recordings: &[String]) -> NoteEnd {
        match self.all(recordings).await {
            Ok(texts) if texts.is_empty() => NoteEnd::Silence {},
            Ok(texts) => NoteEnd::Speech { text: texts.join("\n") },
            Err(failure) => NoteEnd::Failed { why: failure.to_string() },
        }
    }

    async fn all(&self, recordings: &[String]) -> Result<Vec<String>, Failure> {
        let path = std::env::var_os("PATH");
        let tools =
            Tools::find(path.as_deref(), self.chat.whisper_model.as_deref()).map_err(Failure::Missing)?;
        let mut texts = Vec::new();
        for (n, recording) in recordings.iter().enumerate() {
            if let Some(text) = self.one(&tools, Path::new(recording), n).await? {
                texts.push(text);
            }
        }
        Ok(texts)
    }

    /// What was said in one recording; `None` when nothing was.
    async fn one(&self, tools: &Tools, recording: &Path, n: usize) -> Result<Option<String>, Failure> {
        let wav = self.folder.join(format!("{n}.wav"));
        convert::to_wav(self, tools, recording, &wav).await?;
        let read = wav.clone();
        let level = tokio::task::spawn_blocking(move || convert::measure(&read))
            .await
            .map_err(|e| Failure::Disk(io::Error::other(e)))??;
        tracing::info!(?level, "recording");
        if level.seconds > f32::from(convert::MAX_SECONDS) {
            return Err(Failure::TooLong);
        }
        if !gate::may_hold_speech(&level) {
            return Ok(None);
        }
        let heard = whisper::hear(self, tools, &wav, &level).await?;
        let speech = gate::speech(&heard.segments, &level, heard.confidence);
        tracing::info!(
            language = heard.language,
            confidence = heard.confidence,
            segments = heard.segments.len(),
            speech = speech.is_some(),
            "transcribed"
        );
        Ok(speech)
    }

    /// The environment's own paths, which a person may read, shortened in complaints.
    pub(crate) fn shown(&self, complaint: &str, recording: &Path) -> String {
        let name = recording.to_string_lossy();
        let folder = self.folder.to_string_lossy();
        let short =
            complaint.replace(&*format!("file:{name}"), "the recording").replace(&*name, "the recording");
        let short = short.replace(&*format!("{folder}/"), "");
        short
            .chars()
            .filter(|c| !c.is_control())
            .take(200)
            .collect::<String>()
            .trim()
            .trim_end_matches('.')
            .to_owned()
    }
}

/// A folder for one job, empty and for us alone.
pub(crate) fn folder(at: &Path) -> io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    clear(at);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(at)?;
    Ok(at.to_owned())
}

/// Removes a job's folder.
pub(crate) fn clear(at: &Path) {
    if let Err(e) = std::fs::remove_dir_all(at)
        && e.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %at.display(), error = %e, "a folder for recordings stays");
    }
}
