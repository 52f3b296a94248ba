//! The server half: accepts on an inherited listener, checks the peer, and answers requests with
//! bounded work in flight.

use crate::{
    Envelope, Fault, Generation, IpcError, Kind, codec,
    frame::{self, MAX_BEFORE_HELLO, MAX_FRAME},
    hello::{Hello, Role},
    outbox::{Outbox, outbox},
};
use futures_util::{
    FutureExt, Stream, StreamExt,
    stream::{self, BoxStream},
};
use interprocess::{
    local_socket::traits::{StreamCommon, tokio::Listener as _},
    os::unix::uds_local_socket::tokio::{Listener, Stream as Socket},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};
use tokio::{io::BufReader, sync::Semaphore, task::AbortHandle};
use tokio_util::sync::CancellationToken;

/// Most connections served at once. More wait in the listener's backlog, where the supervisor's held
/// socket keeps them.
pub const MAX_CONNECTIONS: usize = 1024;

/// Most requests of one connection in progress. More wait; the connection is still read, or nobody
/// would hear that the peer has left or takes a request back.
pub const MAX_IN_FLIGHT: usize = 256;

/// Most requests of one connection that wait for their turn; more are refused.
pub const MAX_WAITING: usize = 1024;

/// Most bytes of such requests: four of the largest.
const MAX_WAITING_BYTES: usize = 4 * MAX_FRAME;

/// The handshake must be over this long after the connection was accepted.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// A peer that has said its last word may take this long to read what is on its way to it; one that
/// only keeps the connection open must not keep its slot.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// Who is at the other end, as the handshake said. Authority never comes from here: the peer's user
/// has been checked, and agents prove themselves with tokens.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its role, for logs and limits.
    pub role: Role,
    /// Its generation.
    pub generation: Generation,
    /// The agreed protocol version.
    pub version: u16,
}

/// What a handler answers.
pub enum Answer {
    /// One encoded reply.
    Reply(Vec<u8>),
    /// A refusal.
    Fault(Fault),
    /// Encoded items until the stream ends; an error ends it with a refusal.
    Stream(BoxStream<'static, Result<Vec<u8>, Fault>>),
}

impl Answer {
    /// The answer for a call's result.
    pub fn of<T: Serialize>(result: Result<T, Fault>) -> Answer {
        match result {
            Ok(value) => match codec::encode(&value) {
                Ok(bytes) => Answer::Reply(bytes),
                Err(e) => Answer::Fault(e.into_fault()),
            },
            Err(fault) => Answer::Fault(fault),
        }
    }

    /// The answer for a stream of items.
    pub fn stream<T: Serialize>(items: impl Stream<Item = Result<T, Fault>> + Send + 'static) -> Answer {
        Answer::Stream(
            items.map(|item| item.and_then(|v| codec::encode(&v).map_err(IpcError::into_fault))).boxed(),
        )
    }

    /// The answer to a request of a newer build.
    pub fn unknown_request() -> Answer {
        Answer::Fault(Fault::new(
            "unknown_request",
            "this build does not know that request: restart the older process",
        ))
    }
}

/// What a socket's owner does with requests.
pub trait Handler: Send + Sync + 'static {
    /// The socket's request enum.
    type Request: DeserializeOwned + Send + 'static;

    /// Answers one request. Dropping the future is how a caller's cancellation arrives.
    fn handle(&self, peer: Peer, request: Self::Request) -> impl Future<Output = Answer> + Send;
}

