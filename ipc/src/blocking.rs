//! The client half without an async runtime, for `leo hook`: one call on one connection, with every
//! wait bounded.

use crate::{
    Call, Envelope, Fault, Generation, IpcError, Kind, codec,
    frame::{self, MAX_BEFORE_HELLO, MAX_FRAME},
    hello::{Hello, HelloReply, Role},
};
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket},
};
use std::{
    io::{self, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::Path,
    time::{Duration, Instant},
};

/// Pause before connecting again. macOS refuses a connection when the listener's backlog is full, and
/// a supervisor that is being replaced leaves no socket for a moment; both pass.
const PAUSE: Duration = Duration::from_millis(10);

/// How long a caller waits.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// As long as there is no socket, or nobody holds it: whether a daemon runs is known soon.
    pub absent: Duration,
    /// In all.
    pub total: Duration,
}

/// Makes one call, connecting again until `within` is over. The call may reach the peer twice, which
/// its idempotency key makes harmless.
///
/// # Errors
/// The peer's refusal as [`IpcError::Fault`], [`IpcError::Deadline`], or why it could not be asked.
pub fn call<C>(path: &Path, role: Role, call: C, within: Duration) -> Result<C::Reply, IpcError>
where
    C: Call,
{
    call_patiently(path, role, call, Patience { absent: within, total: within })
}

/// As [`call`], for a caller that waits less when there is no daemon at all.
///
/// # Errors
/// As [`call`].
pub fn call_patiently<C>(path: &Path, role: Role, call: C, patience: Patience) -> Result<C::Reply, IpcError>
where
    C: Call,
{
    let body = codec::encode(&call.into_request())?;
    let start = Instant::now();
    loop {
        let error = match attempt::<C>(path, role, &body, start + patience.total) {
            Ok(reply) => return Ok(reply),
            Err(e) => e,
        };
        let bound = if is_absent(&error) { patience.absent.min(patience.total) } else { patience.total };
        if matches!(error, IpcError::Deadline { .. }) {
            let ms = u64::try_from(patience.total.as_millis()).unwrap_or(u64::MAX);
            return Err(IpcError::Deadline { ms });
        }
        if !error.is_retryable() || start.elapsed() + PAUSE >= bound {
            return Err(error);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether nobody holds the socket at all.
fn is_absent(error: &IpcError) -> bool {
    matches!(error, IpcError::Connect { source, .. }
        if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused))
}

/// Connects without ever waiting: with a full backlog a plain connect would wait for as long as the
/// peer hangs, and no timeout of the standard library covers it.
fn connect_now(path: &Path) -> io::Result<UnixStream> {
    let address = UnixAddr::new(path)?;
    let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None)?;
    // Not at creation: macOS has no flag for it, and a hook starts nothing that could inherit it.
    fcntl(&fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    let stream = UnixStream::from(fd);
    stream.set_nonblocking(true)?;
    connect(stream.as_raw_fd(), &address)?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Connects and shakes hands. Afterwards reading and writing wait without a bound, unless the caller
/// sets one.
///
/// # Errors
/// [`IpcError::Connect`] when nobody accepts, [`IpcError::Deadline`], or what the handshake said.
pub fn connect_to(path: &Path, role: Role, within: Duration) -> Result<UnixStream, IpcError> {
    let deadline = Instant::now() + within;
    let mut socket =
        connect_now(path).map_err(|source| IpcError::Connect { path: path.to_owned(), source })?;
    set_deadline(&socket, deadline)?;
    frame::write_blocking(&mut socket, &codec::encode(&Hello::new(role, Generation(0)))?, MAX_BEFORE_HELLO)?;
    let reply = read(&mut socket, MAX_BEFORE_HELLO, deadline)?;
    codec::decode::<HelloReply>(&reply)?.accept()?;
    let io = |source| IpcError::Io { doing: "setting a timeout", source };
    socket.set_read_timeout(None).map_err(io)?;
    socket.set_write_timeout(None).map_err(io)?;
    Ok(socket)
}

fn attempt<C: Call>(path: &Path, role: Role, body: &[u8], deadline: Instant) -> Result<C::Reply, IpcError> {
    let mut socket =
        connect_now(path).map_err(|source| IpcError::Connect { path: path.to_owned(), source })?;
    set_deadline(&socket, deadline)?;
    // The hello is frozen and the server answers in order, so the request need not wait for the reply,
    // and one write wakes the server once.
    let mut out = frame::seal(&codec::encode(&Hello::new(role, Generation(0)))?, MAX_BEFORE_HELLO)?;
    let request = Envelope { kind: Kind::Request, id: 1, body: body.to_vec() };
    out.extend(frame::seal(&codec::encode(&request)?, MAX_FRAME)?);
    socket.write_all(&out).map_err(|source| IpcError::Io { doing: "writing a frame", source })?;
    let reply = read(&mut socket, MAX_BEFORE_HELLO, deadline)?;
    codec::decode::<HelloReply>(&reply)?.accept()?;
    loop {
        let envelope: Envelope = codec::decode(&read(&mut socket, MAX_FRAME, deadline)?)?;
        match envelope.kind {
            Kind::Reply => return codec::decode(&envelope.body),
            Kind::Fault => return Err(IpcError::Fault(codec::decode::<Fault>(&envelope.body)?)),
            _ => {}
        }
    }
}

fn read(socket: &mut UnixStream, limit: usize, deadline: Instant) -> Result<Vec<u8>, IpcError> {
    set_deadline(socket, deadline)?;
    match frame::read_blocking(socket, limit) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(IpcError::Closed),
        Err(IpcError::Io { source, .. })
            if matches!(source.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
        {
            Err(IpcError::Deadline { ms: 0 })
        }
        Err(e) => Err(e),
    }
}

fn set_deadline(socket: &UnixStream, deadline: Instant) -> Result<(), IpcError> {
    // A timeout of zero means "none" to the system.
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let io = |source| IpcError::Io { doing: "setting a timeout", source };
    socket.set_read_timeout(Some(left)).map_err(io)?;
    socket.set_write_timeout(Some(left)).map_err(io)
}
