//! Read-only connections, lent out one at a time to blocking tasks. No snapshot is held while
//! anything waits for a network: each read is one short closure.

use crate::{error::Outcome, schema};
use leo_ipc::Fault;
use rusqlite::Connection;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::Semaphore;

/// Reads that may run at once. More wait; each takes well under a millisecond.
const CONNECTIONS: usize = 4;

/// The pool.
#[derive(Clone)]
pub(crate) struct Readers {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    slots: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// A pool that opens its connections when they are first needed.
    pub(crate) fn new(path: PathBuf) -> Readers {
        let shared = Shared { path, slots: Semaphore::new(CONNECTIONS), idle: Mutex::new(Vec::new()) };
        Readers { shared: Arc::new(shared) }
    }

    /// Runs a read as of one moment.
    ///
    /// # Errors
    /// What the read refused with, or a database error.
    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        let gone = || Fault::unavailable("the hub is stopping");
        let _slot = self.shared.slots.acquire().await.map_err(|_| gone())?;
        let shared = self.shared.clone();
        tokio::task::spawn_blocking(move || {
            let idle = shared.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut db = match idle {
                Some(db) => db,
                None => schema::open_reader(&shared.path).map_err(|e| Fault::internal(e.to_string()))?,
            };
            let result = snapshot(&mut db, work);
            shared.idle.lock().unwrap_or_else(PoisonError::into_inner).push(db);
            result
        })
        .await
        .map_err(|_| Fault::internal("a read ended abnormally"))?
    }
}

fn snapshot<T>(db: &mut Connection, work: impl FnOnce(&Connection) -> Outcome<T>) -> Result<T, Fault> {
    let outcome = db.transaction().map_err(crate::error::Refusal::from).and_then(|tx| work(&tx));
    outcome.map_err(Fault::from)
}
