//! The event stream over sockets: resume, gap, hub restarts, slow readers, drain.

use super::Bed;
use serde_json::Value;
use std::time::Duration;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::timeout,
};

/// Far beyond what anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

struct Reader {
    lines: BufReader<UnixStream>,
}

#[derive(Debug)]
struct Frame {
    id: String,
    event: String,
    data: Value,
}

impl Reader {
    async fn open(bed: &Bed, since: &str) -> Reader {
        let mut stream = UnixStream::connect(bed.home.http_socket()).await.unwrap();
        let request =
            format!("GET /events HTTP/1.1\r\nhost: x\r\nconnection: close\r\nlast-event-id: {since}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Reader { lines: BufReader::new(stream) }
    }

    /// The next frame; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Frame> {
        timeout(PATIENCE, self.read()).await.expect("an event in time")
    }

    async fn read(&mut self) -> Option<Frame> {
        let (mut id, mut event) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(value) = line.strip_prefix("id: ") {
                id = value.into();
            } else if let Some(value) = line.strip_prefix("event: ") {
                event = value.into();
            } else if let Some(value) = line.strip_prefix("data: ") {
                return Some(Frame { id, event, data: serde_json::from_str(value).unwrap() });
            }
        }
    }

    async fn hello(&mut self) -> (String, String) {
        let frame = self.next().await.unwrap();
        assert_eq!(frame.event, "hello");
        assert_eq!(frame.data["version"], 1);
        assert_eq!(frame.data["boot_id"], "boot");
        assert!(frame.data["features"].as_array().unwrap().contains(&"resume".into()));
        (frame.id, frame.data["resume"].as_str().unwrap().to_owned())
    }
}

#[tokio::test]
async fn resumes_or_says_that_it_cannot() {
    let bed = Bed::new().await;
    for n in 0..3000 {
        bed.hub.publish(&n.to_string());
    }
    let mut fresh = Reader::open(&bed, "").await;
    assert_eq!(fresh.hello().await, ("e1:3000".into(), "none".into()));
    // From the ring, and from the journal over several pages.
    for since in [2990, 3000, 10] {
        let mut reader = Reader::open(&bed, &format!("e1:{since}")).await;
        assert_eq!(reader.hello().await, (format!("e1:{since}"), "ok".into()));
        for seq in since + 1..=3000u64 {
            let frame = reader.next().await.unwrap();
            assert_eq!((frame.id, frame.data["seq"].as_u64()), (format!("e1:{seq}"), Some(seq)));
        }
    }
}

#[tokio::test]
async fn places_that_are_gone() {
    let bed = Bed::new().await;
    for n in 0..2000 {
        bed.hub.publish(&n.to_string());
    }
    bed.hub.prune(100);
    for since in ["e1:50", "e0:2000", "e1:2001", "e1:18446744073709551615"] {
        let mut reader = Reader::open(&bed, since).await;
        assert_eq!(reader.hello().await, ("e1:2000".into(), "gap".into()), "{since}");
    }
    let mut edge = Reader::open(&bed, "e1:100").await;
    assert_eq!(edge.hello().await.1, "ok");
    assert_eq!(edge.next().await.unwrap().id, "e1:101");
}

#[tokio::test]
async fn a_hub_restart_is_a_pause() {
    let bed = Bed::new().await;
    bed.hub.publish("a");
    let mut reader = Reader::open(&bed, "").await;
    reader.hello().await;
    bed.hub.kill();
    bed.hub.publish("b");
    bed.hub.publish("c");
    bed.hub.revive();
    assert_eq!(reader.next().await.unwrap().id, "e1:2");
    assert_eq!(reader.next().await.unwrap().id, "e1:3");
}

#[tokio::test]
async fn another_database_ends_the_stream_and_the_next_one_says_gap() {
    let bed = Bed::new().await;
    bed.hub.publish("a");
    let mut reader = Reader::open(&bed, "").await;
    reader.hello().await;
    bed.hub.kill();
    bed.hub.new_epoch("e2");
    bed.hub.revive();
    assert!(reader.next().await.is_none());
    let mut again = Reader::open(&bed, "e1:1").await;
    assert_eq!(again.hello().await, ("e2:0".into(), "gap".into()));
}

#[tokio::test]
async fn drain_ends_streams() {
    let bed = Bed::new().await;
    let mut reader = Reader::open(&bed, "").await;
    reader.hello().await;
    bed.drain.cancel();
    assert!(reader.next().await.is_none());
    bed.tasks.close();
    timeout(PATIENCE, bed.tasks.wait()).await.expect("all connections end");
}

#[tokio::test]
async fn a_slow_reader_is_closed_and_others_go_on() {
    let bed = Bed::new().await;
    let mut slow = Reader::open(&bed, "").await;
    slow.hello().await;
    let mut quick = Reader::open(&bed, "").await;
    quick.hello().await;
    let payload = "x".repeat(200 * 1024);
    for _ in 0..20 {
        let seq = bed.hub.publish(&payload);
        assert_eq!(quick.next().await.unwrap().data["seq"].as_u64(), Some(seq));
    }
    // Nobody reads `slow`. When its connection is closed, writing to it fails.
    let closed = async {
        while slow.lines.get_mut().write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, closed).await.expect("the slow reader is closed");
    let mut last = 0;
    while let Some(frame) = slow.next().await {
        last = frame.data["seq"].as_u64().unwrap();
    }
    assert!(last < 20, "the slow reader was served to the end");
    let mut resumed = Reader::open(&bed, &format!("e1:{last}")).await;
    assert_eq!(resumed.hello().await.1, "ok");
    assert_eq!(resumed.next().await.unwrap().data["seq"].as_u64(), Some(last + 1));
}
