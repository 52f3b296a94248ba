//! The one writer: a thread that owns the only writing connection and commits what has queued up
//! together (group commit). An answer leaves only after its commit; events are published after it.

use crate::{
    error::{Outcome, Refusal, db_fault},
    ids::Ids,
    journal::Journal,
    watch::Watchers,
};
use leo_ipc::{AgentName, Fault, Time, agent::Wake, event::JournalEvent};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde::Serialize;
use std::sync::{Arc, mpsc as std_mpsc};
use tokio::sync::{mpsc, oneshot, watch};

/// Requests waiting for the writer. Beyond it callers wait, which reaches the apps as a slower answer.
const QUEUE: usize = 1024;

/// Most requests of one commit: enough to share one disk flush, few enough that the first of them
/// does not wait long.
const BATCH: usize = 128;

/// Work inside a transaction; what it returns runs after the commit (or its failure).
type Work = Box<dyn FnOnce(&mut Tx<'_>) -> After + Send>;
type After = Box<dyn FnOnce(Result<(), Fault>) + Send>;

/// Tells the time. Tests walk it; the hub's is the machine's wall clock.
pub(crate) type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// What the writer tells about commits, and what tells it the time.
pub(crate) struct Around {
    pub(crate) journal: Arc<Journal>,
    pub(crate) watchers: Arc<Watchers>,
    /// Counted up when an ask changed.
    pub(crate) asks: watch::Sender<u64>,
    /// Counted up when a task or a run changed.
    pub(crate) tasks: watch::Sender<u64>,
    /// Counted up when a reminder changed.
    pub(crate) reminders: watch::Sender<u64>,
    pub(crate) clock: Clock,
}

/// A handle to the writer thread.
#[derive(Clone)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Work>,
}

/// What work sees: the transaction, the time, and the places where events and wake-ups are collected
/// until the commit.
pub(crate) struct Tx<'a> {
    /// The transaction.
    pub(crate) db: &'a Transaction<'a>,
    /// The batch's wall-clock time.
    pub(crate) now: Time,
    ids: &'a mut Ids,
    collected: &'a mut Collected,
}

/// An event as it is journaled: what every event has, and the fields of its kind.
#[derive(Serialize)]
struct Event<P> {
    seq: u64,
    at: Time,
    #[serde(flatten)]
    payload: P,
}

#[derive(Default)]
struct Collected {
    events: Vec<JournalEvent>,
    wakes: Vec<Wake>,
    head: u64,
    asks: bool,
    tasks: bool,
    reminders: bool,
}

impl Writer {
    /// Starts the thread. It ends when the last handle is dropped.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(db: Connection, ids: Ids, head: u64, around: Around) -> std::io::Result<Writer> {
        let (queue, work) = mpsc::channel(QUEUE);
        std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || run(db, ids, head, work, &around))?;
        Ok(Writer { queue })
    }

    /// Runs `work` in a transaction and returns its value once it is on disk.
    ///
    /// # Errors
    /// What `work` refused with, or that the commit failed; either way nothing of it is stored.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Outcome<T> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let job: Work = Box::new(move |tx| {
            let result = tx.attempt(work);
            Box::new(move |committed| {
                // The caller may have given up; the work is stored all the same.
                let _ = tell.send(committed.and(result));
            })
        });
        let gone = || Fault::unavailable("the hub is stopping");
        self.queue.send(job).await.map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }

    /// Queues `work` and does not wait for its commit: for what may be lost with the process, such as
    /// what an agent was seen doing a moment ago. It still runs in the order in which it was queued.
    ///
    /// # Errors
    /// When the writer is gone.
    pub(crate) async fn submit<F>(&self, work: F) -> Result<(), Fault>
    where
        F: FnOnce(&mut Tx<'_>) -> Outcome<()> + Send + 'static,
    {
        let job: Work = Box::new(move |tx| {
            let refused = tx.attempt(work).err();
            Box::new(move |_| {
                if let Some(fault) = refused {
                    tracing::debug!(%fault, "work that nobody waits for was refused");
                }
            })
        });
        self.queue.send(job).await.map_err(|_| Fault::unavailable("the hub is stopping"))
    }

    /// Waits until everything queued before this call was committed.
    pub(crate) async fn flush(&self) {
        let _ = self.run(|_| Ok(())).await;
    }
}

