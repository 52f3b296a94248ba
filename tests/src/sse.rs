//! A reader of the event stream that checks its frames as it goes.

use crate::Api;
use anyhow::{Context, Result, bail, ensure};
use futures_util::StreamExt;
use reqwest::Method;
use serde_json::Value;
use std::time::Duration;

/// Longest silence that is not an error: the server's heartbeat comes every 15 s.
const SILENCE: Duration = Duration::from_secs(40);

/// One event.
#[derive(Debug, Clone)]
pub struct Event {
    /// `epoch:seq`.
    pub id: String,
    /// Its type.
    pub kind: String,
    /// Its data.
    pub data: Value,
}

/// A stream.
pub struct Events {
    body: futures_util::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    buffer: Vec<u8>,
}

impl Events {
    /// Opens a stream, after `since` if given.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn open(api: &Api, since: Option<&str>) -> Result<Events> {
        let mut request = api.request(Method::GET, "/api/v1/events").timeout(Duration::from_secs(3600));
        if let Some(since) = since {
            request = request.header("Last-Event-ID", since);
        }
        let response = request.send().await.context("open the event stream")?;
        ensure!(response.status().is_success(), "event stream: {}", response.status());
        Ok(Events { body: response.bytes_stream().boxed(), buffer: Vec::new() })
    }

    /// The next event; `None` when the server ended the stream.
    ///
    /// # Errors
    /// On a broken connection, a frame that cannot be read, or silence beyond the heartbeat.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            while let Some(end) = find(&self.buffer, b"\n\n") {
                let frame: Vec<u8> = self.buffer.drain(..end + 2).collect();
                if let Some(event) = parse(std::str::from_utf8(&frame)?)? {
                    return Ok(Some(event));
                }
            }
            match tokio::time::timeout(SILENCE, self.body.next()).await {
                Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk?),
                Ok(None) => return Ok(None),
                Err(_) => bail!("the event stream was silent for {SILENCE:?}"),
            }
        }
    }
}

fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|w| w == needle)
}

fn parse(frame: &str) -> Result<Option<Event>> {
    let mut event = Event { id: String::new(), kind: String::new(), data: Value::Null };
    let mut data = String::new();
    for line in frame.lines() {
        match line.split_once(": ") {
            Some(("id", value)) => event.id = value.to_owned(),
            Some(("event", value)) => event.kind = value.to_owned(),
            Some(("data", value)) => data.push_str(value),
            _ => {}
        }
    }
    if event.kind.is_empty() {
        return Ok(None);
    }
    event.data = serde_json::from_str(&data).with_context(|| format!("event data {data:.200}"))?;
    Ok(Some(event))
}
