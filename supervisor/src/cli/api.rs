//! Client of the HTTP API over the home's unix socket: what every command that talks to the running
//! system uses. It knows the envelope and its errors, and asks again when the worker that should have
//! answered was replaced meanwhile; it knows no route.

mod events;
mod sse;
mod upload;

pub(crate) use events::{Event, Events, Update};
pub(crate) use upload::UploadError;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{Method, Request, StatusCode, body::Incoming, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use leo_ipc::{CallKey, ExitCode, paths::Home};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{fmt::Write as _, path::PathBuf, time::Duration};
use tokio::{net::UnixStream, time::Instant};

/// How long a call may take in all. The worker gives the hub 10 s and the agents worker 30 s, so its
/// own answer always comes first.
const CALL_DEADLINE: Duration = Duration::from_secs(45);

/// Largest answer that is read. A page of messages is bounded by the hub's 1 MiB frames.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// First pause before a call is made again on a fresh connection, doubled up to [`MAX_PAUSE`]. The
/// supervisor holds the listener, so the next worker answers within milliseconds.
const MIN_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// Why a call has no data to show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// Nobody listens on the home's socket.
    #[error("no daemon is running for {}: start it with `leo up`", home.display())]
    NotRunning {
        /// The home folder.
        home: PathBuf,
    },
    /// The API refused.
    #[error("{message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Code of WIRE.md, such as `unknown_agent`.
        code: String,
        /// The sentence for a person.
        message: String,
        /// What a client can use of the refusal.
        data: Option<Value>,
    },
    /// The connection broke, over and over.
    #[error("lost the daemon while {doing}")]
    Broken {
        /// What was being done.
        doing: &'static str,
        /// What the system or the HTTP client said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer is not one of this API.
    #[error("the daemon's answer cannot be read: {what}")]
    Unreadable {
        /// What is wrong with it.
        what: String,
    },
    /// No answer in time.
    #[error("the daemon did not answer within {} s", CALL_DEADLINE.as_secs())]
    Deadline,
}

impl ApiError {
    /// How a command that fails with this error ends.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            ApiError::NotRunning { .. } => ExitCode::NotRunning,
            ApiError::Refused { status: 503, .. } | ApiError::Broken { .. } | ApiError::Deadline => {
                ExitCode::Temporary
            }
            ApiError::Refused { .. } | ApiError::Unreadable { .. } => ExitCode::Failure,
        }
    }

    /// The refusal's code; `None` when there was no refusal.
    #[cfg(test)]
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            ApiError::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    fn broken(doing: &'static str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ApiError {
        ApiError::Broken { doing, source: source.into() }
    }
}

/// The envelope of every JSON answer (WIRE.md §1).
#[derive(Deserialize)]
struct Envelope {
    ok: bool,
    #[serde(default)]
    data: Option<Value>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    code: Option<String>,
}

/// A client of one home's daemon. Each call is a connection of its own: on a unix socket that costs
/// microseconds, and no pooled connection can belong to a worker that is gone.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    root: PathBuf,
    socket: PathBuf,
}

impl Api {
    /// A client of the daemon of `home`.
    pub(crate) fn new(home: &Home) -> Api {
        Api { root: home.root().to_owned(), socket: home.http_socket() }
    }

    /// The data of `GET path`.
    ///
    /// # Errors
    /// As [`ApiError`] says; a lost worker only delays the answer.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    /// The data of `POST path` with a JSON body; `&()` sends none. The request carries an
    /// `Idempotency-Key`, so that asking again after a lost worker does nothing twice.
    ///
    /// # Errors
    /// As [`ApiError`] says; a lost worker only delays the answer.
    pub(crate) async fn post<B, T>(&self, path: &str, body: &B) -> Result<T, ApiError>
    where
        B: Serialize + ?Sized,
        T: DeserializeOwned,
    {
        let bytes =
            serde_json::to_vec(body).map_err(|e| ApiError::broken("writing the request as JSON", e))?;
        let body = if bytes == b"null" { Bytes::new() } else { Bytes::from(bytes) };
        self.call(Method::POST, path, body).await
    }

    /// The data of `DELETE path`.
    ///
    /// # Errors
    /// As [`ApiError`] says; a lost worker only delays the answer.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.call(Method::DELETE, path, Bytes::new()).await
    }

    /// The event stream after `since` (`None`: from now on). It connects when it is first read and
    /// connects again by itself.
    pub(crate) fn events(&self, since: Option<leo_ipc::EventId>) -> Events {
        Events::new(self.clone(), since)
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, ApiError> {
        let key = CallKey::fresh();
        let deadline = Instant::now() + CALL_DEADLINE;
        let mut pause = MIN_PAUSE;
        loop {
            let attempt = async {
                let answer = self.send(&method, path, &body, &key, "application/json").await?;
                let status = answer.status();
                Ok((status, read_body(answer).await?))
            };
            match tokio::time::timeout_at(deadline, attempt).await {
                Ok(Ok((status, bytes))) => return open_envelope(status, &bytes),
                Ok(Err(error @ ApiError::Broken { .. })) if Instant::now() + pause < deadline => {
                    tracing::debug!(error = %error, "asking again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(ApiError::Deadline),
            }
        }
    }

    /// One request on a fresh connection, up to the answer's head.
    async fn send(
        &self,
        method: &Method,
        path: &str,
        body: &Bytes,
        key: &CallKey,
        accept: &'static str,
    ) -> Result<hyper::Response<Incoming>, ApiError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|source| self.connect_error(source))?;
        let (mut sender, connection) = http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream))
            .await
            .map_err(|e| ApiError::broken("connecting", e))?;
        // Ends with the answer's body, or when the sender and the body are dropped.
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::ACCEPT, accept)
            .header(header::USER_AGENT, concat!("leo/", env!("CARGO_PKG_VERSION")));
        if method != Method::GET {
            request = request.header("idempotency-key", key.as_str());
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::new(body.clone()))
            .map_err(|e| ApiError::Unreadable { what: format!("{path} is not a path: {e}") })?;
        sender.send_request(request).await.map_err(|e| ApiError::broken("waiting for an answer", e))
    }

    fn connect_error(&self, source: std::io::Error) -> ApiError {
        use std::io::ErrorKind::{ConnectionRefused, NotFound};
        match source.kind() {
            NotFound | ConnectionRefused => ApiError::NotRunning { home: self.root.clone() },
            _ => ApiError::broken("connecting", source),
        }
    }
}

