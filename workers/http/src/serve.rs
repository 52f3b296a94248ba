//! Connections: accepted on inherited listeners, bounded in number and patience, and ended on drain
//! without cutting an answer in two.

use crate::auth::Trust;
use axum::{Router, body::Body};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{future::Future, io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::{Semaphore, mpsc, oneshot},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

/// Most connections of one listener. More wait in its backlog; each listener has its own, so that
/// strangers on TCP cannot lock the person's terminal out of the socket.
const MAX_CONNECTIONS: usize = 4096;

/// A request's head must arrive within this time, which also ends idle connections.
const HEAD_DEADLINE: Duration = Duration::from_secs(75);

/// How long a drain waits for the first request of a connection that was just made.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// Read and write buffer of a connection: a slow client holds no more than this outside the ring.
const BUFFER: usize = 64 * 1024;

/// Pauses after a failed accept, which mostly means that descriptors ran out.
const MIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Ends the connection on which a request came, from outside: for streams whose socket does not drain.
#[derive(Debug, Clone)]
pub(crate) struct Kill(pub(crate) CancellationToken);

/// A question to the accept loop whether it still comes round.
pub(crate) type Probe = mpsc::Receiver<oneshot::Sender<()>>;

/// A listener of either kind.
pub(crate) trait Door: Send + Sync + 'static {
    /// A connection.
    type Io: AsyncRead + AsyncWrite + Send + Unpin + 'static;
    /// Who can come through it.
    const TRUST: Trust;
    /// The next connection.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Io>> + Send;
}

impl Door for TcpListener {
    type Io = tokio::net::TcpStream;
    const TRUST: Trust = Trust::Network;

    async fn accept(&self) -> io::Result<Self::Io> {
        let (stream, _) = TcpListener::accept(self).await?;
        // Events are small and must not wait for more; a socket that cannot is still a connection.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl Door for UnixListener {
    type Io = tokio::net::UnixStream;
    const TRUST: Trust = Trust::Socket;

    async fn accept(&self) -> io::Result<Self::Io> {
        loop {
            let (stream, _) = UnixListener::accept(self).await?;
            let ours = nix::unistd::geteuid().as_raw();
            match stream.peer_cred() {
                Ok(peer) if peer.uid() == ours => return Ok(stream),
                // The file mode keeps others out; root is let in by the system and turned away here,
                // unless we are root.
                Ok(peer) => tracing::warn!(uid = peer.uid(), "a peer of another user was turned away"),
                Err(e) => tracing::debug!(error = %e, "a peer left before it could be looked at"),
            }
        }
    }
}

/// Serves `door` until `drain`, then lets connections finish what they are answering. Connections run
/// in `tasks`, which the caller waits for.
pub(crate) async fn serve<D: Door>(
    door: D,
    router: Router,
    drain: CancellationToken,
    tasks: TaskTracker,
    mut probe: Probe,
) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut pause = MIN_PAUSE;
    loop {
        let accept = async {
            let slot = slots.clone().acquire_owned().await;
            (slot, door.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            () = drain.cancelled() => return,
            Some(answer) = probe.recv() => {
                // Whoever asked may have stopped waiting.
                let _ = answer.send(());
                continue;
            }
            accepted = accept => accepted,
        };
        match accepted {
            Ok(stream) => {
                pause = MIN_PAUSE;
                let connection = connection(stream, D::TRUST, router.clone(), drain.clone());
                tasks.spawn(async move {
                    connection.await;
                    drop(slot);
                });
            }
            Err(e) => {
                tracing::warn!(error = %e, "cannot accept a connection");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
    }
}

async fn connection<I>(stream: I, trust: Trust, router: Router, drain: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let kill = CancellationToken::new();
    let (killer, asked) = (kill.clone(), CancellationToken::new());
    let first = asked.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        first.cancel();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(trust);
        request.extensions_mut().insert(Kill(killer.clone()));
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut goodbye = std::pin::pin!(time_to_end(&drain, &asked));
    let mut ending = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(e) = ended {
                    tracing::debug!(error = %e, "a connection ended badly");
                }
                return;
            }
            () = kill.cancelled() => return,
            () = goodbye.as_mut(), if !ending => {
                ending = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Returns when a connection should take no further request. One that was accepted a moment before the
/// drain has its first request on the way: ending it at once would cut that off.
async fn time_to_end(drain: &CancellationToken, asked: &CancellationToken) {
    drain.cancelled().await;
    // Either it came, or nobody is going to ask.
    let _ = tokio::time::timeout(FIRST_REQUEST, asked.cancelled()).await;
}
