//! The event stream's source: one subscription to the hub, made into frames once, kept in a ring, and
//! read by every client at its own pace. It holds no queue per client: a client is a cursor, and one
//! that stops reading loses its connection, not our memory.

mod frame;
mod ring;
mod stream;

pub(crate) use stream::{Announce, FEATURES};

use leo_ipc::{
    EventId, IpcError,
    client::{Client, Items},
    event::{EventItem, ListEvents, Resume, SubscribeEvents},
    hub::HubRequest,
};
use ring::{Cursor, Limits, Place, Pushed, Read, Ring};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// What the ring keeps: several minutes of a busy system, and room for a few of the largest events.
/// What falls off is read from the hub's journal.
const RING: Limits = Limits { frames: 8192, bytes: 16 * 1024 * 1024 };

/// Events that a fresh worker fetches into the ring, so that clients which lost their stream with the
/// old worker find what they missed here, and do not all ask the hub at once.
const BACKLOG: u64 = 1024;

/// How long the hub may take to answer.
pub(crate) const HUB_DEADLINE: Duration = Duration::from_secs(10);

/// Pause before subscribing again; the IPC client itself waits for a hub that is being replaced.
const RETRY: Duration = Duration::from_millis(50);

/// A client that lags further behind than this (WIRE.md §4) …
const MAX_LAG: u64 = 1024 * 1024;

/// … and whose socket took nothing for so long is closed. A phone that changes networks is quiet for a
/// second or two; a reader that stopped is quiet for good.
const MAX_STALL: Duration = Duration::from_secs(5);

/// How often lagging clients are looked at.
const SWEEP: Duration = Duration::from_secs(1);

/// What a change of the ring looks like to those who wait for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Signal {
    /// Counts changes.
    revision: u64,
    /// Whether the ring is complete up to the hub's newest event of when it subscribed.
    ready: bool,
    /// Whether the subscription stands.
    connected: bool,
}

/// The stream's source.
pub(crate) struct Live {
    ring: RwLock<Ring>,
    signal: watch::Sender<Signal>,
    readers: Mutex<HashMap<u64, Arc<Reader>>>,
    next_reader: AtomicU64,
    started: Instant,
}

/// One client's progress, for [`Live::sweep`].
struct Reader {
    cursor: Mutex<Cursor>,
    /// Milliseconds since [`Live::started`] when its socket last took something.
    progress_ms: AtomicU64,
    /// Ends its connection: a stream whose socket does not drain is not polled, so it cannot end itself.
    kill: CancellationToken,
}

impl Live {
    /// A source that knows nothing yet.
    pub(crate) fn new() -> Arc<Live> {
        Live::with_limits(RING)
    }

    fn with_limits(limits: Limits) -> Arc<Live> {
        Arc::new(Live {
            ring: RwLock::new(Ring::new(limits)),
            signal: watch::Sender::new(Signal::default()),
            readers: Mutex::new(HashMap::new()),
            next_reader: AtomicU64::new(0),
            started: Instant::now(),
        })
    }

    /// Whether the hub is there: the subscription stands.
    pub(crate) fn connected(&self) -> bool {
        self.signal.borrow().connected
    }

    /// Keeps the subscription, for ever. `hub` is a client of its own, so that a busy stream and calls
    /// do not wait for each other.
    pub(crate) async fn feed(self: Arc<Live>, hub: Client<HubRequest>) {
        loop {
            match self.subscribed(&hub).await {
                Ok(()) => tracing::info!("the hub ended the event stream; subscribing again"),
                Err(e) => tracing::info!(error = %e, "lost the event stream; subscribing again"),
            }
            self.signal.send_if_modified(|s| std::mem::replace(&mut s.connected, false));
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn subscribed(&self, hub: &Client<HubRequest>) -> Result<(), IpcError> {
        let newest = self.read_ring().newest();
        let since = match newest {
            Some(newest) => newest,
            None => {
                // Starts a little back, so that the ring is of use from the first moment.
                let page = hub.call(ListEvents { after: 0, limit: 1 }, HUB_DEADLINE).await?;
                let seq = page.head.saturating_sub(BACKLOG).max(page.oldest.saturating_sub(1));
                EventId { epoch: page.epoch, seq: seq.min(page.head) }
            }
        };
        let mut items = hub.stream(SubscribeEvents { since: Some(since.clone()) }, HUB_DEADLINE).await?;
        self.follow(since, &mut items).await
    }

    async fn follow(&self, since: EventId, items: &mut Items<EventItem>) -> Result<(), IpcError> {
        let mut ready_at = None;
        while let Some(item) = items.next().await? {
            match item {
                EventItem::Start { epoch, head, resume } => {
                    self.begin(&since, &epoch, head, resume);
                    ready_at = Some(head);
                }
                EventItem::Events { events } => {
                    let mut ring = self.write_ring();
                    for event in events {
                        let pushed = ring.push(event.seq, |epoch| frame::event(epoch, &event));
                        if pushed == Pushed::Missing {
                            let found = event.seq;
                            return Err(IpcError::Undecodable {
                                what: format!("event {found} does not follow the one before it"),
                            });
                        }
                    }
                }
                EventItem::Unknown => continue,
            }
            let head = self.read_ring().newest().map_or(0, |newest| newest.seq);
            let ready = ready_at.is_some_and(|at| head >= at);
            self.signal.send_modify(|s| {
                s.revision += 1;
                s.connected = true;
                s.ready |= ready;
            });
        }
        Ok(())
    }

    /// Adjusts the ring to where the hub's stream really starts.
    fn begin(&self, since: &EventId, epoch: &str, head: u64, resume: Resume) {
        let mut ring = self.write_ring();
        let goes_on = resume == Resume::Ok && since.epoch == epoch;
        if !goes_on {
            ring.reset(epoch, head);
        } else if ring.newest().is_none() {
            ring.reset(epoch, since.seq);
        }
    }

    fn read_ring(&self) -> RwLockReadGuard<'_, Ring> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_ring(&self) -> RwLockWriteGuard<'_, Ring> {
        self.ring.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_readers(&self) -> MutexGuard<'_, HashMap<u64, Arc<Reader>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Closes clients that do not read, for ever. It sleeps while nothing happens.
    pub(crate) async fn sweep_for_ever(self: Arc<Live>) {
        let mut signal = self.signal.subscribe();
        while signal.changed().await.is_ok() {
            tokio::time::sleep(SWEEP).await;
            while self.sweep() {
                tokio::time::sleep(SWEEP).await;
            }
        }
    }

    /// Closes clients that do not read; whether some lag and have to be looked at again.
    fn sweep(&self) -> bool {
        let now = self.now_ms();
        let ring = self.read_ring();
        let mut lagging = false;
        for reader in self.lock_readers().values() {
            let cursor = *reader.cursor.lock().unwrap_or_else(PoisonError::into_inner);
            if ring.lag(cursor) <= MAX_LAG {
                continue;
            }
            lagging = true;
            let stalled = now.saturating_sub(reader.progress_ms.load(Ordering::Relaxed));
            if u128::from(stalled) >= MAX_STALL.as_millis() && !reader.kill.is_cancelled() {
                tracing::info!(lag = ring.lag(cursor), "closing an event stream that is not read");
                reader.kill.cancel();
            }
        }
        lagging
    }
}
