//! The sole speaker to tmux: launches, adopts, stops and watches agents, and hands messages to them.
//! It must not keep messages.

mod agent;
mod bridge;
mod delivery;
mod feed;
mod fleet;
mod harness;
mod hub;
mod inbox;
mod serve;
mod tmux;

use agent::{Pids, Shared};
use fleet::{Event, Fleet};
use hub::Hub;
use leo_ipc::{ExitCode, server};
use leo_runtime::{Threads, Worker, WorkerError};
use std::{sync::Arc, time::Duration};
use tokio::{
    net::UnixListener,
    sync::{mpsc, oneshot},
};

/// Events waiting for the fleet. Beyond it the hub's stream and callers wait; the fleet itself never
/// does.
const FLEET_QUEUE: usize = 256;

/// Requests that were accepted are answered within this time after the drain began.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

/// Runs the worker process to its end.
pub fn worker() -> ExitCode {
    leo_runtime::run("agents", Threads::One, run)
}

/// The listener of the mods, as tokio takes it.
fn bridge_listener(worker: &mut Worker) -> Result<UnixListener, WorkerError> {
    let listener = std::os::unix::net::UnixListener::from(worker.take_listener("bridge")?);
    let usable = listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener));
    usable.map_err(|e| WorkerError::Failure(format!("the listener bridge cannot be used: {e}")))
}

async fn run(mut worker: Worker) -> Result<(), WorkerError> {
    let listener = worker.unix_listener("agents")?;
    let bridge = bridge_listener(&mut worker)?;
    let base = leo_launch::ours();
    let hub = Hub::new(worker.hub());
    let (told_tx, told) = mpsc::channel(FLEET_QUEUE);
    let (events_tx, events) = mpsc::channel(FLEET_QUEUE);
    let shared = Arc::new(Shared {
        home: worker.home.clone(),
        program: worker.start.program.clone(),
        tmux: tmux::Tmux::new(worker.home.tmux_server(), &base),
        base,
        hub: hub.clone(),
        fleet: told_tx,
        pids: Pids::default(),
        links: Arc::default(),
        inboxes: inbox::Inboxes::new(&worker.home).into(),
        config: worker.config(),
    });
    let links = shared.links.clone();
    let inboxes = shared.inboxes.clone();
    feed::watch_processes(shared.clone(), events_tx.clone())
        .map_err(|e| WorkerError::Failure(format!("no thread that looks at processes: {e}")))?;
    let fleet = tokio::spawn(Fleet::new(shared, worker.supervisor()).run(events, told));
    tokio::spawn(feed::follow_hub(worker.hub(), hub.clone(), events_tx.clone()));
    tokio::spawn(feed::follow_config(worker.config(), hub, events_tx.clone()));
    let handler = Arc::new(serve::Agents::new(events_tx.clone()));
    let serving = tokio::spawn(server::serve(listener, handler, worker.drain.clone()));

    tokio::spawn(bridge::serve(
        bridge,
        links,
        Hub::new(worker.hub()),
        events_tx.clone(),
        worker.drain.clone(),
    ));

    let receipts = events_tx.clone();
    tokio::spawn(async move { inboxes.receive(receipts).await });

    let probe = events_tx.clone();
    worker.ready(move || {
        let probe = probe.clone();
        async move {
            let (ping, pong) = oneshot::channel();
            if probe.send(Event::Ping(ping)).await.is_ok() {
                // No answer means no heartbeat, which is the truth.
                let _ = pong.await;
            }
        }
    })?;
    tokio::select! {
        () = worker.drain.cancelled() => {}
        ended = fleet => {
            let why = ended.err().map_or_else(|| "it returned".to_owned(), |e| e.to_string());
            return Err(WorkerError::Failure(format!("the fleet ended: {why}")));
        }
    }
    // Whatever is in the middle of something is repaired by the next start; agents stay as they are.
    let _ = tokio::time::timeout(LAST_ANSWERS, serving).await;
    Ok(())
}
