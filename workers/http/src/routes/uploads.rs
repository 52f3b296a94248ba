//! Uploads: bytes go to disk as they arrive and are never held. What was cut off leaves nothing; what is
//! complete waits in the hub for the message that sends it.

use crate::{
    answer::{Answer, Data, Refusal, Refusals, Success},
    app::{App, HUB_DEADLINE},
    extract::{Key, Query},
};
use axum::extract::{Request, State};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{HeaderMap, header};
use leo_ipc::{
    AgentName,
    attachment::{AddUpload, BeginUpload, MAX_FILENAME, MAX_UPLOAD_BYTES},
    chat::Attachment,
    id::hex,
    paths::Home,
};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
    time::Duration,
};
use tokio::{io::AsyncWriteExt, sync::Semaphore};
use utoipa::{IntoParams, ToSchema};

/// Uploads at once: each may hold 100 MiB of disk. More are asked to come back.
const AT_ONCE: usize = 8;

/// An upload that brings nothing for so long has lost its sender.
const SILENCE: Duration = Duration::from_secs(60);

/// An upload may take so long in all: 100 MiB at 30 KiB/s.
const DEADLINE: Duration = Duration::from_secs(3600);

/// What a form may add around its file.
const FORM: u64 = 64 * 1024;

/// The form's field that holds the file.
const FIELD: &str = "file";

static RUNNING: Semaphore = Semaphore::const_new(AT_ONCE);

/// What is uploaded, and for whom.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Upload {
    /// The file's name as people see it. In a form the file's own name counts unless this is given.
    filename: Option<String>,
    /// The thread that it is for; without it the first message that sends the file decides.
    agent: Option<String>,
}

/// A form with one file.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct UploadForm {
    /// The file.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

/// Stores a file for the message that will send it: the raw body with its Content-Type, or a form's
/// `file`. 201 when it is stored, 200 when the same `Idempotency-Key` had stored it before.
#[utoipa::path(post, operation_id = "upload", path = "/api/v1/chat/uploads", tag = "chat", params(Upload),
    request_body(content(
        (Vec<u8> = "application/octet-stream"),
        (UploadForm = "multipart/form-data")
    )),
    responses((status = 201, body = Success<Attachment>), (status = 200, body = Success<Attachment>), Refusals),
    security(("operator" = []), ("session" = [])))]
pub(crate) async fn upload(
    State(app): State<App>,
    Query(query): Query<Upload>,
    Key(key): Key,
    request: Request,
) -> Answer<Attachment> {
    let agent = query.agent.map(|name| agent(&name)).transpose()?;
    let named = query.filename.filter(|name| !name.is_empty());
    if let Some(name) = &named {
        check_name(name, "in the query: filename")?;
    }
    check_announced(request.headers())?;
    let Ok(_slot) = RUNNING.try_acquire() else {
        let text = format!("{AT_ONCE} uploads are under way: try again when one of them is done");
        return Err(Refusal::new("too_many_uploads", text));
    };
    let begun = app.hub.call(BeginUpload { key: key.clone(), agent: agent.clone() }, HUB_DEADLINE).await?;
    if let Some(attachment) = begun.existing {
        return Ok(Data::ok(attachment));
    }
    let mut part = Part::create(&app.home).await.map_err(|e| storage(&e))?;
    let received = tokio::time::timeout(DEADLINE, receive(request, &mut part)).await;
    let received = received.map_err(|_| late(DEADLINE))??;
    let sha256 = part.finish().await.map_err(|e| storage(&e))?;
    let add = AddUpload {
        id: part.id.clone(),
        key,
        agent,
        filename: name_of(named, received.filename, received.mime.as_deref())?,
        mime: received.mime,
        bytes: part.bytes,
        sha256,
    };
    let uploaded = app.hub.call(add, HUB_DEADLINE).await?;
    Ok(if uploaded.created { Data::created(uploaded.attachment) } else { Data::ok(uploaded.attachment) })
}

fn agent(name: &str) -> Result<AgentName, Refusal> {
    name.parse()
        .map_err(|_| Refusal::new("unknown_agent", "in the query: agent: there is no agent of that name"))
}

