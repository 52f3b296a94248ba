//! The end of files: after 90 days the row stays and says that the file is no longer there (seed 001).
//! Rows change first and their folders go afterwards, named again until they are gone.

use crate::{error::Outcome, message, statements::Cached, writer::Tx};
use leo_ipc::{
    MessageId,
    attachment::{Prunable, PrunableFolder, PruneAttachments},
};
use rusqlite::{Connection, params};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// How long the files of a message are kept (seed 001).
pub(crate) const KEEP_MS: i64 = 90 * 24 * 3600 * 1000;

/// How long an upload waits for the message that sends it.
pub(crate) const UNSENT_MS: i64 = 24 * 3600 * 1000;

/// Files of one answer.
const BATCH: usize = 200;

/// Messages whose files end in one transaction.
const MESSAGES: usize = 50;

/// Takes note of what was removed, ends what is due, and names what is to be removed next.
pub(crate) fn prune(tx: &mut Tx<'_>, request: &PruneAttachments) -> Outcome<Prunable> {
    for id in request.removed.iter().take(BATCH) {
        tx.db.execute_cached("UPDATE attachments SET path = '' WHERE id = ?1 AND available = 0", [id])?;
        tx.db.execute_cached("DELETE FROM uploads WHERE id = ?1 AND expired = 1", [id])?;
    }
    let now = tx.now.millis();
    for message in due(tx.db, now - KEEP_MS)? {
        tx.db.execute_cached(
            "UPDATE attachments SET available = 0 WHERE message_id = ?1",
            [message.as_str()],
        )?;
        message::emit_changed(tx, &message, "attachment")?;
    }
    tx.db.execute_cached("UPDATE uploads SET expired = 1 WHERE at < ?1", [now - UNSENT_MS])?;
    let mut statement = tx.db.prepare_cached(
        "SELECT id, path FROM attachments WHERE available = 0 AND path <> ''
         UNION ALL SELECT id, path FROM uploads WHERE expired = 1 LIMIT ?1",
    )?;
    let rows = statement.query_map(params![BATCH], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
    let mut folders = Vec::new();
    for row in rows {
        let (id, path) = row?;
        let folder = Path::new(&path).parent().unwrap_or(Path::new(&path));
        folders.push(PrunableFolder { id, path: folder.to_string_lossy().into_owned() });
    }
    Ok(Prunable { folders })
}

/// Messages whose files are older than `before`, in milliseconds of the wall clock.
fn due(db: &Connection, before: i64) -> Outcome<Vec<MessageId>> {
    let mut statement = db.prepare_cached(
        "SELECT DISTINCT a.message_id FROM attachments a JOIN messages m ON m.id = a.message_id
         WHERE a.available = 1 AND m.ts < ?1 ORDER BY a.message_id LIMIT ?2",
    )?;
    let rows =
        statement.query_map(params![before, MESSAGES], |row| row.get::<_, String>(0).map(MessageId))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Those of `folders` that no row names.
pub(crate) fn unknown(db: &Connection, folders: HashMap<String, PathBuf>) -> Outcome<Vec<PathBuf>> {
    let mut statement = db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM attachments WHERE id = ?1 UNION ALL SELECT 1 FROM uploads WHERE id = ?1)",
    )?;
    let mut orphans = Vec::new();
    for (id, path) in folders {
        if !statement.query_row([&id], |row| row.get::<_, bool>(0))? {
            orphans.push(path);
        }
    }
    Ok(orphans)
}