impl Tx<'_> {
    /// A new message id.
    pub(crate) fn next_id(&mut self) -> leo_ipc::MessageId {
        self.ids.next(self.now.millis())
    }

    /// Appends an event to the journal, in this transaction.
    pub(crate) fn emit(&mut self, kind: &str, payload: impl Serialize) -> Outcome<()> {
        let seq = self.collected.head + 1;
        let event = Event { seq, at: self.now, payload };
        let data = serde_json::to_string(&event).map_err(|e| Fault::internal(e.to_string()))?;
        self.db
            .prepare_cached("INSERT INTO events (seq, at, kind, data) VALUES (?1, ?2, ?3, ?4)")?
            .execute(rusqlite::params![seq, self.now.millis(), kind, data])?;
        self.collected.head = seq;
        self.collected.events.push(JournalEvent { seq, kind: kind.to_owned(), data });
        Ok(())
    }

    /// Wakes the agents worker after the commit.
    pub(crate) fn wake(&mut self, wake: Wake) {
        self.collected.wakes.push(wake);
    }

    /// Wakes the agents worker because something about an agent changed.
    pub(crate) fn wake_agent(&mut self, name: &AgentName) {
        self.wake(Wake::Agent { name: name.clone() });
    }

    /// Wakes whoever waits for an ask, and the clock of asks, after the commit.
    pub(crate) fn asks_changed(&mut self) {
        self.collected.asks = true;
    }

    /// Wakes whoever follows tasks, after the commit.
    pub(crate) fn tasks_changed(&mut self) {
        self.collected.tasks = true;
    }

    /// Tells whoever keeps the time of reminders, after the commit.
    pub(crate) fn reminders_changed(&mut self) {
        self.collected.reminders = true;
    }

    // These run for every request, so they are parsed once.
    fn run_cached(&self, sql: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached(sql)?.execute([]).map(|_| ())
    }

    /// Wakes whoever waits for a voice note, and the clock, after the commit.
    pub(crate) fn voice_changed(&mut self) {
        self.collected.asks = true;
    }

    /// Runs `work`; a refusal undoes what it did and collected.
    fn attempt<T>(&mut self, work: impl FnOnce(&mut Tx<'_>) -> Outcome<T>) -> Result<T, Fault> {
        let marks = (self.collected.events.len(), self.collected.wakes.len(), self.collected.head);
        let result = self.run_cached("SAVEPOINT work").map_err(Refusal::from).and_then(|()| work(self));
        let undone = if result.is_ok() { Ok(()) } else { self.run_cached("ROLLBACK TO work") };
        let result = match (result, undone.and_then(|()| self.run_cached("RELEASE work"))) {
            (Ok(value), Ok(())) => return Ok(value),
            (Ok(_), Err(e)) => Refusal::from(e),
            (Err(refusal), _) => refusal,
        };
        self.collected.events.truncate(marks.0);
        self.collected.wakes.truncate(marks.1);
        self.collected.head = marks.2;
        Err(result.into())
    }
}

fn run(mut db: Connection, mut ids: Ids, mut head: u64, mut queue: mpsc::Receiver<Work>, around: &Around) {
    while let Some(first) = queue.blocking_recv() {
        let mut collected = Collected { head, ..Collected::default() };
        let (done, batch) = std_mpsc::channel();
        let committed = commit(&mut db, &mut ids, &mut collected, (around.clock)(), first, &mut queue, &done);
        if committed.is_ok() {
            head = collected.head;
            around.journal.publish(collected.events);
            around.watchers.publish(&collected.wakes);
            if collected.asks {
                around.asks.send_modify(|version| *version += 1);
            }
            if collected.tasks {
                around.tasks.send_modify(|version| *version += 1);
            }
            if collected.reminders {
                around.reminders.send_modify(|version| *version += 1);
            }
        }
        drop(done);
        for after in batch {
            after(committed.clone());
        }
    }
}

fn commit(
    db: &mut Connection,
    ids: &mut Ids,
    collected: &mut Collected,
    now: Time,
    first: Work,
    queue: &mut mpsc::Receiver<Work>,
    done: &std_mpsc::Sender<After>,
) -> Result<(), Fault> {
    let transaction =
        db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(|e| db_fault(&e))?;
    let mut tx = Tx { db: &transaction, now, ids, collected };
    let mut next = Some(first);
    let mut count = 0;
    while let Some(work) = next.take() {
        let _ = done.send(work(&mut tx));
        count += 1;
        // SQLite rolls the whole transaction back by itself when the disk is full: nothing of this
        // batch is stored, whatever each part of it believes.
        if transaction_lost(&transaction) {
            return Err(Fault::new("storage_full", "the disk is full or failing: nothing was stored"));
        }
        if count < BATCH {
            next = queue.try_recv().ok();
        }
    }
    transaction.commit().map_err(|e| db_fault(&e))
}

fn transaction_lost(transaction: &Transaction<'_>) -> bool {
    transaction.is_autocommit()
}
