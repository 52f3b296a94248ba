//! Frames of the stream as bytes (WIRE.md §4). Pure.

use bytes::Bytes;
use leo_ipc::{EventId, event::JournalEvent};
use std::fmt::Write as _;

/// What keeps an idle stream alive.
pub(super) const HEARTBEAT: Bytes = Bytes::from_static(b": beat\n\n");

/// An event of the journal.
pub(super) fn event(epoch: &str, event: &JournalEvent) -> Bytes {
    build(epoch, event.seq, &event.kind, &event.data, "")
}

/// The first frame, which also tells the client how soon to come back.
pub(super) fn hello(place: &EventId, data: &str) -> Bytes {
    build(&place.epoch, place.seq, "hello", data, "retry: 1000\n")
}

fn build(epoch: &str, seq: u64, kind: &str, data: &str, before: &str) -> Bytes {
    let mut out = String::with_capacity(before.len() + epoch.len() + kind.len() + data.len() + 48);
    // A line break inside a field would end it; JSON in one line has none, and a kind is one of ours,
    // but a frame must not depend on that.
    let kind: String = kind.chars().filter(|c| !c.is_control()).collect();
    // Writing to a String cannot fail.
    let _ = write!(out, "{before}id: {epoch}:{seq}\nevent: {kind}\n");
    for line in data.split(['\n', '\r']) {
        let _ = writeln!(out, "data: {line}");
    }
    out.push('\n');
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_exact() {
        let journal = JournalEvent { seq: 7, kind: "chat.read".into(), data: "{\"seq\":7}".into() };
        assert_eq!(event("e1", &journal), "id: e1:7\nevent: chat.read\ndata: {\"seq\":7}\n\n");
        let place = EventId { epoch: "e1".into(), seq: 6 };
        assert_eq!(hello(&place, "{}"), "retry: 1000\nid: e1:6\nevent: hello\ndata: {}\n\n");
    }

    #[test]
    fn a_line_break_cannot_end_a_field() {
        let journal = JournalEvent { seq: 1, kind: "a\nid: x:9".into(), data: "1\n\nevent: y".into() };
        assert_eq!(event("e", &journal), "id: e:1\nevent: aid: x:9\ndata: 1\ndata: \ndata: event: y\n\n");
    }
}
