//! The client half: one connection for many calls, made when needed, made again when lost. Every
//! changing request carries its idempotency key, so a call that lost its peer asks again until its
//! deadline, and the person sees a delay, not an error.

use crate::{
    Call, Envelope, Fault, Generation, IpcError, Kind, Streaming, codec,
    frame::{self, MAX_BEFORE_HELLO, MAX_FRAME},
    hello::{Hello, HelloReply, Role},
    outbox::{Outbox, outbox},
};
use interprocess::{
    local_socket::{GenericFilePath, ToFsName, traits::tokio::Stream as _},
    os::unix::uds_local_socket::tokio::Stream as Socket,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::HashMap,
    marker::PhantomData,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::BufReader,
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Items of one stream waiting for its reader. Beyond it the connection is not read, which holds the
/// sender back; streams and calls that must not wait for each other use separate clients.
const STREAM_QUEUE: usize = 64;

/// First pause before connecting again, doubled up to [`MAX_PAUSE`]: a replaced worker is back within
/// milliseconds.
const MIN_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// A client of the socket whose requests are `R`. Clones share the connection.
pub struct Client<R> {
    inner: Arc<Inner>,
    requests: PhantomData<fn(R)>,
}

impl<R> Clone for Client<R> {
    fn clone(&self) -> Self {
        Client { inner: self.inner.clone(), requests: PhantomData }
    }
}

struct Inner {
    path: PathBuf,
    role: Role,
    generation: Generation,
    current: tokio::sync::Mutex<Option<Arc<Connection>>>,
}

struct Connection {
    out: Outbox,
    waiting: Mutex<HashMap<u64, mpsc::Sender<Envelope>>>,
    next_id: AtomicU64,
    closed: AtomicBool,
    /// Ends the reader, and with it the socket, when the last handle to the connection is dropped: a
    /// command that asks once a second would else leave a connection behind each time.
    _reader: DropGuard,
}

/// Connects and shakes hands.
///
/// # Errors
/// [`IpcError::Connect`] when nobody accepts, or what the handshake said.
pub async fn connect(path: &Path, role: Role, generation: Generation) -> Result<Socket, IpcError> {
    let connect_error = |source| IpcError::Connect { path: path.to_owned(), source };
    let name = path.to_fs_name::<GenericFilePath>().map_err(connect_error)?;
    let socket = Socket::connect(name).await.map_err(connect_error)?;
    {
        let (mut reader, mut writer) = (&socket, &socket);
        frame::write(&mut writer, &codec::encode(&Hello::new(role, generation))?, MAX_BEFORE_HELLO).await?;
        let bytes = frame::read(&mut reader, MAX_BEFORE_HELLO).await?.ok_or(IpcError::Closed)?;
        codec::decode::<HelloReply>(&bytes)?.accept()?;
    }
    Ok(socket)
}

impl<R: Serialize> Client<R> {
    /// A client that connects when it is first used.
    pub fn new(path: PathBuf, role: Role, generation: Generation) -> Client<R> {
        let inner = Inner { path, role, generation, current: tokio::sync::Mutex::new(None) };
        Client { inner: Arc::new(inner), requests: PhantomData }
    }

    /// Makes a call and waits for its answer, over as many connections as it takes until `within` is
    /// over.
    ///
    /// # Errors
    /// The peer's refusal as [`IpcError::Fault`], [`IpcError::Deadline`], or why it could not be asked.
    pub async fn call<C: Call<Request = R>>(&self, call: C, within: Duration) -> Result<C::Reply, IpcError> {
        let body = codec::encode(&call.into_request())?;
        let deadline = Instant::now() + within;
        let mut pause = MIN_PAUSE;
        loop {
            let error = match self.try_call(&body, deadline).await {
                Ok(answer) => return finish(&answer),
                Err(e) => named(e, within),
            };
            if !error.is_retryable() || Instant::now() + pause >= deadline {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn try_call(&self, body: &[u8], deadline: Instant) -> Result<Envelope, IpcError> {
        let connection = self.connection(deadline).await?;
        let mut pending = connection.request(body, 1, deadline).await?;
        match timeout_at(deadline, pending.items.recv()).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(IpcError::Closed),
            Err(_) => Err(LATE),
        }
    }

    /// Starts a stream. The stream ends with [`IpcError::Closed`] when its connection is lost: how to
    /// go on is the caller's to say, since only it knows what it has seen.
    ///
    /// # Errors
    /// When the request could not be sent before `within` is over.
    pub async fn stream<S: Streaming<Request = R>>(
        &self,
        request: S,
        within: Duration,
    ) -> Result<Items<S::Item>, IpcError> {
        let body = codec::encode(&request.into_request())?;
        let deadline = Instant::now() + within;
        let mut pause = MIN_PAUSE;
        loop {
            let sent = match self.connection(deadline).await {
                Ok(connection) => connection.request(&body, STREAM_QUEUE, deadline).await,
                Err(e) => Err(e),
            };
            match sent {
                Ok(pending) => return Ok(Items { pending, item: PhantomData }),
                Err(e) if !e.is_retryable() || Instant::now() + pause >= deadline => {
                    return Err(named(e, within));
                }
                Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn connection(&self, deadline: Instant) -> Result<Arc<Connection>, IpcError> {
        let mut current = timeout_at(deadline, self.inner.current.lock()).await.map_err(|_| LATE)?;
        if let Some(connection) = current.as_ref().filter(|c| !c.closed.load(Ordering::Acquire)) {
            return Ok(connection.clone());
        }
        let connecting = connect(&self.inner.path, self.inner.role, self.inner.generation);
        let socket = timeout_at(deadline, connecting).await.map_err(|_| LATE)??;
        let connection = Connection::start(socket);
        *current = Some(connection.clone());
        Ok(connection)
    }
}

impl Connection {
    fn start(socket: Socket) -> Arc<Connection> {
        let socket = Arc::new(socket);
        let (out, writer) = outbox();
        let dropped = CancellationToken::new();
        let connection = Arc::new(Connection {
            out,
            waiting: Mutex::new(HashMap::new()),
            next_id: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            _reader: dropped.clone().drop_guard(),
        });
        tokio::spawn(writer.run(socket.clone()));
        // The reader holds the connection weakly: when the client is dropped, the reader is too.
        let weak = Arc::downgrade(&connection);
        tokio::spawn(async move {
            let mut reader = BufReader::with_capacity(frame::READ_AHEAD, &*socket);
            loop {
                let read = tokio::select! {
                    () = dropped.cancelled() => return,
                    read = frame::read(&mut reader, MAX_FRAME) => read,
                };
                let Some(connection) = weak.upgrade() else { return };
                let Ok(Some(bytes)) = read else { return connection.close() };
                let Ok(envelope) = codec::decode::<Envelope>(&bytes) else { return connection.close() };
                connection.deliver(envelope).await;
            }
        });
        connection
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.waiters().clear();
    }

    fn waiters(&self) -> std::sync::MutexGuard<'_, HashMap<u64, mpsc::Sender<Envelope>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn deliver(&self, envelope: Envelope) {
        let id = envelope.id;
        let last = matches!(envelope.kind, Kind::Reply | Kind::Fault);
        let waiter = if last { self.waiters().remove(&id) } else { self.waiters().get(&id).cloned() };
        if let Some(waiter) = waiter
            && waiter.send(envelope).await.is_err()
        {
            // Nobody waits any more; the pending handle's drop has told the peer.
            self.waiters().remove(&id);
        }
    }

    async fn request(
        self: &Arc<Self>,
        body: &[u8],
        queue: usize,
        deadline: Instant,
    ) -> Result<Pending, IpcError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let envelope = Envelope { kind: Kind::Request, id, body: body.to_vec() };
        let sealed = frame::seal(&codec::encode(&envelope)?, MAX_FRAME)?;
        let (tx, items) = mpsc::channel(queue);
        self.waiters().insert(id, tx);
        let pending = Pending { id, items, connection: self.clone() };
        // Closed between the look-up and the insert: nobody would ever wake this waiter.
        if self.closed.load(Ordering::Acquire) {
            return Err(IpcError::Closed);
        }
        match timeout_at(deadline, self.out.send(sealed)).await {
            Ok(Ok(())) => Ok(pending),
            Ok(Err(e)) => Err(e),
            Err(_) => Err(LATE),
        }
    }
}

/// A request that waits for its answer; dropping it tells the peer that nobody does any more.
struct Pending {
    id: u64,
    items: mpsc::Receiver<Envelope>,
    connection: Arc<Connection>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.connection.waiters().remove(&self.id).is_some() {
            let cancel = Envelope { kind: Kind::Cancel, id: self.id, body: Vec::new() };
            if let Ok(sealed) = codec::encode(&cancel).and_then(|bytes| frame::seal(&bytes, MAX_FRAME)) {
                // With a full outbox the peer works for nothing, which is harmless.
                self.connection.out.try_send(sealed);
            }
        }
    }
}

/// The items of a stream.
pub struct Items<T> {
    pending: Pending,
    item: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Items<T> {
    /// The next item; `None` when the peer ended the stream.
    ///
    /// # Errors
    /// The peer's refusal, or [`IpcError::Closed`] when the connection was lost.
    pub async fn next(&mut self) -> Result<Option<T>, IpcError> {
        let Some(envelope) = self.pending.items.recv().await else { return Err(IpcError::Closed) };
        match envelope.kind {
            Kind::Item => codec::decode(&envelope.body).map(Some),
            Kind::Reply => Ok(None),
            _ => Err(fault_of(&envelope)),
        }
    }
}

fn finish<T: DeserializeOwned>(answer: &Envelope) -> Result<T, IpcError> {
    match answer.kind {
        Kind::Reply => codec::decode(&answer.body),
        _ => Err(fault_of(answer)),
    }
}

fn fault_of(envelope: &Envelope) -> IpcError {
    match codec::decode::<Fault>(&envelope.body) {
        Ok(fault) => IpcError::Fault(fault),
        Err(e) => e,
    }
}

/// The deadline is over. How long it was is filled in by [`named`].
const LATE: IpcError = IpcError::Deadline { ms: 0 };

fn named(error: IpcError, within: Duration) -> IpcError {
    match error {
        IpcError::Deadline { .. } => {
            IpcError::Deadline { ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX) }
        }
        other => other,
    }
}