fn check_name(name: &str, place: &str) -> Result<(), Refusal> {
    if name.len() <= MAX_FILENAME {
        return Ok(());
    }
    Err(Refusal::bad_request(format!("{place}: at most {MAX_FILENAME} bytes, found {}", name.len())))
}

/// The name that people see: given beside the file, else the form's, else one that says what it is.
fn name_of(named: Option<String>, form: Option<String>, mime: Option<&str>) -> Result<String, Refusal> {
    if let Some(name) = named.or(form).filter(|name| !name.is_empty()) {
        check_name(&name, "in the form: the file's name")?;
        return Ok(name);
    }
    let kind = mime.and_then(|mime| mime.split('/').next()).unwrap_or_default();
    Ok(match kind {
        "image" => "picture",
        "audio" => "voice note",
        "video" => "film",
        "text" => "text",
        _ => "file",
    }
    .to_owned())
}

/// Refuses what is too long before it is sent.
fn check_announced(headers: &HeaderMap) -> Result<(), Refusal> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    let form = multipart(headers).is_some();
    let most = if form { MAX_UPLOAD_BYTES + FORM } else { MAX_UPLOAD_BYTES };
    if announced.is_some_and(|bytes| bytes > most) { Err(too_large()) } else { Ok(()) }
}

fn too_large() -> Refusal {
    Refusal::new("too_large", format!("a file may have at most {} MiB", MAX_UPLOAD_BYTES / (1024 * 1024)))
}

fn late(after: Duration) -> Refusal {
    Refusal::new("timeout", format!("the file did not arrive within {} s", after.as_secs()))
}

fn cut_off() -> Refusal {
    Refusal::bad_request("the body ended before it was complete")
}

/// The disk's trouble is ours, not the sender's.
fn storage(error: &io::Error) -> Refusal {
    tracing::error!(%error, "an upload cannot be written");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Refusal::new("storage_full", "the disk is full: nothing was stored; make room and try again")
        }
        _ => Refusal::new("internal", "the file cannot be written to disk"),
    }
}

fn multipart(headers: &HeaderMap) -> Option<String> {
    let content_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    multer::parse_boundary(content_type).ok()
}

/// What came with the bytes.
struct Received {
    filename: Option<String>,
    mime: Option<String>,
}

async fn receive(request: Request, part: &mut Part) -> Result<Received, Refusal> {
    let boundary = multipart(request.headers());
    let mime = request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let body = request.into_body().into_data_stream();
    let Some(boundary) = boundary else {
        if mime.as_deref().is_some_and(|mime| mime.trim_start().starts_with("multipart/form-data")) {
            return Err(Refusal::bad_request("the form's Content-Type names no boundary"));
        }
        write(part, body).await?;
        return Ok(Received { filename: None, mime });
    };
    let most = MAX_UPLOAD_BYTES + FORM;
    let limits = multer::Constraints::new().size_limit(multer::SizeLimit::new().whole_stream(most));
    let mut form = multer::Multipart::with_constraints(body, boundary, limits);
    let mut received = None;
    // To its end, though only one field counts: a form that is cut off after the file is cut off.
    loop {
        let next = tokio::time::timeout(SILENCE, form.next_field()).await.map_err(|_| late(SILENCE))?;
        let Some(field) = next.map_err(|e| e.refusal())? else { break };
        if field.name() != Some(FIELD) {
            continue;
        }
        if received.is_some() {
            return Err(Refusal::bad_request(format!(
                "the form has more than one `{FIELD}`: upload them one by one"
            )));
        }
        let filename = field.file_name().map(str::to_owned);
        let mime = field.content_type().map(|mime| mime.essence_str().to_owned());
        write(part, field).await?;
        received = Some(Received { filename, mime });
    }
    received.ok_or_else(|| Refusal::bad_request(format!("the form has no field `{FIELD}`")))
}

