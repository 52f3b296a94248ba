//! The ring of ready-made frames, and where a client stands in it. Pure.

use bytes::Bytes;
use leo_ipc::EventId;
use std::collections::VecDeque;

/// What bounds a ring. What falls off is read from the hub's journal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Most frames.
    pub(crate) frames: usize,
    /// Most bytes of frames; the newest frame stays whatever its size.
    pub(crate) bytes: usize,
}

/// Where a client stands: it has everything up to `seq` of the ring's `era`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    era: u64,
    seq: u64,
}

/// What a client finds after its cursor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// Frames in order, and the cursor after them.
    Frames {
        /// At least one.
        frames: Vec<Bytes>,
        /// The place after the last of them.
        next: Cursor,
    },
    /// Nothing new.
    CaughtUp,
    /// The next frame is no longer here: it fell off, or the ring began anew.
    Gone,
}

/// What became of an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It is in the ring.
    Added,
    /// It was there before.
    Known,
    /// Events before it are missing.
    Missing,
}

/// Where a stream that starts after `since` gets its first events.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// From the ring.
    Here(Cursor),
    /// From the hub's journal: the ring no longer has them, or has not got them yet.
    Journal,
    /// Nowhere: they belong to another database. The stream starts at the newest event.
    OtherEpoch,
}

struct Entry {
    frame: Bytes,
    /// Bytes written to the ring up to the end of this frame.
    end: u64,
}

/// The newest events as frames, contiguous up to `head`.
pub(crate) struct Ring {
    limits: Limits,
    epoch: String,
    era: u64,
    head: u64,
    written: u64,
    held: usize,
    entries: VecDeque<Entry>,
}

impl Ring {
    /// A ring that belongs to no database yet.
    pub(crate) fn new(limits: Limits) -> Ring {
        let entries = VecDeque::new();
        Ring { limits, epoch: String::new(), era: 0, head: 0, written: 0, held: 0, entries }
    }

    /// Begins anew after event `head` of `epoch`. Every cursor from before is [`Read::Gone`].
    pub(crate) fn reset(&mut self, epoch: &str, head: u64) {
        epoch.clone_into(&mut self.epoch);
        self.era += 1;
        self.head = head;
        self.held = 0;
        self.entries.clear();
    }

    /// The newest event; `None` before the first [`Ring::reset`].
    pub(crate) fn newest(&self) -> Option<EventId> {
        (self.era > 0).then(|| EventId { epoch: self.epoch.clone(), seq: self.head })
    }

    /// The cursor of a client that has everything.
    pub(crate) fn end(&self) -> Cursor {
        Cursor { era: self.era, seq: self.head }
    }

    /// The cursor of a client that has everything up to `seq` from the journal.
    pub(crate) fn after(&self, seq: u64) -> Cursor {
        Cursor { era: self.era, seq }
    }

    /// Takes the next event, made into a frame only if it is new, and lets old ones fall off.
    pub(crate) fn push(&mut self, seq: u64, frame: impl FnOnce(&str) -> Bytes) -> Pushed {
        if seq <= self.head {
            return Pushed::Known;
        }
        if seq != self.head + 1 {
            return Pushed::Missing;
        }
        let frame = frame(&self.epoch);
        self.head = seq;
        self.written += frame.len() as u64;
        self.held += frame.len();
        self.entries.push_back(Entry { frame, end: self.written });
        while self.entries.len() > 1
            && (self.entries.len() > self.limits.frames || self.held > self.limits.bytes)
        {
            if let Some(old) = self.entries.pop_front() {
                self.held -= old.frame.len();
            }
        }
        Pushed::Added
    }

    /// Frames after a cursor, of about `max` bytes.
    pub(crate) fn read(&self, cursor: Cursor, max: usize) -> Read {
        if cursor.era != self.era {
            return Read::Gone;
        }
        if cursor.seq >= self.head {
            return Read::CaughtUp;
        }
        let Some(skip) = self.skip(cursor) else { return Read::Gone };
        let mut frames = Vec::new();
        let mut bytes = 0;
        for entry in self.entries.iter().skip(skip) {
            if bytes > 0 && bytes + entry.frame.len() > max {
                break;
            }
            bytes += entry.frame.len();
            frames.push(entry.frame.clone());
        }
        let next = Cursor { era: self.era, seq: cursor.seq + frames.len() as u64 };
        Read::Frames { frames, next }
    }

    /// Bytes between a cursor and the newest event: at least the ring's when it fell off, 0 when the
    /// ring began anew (it will be told so when it next reads).
    pub(crate) fn lag(&self, cursor: Cursor) -> u64 {
        if cursor.era != self.era || cursor.seq >= self.head {
            return 0;
        }
        match self.skip(cursor) {
            Some(0) | None => self.held as u64,
            Some(skip) => self.entries.get(skip - 1).map_or(0, |read| self.written - read.end),
        }
    }