/// Serves a listener until `stop`, then lets requests in progress end for as long as the caller keeps
/// the returned future; new connections are left to the next process that holds the listener.
pub async fn serve<H: Handler>(listener: Listener, handler: Arc<H>, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut pause = Duration::ZERO;
    loop {
        let next = async {
            let slot = slots.clone().acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            () = stop.cancelled() => return,
            next = next => next,
        };
        match accepted {
            Ok(socket) => {
                pause = Duration::ZERO;
                let (handler, stop) = (handler.clone(), stop.clone());
                tokio::spawn(async move {
                    // A peer's mistake is its own business: it has lost its connection, others go on.
                    let _ = connection(socket, handler, stop).await;
                    drop(slot);
                });
            }
            Err(_) => {
                // Out of descriptors, most likely; accepting again at once would only burn the CPU.
                pause = (pause * 2).clamp(Duration::from_millis(5), Duration::from_secs(1));
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// Checks that the peer runs as the same user as this process.
///
/// # Errors
/// [`IpcError::WrongUser`], or the system's error when it cannot tell.
pub fn check_peer(socket: &Socket) -> Result<(), IpcError> {
    let creds =
        socket.peer_creds().map_err(|source| IpcError::Io { doing: "asking who the peer is", source })?;
    let expected = nix::unistd::geteuid().as_raw();
    match creds.euid() {
        Some(found) if found == expected => Ok(()),
        found => Err(IpcError::WrongUser { found: found.unwrap_or(u32::MAX), expected }),
    }
}

/// Answers the peer's hello on an accepted socket.
///
/// # Errors
/// When the peer is another user's, says nothing in time, or speaks no version of ours.
pub async fn handshake(socket: &Socket) -> Result<Peer, IpcError> {
    check_peer(socket)?;
    let greet = async {
        let (mut reader, mut writer) = (socket, socket);
        let bytes = frame::read(&mut reader, MAX_BEFORE_HELLO).await?.ok_or(IpcError::Closed)?;
        let hello: Hello = codec::decode(&bytes)?;
        let reply = hello.answer();
        frame::write(&mut writer, &codec::encode(&reply)?, MAX_BEFORE_HELLO).await?;
        let version = reply.accept()?;
        Ok(Peer { role: hello.role, generation: hello.generation, version })
    };
    tokio::time::timeout(HELLO_DEADLINE, greet).await.unwrap_or(Err(IpcError::Deadline { ms: 5000 }))
}

async fn connection<H: Handler>(
    socket: Socket,
    handler: Arc<H>,
    stop: CancellationToken,
) -> Result<(), IpcError> {
    let peer = handshake(&socket).await?;
    let socket = Arc::new(socket);
    let (out, writer) = outbox();
    let mut writer = tokio::spawn(writer.run(socket.clone()));
    let gone = CancellationToken::new();
    let result = read_all(&socket, &peer, &handler, &out, &stop, &gone).await;
    // Requests of a peer that has left are cancelled; those of a draining server may still answer.
    if !stop.is_cancelled() {
        gone.cancel();
    }
    drop(out);
    // The writer ends when the last request in progress has answered.
    if stop.is_cancelled() {
        let _ = writer.await;
    } else if tokio::time::timeout(LAST_WRITES, &mut writer).await.is_err() {
        writer.abort();
    }
    result
}

async fn read_all<H: Handler>(
    socket: &Socket,
    peer: &Peer,
    handler: &Arc<H>,
    out: &Outbox,
    stop: &CancellationToken,
    gone: &CancellationToken,
) -> Result<(), IpcError> {
    let slots = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
    let mut running: HashMap<u64, AbortHandle> = HashMap::new();
    let mut waiting: VecDeque<Envelope> = VecDeque::new();
    let mut waiting_bytes = 0;
    // Kept over the turns of the loop: a frame that is half read must not be forgotten.
    let reader = BufReader::with_capacity(frame::READ_AHEAD, socket);
    let frames = stream::unfold(reader, |mut reader| async move {
        let read = frame::read(&mut reader, MAX_FRAME).await;
        Some((read, reader))
    });
    tokio::pin!(frames);
    loop {
        let read = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            slot = slots.clone().acquire_owned(), if !waiting.is_empty() => {
                let (Ok(slot), Some(envelope)) = (slot, waiting.pop_front()) else { return Ok(()) };
                waiting_bytes -= envelope.body.len();
                running.retain(|_, task| !task.is_finished());
                let (handler, peer, out, gone) = (handler.clone(), peer.clone(), out.clone(), gone.clone());
                let id = envelope.id;
                let task = tokio::spawn(async move {
                    let work = answer(&*handler, peer, envelope, &out);
                    tokio::select! { () = work => {}, () = gone.cancelled() => {} }
                    drop(slot);
                });
                running.insert(id, task.abort_handle());
                continue;
            }
            read = frames.next() => read,
        };
        let Some(bytes) = read.transpose()?.flatten() else { return Ok(()) };
        let envelope: Envelope = codec::decode(&bytes)?;
        match envelope.kind {
            Kind::Request => {
                let bytes = waiting_bytes + envelope.body.len();
                if waiting.len() >= MAX_WAITING || bytes > MAX_WAITING_BYTES {
                    let busy = Fault::unavailable("too many requests of this connection are waiting");
                    send_fault(out, envelope.id, &busy).await;
                } else {
                    waiting_bytes = bytes;
                    waiting.push_back(envelope);
                }
            }
            Kind::Cancel => {
                if let Some(task) = running.remove(&envelope.id) {
                    task.abort();
                }
                waiting.retain(|request| request.id != envelope.id);
                waiting_bytes = waiting.iter().map(|request| request.body.len()).sum();
            }
            Kind::Unknown => {}
            Kind::Reply | Kind::Fault | Kind::Item => {
                return Err(IpcError::Undecodable { what: "a client sent an answer".to_owned() });
            }
        }
    }
}

async fn answer<H: Handler>(handler: &H, peer: Peer, envelope: Envelope, out: &Outbox) {
    let id = envelope.id;
    let answer = match codec::decode::<H::Request>(&envelope.body) {
        // A panic is one request's failure: without an answer its caller would wait to its deadline.
        Ok(request) => {
            AssertUnwindSafe(handler.handle(peer, request)).catch_unwind().await.unwrap_or_else(|_| {
                Answer::Fault(Fault::internal(
                    "the request failed unexpectedly; it may have been carried out",
                ))
            })
        }
        Err(e) => Answer::Fault(Fault::bad_request(e.to_string())),
    };
    match answer {
        Answer::Reply(body) => send(out, Kind::Reply, id, body).await,
        Answer::Fault(fault) => send_fault(out, id, &fault).await,
        Answer::Stream(mut items) => {
            while let Some(item) = items.next().await {
                match item {
                    Ok(body) => send(out, Kind::Item, id, body).await,
                    Err(fault) => return send_fault(out, id, &fault).await,
                }
                if out.is_closed() {
                    return;
                }
            }
            send(out, Kind::Reply, id, Vec::new()).await;
        }
    }
}

async fn send_fault(out: &Outbox, id: u64, fault: &Fault) {
    let body = codec::encode(fault).unwrap_or_default();
    send(out, Kind::Fault, id, body).await;
}

async fn send(out: &Outbox, kind: Kind, id: u64, body: Vec<u8>) {
    let sealed = codec::encode(&Envelope { kind, id, body }).and_then(|bytes| frame::seal(&bytes, MAX_FRAME));
    let frame = match sealed {
        Ok(frame) => frame,
        Err(e) => {
            // An answer that does not fit must still be an answer, or the caller waits for ever.
            let body = codec::encode(&e.into_fault()).unwrap_or_default();
            let fault = Envelope { kind: Kind::Fault, id, body };
            match codec::encode(&fault).and_then(|bytes| frame::seal(&bytes, MAX_FRAME)) {
                Ok(frame) => frame,
                Err(_) => return,
            }
        }
    };
    // A send error means that the peer has left, which its reader notices.
    let _ = out.send(frame).await;
}
