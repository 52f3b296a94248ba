//! Sending a file to the API, as a stream: a file may be larger than anybody wants to hold.

use super::{Api, ApiError, MAX_PAUSE, MIN_PAUSE, open_envelope, read_body, segment};
use bytes::Bytes;
use futures_util::TryStreamExt;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::{Request, body::Frame, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use leo_ipc::{AgentName, CallKey, attachment::MAX_UPLOAD_BYTES, chat::Attachment};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{net::UnixStream, time::Instant};
use tokio_util::io::ReaderStream;

/// How long an upload may take over all its attempts: a unix socket takes 100 MiB within a second.
const DEADLINE: Duration = Duration::from_secs(120);

/// Why a file was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// It cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no file.
    #[error("{} is not a file", .0.display())]
    NotAFile(PathBuf),
    /// It is larger than the API takes.
    #[error("{} has more than {} MiB", .0.display(), MAX_UPLOAD_BYTES / (1024 * 1024))]
    TooLarge(PathBuf),
    /// The API did not take it.
    #[error("{}: {source}", path.display())]
    Api {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ApiError,
    },
}

impl Api {
    /// Uploads a file for a thread; the message that sends it names the answer's id.
    ///
    /// # Errors
    /// As [`UploadError`] says; a lost worker only delays it.
    pub(crate) async fn upload(&self, agent: &AgentName, path: &Path) -> Result<Attachment, UploadError> {
        let read = |source| UploadError::Read { path: path.to_owned(), source };
        // Before it is opened: opening a pipe would wait for its other end.
        let meta = tokio::fs::metadata(path).await.map_err(read)?;
        if !meta.is_file() {
            return Err(UploadError::NotAFile(path.to_owned()));
        }
        if meta.len() > MAX_UPLOAD_BYTES {
            return Err(UploadError::TooLarge(path.to_owned()));
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let target =
            format!("/api/v1/chat/uploads?agent={}&filename={}", segment(agent.as_str()), segment(&name));
        let key = CallKey::fresh();
        let deadline = Instant::now() + DEADLINE;
        let mut pause = MIN_PAUSE;
        loop {
            let file = tokio::fs::File::open(path).await.map_err(read)?;
            let sent = match tokio::time::timeout_at(deadline, self.send_file(&target, &key, file)).await {
                Ok(sent) => sent,
                Err(_) => Err(ApiError::Deadline),
            };
            match sent {
                Ok(attachment) => return Ok(attachment),
                Err(ApiError::Broken { .. }) if Instant::now() + pause < deadline => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
                Err(source) => return Err(UploadError::Api { path: path.to_owned(), source }),
            }
        }
    }

    async fn send_file(
        &self,
        target: &str,
        key: &CallKey,
        file: tokio::fs::File,
    ) -> Result<Attachment, ApiError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|source| self.connect_error(source))?;
        let (mut sender, connection) = http1::handshake::<_, BoxBody<Bytes, io::Error>>(TokioIo::new(stream))
            .await
            .map_err(|e| ApiError::broken("connecting", e))?;
        tokio::spawn(connection);
        let body = BodyExt::boxed(StreamBody::new(ReaderStream::new(file).map_ok(Frame::data)));
        let request = Request::post(target)
            .header(header::HOST, "localhost")
            .header("idempotency-key", key.as_str())
            // What it is, the other side sees in its bytes and its name.
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(body)
            .map_err(|e| ApiError::Unreadable { what: format!("{target} is not a path: {e}") })?;
        let answer = sender.send_request(request).await.map_err(|e| ApiError::broken("sending a file", e))?;
        let status = answer.status();
        open_envelope(status, &read_body(answer).await?)
    }
}