    /// Where a stream after `since` gets its events.
    pub(crate) fn place(&self, since: &EventId) -> Place {
        if since.epoch != self.epoch {
            return Place::OtherEpoch;
        }
        let cursor = Cursor { era: self.era, seq: since.seq };
        if since.seq == self.head || (since.seq < self.head && self.skip(cursor).is_some()) {
            Place::Here(cursor)
        } else {
            Place::Journal
        }
    }

    /// How many entries a cursor has read; `None` when its next one fell off.
    fn skip(&self, cursor: Cursor) -> Option<usize> {
        let oldest = self.head - self.entries.len() as u64;
        usize::try_from(cursor.seq.checked_sub(oldest)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Op {
        Publish(usize),
        Reset(u64),
        Resume(usize, u64),
        Read(usize, usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            8 => (1usize..40).prop_map(Op::Publish),
            1 => (0u64..5).prop_map(Op::Reset),
            3 => (0usize..3, 0u64..60).prop_map(|(client, back)| Op::Resume(client, back)),
            6 => (0usize..3, 1usize..100).prop_map(|(client, max)| Op::Read(client, max)),
        ]
    }

    fn seq_of(frame: &Bytes) -> u64 {
        std::str::from_utf8(frame).unwrap().split('.').next().unwrap().parse().unwrap()
    }

    proptest! {
        /// Whatever is published, trimmed and resumed in whatever order: what a client reads is
        /// contiguous with where it said it was, or it is told that it is not.
        #[test]
        fn contiguous_or_gone(ops in proptest::collection::vec(op(), 1..200)) {
            let mut ring = Ring::new(Limits { frames: 8, bytes: 120 });
            let mut epoch = 0;
            ring.reset("e0", 0);
            // Each client's cursor and the number of the event that must come next.
            let mut clients: [Option<(Cursor, u64)>; 3] = [None; 3];
            for op in ops {
                match op {
                    Op::Publish(size) => {
                        let seq = ring.head + 1;
                        let text = format!("{seq}.{}", "x".repeat(size));
                        prop_assert_eq!(ring.push(seq + 1, |_| Bytes::new()), Pushed::Missing);
                        prop_assert_eq!(ring.push(seq, |_| Bytes::from(text)), Pushed::Added);
                        prop_assert_eq!(ring.push(seq, |_| Bytes::new()), Pushed::Known);
                        prop_assert!(ring.entries.len() <= 8);
                        prop_assert!(ring.held <= 120 || ring.entries.len() == 1);
                    }
                    Op::Reset(head) => {
                        epoch += 1;
                        ring.reset(&format!("e{epoch}"), head);
                    }
                    Op::Resume(client, back) => {
                        let seq = ring.head.saturating_sub(back);
                        let since = EventId { epoch: format!("e{epoch}"), seq };
                        clients[client] = match ring.place(&since) {
                            Place::Here(cursor) => Some((cursor, seq + 1)),
                            Place::Journal => {
                                prop_assert!(back > ring.entries.len() as u64);
                                None
                            }
                            Place::OtherEpoch => return Err(TestCaseError::fail("same epoch")),
                        };
                    }
                    Op::Read(client, max) => {
                        let Some((cursor, mut next)) = clients[client] else { continue };
                        match ring.read(cursor, max) {
                            Read::Frames { frames, next: after } => {
                                prop_assert!(!frames.is_empty());
                                let bytes: usize = frames.iter().map(Bytes::len).sum();
                                prop_assert!(frames.len() == 1 || bytes <= max);
                                prop_assert!(ring.lag(after) < ring.lag(cursor));
                                for frame in &frames {
                                    prop_assert_eq!(seq_of(frame), next);
                                    next += 1;
                                }
                                clients[client] = Some((after, next));
                            }
                            Read::CaughtUp => prop_assert_eq!(next, ring.head + 1),
                            Read::Gone => clients[client] = None,
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn places() {
        let mut ring = Ring::new(Limits { frames: 2, bytes: 1000 });
        assert_eq!(ring.newest(), None);
        ring.reset("e", 10);
        for seq in 11..=14 {
            ring.push(seq, |_| Bytes::from_static(b"x"));
        }
        let at = |epoch: &str, seq| ring.place(&EventId { epoch: epoch.into(), seq });
        assert_eq!(at("f", 14), Place::OtherEpoch);
        assert_eq!(at("e", 11), Place::Journal);
        assert!(matches!(at("e", 12), Place::Here(_)));
        assert!(matches!(at("e", 14), Place::Here(_)));
        // The hub may know more than this ring does yet.
        assert_eq!(at("e", 15), Place::Journal);
        assert_eq!(ring.read(ring.after(15), 10), Read::CaughtUp);
        assert_eq!(ring.lag(ring.after(12)), 2);
        assert_eq!(ring.lag(ring.after(13)), 1);
        assert_eq!(ring.lag(ring.after(3)), 2);
    }
}
