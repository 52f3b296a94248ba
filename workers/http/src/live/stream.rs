//! One client's stream: where it starts, what it is told first, and how it goes on.

use super::{Cursor, HUB_DEADLINE, Live, Place, Read, Reader, Signal, frame};
use crate::answer::Refusal;
use bytes::Bytes;
use futures_util::Stream;
use leo_ipc::{
    EventId, Time,
    client::Client,
    event::{EventPage, ListEvents, Resume},
    hub::HubRequest,
};
use serde::Serialize;
use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

/// Silence after which a comment is sent (WIRE.md §4), so that both ends notice a dead connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Frames taken from the ring at once, in bytes: small enough that a slow client holds little.
const TAKE: usize = 64 * 1024;

/// Most streams at once: far more than one person's apps, and few enough for the descriptors that a
/// process gets on macOS.
const MAX_STREAMS: usize = 2048;

/// Events of one page of the journal.
const PAGE: u32 = 500;

/// What this build can do, as the hello lists it (WIRE.md §4).
pub(crate) const FEATURES: [&str; 5] = ["chat", "chat.questions", "agent_control", "state_seq", "resume"];

/// What the hello says of the process.
#[derive(Debug, Clone)]
pub(crate) struct Announce {
    /// Changes with each start of the supervisor.
    pub(crate) boot_id: String,
}

/// The hello's data.
#[derive(Serialize)]
struct Hello<'a> {
    seq: u64,
    at: Time,
    version: u32,
    server_time: Time,
    boot_id: &'a str,
    epoch: &'a str,
    features: [&'a str; FEATURES.len()],
    resume: Resume,
}

/// A stream that has found its place.
pub(crate) struct Opened {
    live: Arc<Live>,
    hub: Client<HubRequest>,
    drain: CancellationToken,
    signal: watch::Receiver<Signal>,
    reader: Arc<Reader>,
    reader_id: u64,
    cursor: Cursor,
    /// Where the stream stands, for the journal.
    place: EventId,
    /// Whether the next events come from the journal.
    behind: bool,
    ready: VecDeque<Bytes>,
}

impl Live {
    /// Finds the place of a stream after `since`. `kill` ends the client's connection.
    ///
    /// # Errors
    /// `unavailable` when the hub cannot be asked, `too_many_streams`.
    pub(crate) async fn open(
        self: &Arc<Live>,
        hub: &Client<HubRequest>,
        since: Option<EventId>,
        announce: &Announce,
        kill: CancellationToken,
        drain: CancellationToken,
    ) -> Result<Opened, Refusal> {
        let mut signal = self.signal.subscribe();
        match timeout(HUB_DEADLINE, signal.wait_for(|s| s.ready)).await {
            Ok(Ok(_)) => {}
            _ => return Err(Refusal::new("unavailable", "the event journal is not there right now")),
        }
        let start = self.find(hub, since).await?;
        let reader =
            Arc::new(Reader { cursor: Mutex::new(start.cursor), progress_ms: self.now_ms().into(), kill });
        let reader_id = self.next_reader.fetch_add(1, Ordering::Relaxed);
        {
            let mut readers = self.lock_readers();
            if readers.len() >= MAX_STREAMS {
                let many = format!("{MAX_STREAMS} event streams are open; close some");
                return Err(Refusal::new("too_many_streams", many));
            }
            readers.insert(reader_id, reader.clone());
        }
        let at = Time::now();
        let hello = Hello {
            seq: start.place.seq,
            at,
            version: 1,
            server_time: at,
            boot_id: &announce.boot_id,
            epoch: &start.place.epoch,
            features: FEATURES,
            resume: start.resume,
        };
        let data = serde_json::to_string(&hello).unwrap_or_default();
        let mut ready = VecDeque::from([frame::hello(&start.place, &data)]);
        ready.extend(start.frames);
        Ok(Opened {
            live: self.clone(),
            hub: hub.clone(),
            drain,
            signal,
            reader,
            reader_id,
            cursor: start.cursor,
            place: start.after,
            behind: start.behind,
            ready,
        })
    }

