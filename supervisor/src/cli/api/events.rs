//! The event stream as a command reads it: it connects again by itself, resumes where it stopped, and
//! says when it could not.

use super::{
    Api, ApiError,
    sse::{Frame, Parser},
};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Method, body::Incoming};
use leo_ipc::{CallKey, EventId, event::Resume};
use serde::Deserialize;
use serde_json::Value;
use std::{collections::VecDeque, time::Duration};
use tokio::time::{Instant, timeout};

/// Three heartbeats of the stream (15 s each): beyond it the connection is dead.
const SILENCE: Duration = Duration::from_secs(45);

/// How long a connection may take to be answered.
const CONNECT_DEADLINE: Duration = Duration::from_secs(15);

/// First pause before connecting again, doubled up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// The first frame of a connection (WIRE.md §4).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Hello {
    /// The events after this number follow.
    pub(crate) seq: u64,
    /// The database's epoch.
    pub(crate) epoch: String,
    /// Changes with each start of the supervisor.
    pub(crate) boot_id: String,
    /// Whether what was missed follows. After a gap, fetch the state again.
    pub(crate) resume: Resume,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// Its place.
    pub(crate) id: EventId,
    /// Its type, such as `chat.message`.
    pub(crate) kind: String,
    /// `seq`, `at` and the payload.
    pub(crate) data: Value,
}

/// What the stream has to say.
#[derive(Debug)]
pub(crate) enum Update {
    /// A connection was made.
    Connected(Hello),
    /// An event, contiguous with the one before or with the last `Connected`.
    Event(Event),
    /// The connection was lost or could not be made; the next read tries again after a pause.
    Lost(ApiError),
}

/// The stream. It never ends; [`Events::next`] may be dropped while it waits and loses nothing.
#[derive(Debug)]
pub(crate) struct Events {
    api: Api,
    last: Option<EventId>,
    connection: Option<(Incoming, Parser)>,
    ready: VecDeque<Frame>,
    pause: Duration,
    not_before: Instant,
}

impl Events {
    pub(super) fn new(api: Api, since: Option<EventId>) -> Events {
        Events {
            api,
            last: since,
            connection: None,
            ready: VecDeque::new(),
            pause: MIN_PAUSE,
            not_before: Instant::now(),
        }
    }

    /// Waits for what comes next.
    pub(crate) async fn next(&mut self) -> Update {
        loop {
            let step = match self.ready.pop_front() {
                Some(frame) => self.open(frame),
                None => self.read().await.map(|()| None),
            };
            match step {
                Ok(Some(update)) => return update,
                Ok(None) => {}
                Err(error) => return self.lose(error),
            }
        }
    }

    async fn read(&mut self) -> Result<(), ApiError> {
        let Some((body, parser)) = self.connection.as_mut() else {
            tokio::time::sleep_until(self.not_before).await;
            self.connection = Some((self.connect().await?, Parser::default()));
            return Ok(());
        };
        let silent = |_| ApiError::Broken { doing: "waiting for events", source: "no heartbeat".into() };
        match timeout(SILENCE, body.frame()).await.map_err(silent)? {
            Some(Ok(frame)) => {
                let bytes = frame.into_data().unwrap_or_else(|_| Bytes::new());
                let frames = parser.feed(&bytes).map_err(|e| ApiError::Unreadable { what: e.to_string() })?;
                self.ready.extend(frames);
                Ok(())
            }
            Some(Err(e)) => Err(ApiError::broken("waiting for events", e)),
            None => Err(ApiError::broken("waiting for events", "the stream ended")),
        }
    }

    async fn connect(&self) -> Result<Incoming, ApiError> {
        let path = match &self.last {
            Some(id) => format!("/api/v1/events?since={}", super::segment(&id.to_string())),
            None => "/api/v1/events".to_owned(),
        };
        let key = CallKey::fresh();
        let empty = Bytes::new();
        let sent = self.api.send(&Method::GET, &path, &empty, &key, "text/event-stream");
        let answer = timeout(CONNECT_DEADLINE, sent).await.map_err(|_| ApiError::Deadline)??;
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        let status = answer.status();
        let bytes = super::read_body(answer).await?;
        match super::open_envelope::<Value>(status, &bytes) {
            Ok(_) => Err(ApiError::Unreadable { what: "an event stream was expected".to_owned() }),
            Err(error) => Err(error),
        }
    }

    fn open(&mut self, frame: Frame) -> Result<Option<Update>, ApiError> {
        let unreadable = |what: String| ApiError::Unreadable { what };
        let id: EventId =
            frame.id.as_deref().unwrap_or_default().parse().map_err(|e| unreadable(format!("{e}")))?;
        let data: Value = serde_json::from_str(&frame.data).map_err(|e| unreadable(e.to_string()))?;
        if frame.event == "hello" {
            let hello: Hello = serde_json::from_value(data).map_err(|e| unreadable(e.to_string()))?;
            self.last = Some(id);
            self.pause = MIN_PAUSE;
            return Ok(Some(Update::Connected(hello)));
        }
        // What was seen before a reconnect is not shown twice.
        if self.last.as_ref().is_some_and(|last| last.epoch == id.epoch && id.seq <= last.seq) {
            return Ok(None);
        }
        self.last = Some(id.clone());
        Ok(Some(Update::Event(Event { id, kind: frame.event, data })))
    }

    fn lose(&mut self, error: ApiError) -> Update {
        self.connection = None;
        self.ready.clear();
        self.not_before = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        Update::Lost(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leo_ipc::paths::Home;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixListener,
    };

    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

    fn hello(seq: u64, resume: &str) -> String {
        format!(
            "retry: 1000\nid: e:{seq}\nevent: hello\n\
             data: {{\"seq\":{seq},\"epoch\":\"e\",\"boot_id\":\"b\",\"resume\":\"{resume}\"}}\n\n"
        )
    }

    #[tokio::test]
    async fn goes_on_where_it_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().to_owned()).unwrap();
        std::fs::create_dir_all(home.state()).unwrap();
        let listener = UnixListener::bind(home.http_socket()).unwrap();
        let server = tokio::spawn(async move {
            let answers = [
                format!(
                    "{HEAD}{}id: e:5\nevent: chat.message\ndata: {{\"seq\":5}}\n\nid: e:6\n",
                    hello(4, "none")
                ),
                format!("{HEAD}{}id: e:6\nevent: chat.read\ndata: {{\"seq\":6}}\n\n", hello(5, "ok")),
            ];
            let mut asked = Vec::new();
            for answer in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut buffer = [0u8; 4096];
                let n = socket.read(&mut buffer).await.unwrap();
                asked.push(String::from_utf8_lossy(&buffer[..n]).lines().next().unwrap().to_owned());
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
            asked
        });
        let mut events = Api::new(&home).events(None);
        assert!(matches!(events.next().await, Update::Connected(h) if h.resume == Resume::None));
        assert!(matches!(events.next().await, Update::Event(e) if e.id.seq == 5 && e.kind == "chat.message"));
        assert!(matches!(events.next().await, Update::Lost(_)));
        assert!(matches!(events.next().await, Update::Connected(h) if h.resume == Resume::Ok));
        assert!(matches!(events.next().await, Update::Event(e) if e.id.seq == 6));
        let asked = server.await.unwrap();
        assert_eq!(asked, ["GET /api/v1/events HTTP/1.1", "GET /api/v1/events?since=e%3A5 HTTP/1.1"]);
    }
}
