//! Answers for a worker that is down for long: a held listener with nobody behind it would keep every
//! caller waiting. It knows nothing of what was asked; the answer is always that the worker is not
//! available, and why.

use crate::worker::Protocol;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode, body::Incoming, header, server::conn::http1, service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use interprocess::{
    local_socket::traits::tokio::Listener as _,
    os::unix::uds_local_socket::tokio::{Listener, Stream as Socket},
};
use leo_ipc::{
    Fault, IpcError, codec,
    frame::{self, MAX_BEFORE_HELLO},
    hello::{HelloReply, MAGIC},
    server::{self, Answer, Handler, Peer},
    version,
};
use std::{convert::Infallible, io, os::fd::OwnedFd, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

/// What an HTTP client is told to wait before it asks again, in seconds.
const RETRY_AFTER: &str = "5";
/// A request's head must arrive within this time, and its connection is over after the answer.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);
/// Connections answered at once; more wait in the listener's queue.
const MAX_CONNECTIONS: usize = 64;
/// Pause after a failed accept, which means that descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Answers on a listener until `stop`.
///
/// # Errors
/// When the descriptor is not a listener that tokio can use.
pub(crate) fn start(
    listener: OwnedFd,
    tcp: bool,
    protocol: Protocol,
    reason: String,
    stop: CancellationToken,
) -> io::Result<()> {
    let reason: Arc<str> = reason.into();
    match protocol {
        Protocol::Ipc => {
            let listener = Listener::try_from(listener)?;
            tokio::spawn(server::serve(listener, Arc::new(Unavailable { reason }), stop));
        }
        Protocol::Shim => {
            let listener = Listener::try_from(listener)?;
            tokio::spawn(refuse_shims(listener, reason, stop));
        }
        Protocol::Http if tcp => {
            let listener = TcpListener::from_std(listener.into())?;
            tokio::spawn(accept(stop, async move || listener.accept().await.map(|(s, _)| s), reason));
        }
        Protocol::Http => {
            let listener = UnixListener::from_std(listener.into())?;
            tokio::spawn(accept(stop, async move || listener.accept().await.map(|(s, _)| s), reason));
        }
    }
    Ok(())
}

/// Answers every request on an IPC socket with a refusal.
struct Unavailable {
    reason: Arc<str>,
}

impl Handler for Unavailable {
    /// Any request at all.
    type Request = serde::de::IgnoredAny;

    async fn handle(&self, _peer: Peer, _request: Self::Request) -> Answer {
        Answer::Fault(Fault::unavailable(self.reason.as_ref()))
    }
}

/// A shim's frames have no refusal, so its hello is refused, which it takes as "come back later".
async fn refuse_shims(listener: Listener, reason: Arc<str>, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(socket) => {
                let reason = reason.clone();
                tokio::spawn(async move {
                    // Whatever goes wrong ends the connection, which is all there is to say.
                    let _ = tokio::time::timeout(HEAD_DEADLINE, refuse_hello(&socket, &reason)).await;
                    drop(slot);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn refuse_hello(socket: &Socket, reason: &str) -> Result<(), IpcError> {
    server::check_peer(socket)?;
    let (mut reader, mut writer) = (socket, socket);
    frame::read(&mut reader, MAX_BEFORE_HELLO).await?;
    let reply = HelloReply {
        magic: MAGIC.to_owned(),
        version: 0,
        build: version::BUILD.to_owned(),
        reason: reason.to_owned(),
    };
    frame::write(&mut writer, &codec::encode(&reply)?, MAX_BEFORE_HELLO).await
}

async fn accept<S>(stop: CancellationToken, mut next: impl AsyncFnMut() -> io::Result<S>, reason: Arc<str>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = next() => accepted,
        };
        match accepted {
            Ok(socket) => {
                let reason = reason.clone();
                tokio::spawn(async move {
                    let service = service_fn(|request| std::future::ready(answer(&request, &reason)));
                    let mut http = http1::Builder::new();
                    http.timer(TokioTimer::new()).header_read_timeout(HEAD_DEADLINE).keep_alive(false);
                    // A client that went away is its own business.
                    let _ = http.serve_connection(TokioIo::new(socket), service).await;
                    drop(slot);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// The answer to every HTTP request: 503 in the envelope of WIRE.md §1.
fn answer(_request: &Request<Incoming>, reason: &str) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = serde_json::json!({ "ok": false, "error": reason, "code": "unavailable" });
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static(RETRY_AFTER));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::UnixSocket;
    use leo_ipc::{Generation, client::Client, control::ControlRequest, control::GetStatus, hello::Role};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn ask_http(mut socket: impl AsyncRead + AsyncWrite + Unpin) -> String {
        let request = "POST /api/v1/chat/a/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn http_is_answered_503_until_it_stops() {
        let dir = tempfile::tempdir().unwrap();
        let socket = UnixSocket::bind(dir.path().join("h.sock")).unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        let address = tcp.local_addr().unwrap();
        let stop = CancellationToken::new();
        let reason = || "The http worker is down: \"why\".".to_owned();
        start(socket.duplicate().unwrap(), false, Protocol::Http, reason(), stop.clone()).unwrap();
        start(tcp.try_clone().unwrap().into(), true, Protocol::Http, reason(), stop.clone()).unwrap();

        let unix = tokio::net::UnixStream::connect(dir.path().join("h.sock")).await.unwrap();
        let inet = tokio::net::TcpStream::connect(address).await.unwrap();
        for text in [ask_http(unix).await, ask_http(inet).await] {
            assert!(text.starts_with("HTTP/1.1 503"), "{text}");
            assert!(text.to_lowercase().contains("retry-after: 5"), "{text}");
            let body: serde_json::Value =
                serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap();
            assert_eq!(body["code"], "unavailable");
            assert_eq!(body["error"], reason());
        }

        stop.cancel();
        tokio::task::yield_now().await;
        // The listener is held still: the next worker will answer this one.
        let mut later = tokio::net::TcpStream::connect(address).await.unwrap();
        later.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let silence = tokio::time::timeout(Duration::from_millis(50), later.read_u8()).await;
        assert!(silence.is_err(), "{silence:?}");
    }

    #[tokio::test]
    async fn ipc_is_answered_with_a_fault_and_a_shim_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (ipc, shim) = (dir.path().join("i.sock"), dir.path().join("s.sock"));
        let sockets = (UnixSocket::bind(ipc.clone()).unwrap(), UnixSocket::bind(shim.clone()).unwrap());
        let stop = CancellationToken::new();
        let why = || "The hub is down.".to_owned();
        start(sockets.0.duplicate().unwrap(), false, Protocol::Ipc, why(), stop.clone()).unwrap();
        start(sockets.1.duplicate().unwrap(), false, Protocol::Shim, why(), stop.clone()).unwrap();

        let client: Client<ControlRequest> = Client::new(ipc, Role::Cli, Generation(0));
        let error = client.call(GetStatus::default(), Duration::from_secs(5)).await.unwrap_err();
        let IpcError::Fault(fault) = error else { panic!("{error}") };
        assert_eq!((fault.code.as_str(), fault.message.as_str()), ("unavailable", "The hub is down."));

        match leo_ipc::client::connect(&shim, Role::Shim, Generation(0)).await {
            Err(IpcError::Refused { reason }) => assert_eq!(reason, "The hub is down."),
            other => panic!("{:?}", other.map(|_| ())),
        }
        stop.cancel();
    }
}
