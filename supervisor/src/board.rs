//! What everybody can see of the workers: the one place from which status answers, snapshots for the
//! hub and the http worker, and the lines of `leo up` are made.

use crate::worker::WorkerName;
use leo_ipc::{
    Generation,
    control::{WorkerState, WorkerStatus},
};
use std::collections::BTreeMap;
use tokio::sync::watch;

/// One worker as it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// As the wire shows it.
    pub(crate) status: WorkerStatus,
    /// Generation of its newest process.
    pub(crate) generation: Generation,
}

/// All workers, in the order of their names.
pub(crate) type Entries = BTreeMap<WorkerName, Entry>;

/// The board. Each worker's keeper writes its own entry; readers see the newest state and may miss
/// states in between.
#[derive(Debug)]
pub(crate) struct Board {
    entries: watch::Sender<Entries>,
}

impl Board {
    /// An empty board.
    pub(crate) fn new() -> Board {
        Board { entries: watch::Sender::new(Entries::new()) }
    }

    /// Writes a worker's entry; readers wake only when it differs.
    pub(crate) fn put(&self, name: &WorkerName, entry: Entry) {
        self.entries.send_if_modified(|entries| {
            if entries.get(name) == Some(&entry) {
                return false;
            }
            entries.insert(name.clone(), entry);
            true
        });
    }

    /// Removes a worker that is not wanted any more.
    pub(crate) fn remove(&self, name: &WorkerName) {
        self.entries.send_if_modified(|entries| entries.remove(name).is_some());
    }

    /// A reader.
    pub(crate) fn watch(&self) -> watch::Receiver<Entries> {
        self.entries.subscribe()
    }

    /// All of them now, as the wire shows them.
    pub(crate) fn statuses(&self) -> Vec<WorkerStatus> {
        statuses(&self.entries.borrow())
    }
}

/// Entries as the wire shows them.
pub(crate) fn statuses(entries: &Entries) -> Vec<WorkerStatus> {
    entries.values().map(|entry| entry.status.clone()).collect()
}

impl Entry {
    /// Whether this is a newer process than `generation`, and ready.
    pub(crate) fn is_ready_after(&self, generation: Generation) -> bool {
        self.generation > generation && self.status.state == WorkerState::Running
    }

    /// Whether it was given up.
    pub(crate) fn is_failed(&self) -> bool {
        self.status.state == WorkerState::Failed
    }
}
