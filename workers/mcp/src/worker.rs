//! The worker: accepts the shims of one agent and serves each in a session of its own.

use crate::session;
use interprocess::{local_socket::traits::tokio::Listener as _, os::unix::uds_local_socket::tokio::Listener};
use leo_ipc::{AgentName, ExitCode, IpcError, client::Client, hub::HubRequest};
use leo_runtime::{Threads, Worker, WorkerError};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Most shims of one agent at once: its own, and one for each subagent that starts servers of its own.
/// More wait in the listener's backlog.
const MAX_SESSIONS: usize = 64;

/// Pause after a failed accept: out of descriptors, most likely, and nothing to gain by asking at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Runs the worker `mcp:<agent>` to its end.
pub fn worker() -> ExitCode {
    leo_runtime::run("mcp", Threads::One, run)
}

async fn run(mut worker: Worker) -> Result<(), WorkerError> {
    let agent: AgentName = worker
        .instance()
        .parse()
        .map_err(|e| WorkerError::Permanent(format!("the worker's name names no agent: {e}")))?;
    let listener = worker.unix_listener("mcp")?;
    let hub = worker.hub();
    let (probe_tx, probes) = mpsc::channel::<oneshot::Sender<()>>(1);
    worker.ready(move || {
        let probes = probe_tx.clone();
        async move {
            let (tx, rx) = oneshot::channel();
            // A loop that has ended drops both ends, and the process ends with it.
            if probes.send(tx).await.is_ok() {
                let _ = rx.await;
            }
        }
    })?;
    accept(listener, agent, hub, probes, worker.drain.clone()).await;
    Ok(())
}

/// Accepts until `stop`. Sessions end with it: their shims come again to the next worker and send open
/// calls anew, with the same keys.
async fn accept(
    listener: Listener,
    agent: AgentName,
    hub: Client<HubRequest>,
    mut probes: mpsc::Receiver<oneshot::Sender<()>>,
    stop: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(MAX_SESSIONS));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some(probe) = probes.recv() => {
                let _ = probe.send(());
            }
            (slot, accepted) = async {
                (slots.clone().acquire_owned().await, listener.accept().await)
            } => match accepted {
                Ok(socket) => {
                    let session = session::serve(socket, agent.clone(), hub.clone(), stop.clone());
                    tokio::spawn(async move {
                        let _slot = slot;
                        match session.await {
                            Ok(()) | Err(IpcError::Closed) => tracing::info!("shim left"),
                            Err(e) => tracing::warn!(error = %e, "shim lost"),
                        }
                    });
                }
                Err(e) => {
                    tracing::warn!(error = %e, "cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}
