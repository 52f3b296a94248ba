//! Uploads and attachments: rows of files, which message they belong to, and where they lie. An upload
//! waits in `uploads` until one message takes it, by deleting its row there.

pub(crate) mod mime;
pub(crate) mod place;
pub(crate) mod prune;
#[cfg(test)]
mod tests;

use crate::{agent, error::Outcome, writer::Tx};
use leo_ipc::{
    AgentName, Fault, MessageId,
    attachment::{AddUpload, BeginUpload, MAX_FILENAME, MAX_FILES, MAX_UPLOAD_BYTES, UploadBegun, Uploaded},
    chat::{Attachment, AttachmentFile, GetAttachment, SendMessage},
    paths::Home,
};
use place::Move;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::path::PathBuf;

/// Most uploads that wait for their message: more than any app has open, few enough to be no burden.
pub(crate) const MAX_UNSENT: u64 = 256;

/// Most bytes of them.
pub(crate) const MAX_UNSENT_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// A file that becomes a message's.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) id: String,
    pub(crate) filename: String,
    pub(crate) mime: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: Option<String>,
    pub(crate) path: PathBuf,
}

/// An upload that waits.
struct Upload {
    agent: Option<String>,
    file: File,
}

const UPLOAD: &str = "id, agent, filename, mime, bytes, sha256, path";

fn upload(row: &Row<'_>) -> Result<Upload, rusqlite::Error> {
    let file = File {
        id: row.get(0)?,
        filename: row.get(2)?,
        mime: row.get(3)?,
        bytes: row.get(4)?,
        sha256: row.get(5)?,
        path: PathBuf::from(row.get::<_, String>(6)?),
    };
    Ok(Upload { agent: row.get(1)?, file })
}

fn waiting(db: &Connection, id: &str) -> Outcome<Option<Upload>> {
    let sql = format!("SELECT {UPLOAD} FROM uploads WHERE id = ?1 AND expired = 0");
    Ok(db.prepare_cached(&sql)?.query_row([id], upload).optional()?)
}

fn by_key(db: &Connection, key: &str) -> Outcome<Option<Attachment>> {
    let sql = format!("SELECT {UPLOAD} FROM uploads WHERE key = ?1 AND expired = 0");
    let found = db.prepare_cached(&sql)?.query_row([key], upload).optional()?;
    Ok(found.map(|upload| shown(&upload.file)))
}

fn shown(file: &File) -> Attachment {
    Attachment {
        id: file.id.clone(),
        filename: file.filename.clone(),
        mime: file.mime.clone(),
        bytes: file.bytes,
        available: true,
    }
}

/// Whether an upload may begin.
pub(crate) fn begin(db: &Connection, request: &BeginUpload) -> Outcome<UploadBegun> {
    if let Some(agent) = &request.agent {
        agent::must_exist(db, agent)?;
    }
    let existing = by_key(db, request.key.as_str())?;
    if existing.is_none() {
        check_room(db, 0)?;
    }
    Ok(UploadBegun { existing })
}

fn check_room(db: &Connection, bytes: u64) -> Outcome<()> {
    let (count, held): (u64, u64) = db
        .prepare_cached("SELECT count(*), coalesce(sum(bytes), 0) FROM uploads")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if count >= MAX_UNSENT || held + bytes > MAX_UNSENT_BYTES {
        let text = format!(
            "{count} uploads already wait for a message that sends them: send some, or wait a day until they \
             are dropped"
        );
        return Err(Fault::new("uploads_full", text).into());
    }
    Ok(())
}

/// Checks what can be checked without the database, and says where the file is to lie. The id is in the
/// path, so it must be one.
pub(crate) fn check(home: &Home, request: &AddUpload) -> Result<PathBuf, Fault> {
    if uuid::Uuid::try_parse(&request.id).is_err() {
        return Err(Fault::bad_request("at $.id: expected a UUID"));
    }
    if request.filename.is_empty() || request.filename.len() > MAX_FILENAME {
        return Err(Fault::bad_request(format!("at $.filename: 1 to {MAX_FILENAME} bytes")));
    }
    if request.bytes > MAX_UPLOAD_BYTES {
        return Err(Fault::new("too_large", format!("at $.bytes: at most {MAX_UPLOAD_BYTES} are possible")));
    }
    Ok(match &request.agent {
        Some(agent) => home.attachment_file(agent, &request.id, &request.filename),
        None => home.upload_file(&request.id, &request.filename),
    })
}