async fn write<E: Unreadable>(
    part: &mut Part,
    mut bytes: impl Stream<Item = Result<Bytes, E>> + Unpin,
) -> Result<(), Refusal> {
    loop {
        let next = tokio::time::timeout(SILENCE, bytes.next()).await.map_err(|_| late(SILENCE))?;
        match next {
            None => return Ok(()),
            Some(Ok(chunk)) => {
                if part.bytes + chunk.len() as u64 > MAX_UPLOAD_BYTES {
                    return Err(too_large());
                }
                part.write(&chunk).await.map_err(|e| storage(&e))?;
            }
            Some(Err(error)) => return Err(error.refusal()),
        }
    }
}

/// A body's error as its sender should read it.
trait Unreadable {
    fn refusal(&self) -> Refusal;
}

impl Unreadable for axum::Error {
    fn refusal(&self) -> Refusal {
        cut_off()
    }
}

impl Unreadable for multer::Error {
    fn refusal(&self) -> Refusal {
        use multer::Error as E;
        match self {
            E::StreamSizeExceeded { .. } | E::FieldSizeExceeded { .. } => too_large(),
            E::StreamReadFailed(_)
            | E::IncompleteStream
            | E::IncompleteFieldData { .. }
            | E::IncompleteHeaders => cut_off(),
            other => Refusal::bad_request(format!("the form cannot be read: {other}")),
        }
    }
}

/// Bytes on their way to disk. Gone when dropped, unless the hub has moved them into place. It is locked
/// while it is written, so that a later process can tell what its predecessor left behind.
struct Part {
    id: String,
    path: PathBuf,
    file: tokio::fs::File,
    hash: Sha256,
    bytes: u64,
}

impl Part {
    async fn create(home: &Home) -> io::Result<Part> {
        let id = uuid::Uuid::now_v7().hyphenated().to_string();
        let (folder, path) = (home.uploads(), home.upload_part(&id));
        let target = path.clone();
        let open = move || {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target)?;
            file.lock()?;
            io::Result::Ok(file)
        };
        let file = tokio::task::spawn_blocking(open).await.map_err(io::Error::other)??;
        Ok(Part { id, path, file: tokio::fs::File::from_std(file), hash: Sha256::new(), bytes: 0 })
    }

    async fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.file.write_all(chunk).await?;
        self.hash.update(chunk);
        self.bytes += chunk.len() as u64;
        Ok(())
    }

    /// Waits until every byte is on disk, and returns their SHA-256.
    async fn finish(&mut self) -> io::Result<String> {
        self.file.flush().await?;
        self.file.sync_all().await?;
        Ok(hex(&std::mem::take(&mut self.hash).finalize()))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Not there once the hub has moved it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what processes that are gone have left half written.
pub(crate) fn remove_leftovers(home: &Home) {
    for entry in fs::read_dir(home.uploads()).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "part") {
            continue;
        }
        let left = File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
        if left && fs::remove_file(&path).is_ok() {
            tracing::info!(path = %path.display(), "an upload that was cut off was removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let name = |named: Option<&str>, form: Option<&str>, mime| {
            name_of(named.map(Into::into), form.map(Into::into), mime).map_err(|e| e.code().to_owned())
        };
        assert_eq!(name(Some("a"), Some("b"), None).unwrap(), "a");
        assert_eq!(name(None, Some("../b"), None).unwrap(), "../b");
        assert_eq!(name(None, Some(""), Some("audio/webm")).unwrap(), "voice note");
        assert_eq!(name(None, None, None).unwrap(), "file");
        assert_eq!(name(None, Some(&"x".repeat(MAX_FILENAME + 1)), None).unwrap_err(), "bad_request");
    }

    #[tokio::test]
    async fn a_dropped_part_leaves_nothing_and_a_living_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().to_owned()).unwrap();
        let mut part = Part::create(&home).await.unwrap();
        part.write(b"abc").await.unwrap();
        assert_eq!(
            part.finish().await.unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let path = part.path.clone();
        let left = home.upload_part("left");
        fs::write(&left, "x").unwrap();
        remove_leftovers(&home);
        assert!(path.exists() && !left.exists());
        drop(part);
        assert!(!path.exists());
    }
}
