//! Opening the database: pragmas, `user_version` steps, and the refusals that a person must read.

use crate::error::OpenError;
use rusqlite::{Connection, OpenFlags, TransactionBehavior, config::DbConfig};
use std::{path::Path, time::Duration};

/// One step a version, each in a transaction of its own. Never edited, only appended to.
const STEPS: &[&str] = &[
    include_str!("schema/0001_start.sql"),
    include_str!("schema/0002_asks.sql"),
    include_str!("schema/0003_sessions.sql"),
    include_str!("schema/0004_attachments.sql"),
    include_str!("schema/0005_tasks.sql"),
    include_str!("schema/0006_reminders.sql"),
    include_str!("schema/0007_told_events.sql"),
    include_str!("schema/0008_api_clients.sql"),
    include_str!("schema/0009_voice.sql"),
    include_str!("schema/0010_steer.sql"),
    include_str!("schema/0011_open_deliveries.sql"),
    include_str!("schema/0012_unread.sql"),
    include_str!("schema/0013_doubtful_turns.sql"),
];

/// The version this build writes.
pub(crate) const VERSION: usize = STEPS.len();

/// How long a statement waits for another connection's lock. Only a checkpoint or a backup holds one
/// for more than an instant, since all writing goes through one thread.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The write-ahead log is cut back to this many bytes after a checkpoint (promise R6).
const WAL_LIMIT: u64 = 64 * 1024 * 1024;

/// Statements that a connection keeps prepared; there are fewer.
const STATEMENTS: usize = 400;

/// The log is copied into the database whenever it has so many pages (16 MiB): seldom enough that a page
/// that changes all the time is copied once for many changes, and far below [`WAL_LIMIT`].
const CHECKPOINT_PAGES: u32 = 4096;

/// Opens the database for writing and brings it to [`VERSION`].
///
/// # Errors
/// When it is newer than this build, is not a database, or cannot be written.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, OpenError> {
    let at = |source| OpenError::Open { path: path.to_owned(), source };
    let mut db = Connection::open(path).map_err(at)?;
    db.busy_timeout(BUSY_TIMEOUT).map_err(at)?;
    // What was acknowledged is committed: FULL syncs the log at each commit. The two fullfsync pragmas
    // matter on macOS, where a plain fsync leaves data in the drive's cache, and are ignored elsewhere.
    db.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON;
         PRAGMA checkpoint_fullfsync = ON; PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY;
         PRAGMA journal_size_limit = {WAL_LIMIT}; PRAGMA cache_size = -16384;
         PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};"
    ))
    .map_err(at)?;
    prepare_statements_once(&db).map_err(at)?;
    migrate(&mut db, path)?;
    Ok(db)
}

/// Opens one more connection that can only read.
///
/// # Errors
/// When the file cannot be opened.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    let at = |source| OpenError::Open { path: path.to_owned(), source };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(at)?;
    db.busy_timeout(BUSY_TIMEOUT).map_err(at)?;
    prepare_statements_once(&db).map_err(at)?;
    Ok(db)
}

/// Keeps each statement prepared. Without the planner's stability guarantee SQLite plans a statement anew
/// whenever a parameter changes that it once compared with a partial index's condition (measured: a quarter
/// of the writer's time).
fn prepare_statements_once(db: &Connection) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

fn migrate(db: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let at = |source| OpenError::Open { path: path.to_owned(), source };
    let found: usize = db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(at)?;
    if found > VERSION {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: VERSION });
    }
    if found > 0 && found < VERSION {
        backup(db, path, found)?;
    }
    for (index, step) in STEPS.iter().enumerate().skip(found) {
        let version = index + 1;
        let step_error = |source| OpenError::Migrate { version, source };
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(step_error)?;
        tx.execute_batch(step).map_err(step_error)?;
        if version == 1 {
            let epoch = uuid::Uuid::now_v7().simple().to_string();
            tx.execute("INSERT INTO meta (key, value) VALUES ('epoch', ?1)", [epoch]).map_err(step_error)?;
        }
        tx.pragma_update(None, "user_version", version).map_err(step_error)?;
        tx.commit().map_err(step_error)?;
    }
    Ok(())
}

/// Copies the database beside itself before a step changes it.
fn backup(db: &Connection, path: &Path, version: usize) -> Result<(), OpenError> {
    let mut target = path.as_os_str().to_owned();
    target.push(format!(".before-v{}", version + 1));
    let target = std::path::PathBuf::from(target);
    let failed = |source| OpenError::Backup { path: target.clone(), source };
    let mut copy = Connection::open(&target).map_err(failed)?;
    let job = rusqlite::backup::Backup::new(db, &mut copy).map_err(failed)?;
    job.run_to_completion(1024, Duration::ZERO, None).map_err(failed)?;
    tracing::info!(from = version, "database backed up before an upgrade");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_upgrades_and_reopens() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("chat.db");
        let epoch = |db: &Connection| -> String {
            db.query_row("SELECT value FROM meta WHERE key = 'epoch'", [], |r| r.get(0)).unwrap()
        };
        let first = epoch(&open_writer(&path).unwrap());
        assert_eq!(first, epoch(&open_writer(&path).unwrap()), "the epoch changes only with a new database");
    }

    #[test]
    fn a_newer_database_is_refused_with_a_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("chat.db");
        open_writer(&path).unwrap().pragma_update(None, "user_version", VERSION + 3).unwrap();
        let refusal = open_writer(&path).unwrap_err().to_string();
        assert!(refusal.contains("newer leo"), "{refusal}");
    }

    #[test]
    fn garbage_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("chat.db");
        std::fs::write(&path, vec![b'x'; 4096]).unwrap();
        assert!(open_writer(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), vec![b'x'; 4096]);
    }

    #[test]
    fn a_backup_holds_the_old_rows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("chat.db");
        let db = open_writer(&path).unwrap();
        db.execute("INSERT INTO meta (key, value) VALUES ('k', 'v')", []).unwrap();
        backup(&db, &path, 1).unwrap();
        let copy = Connection::open(dir.path().join("chat.db.before-v2")).unwrap();
        let value: String =
            copy.query_row("SELECT value FROM meta WHERE key = 'k'", [], |r| r.get(0)).unwrap();
        assert_eq!(value, "v");
    }
}