/// Stores an upload whose file lies in its place.
pub(crate) fn add(tx: &mut Tx<'_>, request: &AddUpload, file: &File) -> Outcome<Uploaded> {
    if let Some(attachment) = by_key(tx.db, request.key.as_str())? {
        return Ok(Uploaded { attachment, created: false });
    }
    if let Some(agent) = &request.agent {
        agent::must_exist(tx.db, agent)?;
    }
    check_room(tx.db, file.bytes)?;
    tx.db
        .prepare_cached(
            "INSERT INTO uploads (id, agent, filename, mime, bytes, sha256, path, key, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            file.id,
            request.agent.as_ref().map(AgentName::as_str),
            file.filename,
            file.mime,
            file.bytes,
            file.sha256,
            file.path.to_string_lossy(),
            request.key.as_str(),
            tx.now.millis(),
        ])?;
    Ok(Uploaded { attachment: shown(file), created: true })
}

/// The uploads of a message that have no thread yet, and where they go.
pub(crate) fn moves(db: &Connection, home: &Home, request: &SendMessage) -> Outcome<Vec<Move>> {
    let mut moves = Vec::new();
    for id in request.attachments.iter().take(MAX_FILES) {
        if let Some(Upload { agent: None, file }) = waiting(db, id)? {
            let to = home.attachment_file(&request.agent, &file.id, &file.filename);
            moves.push(Move { from: file.path, to });
        }
    }
    Ok(moves)
}

/// Takes uploads for a message: each goes to the first that asks for it.
pub(crate) fn take(tx: &mut Tx<'_>, home: &Home, agent: &AgentName, ids: &[String]) -> Outcome<Vec<File>> {
    if ids.len() > MAX_FILES {
        let text = format!("at $.attachments: {} files, at most {MAX_FILES} are possible", ids.len());
        return Err(Fault::bad_request(text).into());
    }
    let mut files = Vec::with_capacity(ids.len());
    for (index, id) in ids.iter().enumerate() {
        let place = format!("at $.attachments[{index}]");
        let in_use = |what: &str| Fault::new("attachment_in_use", format!("{place}: {what}"));
        let Some(Upload { agent: owner, mut file }) = waiting(tx.db, id)? else {
            let known = ids[..index].contains(id) || find(tx.db, &GetAttachment { id: id.clone() }).is_ok();
            return Err(match known {
                true => in_use("it belongs to another message; upload the file again to send it again"),
                false => Fault::new("unknown_attachment", format!("{place}: there is no such upload")),
            }
            .into());
        };
        match owner {
            Some(owner) if owner != agent.as_str() => {
                return Err(in_use(&format!("it was uploaded for the thread of `{owner}`")).into());
            }
            Some(_) => {}
            None => file.path = home.attachment_file(agent, id, &file.filename),
        }
        tx.db.execute("DELETE FROM uploads WHERE id = ?1", [id])?;
        files.push(file);
    }
    Ok(files)
}

/// Stores the files of a message, in their order.
pub(crate) fn bind(tx: &mut Tx<'_>, message_id: &MessageId, files: &[File]) -> Outcome<()> {
    for (position, file) in files.iter().enumerate() {
        tx.db
            .prepare_cached(
                "INSERT INTO attachments (id, message_id, position, filename, mime, bytes, sha256, path)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                file.id,
                message_id.as_str(),
                position,
                file.filename,
                file.mime,
                file.bytes,
                file.sha256,
                file.path.to_string_lossy(),
            ])?;
    }
    Ok(())
}

/// Ids of a message's files, in their order.
pub(crate) fn ids(db: &Connection, message_id: &MessageId) -> Outcome<Vec<String>> {
    let mut statement =
        db.prepare_cached("SELECT id FROM attachments WHERE message_id = ?1 ORDER BY position")?;
    let rows = statement.query_map([message_id.as_str()], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Where an attachment's bytes lie, of a message or of an upload that waits for one.
pub(crate) fn find(db: &Connection, request: &GetAttachment) -> Outcome<AttachmentFile> {
    let found = db
        .prepare_cached(
            "SELECT id, filename, mime, bytes, available, path FROM attachments WHERE id = ?1
             UNION ALL SELECT id, filename, mime, bytes, expired = 0, path FROM uploads WHERE id = ?1",
        )?
        .query_row([&request.id], |row| {
            let attachment = Attachment {
                id: row.get(0)?,
                filename: row.get(1)?,
                mime: row.get(2)?,
                bytes: row.get(3)?,
                available: row.get(4)?,
            };
            Ok(AttachmentFile { attachment, path: row.get(5)? })
        })
        .optional()?;
    let unknown = || Fault::new("unknown_attachment", format!("there is no attachment `{}`", request.id));
    Ok(found.ok_or_else(unknown)?)
}
