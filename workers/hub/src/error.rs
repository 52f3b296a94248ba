//! The hub's errors: what stops it from opening the database, and what a request is refused with.

use leo_ipc::Fault;
use std::path::PathBuf;

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The file cannot be opened as a database.
    #[error("cannot open the database {}", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    /// A newer leo has written it.
    #[error(
        "the database {} was written by a newer leo (version {found}, this one knows {known}): install that leo again, or move the file away to start afresh",
        path.display()
    )]
    Newer { path: PathBuf, found: usize, known: usize },
    /// An upgrade step failed; its transaction was rolled back.
    #[error("upgrading the database to version {version} failed; it was left as it was")]
    Migrate {
        version: usize,
        #[source]
        source: rusqlite::Error,
    },
    /// The system gave no thread for the writer.
    #[error("cannot start the writer thread")]
    Thread {
        #[source]
        source: std::io::Error,
    },
    /// The copy before an upgrade could not be made.
    #[error("cannot write the backup {} before the upgrade", path.display())]
    Backup {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
}

impl OpenError {
    /// Whether a person must act before another start can succeed.
    pub(crate) fn is_permanent(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, PermissionDenied, ReadOnly};
        match self {
            OpenError::Newer { .. } | OpenError::Migrate { .. } => true,
            OpenError::Thread { .. } => false,
            OpenError::Open { source, .. } | OpenError::Backup { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(NotADatabase | DatabaseCorrupt | PermissionDenied | ReadOnly)
            ),
        }
    }
}

/// Why a request did not happen; nothing of it is stored.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The request is not possible as things are.
    Fault(Fault),
    /// The database failed.
    Db(rusqlite::Error),
}

/// The result of a request's work inside a transaction.
pub(crate) type Outcome<T> = Result<T, Refusal>;

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Refusal::Fault(fault)
    }
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Refusal::Db(error)
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Fault {
        match refusal {
            Refusal::Fault(fault) => fault,
            Refusal::Db(error) => db_fault(&error),
        }
    }
}

/// The refusal for a database error. The text names the error and no data.
pub(crate) fn db_fault(error: &rusqlite::Error) -> Fault {
    use rusqlite::ErrorCode;
    tracing::error!(%error, "database error");
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            Fault::new("storage_full", "the disk is full: nothing was stored; make room and try again")
        }
        Some(ErrorCode::ReadOnly) => {
            Fault::new("storage_read_only", "the state folder is read-only: nothing was stored")
        }
        Some(code) => {
            Fault::internal(format!("the database refused the request ({code:?}); nothing was stored"))
        }
        None => Fault::internal("the database refused the request; nothing was stored"),
    }
}

/// 404 for an agent that is not there.
pub(crate) fn unknown_agent(name: &leo_ipc::AgentName) -> Fault {
    Fault::new("unknown_agent", format!("there is no agent `{name}`"))
}

/// 404 for a message that is not there.
pub(crate) fn unknown_message(id: &leo_ipc::MessageId) -> Fault {
    Fault::new("unknown_message", format!("there is no message `{id}` in this thread"))
}
