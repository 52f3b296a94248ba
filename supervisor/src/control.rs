//! The supervisor's own socket: status, restart, reload, shutdown. It answers from the board and passes
//! orders on; it works when every worker is down.

use crate::{
    board::Entries,
    daemon::{Order, Shared},
    machine::Event,
    measure,
    sockets::UnixSocket,
    worker::WorkerName,
};
use interprocess::os::unix::uds_local_socket::tokio::Listener;
use leo_ipc::{
    Done, Fault, Generation,
    control::{
        ControlRequest, GetStatus, Reload, Reloaded, RestartWorker, Shutdown, SupervisorStatus, WorkerState,
    },
    server::{self, Answer, Handler, Peer},
};
use std::{collections::BTreeMap, io, sync::Arc, time::Duration};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// How long the answer to a restart waits for the new process to be ready. Longer than a drain and a
/// start of a sound worker together; a caller's own deadline must be longer still.
pub(crate) const RESTART_DEADLINE: Duration = Duration::from_secs(30);

/// Answers control requests.
pub(crate) struct Control {
    shared: Arc<Shared>,
}

/// Serves the control socket until `stop`. Must be called inside a tokio runtime.
///
/// # Errors
/// When the listener cannot be used.
pub(crate) fn serve(socket: &UnixSocket, control: Control, stop: CancellationToken) -> io::Result<()> {
    let listener = Listener::try_from(socket.duplicate()?)?;
    tokio::spawn(server::serve(listener, Arc::new(control), stop));
    Ok(())
}

impl Handler for Control {
    type Request = ControlRequest;

    async fn handle(&self, _peer: Peer, request: ControlRequest) -> Answer {
        match request {
            ControlRequest::Status(ask) => Answer::of(Ok(self.status(&ask).await)),
            ControlRequest::RestartWorker(ask) => Answer::of(self.restart(ask).await),
            ControlRequest::Reload(Reload {}) => Answer::of(self.reload().await),
            ControlRequest::Shutdown(Shutdown {}) => {
                self.shared.stop.cancel();
                Answer::of(Ok(Done {}))
            }
            ControlRequest::Unknown => Answer::unknown_request(),
        }
    }
}

impl Control {
    /// Answers for this supervisor.
    pub(crate) fn new(shared: Arc<Shared>) -> Control {
        Control { shared }
    }

    async fn status(&self, ask: &GetStatus) -> SupervisorStatus {
        let shared = &self.shared;
        let mut status = SupervisorStatus {
            version: leo_ipc::version::BUILD.to_owned(),
            pid: std::process::id(),
            boot_id: shared.boot_id.clone(),
            since: shared.since,
            tcp: shared.tcp.map(|address| address.to_string()),
            config_error: shared.config_error(),
            rss_bytes: None,
            cpu_percent: None,
            workers: shared.board.statuses(),
        };
        if ask.measure {
            let pids: Vec<u32> = status.workers.iter().filter_map(|w| w.pid).chain([status.pid]).collect();
            // A failed measurement leaves the fields out, which is what they then say.
            let seen = tokio::task::spawn_blocking(move || measure::usage(&pids)).await.unwrap_or_default();
            let of = |pid: Option<u32>| pid.and_then(|pid| seen.get(&pid));
            status.rss_bytes = of(Some(status.pid)).map(|u| u.rss_bytes);
            status.cpu_percent = of(Some(status.pid)).map(|u| u.cpu_percent);
            for worker in &mut status.workers {
                worker.rss_bytes = of(worker.pid).map(|u| u.rss_bytes);
                worker.cpu_percent = of(worker.pid).map(|u| u.cpu_percent);
            }
        }
        status
    }

    /// Replaces processes and waits until the new ones are ready, so that "done" means done.
    async fn restart(&self, ask: RestartWorker) -> Result<Done, Fault> {
        let mut board = self.shared.board.watch();
        // One that is just starting is fresh already: it only has to become ready.
        let before: BTreeMap<WorkerName, Generation> = board
            .borrow()
            .iter()
            .map(|(name, entry)| {
                let starting = entry.status.state == WorkerState::Starting;
                let old = if starting { entry.generation.0.saturating_sub(1) } else { entry.generation.0 };
                (name.clone(), Generation(old))
            })
            .collect();
        let (told, reached) = oneshot::channel();
        let who = (ask.name != "all").then(|| ask.name.clone());
        let order = Order::Tell { who, event: Event::Restart, told };
        let stopping = || Fault::unavailable("the supervisor is stopping");
        self.shared.orders.send(order).await.map_err(|_| stopping())?;
        let reached = reached.await.map_err(|_| stopping())?;
        if reached.is_empty() {
            let known: Vec<String> = before.keys().map(ToString::to_string).collect();
            return Err(Fault::new(
                "unknown_worker",
                format!("there is no worker `{}`; there are: {}", ask.name, known.join(", ")),
            ));
        }
        let replaced = |entries: &Entries, name: &WorkerName| {
            let old = before.get(name).copied().unwrap_or(Generation(0));
            // A worker that went meanwhile (its agent was removed) needs no waiting for.
            entries.get(name).is_none_or(|entry| {
                entry.is_ready_after(old) || (entry.is_failed() && entry.generation > old)
            })
        };
        let all = board.wait_for(|entries| reached.iter().all(|name| replaced(entries, name)));
        match tokio::time::timeout(RESTART_DEADLINE, all).await {
            Ok(Ok(entries)) => {
                let failed = reached.iter().filter_map(|name| {
                    let entry = entries.get(name).filter(|entry| entry.is_failed())?;
                    Some(format!("{name} failed: {}", entry.status.reason.as_deref().unwrap_or("no reason")))
                });
                let failed: Vec<String> = failed.collect();
                if failed.is_empty() { Ok(Done {}) } else { Err(Fault::unavailable(failed.join("; "))) }
            }
            Ok(Err(_)) => Err(stopping()),
            Err(_) => Err(Fault::new(
                "timeout",
                format!("not ready again within {} s: see `leo worker list`", RESTART_DEADLINE.as_secs()),
            )),
        }
    }

    async fn reload(&self) -> Result<Reloaded, Fault> {
        match self.shared.reload().await {
            Ok(needs_restart) => Ok(Reloaded { needs_restart }),
            Err(e) => {
                Err(Fault::new("bad_config", format!("{e} (the last good configuration stays in force)")))
            }
        }
    }
}