    async fn find(&self, hub: &Client<HubRequest>, since: Option<EventId>) -> Result<Start, Refusal> {
        let Some(since) = since else { return Ok(self.start_at_end(Resume::None)) };
        let place = self.read_ring().place(&since);
        match place {
            Place::Here(cursor) => Ok(Start {
                place: since.clone(),
                after: since,
                cursor,
                behind: false,
                frames: Vec::new(),
                resume: Resume::Ok,
            }),
            Place::OtherEpoch => Ok(self.start_at_end(Resume::Gap)),
            // The hub's database counts in signed numbers.
            Place::Journal if i64::try_from(since.seq).is_err() => Ok(self.start_at_end(Resume::Gap)),
            Place::Journal => {
                let page = hub.call(ListEvents { after: since.seq, limit: PAGE }, HUB_DEADLINE).await?;
                if !continues(&page, &since) {
                    return Ok(self.start_at_end(Resume::Gap));
                }
                let frames = page.events.iter().map(|e| frame::event(&page.epoch, e)).collect();
                let seq = page.events.last().map_or(since.seq, |e| e.seq);
                let after = EventId { epoch: page.epoch, seq };
                let ring = self.read_ring();
                if ring.newest().is_none_or(|newest| newest.epoch != after.epoch) {
                    drop(ring);
                    return Ok(self.start_at_end(Resume::Gap));
                }
                let cursor = ring.after(seq);
                Ok(Start { place: since, after, cursor, behind: true, frames, resume: Resume::Ok })
            }
        }
    }

    fn start_at_end(&self, resume: Resume) -> Start {
        let ring = self.read_ring();
        // Ready means that there is a newest event; an empty epoch would only make the client resume
        // with a gap.
        let place = ring.newest().unwrap_or(EventId { epoch: String::new(), seq: 0 });
        Start { after: place.clone(), place, cursor: ring.end(), behind: false, frames: Vec::new(), resume }
    }
}

/// Where a stream starts.
struct Start {
    /// What the hello says.
    place: EventId,
    /// The place after `frames`.
    after: EventId,
    cursor: Cursor,
    behind: bool,
    frames: Vec<Bytes>,
    resume: Resume,
}

/// Whether a page of the journal holds everything after `since`.
fn continues(page: &EventPage, since: &EventId) -> bool {
    if page.epoch != since.epoch || since.seq > page.head {
        return false;
    }
    match page.events.first() {
        Some(first) => first.seq == since.seq + 1,
        None => since.seq == page.head,
    }
}

impl Opened {
    /// The stream's bytes. It ends on drain, when the client fell off the ring, or when the journal
    /// could not be read: the client then resumes.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        futures_util::stream::unfold(self, |mut opened| async move {
            let frame = opened.next().await?;
            Some((Ok(frame), opened))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.drain.is_cancelled() {
                return None;
            }
            if let Some(frame) = self.ready.pop_front() {
                // Asked for, so the socket took what came before.
                self.reader.progress_ms.store(self.live.now_ms(), Ordering::Relaxed);
                return Some(frame);
            }
            // Looked at before the ring, so that what is published in between is not waited for.
            self.signal.borrow_and_update();
            let read = self.live.read_ring().read(self.cursor, TAKE);
            match read {
                Read::Frames { frames, next } => {
                    self.place.seq += frames.len() as u64;
                    self.behind = false;
                    self.move_to(next);
                    self.ready.extend(frames);
                }
                Read::Gone if self.behind => self.read_journal().await?,
                Read::Gone => return None,
                Read::CaughtUp => {
                    self.behind = false;
                    tokio::select! {
                        () = self.drain.cancelled() => return None,
                        changed = timeout(HEARTBEAT, self.signal.changed()) => match changed {
                            Ok(Ok(())) => {}
                            Ok(Err(_)) => return None,
                            Err(_) => self.ready.push_back(frame::HEARTBEAT),
                        },
                    }
                }
            }
        }
    }

    /// Reads on in the journal, until the ring has what follows.
    async fn read_journal(&mut self) -> Option<()> {
        let page =
            self.hub.call(ListEvents { after: self.place.seq, limit: PAGE }, HUB_DEADLINE).await.ok()?;
        if !continues(&page, &self.place) || page.events.is_empty() {
            return None;
        }
        self.ready.extend(page.events.iter().map(|e| frame::event(&page.epoch, e)));
        self.place.seq += page.events.len() as u64;
        let next = {
            let ring = self.live.read_ring();
            if ring.newest().is_none_or(|newest| newest.epoch != self.place.epoch) {
                return None;
            }
            ring.after(self.place.seq)
        };
        self.move_to(next);
        Some(())
    }

    fn move_to(&mut self, cursor: Cursor) {
        self.cursor = cursor;
        *self.reader.cursor.lock().unwrap_or_else(PoisonError::into_inner) = cursor;
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.live.lock_readers().remove(&self.reader_id);
    }
}
