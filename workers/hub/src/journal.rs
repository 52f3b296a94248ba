//! The event journal as subscribers read it: a bounded tail in memory, the database behind it, and a
//! wake-up. A subscriber holds a place, not a queue, so a slow one costs nothing here.

use crate::{error::Outcome, reader::Readers, statements::Cached};
use leo_ipc::{
    EventId, Fault,
    event::{EventItem, EventPage, JournalEvent, Resume},
};
use rusqlite::Connection;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::watch;

/// Events kept in memory for subscribers that are a little behind.
const TAIL_EVENTS: usize = 2048;
/// Bytes of those events.
const TAIL_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of one page; a frame holds 1 MiB and one event may have 768 KiB.
const PAGE_BYTES: usize = 768 * 1024;
/// Events of one page.
pub(crate) const PAGE_EVENTS: usize = 512;

/// At least this many events stay in the database (WIRE.md §4).
const KEEP_EVENTS: u64 = 10_000;
/// Events deleted in one transaction: a message that is accepted meanwhile waits for it.
const PRUNE_SLICE: usize = 500;
/// Events older than this go, however few there are: seven days.
const KEEP_MS: i64 = 7 * 24 * 3600 * 1000;

/// The journal's memory.
pub(crate) struct Journal {
    epoch: String,
    head: watch::Sender<u64>,
    tail: Mutex<Tail>,
}

#[derive(Default)]
struct Tail {
    events: VecDeque<JournalEvent>,
    bytes: usize,
}

impl Journal {
    /// A journal that goes on after `head`.
    pub(crate) fn new(epoch: String, head: u64) -> Journal {
        Journal { epoch, head: watch::Sender::new(head), tail: Mutex::default() }
    }

    /// The database's epoch.
    pub(crate) fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Takes committed events, in order.
    pub(crate) fn publish(&self, events: Vec<JournalEvent>) {
        let Some(last) = events.last().map(|e| e.seq) else { return };
        {
            let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            for event in events {
                tail.bytes += event.data.len();
                tail.events.push_back(event);
            }
            while tail.events.len() > TAIL_EVENTS || tail.bytes > TAIL_BYTES {
                let Some(old) = tail.events.pop_front() else { break };
                tail.bytes -= old.data.len();
            }
        }
        self.head.send_replace(last);
    }

    fn recent(&self, after: u64) -> Option<Vec<JournalEvent>> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let first = tail.events.front()?.seq;
        let skip = usize::try_from((after + 1).checked_sub(first)?).ok()?;
        let mut bytes = 0;
        let mut page = Vec::new();
        for event in tail.events.iter().skip(skip).take(PAGE_EVENTS) {
            bytes += event.data.len();
            if bytes > PAGE_BYTES && !page.is_empty() {
                break;
            }
            page.push(event.clone());
        }
        Some(page)
    }
}

/// Reads a page of the journal from the database.
pub(crate) fn page(db: &Connection, epoch: &str, after: u64, limit: usize) -> Outcome<EventPage> {
    let (oldest, head) = bounds(db)?;
    let mut events = Vec::new();
    let mut bytes = 0;
    let mut statement =
        db.prepare_cached("SELECT seq, kind, data FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2")?;
    let mut rows = statement.query(rusqlite::params![after, limit.min(PAGE_EVENTS)])?;
    while let Some(row) = rows.next()? {
        let event = JournalEvent { seq: row.get(0)?, kind: row.get(1)?, data: row.get(2)? };
        bytes += event.data.len();
        if bytes > PAGE_BYTES && !events.is_empty() {
            break;
        }
        events.push(event);
    }
    Ok(EventPage { epoch: epoch.to_owned(), oldest, head, events })
}

