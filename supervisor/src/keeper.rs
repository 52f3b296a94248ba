//! One task per worker: it feeds the state machine with what happens to the process and performs what
//! the machine says. It decides nothing itself.

use crate::{
    board::Entry,
    daemon::Shared,
    link::{self, Says, Told},
    machine::{Action, Ended, Event, Machine},
    policy::Moment,
    ready,
    sockets::UnixSocket,
    spawn::Spawned,
    standin, stderr,
    worker::{Protocol, WorkerName},
};
use leo_ipc::{
    Generation, Time,
    control::{Start, WorkerState, WorkerStatus},
};
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use std::{collections::VecDeque, io, os::fd::OwnedFd, process::ExitStatus, sync::Arc, time::Duration};
use tokio::{
    process::Child,
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// Events of one process that wait for its keeper. Beyond it the process's own conversation waits.
const EVENTS: usize = 32;
/// Commands that wait for a keeper; beyond it the sender waits.
pub(crate) const COMMANDS: usize = 16;
/// How long the last word of a dead process may take to be read; it is there already, and only the
/// task that reads it has to have its turn.
const LAST_FRAME: Duration = Duration::from_millis(20);
/// How long a descendant that left the process group may hold standard error open before its last words
/// are kept as they are.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A listener that a worker gets.
#[derive(Debug)]
pub(crate) struct Held {
    /// Its name in `Start.listeners`.
    pub(crate) name: &'static str,
    /// What is spoken on it.
    pub(crate) protocol: Protocol,
    /// The socket.
    pub(crate) socket: Socket,
}

/// The socket of a [`Held`] listener.
#[derive(Debug)]
pub(crate) enum Socket {
    /// With its file.
    Unix(UnixSocket),
    /// TCP.
    Tcp(std::net::TcpListener),
}

impl Held {
    fn duplicate(&self) -> io::Result<OwnedFd> {
        match &self.socket {
            Socket::Unix(socket) => socket.duplicate(),
            Socket::Tcp(listener) => Ok(listener.try_clone()?.into()),
        }
    }
}

/// A running process and the tasks around it.
struct Process {
    generation: Generation,
    pid: Pid,
    child: Child,
    since: Time,
    drain: watch::Sender<Option<Duration>>,
    conversation: JoinHandle<()>,
    readiness: JoinHandle<()>,
    stderr: JoinHandle<Vec<u8>>,
}

/// Keeps one worker until it is not wanted any more. The listeners are unlinked when it ends.
pub(crate) struct Keeper {
    name: WorkerName,
    log: Arc<str>,
    shared: Arc<Shared>,
    listeners: Vec<Held>,
    machine: Machine,
    process: Option<Process>,
    stand_in: Option<CancellationToken>,
    commands: mpsc::Receiver<Event>,
    /// The channel of commands has ended.
    deserted: bool,
    /// What processes of this worker say, with their generations.
    said: mpsc::Sender<(Generation, Event)>,
    heard: mpsc::Receiver<(Generation, Event)>,
}

impl Keeper {
    /// A keeper that waits for its first [`Event::Want`].
    pub(crate) fn new(
        name: WorkerName,
        listeners: Vec<Held>,
        shared: Arc<Shared>,
        commands: mpsc::Receiver<Event>,
    ) -> Keeper {
        let (said, heard) = mpsc::channel(EVENTS);
        Keeper {
            log: name.log_name().into(),
            machine: Machine::new(name.limits()),
            name,
            shared,
            listeners,
            process: None,
            stand_in: None,
            commands,
            deserted: false,
            said,
            heard,
        }
    }

    /// Runs until the worker is down and not wanted. A wish that comes too late meets a closed channel,
    /// and the daemon makes a new keeper.
    pub(crate) async fn run(mut self) {
        loop {
            let event = self.next_event().await;
            self.take(event).await;
            if self.machine.is_over() {
                break;
            }
        }
        self.shared.board.remove(&self.name);
    }

    async fn next_event(&mut self) -> Event {
        let wake = self.machine.next_wake().map(|at| self.shared.started + at);
        let tick = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(tick);
        loop {
            // What the worker says comes last: one that talks without end must not keep us from its
            // deadline, or from stopping it.
            tokio::select! {
                biased;
                ended = exit(self.process.as_mut()) => return Event::Exited(ended),
                command = self.commands.recv(), if !self.deserted => {
                    // Nobody can want anything of it any more.
                    self.deserted = command.is_none();
                    return command.unwrap_or(Event::Unwant);
                }
                () = &mut tick => return Event::Tick,
                Some((generation, event)) = self.heard.recv() => {
                    // What an earlier process said has no meaning any more.
                    if self.process.as_ref().is_some_and(|p| p.generation == generation) {
                        return event;
                    }
                }
            }
        }
    }

    async fn take(&mut self, event: Event) {
        let mut pending = VecDeque::from([event]);
        while let Some(event) = pending.pop_front() {
            if let Event::Exited(how) = event {
                self.clean_up(how).await;
            }
            for action in self.step(event) {
                if let Some(next) = self.perform(action) {
                    pending.push_back(next);
                }
            }
        }
        self.publish();
    }

    fn step(&mut self, event: Event) -> Vec<Action> {
        let before = self.machine.state();
        let (machine, actions) = self.machine.clone().step(event, self.now(), rand::random());
        self.machine = machine;
        let after = self.machine.state();
        if before != after || actions.iter().any(|a| matches!(a, Action::Spawn(_))) {
            let (worker, generation) = (self.name.to_string(), self.machine.generation().0);
            let reason = self.machine.reason();
            match after {
                WorkerState::Failed => {
                    tracing::error!(worker, generation, reason, "worker failed");
                }
                WorkerState::Backoff | WorkerState::Degraded => {
                    tracing::warn!(worker, generation, reason, state = ?after, "worker died");
                }
                _ => tracing::info!(worker, generation, reason, state = ?after, "worker"),
            }
        }
        actions
    }

    fn now(&self) -> Moment {
        self.shared.started.elapsed()
    }

    fn perform(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Spawn(generation) => match self.spawn(generation) {
                Ok(process) => self.process = Some(process),
                Err(e) => return Some(Event::SpawnFailed(format!("it cannot be started: {e}"))),
            },
            Action::Drain(within) => {
                if let Some(process) = &self.process {
                    process.drain.send_replace(Some(within));
                }
            }
            Action::Terminate => self.signal(Signal::SIGTERM, true),
            Action::Abort => self.signal(Signal::SIGABRT, false),
            Action::Kill => self.signal(Signal::SIGKILL, true),
            Action::StandIn(true) => self.stand_in(),
            Action::StandIn(false) => {
                if let Some(stop) = self.stand_in.take() {
                    stop.cancel();
                }
            }
            Action::SayLate => {
                tracing::warn!(worker = %self.name, generation = self.machine.generation().0, "the heartbeat is late");
            }
        }
        None
    }

    fn signal(&self, signal: Signal, group: bool) {
        let Some(process) = &self.process else { return };
        tracing::warn!(worker = %self.name, pid = process.pid.as_raw(), %signal, reason = self.machine.reason(), "signal");
        // It is our child and not reaped yet, so the number is its own.
        let sent = if group { killpg(process.pid, signal) } else { kill(process.pid, signal) };
        if let Err(e) = sent {
            tracing::warn!(worker = %self.name, error = %e, "the signal was not sent");
        }
    }

    fn spawn(&self, generation: Generation) -> io::Result<Process> {
        let listeners = self.listeners.iter().map(Held::duplicate).collect::<io::Result<Vec<_>>>()?;
        let args = ["worker".into(), self.name.kind().into()];
        let Spawned { child, control, mut ready, stderr } =
            self.shared.spawner.spawn(&args, generation, listeners)?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the process has no id"))?;
        let (drain, drained) = watch::channel(None);
        let told = Told {
            config: self.shared.config.subscribe(),
            workers: self.name.is_told_about_workers().then(|| self.shared.board.watch()),
            beat: self.shared.beat.subscribe(),
            drain: drained,
        };
        let says = Says {
            events: self.said.clone(),
            mcp_agents: match self.name {
                WorkerName::Agents => Some(self.shared.mcp_agents.clone()),
                WorkerName::Tasks => Some(self.shared.mcp_runs.clone()),
                _ => None,
            },
        };
        let conversation = tokio::spawn(link::converse(control, self.start(generation), told, says));
        let events = self.said.clone();
        let readiness = tokio::spawn(async move {
            let mut says = ready::wait(&mut ready).await.then_some(Event::Ready);
            while let Some(event) = says {
                if events.send((generation, event)).await.is_err() {
                    return;
                }
                says = ready::beat(&mut ready).await.then_some(Event::Heartbeat);
            }
        });
        let stderr = tokio::spawn(stderr::drain(stderr, self.shared.logs.clone(), self.log.clone()));
        Ok(Process { generation, pid, child, since: Time::now(), drain, conversation, readiness, stderr })
    }

    fn start(&self, generation: Generation) -> Start {
        Start {
            worker: self.name.to_string(),
            generation,
            home: self.shared.home.root().display().to_string(),
            boot_id: self.shared.boot_id.clone(),
            supervisor_pid: std::process::id(),
            program: self.shared.spawner.program().display().to_string(),
            listeners: self.listeners.iter().map(|held| held.name.to_owned()).collect(),
            heartbeat_s: crate::health::EVERY_S,
            config: self.shared.config.borrow().clone(),
        }
    }

    /// Ends what was around a process that is gone, after reading why it went.
    async fn clean_up(&mut self, how: Ended) {
        let Some(mut process) = self.process.take() else { return };
        // Whatever it started is in its group and must not work on beside its successor.
        let _ = killpg(process.pid, Signal::SIGKILL);
        // Its last word may still be in a pipe: that it was ready, or why it ends.
        if self.machine.state() != WorkerState::Running {
            let _ = tokio::time::timeout(LAST_FRAME, &mut process.readiness).await;
        }
        if matches!(how, Ended::Code(code) if code != 0) {
            let _ = tokio::time::timeout(LAST_FRAME, &mut process.conversation).await;
        }
        while let Ok((generation, event)) = self.heard.try_recv() {
            if generation == process.generation && matches!(event, Event::Fatal(_) | Event::Ready) {
                self.step(event);
            }
        }
        process.conversation.abort();
        process.readiness.abort();
        tracing::info!(worker = %self.name, generation = process.generation.0, pid = process.pid.as_raw(), how = %how, "process ended");
        let (logs, log, generation) = (self.shared.logs.clone(), self.log.clone(), process.generation.0);
        if how == Ended::Code(0) {
            // It said nothing that its log does not keep; the reader ends by itself.
            return;
        }
        tokio::spawn(async move {
            let mut reader = process.stderr;
            match tokio::time::timeout(LAST_WORDS, &mut reader).await {
                Ok(Ok(words)) => logs.last_words(&log, generation, words),
                Ok(Err(_)) => {}
                Err(_) => reader.abort(),
            }
        });
    }

    fn stand_in(&mut self) {
        if self.stand_in.is_some() {
            return;
        }
        let stop = CancellationToken::new();
        let why = self.machine.reason().unwrap_or("it died");
        let reason = format!("The {} worker is down: {why}. See `leo status`.", self.name);
        for held in &self.listeners {
            let tcp = matches!(held.socket, Socket::Tcp(_));
            let started = held
                .duplicate()
                .and_then(|fd| standin::start(fd, tcp, held.protocol, reason.clone(), stop.clone()));
            if let Err(e) = started {
                tracing::error!(worker = %self.name, listener = held.name, error = %e, "nobody answers for it");
            }
        }
        self.stand_in = Some(stop);
    }

    fn publish(&self) {
        let status = WorkerStatus {
            name: self.name.to_string(),
            pid: self.process.as_ref().map(|p| p.pid.as_raw().unsigned_abs()),
            state: self.machine.state(),
            restarts: self.machine.restarts(),
            since: self.process.as_ref().map(|p| p.since),
            reason: self.machine.reason().map(str::to_owned),
            rss_bytes: None,
            cpu_percent: None,
        };
        self.shared.board.put(&self.name, Entry { status, generation: self.machine.generation() });
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(stop) = &self.stand_in {
            stop.cancel();
        }
    }
}

/// Waits for the process to end; for ever when there is none.
async fn exit(process: Option<&mut Process>) -> Ended {
    match process {
        Some(process) => match process.child.wait().await {
            Ok(status) => ended(status),
            // Without its status nothing is known but that it cannot be waited for.
            Err(_) => Ended::Code(leo_ipc::ExitCode::Failure as i32),
        },
        None => std::future::pending().await,
    }
}

fn ended(status: ExitStatus) -> Ended {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, Some(signal)) => Ended::Signal(signal),
        (None, None) => Ended::Code(leo_ipc::ExitCode::Failure as i32),
    }
}