async fn read_body(answer: hyper::Response<Incoming>) -> Result<Bytes, ApiError> {
    match Limited::new(answer.into_body(), MAX_ANSWER).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(e) if e.is::<LengthLimitError>() => {
            Err(ApiError::Unreadable { what: format!("it is longer than {MAX_ANSWER} bytes") })
        }
        Err(e) => Err(ApiError::broken("reading an answer", e)),
    }
}

fn open_envelope<T: DeserializeOwned>(status: StatusCode, bytes: &[u8]) -> Result<T, ApiError> {
    let envelope: Envelope = serde_json::from_slice(bytes)
        .map_err(|e| ApiError::Unreadable { what: format!("status {status}, and not JSON of ours ({e})") })?;
    if envelope.ok {
        let data = envelope.data.unwrap_or(Value::Null);
        serde_json::from_value(data).map_err(|e| ApiError::Unreadable { what: e.to_string() })
    } else {
        Err(ApiError::Refused {
            status: status.as_u16(),
            code: envelope.code.unwrap_or_else(|| "unknown".to_owned()),
            message: envelope.error.unwrap_or_else(|| format!("the daemon refused with status {status}")),
            data: envelope.data,
        })
    }
}

/// A text as one segment of a path: everything but RFC 3986's unreserved characters is escaped.
pub(crate) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixListener,
    };

    fn home(dir: &tempfile::TempDir) -> Home {
        let home = Home::at(dir.path().to_owned()).unwrap();
        std::fs::create_dir_all(home.state()).unwrap();
        home
    }

    /// Answers each connection with the next text; an empty one hangs up.
    fn answers(home: &Home, texts: Vec<String>) -> Arc<AtomicUsize> {
        let listener = UnixListener::bind(home.http_socket()).unwrap();
        let served = Arc::new(AtomicUsize::new(0));
        let counter = served.clone();
        tokio::spawn(async move {
            for text in texts {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut buffer = [0u8; 4096];
                let read = socket.read(&mut buffer).await.unwrap();
                assert!(read > 0);
                counter.fetch_add(1, Ordering::SeqCst);
                socket.write_all(text.as_bytes()).await.unwrap();
            }
        });
        served
    }

    fn json(status: &str, body: &str) -> String {
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    #[tokio::test]
    async fn an_absent_or_dead_socket_says_how_to_start() {
        let dir = tempfile::tempdir().unwrap();
        let home = home(&dir);
        let absent = Api::new(&home).get::<Value>("/version").await.unwrap_err();
        assert_eq!(absent.exit_code(), ExitCode::NotRunning);
        assert!(absent.to_string().contains("start it with `leo up`"), "{absent}");

        drop(UnixListener::bind(home.http_socket()).unwrap());
        let dead = Api::new(&home).get::<Value>("/version").await.unwrap_err();
        assert_eq!(dead.exit_code(), ExitCode::NotRunning);
    }

    #[tokio::test]
    async fn a_lost_worker_is_a_delay_and_a_refusal_keeps_its_code() {
        let dir = tempfile::tempdir().unwrap();
        let home = home(&dir);
        let refusal = r#"{"ok":false,"error":"There is no agent x.","code":"unknown_agent"}"#;
        let served = answers(
            &home,
            vec![
                String::new(),
                json("200 OK", r#"{"ok":true,"data":{"version":"1"}}"#),
                json("404 Not Found", refusal),
                json("502 Bad Gateway", "<html>"),
            ],
        );
        let api = Api::new(&home);
        let data: Value = api.get("/version").await.unwrap();
        assert_eq!(data["version"], "1");
        assert_eq!(served.load(Ordering::SeqCst), 2);

        let refused = api.post::<_, Value>("/api/v1/agents/x/start", &()).await.unwrap_err();
        assert_eq!((refused.code(), refused.exit_code()), (Some("unknown_agent"), ExitCode::Failure));
        assert_eq!(refused.to_string(), "There is no agent x.");

        let strange = api.get::<Value>("/version").await.unwrap_err();
        assert!(matches!(strange, ApiError::Unreadable { .. }), "{strange}");
    }

    #[test]
    fn segments_hold_no_separator() {
        assert_eq!(segment("a/b c?d#é"), "a%2Fb%20c%3Fd%23%C3%A9");
        assert_eq!(segment("019f-A_z.~"), "019f-A_z.~");
    }
}