/// The oldest and the newest event of the database, 0 when there is none.
pub(crate) fn bounds(db: &Connection) -> Outcome<(u64, u64)> {
    Ok(db
        .prepare_cached("SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM events")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// Deletes some of the events that no longer have to be kept, the oldest first, and says whether there are
/// more. The newest always stays, so that numbers go on.
pub(crate) fn prune(db: &Connection, now_ms: i64) -> Outcome<bool> {
    let (_, head) = bounds(db)?;
    let by_count = head.saturating_sub(KEEP_EVENTS);
    let deleted = db.execute_cached(
        "DELETE FROM events WHERE seq IN
         (SELECT seq FROM events WHERE seq < ?3 AND (seq <= ?1 OR at < ?2) ORDER BY seq LIMIT ?4)",
        rusqlite::params![by_count, now_ms - KEEP_MS, head, PRUNE_SLICE],
    )?;
    Ok(deleted == PRUNE_SLICE)
}

/// A subscriber's place in the journal.
pub(crate) struct Cursor {
    journal: Arc<Journal>,
    readers: Readers,
    head: watch::Receiver<u64>,
    at: u64,
}

impl Cursor {
    /// Starts a subscription: the cursor and the first item to send.
    pub(crate) async fn start(
        journal: Arc<Journal>,
        readers: Readers,
        since: Option<EventId>,
    ) -> Result<(Cursor, EventItem), Fault> {
        let receiver = journal.head.subscribe();
        let head = *receiver.borrow();
        let (at, resume) = match since {
            None => (head, Resume::None),
            Some(id) if id.epoch != journal.epoch || id.seq > head => (head, Resume::Gap),
            Some(id) => {
                let (oldest, _) = readers.read(bounds).await?;
                // The event after the caller's place must still be there, or nothing was missed.
                if id.seq == head || (oldest > 0 && id.seq + 1 >= oldest) {
                    (id.seq, Resume::Ok)
                } else {
                    (head, Resume::Gap)
                }
            }
        };
        let start = EventItem::Start { epoch: journal.epoch.clone(), head, resume };
        Ok((Cursor { journal, readers, head: receiver, at }, start))
    }

    /// The next events; waits for them. `None` when the hub is stopping.
    ///
    /// # Errors
    /// `gap` when this subscriber is so far behind that its events are gone.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<JournalEvent>>, Fault> {
        loop {
            let events = match self.journal.recent(self.at) {
                Some(events) => events,
                None if *self.head.borrow() > self.at => {
                    let (epoch, at) = (self.journal.epoch.clone(), self.at);
                    self.readers.read(move |db| page(db, &epoch, at, PAGE_EVENTS)).await?.events
                }
                None => Vec::new(),
            };
            if let (Some(first), Some(last)) = (events.first(), events.last()) {
                if first.seq != self.at + 1 {
                    return Err(Fault::new("gap", "events were pruned before this subscriber read them"));
                }
                self.at = last.seq;
                return Ok(Some(events));
            }
            if self.head.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64, size: usize) -> JournalEvent {
        JournalEvent { seq, kind: "chat.message".into(), data: "x".repeat(size) }
    }

    #[test]
    fn the_tail_is_bounded_by_count_and_bytes_and_stays_contiguous() {
        let journal = Journal::new("e".into(), 0);
        for seq in 1..=5000 {
            journal.publish(vec![event(seq, 10)]);
        }
        assert!(journal.recent(0).is_none(), "too far back for memory");
        let page = journal.recent(4000).unwrap();
        assert_eq!(page.first().unwrap().seq, 4001);
        assert_eq!(page.len(), PAGE_EVENTS);
        assert!(journal.recent(5000).unwrap().is_empty());

        for seq in 5001..=5030 {
            journal.publish(vec![event(seq, 1024 * 1024)]);
        }
        assert!(journal.tail.lock().unwrap().bytes <= TAIL_BYTES);
        assert_eq!(journal.recent(5028).unwrap().len(), 1, "one large event is still a page");
    }

    #[test]
    fn pruning_keeps_the_newest_ten_thousand_and_a_week() {
        let dir = tempfile::tempdir().unwrap();
        let db = crate::schema::open_writer(&dir.path().join("chat.db")).unwrap();
        let now = 1_795_986_870_000i64;
        let mut insert =
            db.prepare("INSERT INTO events (seq, at, kind, data) VALUES (?1, ?2, 'k', '{}')").unwrap();
        for seq in 1..=13_000i64 {
            insert.execute([seq, now]).unwrap();
        }
        let prune_all = |now| while prune(&db, now).unwrap() {};
        assert!(prune(&db, now).unwrap(), "there are more");
        assert_eq!(bounds(&db).unwrap(), (1 + PRUNE_SLICE as u64, 13_000));
        prune_all(now);
        assert_eq!(bounds(&db).unwrap(), (3_001, 13_000));
        prune_all(now + KEEP_MS + 1);
        assert_eq!(bounds(&db).unwrap(), (13_000, 13_000), "the newest stays, so that numbers go on");
    }
}
