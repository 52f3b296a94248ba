//! Messages from agents: text and files. Files are copied into the state folder before the message
//! is stored, so that a stored message never names bytes that are not there.

use crate::{
    agent,
    attachment::{self, File as FileRow, mime, place},
    error::Outcome,
    message::{self, New},
    task, turn,
    writer::Tx,
};
use leo_ipc::{
    AgentName, Fault, MessageId,
    chat::{
        AgentPost, Direction, MAX_POST_FILE_BYTES, MAX_POST_FILES, MAX_POST_TEXT, MessageKind, MessageState,
        Posted,
    },
    paths::Home,
};
use rusqlite::Connection;
use std::{
    fs::{self, File, OpenOptions},
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Checks what can be checked without the database.
pub(crate) fn check(request: &AgentPost) -> Result<(), Fault> {
    if request.text.trim().is_empty() && request.files.is_empty() {
        return Err(Fault::bad_request("at $: a post needs text, files or both"));
    }
    if request.text.len() > MAX_POST_TEXT {
        let text = format!("at $.text: {} bytes, at most {MAX_POST_TEXT} are possible", request.text.len());
        return Err(Fault::new("too_large", text));
    }
    if request.files.len() > MAX_POST_FILES {
        let text =
            format!("at $.files: {} files, at most {MAX_POST_FILES} are possible", request.files.len());
        return Err(Fault::bad_request(text));
    }
    Ok(())
}

/// The post that the same key has made, if it has.
pub(crate) fn repeated(db: &Connection, request: &AgentPost) -> Outcome<Option<Posted>> {
    agent::must_exist(db, &request.agent)?;
    Ok(known(db, request)?.map(|message_id| Posted { message_id }))
}

fn known(db: &Connection, request: &AgentPost) -> Outcome<Option<MessageId>> {
    let dedupe = dedupe(request);
    for thread in task::threads_of(db, &request.agent)? {
        if let Some(id) = message::by_dedupe(db, &thread, &dedupe)? {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

fn dedupe(request: &AgentPost) -> String {
    format!("post:{}", request.call_key)
}

/// Copies the files of a post into the state folder. On an error nothing of them stays.
pub(crate) fn stage(home: &Home, request: &AgentPost) -> Result<Vec<FileRow>, Fault> {
    let mut staged = Vec::new();
    for (index, file) in request.files.iter().enumerate() {
        match stage_one(home, &request.agent, Path::new(file)) {
            Ok(one) => staged.push(one),
            Err(reason) => {
                discard(&staged);
                return Err(Fault::bad_request(format!("at $.files[{index}]: {file:?}: {reason}")));
            }
        }
    }
    Ok(staged)
}

/// Deletes staged files whose post did not happen.
pub(crate) fn discard(staged: &[FileRow]) {
    for file in staged {
        if let Some(dir) = file.path.parent() {
            // What cannot be deleted is an orphan without a row, which nobody can ask for.
            let _ = fs::remove_dir_all(dir);
        }
    }
}

fn stage_one(home: &Home, agent: &AgentName, source: &Path) -> Result<FileRow, String> {
    if !source.is_absolute() {
        return Err("the path must be absolute".to_owned());
    }
    // Opened first and asked afterwards, so that what was checked is what is copied. A fifo would
    // block the open without O_NONBLOCK.
    let mut input = OpenOptions::new()
        .read(true)
        .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(source)
        .map_err(|e| e.to_string())?;
    let meta = input.metadata().map_err(|e| e.to_string())?;
    if !meta.is_file() {
        return Err("not a regular file".to_owned());
    }
    if meta.len() > MAX_POST_FILE_BYTES {
        return Err(format!("{} bytes, at most {MAX_POST_FILE_BYTES} are possible", meta.len()));
    }
    let filename = source.file_name().map_or_else(|| "file".to_owned(), |n| n.to_string_lossy().into_owned());
    let id = uuid::Uuid::now_v7().hyphenated().to_string();
    let dir = home.attachment_dir(agent, &id);
    let path = home.attachment_file(agent, &id, &filename);
    let written = copy(&mut input, &dir, &path).and_then(|bytes| Ok((bytes, place::head(&path)?)));
    match written {
        Ok((bytes, head)) => {
            let mime = mime::of(None, &filename, &head);
            Ok(FileRow { id, filename, mime, bytes, sha256: None, path })
        }
        Err(e) => {
            let _ = fs::remove_dir_all(&dir);
            Err(format!("it could not be copied: {e}"))
        }
    }
}

fn copy(input: &mut File, dir: &Path, path: &Path) -> std::io::Result<u64> {
    place::folder(dir)?;
    let mut output = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    // A file that grows while it is read is cut, not followed.
    let bytes = std::io::copy(&mut input.take(MAX_POST_FILE_BYTES), &mut output)?;
    output.sync_all()?;
    place::sync(dir)?;
    Ok(bytes)
}

/// Stores the message. The agent has spoken for itself in this turn, so its last words are not posted
/// as well (seed 001, "Replies").
pub(crate) fn store(tx: &mut Tx<'_>, request: &AgentPost, staged: &[FileRow]) -> Outcome<Posted> {
    agent::must_exist(tx.db, &request.agent)?;
    if let Some(message_id) = known(tx.db, request)? {
        discard(staged);
        return Ok(Posted { message_id });
    }
    // What a task run posts is a card in its owner's thread.
    let filed = task::filed(tx.db, &request.agent, request.run.as_ref())?;
    let thread = task::thread_of(&request.agent, filed.as_ref());
    if let Some(reply_to) = &request.reply_to {
        message::find(tx.db, thread, reply_to)?;
    }
    let dedupe = dedupe(request);
    let new = New {
        agent: thread,
        direction: Direction::Out,
        kind: match (&filed, staged.is_empty()) {
            (Some(_), _) => MessageKind::Task,
            (None, true) => MessageKind::Text,
            (None, false) => MessageKind::File,
        },
        text: &request.text,
        state: MessageState::None,
        reply_to: request.reply_to.as_ref(),
        client_msg_id: None,
        dedupe: Some(&dedupe),
    };
    let message_id = message::insert(tx, &new)?;
    attachment::bind(tx, &message_id, staged)?;
    if let Some(filed) = &filed {
        task::file(tx, &message_id, &filed.run.task, &filed.run.run_id)?;
    }
    // A headless run speaks in the thread, not in the turn that its owner may be in.
    if request.run.is_none() {
        turn::mark_posted(tx, &request.agent)?;
    }
    message::emit_new(tx, &message_id)?;
    Ok(Posted { message_id })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(files: Vec<String>) -> AgentPost {
        AgentPost {
            agent: "a".parse().unwrap(),
            launch: None,
            call_key: "k".into(),
            text: String::new(),
            files,
            reply_to: None,
            run: None,
        }
    }

    #[test]
    fn copies_regular_files_and_says_what_is_wrong_with_others() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home")).unwrap();
        let good = dir.path().join("a b ü.txt");
        fs::write(&good, b"hello").unwrap();
        let staged = stage(&home, &post(vec![good.to_string_lossy().into()])).unwrap();
        assert_eq!(staged[0].filename, "a b ü.txt");
        assert_eq!(staged[0].mime, "text/plain");
        assert_eq!(fs::read(&staged[0].path).unwrap(), b"hello");

        let cases = [
            ("relative.txt".to_owned(), "absolute"),
            (dir.path().to_string_lossy().into_owned(), "not a regular file"),
            (dir.path().join("missing").to_string_lossy().into_owned(), "No such file"),
        ];
        for (path, expected) in cases {
            let fault = stage(&home, &post(vec![good.to_string_lossy().into(), path])).unwrap_err();
            assert!(fault.message.contains("at $.files[1]") && fault.message.contains(expected), "{fault}");
        }
        let kept = fs::read_dir(home.attachment_dir(&"a".parse().unwrap(), "").as_path()).unwrap().count();
        assert_eq!(kept, 1, "files of refused posts are gone");
    }

    #[test]
    fn a_fifo_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home")).unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let fault = stage(&home, &post(vec![fifo.to_string_lossy().into()])).unwrap_err();
        assert!(fault.message.contains("not a regular file"), "{fault}");
    }
}
