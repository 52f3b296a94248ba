//! The http worker: JSON, event stream and web page over TCP and the home's unix socket.
//!
//! It owns who may ask (tokens, hosts, origins), how requests and answers look (the envelope), and how
//! events reach many readers. It decides no state: a route decodes, asks the hub or the agents worker,
//! and encodes.

mod answer;
mod app;
mod auth;
mod extract;
mod guard;
mod live;
mod platform;
mod rate;
mod routes;
mod serve;
#[cfg(test)]
mod tests;

use app::{App, Parts};
use auth::{Identities, Operator, Trust};
use leo_ipc::ExitCode;
use leo_runtime::{Threads, Worker, WorkerError};
use live::Live;
use std::os::fd::OwnedFd;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{mpsc, oneshot},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Runs the worker to its end.
pub fn worker() -> ExitCode {
    leo_runtime::run("http", Threads::Many(2), main)
}

async fn main(mut worker: Worker) -> Result<(), WorkerError> {
    platform::raise_descriptor_limit();
    let live = Live::new();
    // A client of its own: the stream and the calls must not wait for each other.
    let feed = tokio::spawn(live.clone().feed(worker.hub()));
    let sweep = tokio::spawn(live.clone().sweep_for_ever());
    let home = worker.home.clone();
    tokio::task::spawn_blocking(move || routes::uploads::remove_leftovers(&home));
    let app = App::new(Parts {
        home: worker.home.clone(),
        boot_id: worker.start.boot_id.clone(),
        supervisor_pid: worker.start.supervisor_pid,
        hub: worker.hub(),
        agents: worker.agents(),
        live,
        operator: Operator::new(worker.home.operator_token()),
        identities: Identities::new(),
        rates: rate::Rates::default(),
        config: worker.config(),
        workers: worker.workers(),
        drain: worker.drain.clone(),
    });

    let tasks = TaskTracker::new();
    let mut probes = Vec::new();
    let socket = unix_listener(worker.take_listener("http")?)?;
    probes.push(begin(socket, routes::router(&app, Trust::Socket), &app, &tasks));
    if worker.has_listener("tcp") {
        let tcp = tcp_listener(worker.take_listener("tcp")?)?;
        probes.push(begin(tcp, routes::router(&app, Trust::Network), &app, &tasks));
    }

    worker.ready(move || {
        let probes = probes.clone();
        async move {
            for probe in probes {
                come_round(&probe).await;
            }
        }
    })?;
    worker.drain.cancelled().await;
    tasks.close();
    tasks.wait().await;
    feed.abort();
    sweep.abort();
    Ok(())
}

/// Starts serving a listener; what comes back asks its loop whether it lives.
fn begin<D: serve::Door>(
    door: D,
    router: axum::Router,
    app: &App,
    tasks: &TaskTracker,
) -> mpsc::Sender<oneshot::Sender<()>> {
    let (ask, probe) = mpsc::channel(1);
    let drain: CancellationToken = app.drain.clone();
    tasks.spawn(serve::serve(door, router, drain, tasks.clone(), probe));
    ask
}

async fn come_round(probe: &mpsc::Sender<oneshot::Sender<()>>) {
    let (answer, answered) = oneshot::channel();
    // An error means that the loop has ended, which it does only on drain.
    if probe.send(answer).await.is_ok() {
        let _ = answered.await;
    }
}

fn unix_listener(fd: OwnedFd) -> Result<UnixListener, WorkerError> {
    let listener = std::os::unix::net::UnixListener::from(fd);
    listener
        .set_nonblocking(true)
        .and_then(|()| UnixListener::from_std(listener))
        .map_err(|e| WorkerError::Failure(format!("the listener http cannot be used: {e}")))
}

fn tcp_listener(fd: OwnedFd) -> Result<TcpListener, WorkerError> {
    let listener = std::net::TcpListener::from(fd);
    listener
        .set_nonblocking(true)
        .and_then(|()| TcpListener::from_std(listener))
        .map_err(|e| WorkerError::Failure(format!("the listener tcp cannot be used: {e}")))
}
