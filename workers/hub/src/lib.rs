//! The truth: chat.db, the event journal and every decision about state.
//!
//! It must not speak HTTP, tmux or MCP. Every change is one transaction with its event; what was
//! answered is on disk. Start is recovery: nothing here depends on having been stopped well.

mod agent;
mod api_client;
mod ask;
mod attachment;
mod chat;
mod delivery;
mod error;
mod hook;
mod ids;
mod journal;
mod message;
mod note;
mod post;
mod prompt;
mod reader;
mod reminder;
mod schema;
mod serve;
mod session;
mod spool;
mod state;
mod statements;
mod suspend;
mod task;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod told_tests;
mod turn;
mod voice;
mod watch;
mod workers;
mod writer;

use crate::{
    error::OpenError, ids::Ids, journal::Journal, reader::Readers, serve::Hub, watch::Watchers,
    writer::Writer,
};
use leo_ipc::{ExitCode, MessageId, Time, config::Config, paths::Home, server};
use leo_runtime::{Threads, Worker, WorkerError};
use rusqlite::OptionalExtension;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Threads for decoding, reading and streaming; the writer has its own.
const THREADS: usize = 2;

/// Pause before the clock of asks is read again when it could not be.
const CLOCK_AGAIN: Duration = Duration::from_secs(2);

/// How often old events and hook keys are deleted.
const PRUNE_EVERY: Duration = Duration::from_secs(300);

/// Runs the hub worker.
pub fn worker() -> ExitCode {
    leo_runtime::run("hub", Threads::Many(THREADS), run)
}

async fn run(mut worker: Worker) -> Result<(), WorkerError> {
    let listener = worker.unix_listener("hub")?;
    let hub = open(worker.home.clone(), worker.config(), Arc::new(Time::now)).map_err(|e| {
        let source = std::error::Error::source(&e).map(|s| format!(": {s}")).unwrap_or_default();
        let text = format!("{e}{source}");
        if e.is_permanent() { WorkerError::Permanent(text) } else { WorkerError::Failure(text) }
    })?;
    hub.drain_spool().await;
    let detached = hub.writer.run(ask::permission::all_detached).await;
    detached.map_err(|fault| WorkerError::Failure(fault.message))?;
    tokio::spawn(keep_time(hub.clone()));
    tokio::spawn(upkeep(hub.clone(), worker.beats()));
    tokio::spawn(report_workers(hub.clone(), worker.workers()));
    let writer = hub.writer.clone();
    worker.ready(move || {
        let writer = writer.clone();
        async move { writer.flush().await }
    })?;
    server::serve(listener, Arc::new(hub.clone()), worker.drain.clone()).await;
    // What was accepted is committed before the process ends; what was not will be asked again.
    hub.writer.flush().await;
    Ok(())
}

/// Opens the database and starts the writer.
pub(crate) fn open(
    home: Home,
    config: tokio::sync::watch::Receiver<Config>,
    clock: writer::Clock,
) -> Result<Hub, OpenError> {
    let path = home.database();
    let at = |source| OpenError::Open { path: home.database(), source };
    let db = schema::open_writer(&path)?;
    let epoch: String =
        db.query_row("SELECT value FROM meta WHERE key = 'epoch'", [], |row| row.get(0)).map_err(at)?;
    // The counter outlives pruning and deletion, so numbers are never given twice.
    let head: u64 = db
        .query_row("SELECT seq FROM sqlite_sequence WHERE name = 'events'", [], |row| row.get(0))
        .optional()
        .map_err(at)?
        .unwrap_or(0);
    let newest: Option<String> =
        db.query_row("SELECT max(id) FROM messages", [], |row| row.get(0)).map_err(at)?;
    let ids = Ids::after(newest.map(MessageId).as_ref());
    let journal = Arc::new(Journal::new(epoch, head));
    let watchers = Arc::new(Watchers::default());
    let asks = tokio::sync::watch::Sender::new(0);
    let tasks = tokio::sync::watch::Sender::new(0);
    let reminders = tokio::sync::watch::Sender::new(0);
    let around = writer::Around {
        journal: journal.clone(),
        watchers: watchers.clone(),
        asks: asks.clone(),
        tasks: tasks.clone(),
        reminders: reminders.clone(),
        clock: clock.clone(),
    };
    let writer = Writer::start(db, ids, head, around).map_err(|e| OpenError::Thread { source: e })?;
    let tmux_socket: Arc<str> = home.tmux_server().into();
    let readers = Readers::new(path);
    Ok(Hub {
        home,
        tmux_socket,
        writer,
        readers,
        journal,
        watchers,
        asks,
        tasks,
        reminders,
        config,
        clock,
        spooling: Arc::default(),
        binding: Arc::default(),
    })
}

/// Carries out what comes due for asks and voice notes. Sleeps for good while nothing can.
async fn keep_time(hub: Hub) {
    let mut changed = hub.asks.subscribe();
    loop {
        changed.borrow_and_update();
        let ticked = hub
            .writer
            .run(|tx| {
                ask::clock::tick(tx)?;
                voice::tick(tx)
            })
            .await;
        if let Err(fault) = &ticked {
            tracing::warn!(%fault, "what was due could not be carried out");
        }
        let now = (hub.clock)().millis();
        let look = hub.readers.read(move |db| ask::clock::next_look(db, now)).await;
        let woken = match look {
            Ok(Some(pause)) => tokio::time::timeout(pause, changed.changed()).await.unwrap_or(Ok(())),
            Ok(None) => changed.changed().await,
            Err(_) => tokio::time::timeout(CLOCK_AGAIN, changed.changed()).await.unwrap_or(Ok(())),
        };
        if woken.is_err() {
            return;
        }
    }
}

/// Looks at each heartbeat for spooled hook events that no hook brings along, and deletes what is old.
async fn upkeep(hub: Hub, mut beats: tokio::sync::watch::Receiver<u64>) {
    let mut pruned: Option<Instant> = None;
    while beats.changed().await.is_ok() {
        if hub.home.spool().exists() {
            hub.drain_spool().await;
        }
        if pruned.is_none_or(|at| at.elapsed() >= PRUNE_EVERY) {
            pruned = Some(Instant::now());
            let mut more = hub.writer.run(hook::prune).await.map(|()| true);
            while matches!(more, Ok(true)) {
                more = hub.writer.run(|tx| journal::prune(tx.db, tx.now.millis())).await;
            }
            if let Err(fault) = more {
                tracing::warn!(%fault, "old events could not be deleted");
            }
        }
    }
}

async fn report_workers(
    hub: Hub,
    mut workers: tokio::sync::watch::Receiver<Vec<leo_ipc::control::WorkerStatus>>,
) {
    let mut known = Vec::new();
    loop {
        let now = workers.borrow_and_update().clone();
        let changes = workers::changes(&known, &now);
        if !changes.is_empty() {
            let stored = hub
                .writer
                .run(move |tx| {
                    changes.into_iter().try_for_each(|change| tx.emit("worker_state_changed", change))
                })
                .await;
            if let Err(fault) = stored {
                tracing::warn!(%fault, "a worker's change could not be journaled");
            }
        }
        known = now;
        if workers.changed().await.is_err() {
            return;
        }
    }
}
