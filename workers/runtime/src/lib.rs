//! What every worker process does: take over the inherited descriptors, greet the supervisor, say when
//! it is ready, beat from the loop that does the work, die with its parent, drain when asked, log.
//!
//! It must not grow into a place for helpers: what only two workers need does not belong here.

mod fds;
mod lifeline;
mod log;

use fds::Inherited;
use interprocess::os::unix::uds_local_socket::tokio::Listener;
use leo_ipc::{
    ExitCode, Generation, IpcError,
    agents::AgentsRequest,
    client::Client,
    codec,
    config::Config,
    control::{FromWorker, Start, ToWorker, WorkerStatus},
    frame::{self, MAX_BEFORE_HELLO, MAX_FRAME},
    hello::{Hello, HelloReply, Role},
    hub::HubRequest,
    paths::{BadHome, Home},
};
use std::{collections::HashMap, future::Future, io::Write, os::fd::OwnedFd, path::PathBuf, time::Duration};
use tokio::{
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
};
use tokio_util::sync::CancellationToken;

/// Frames waiting for the supervisor. It reads all the time; beyond this a worker waits, and misses its
/// heartbeat, which is the truth.
const OUTBOX: usize = 32;

/// The supervisor sends its first frame at once; a worker started by hand finds nobody.
const START_DEADLINE: Duration = Duration::from_secs(5);

/// How long a worker may drain after a SIGTERM that did not come through the supervisor.
const TERM_DRAIN: Duration = Duration::from_secs(5);

/// Threads of a worker's runtime.
#[derive(Debug, Clone, Copy)]
pub enum Threads {
    /// One: the worker mostly waits.
    One,
    /// So many, for workers that serve many peers at once.
    Many(usize),
}

/// Why a worker ends other than by being asked to.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A restart cannot cure it; exit code 78.
    #[error("{0}")]
    Permanent(String),
    /// A restart may cure it; exit code 1.
    #[error("{0}")]
    Failure(String),
    /// The inherited descriptors are not those of a worker: it was started by hand.
    #[error("a worker is started by the supervisor: run `leo up` instead ({0})")]
    NotAWorker(String),
    /// The control connection broke.
    #[error("lost the supervisor")]
    Control(#[from] IpcError),
    /// The home folder cannot be used.
    #[error(transparent)]
    Home(#[from] BadHome),
}

impl WorkerError {
    fn exit_code(&self) -> ExitCode {
        match self {
            WorkerError::Permanent(_) | WorkerError::Home(_) => ExitCode::Config,
            WorkerError::NotAWorker(_) => ExitCode::WorkerUsage,
            WorkerError::Failure(_) | WorkerError::Control(_) => ExitCode::Failure,
        }
    }
}

/// A worker's place in the system.
pub struct Worker {
    /// What the supervisor said at the start.
    pub start: Start,
    /// The home folder.
    pub home: Home,
    /// Cancelled when the worker should finish what is in hand and return.
    pub drain: CancellationToken,
    config: watch::Receiver<Config>,
    workers: watch::Receiver<Vec<WorkerStatus>>,
    /// Changes whenever the supervisor asks for a heartbeat.
    beat: watch::Receiver<u64>,
    out: mpsc::Sender<FromWorker>,
    listeners: HashMap<String, OwnedFd>,
    ready: Option<std::fs::File>,
}

/// Runs a worker process to its end and says how it ended.
pub fn run<F, Fut>(kind: &'static str, threads: Threads, main: F) -> ExitCode
where
    F: FnOnce(Worker) -> Fut,
    Fut: Future<Output = Result<(), WorkerError>>,
{
    log::init(kind);
    let mut builder = match threads {
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        Threads::Many(n) => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(n);
            builder
        }
    };
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            tracing::error!(error = %e, "cannot start the runtime");
            return ExitCode::Temporary;
        }
    };
    let result = runtime.block_on(supervised(main));
    // A blocking task that hangs must not keep a worker alive that has nothing left to do.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::Ok,
        Err(e) => {
            tracing::error!(error = %e, source = std::error::Error::source(&e).map(tracing::field::display), "worker ends");
            e.exit_code()
        }
    }
}

async fn supervised<F, Fut>(main: F) -> Result<(), WorkerError>
where
    F: FnOnce(Worker) -> Fut,
    Fut: Future<Output = Result<(), WorkerError>>,
{
    let inherited = fds::take().map_err(|e| WorkerError::NotAWorker(e.to_string()))?;
    lifeline::watch(inherited.lifeline);
    let control =
        UnixStream::from_std(inherited.control).map_err(|e| WorkerError::NotAWorker(e.to_string()))?;
    let (mut reader, mut writer) = control.into_split();
    let greeting = greet(&mut reader, &mut writer);
    let start = tokio::time::timeout(START_DEADLINE, greeting)
        .await
        .map_err(|_| WorkerError::NotAWorker("no answer on the control descriptor".to_owned()))??;

    let mut listeners = HashMap::new();
    for (name, fd) in start.listeners.iter().zip(Inherited::listeners(start.listeners.len())) {
        let fd = fd.map_err(|e| WorkerError::NotAWorker(format!("listener {name}: {e}")))?;
        listeners.insert(name.clone(), fd);
    }

    let drain = CancellationToken::new();
    let (config_tx, config) = watch::channel(start.config.clone());
    let (workers_tx, workers) = watch::channel(Vec::new());
    let (beat_tx, beat) = watch::channel(0);
    let (out, outbox) = mpsc::channel(OUTBOX);
    tokio::spawn(listen(reader, config_tx, workers_tx, beat_tx, drain.clone()));
    tokio::spawn(report(writer, outbox));
    tokio::spawn(drain_on_term(drain.clone()));

    let home = Home::at(PathBuf::from(&start.home))?;
    tracing::info!(worker = start.worker, generation = start.generation.0, "worker starts");
    let fatal = out.clone();
    let worker =
        Worker { start, home, drain, config, workers, beat, out, listeners, ready: Some(inherited.ready) };
    let result = main(worker).await;
    if let Err(e) = &result {
        let reason =
            std::error::Error::source(e).map_or_else(|| e.to_string(), |source| format!("{e}: {source}"));
        // Best effort: the exit code says the same, with fewer words.
        let _ = fatal.send(FromWorker::Fatal { reason }).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    result
}

async fn greet(reader: &mut OwnedReadHalf, writer: &mut OwnedWriteHalf) -> Result<Start, WorkerError> {
    let generation = std::env::var("LEO_GENERATION").ok().and_then(|g| g.parse().ok()).unwrap_or(0);
    let hello = Hello::new(Role::Worker, Generation(generation));
    frame::write(writer, &codec::encode(&hello)?, MAX_BEFORE_HELLO).await?;
    let reply = frame::read(reader, MAX_BEFORE_HELLO).await?.ok_or(IpcError::Closed)?;
    codec::decode::<HelloReply>(&reply)?.accept()?;
    let first = frame::read(reader, MAX_FRAME).await?.ok_or(IpcError::Closed)?;
    match codec::decode::<ToWorker>(&first)? {
        ToWorker::Start(start) => Ok(*start),
        _ => Err(WorkerError::NotAWorker("the first frame is not a start".to_owned())),
    }
}

async fn listen(
    mut reader: OwnedReadHalf,
    config: watch::Sender<Config>,
    workers: watch::Sender<Vec<WorkerStatus>>,
    beat: watch::Sender<u64>,
    drain: CancellationToken,
) {
    loop {
        let frame = match frame::read(&mut reader, MAX_FRAME).await {
            Ok(Some(bytes)) => codec::decode::<ToWorker>(&bytes),
            // The lifeline ends the process when the supervisor is gone; nothing to do here.
            Ok(None) => return,
            Err(e) => Err(e),
        };
        match frame {
            Ok(ToWorker::Config { config: new }) => {
                config.send_replace(*new);
            }
            Ok(ToWorker::Workers { workers: new }) => {
                workers.send_replace(new);
            }
            Ok(ToWorker::Ping { turn }) => {
                beat.send_replace(turn);
            }
            Ok(ToWorker::Drain { within_ms }) => drain_within(&drain, Duration::from_millis(within_ms)),
            Ok(ToWorker::Start(_) | ToWorker::Unknown) => {}
            Err(e) => {
                tracing::error!(error = %e, "a frame from the supervisor cannot be read");
                return;
            }
        }
    }
}

async fn report(mut writer: OwnedWriteHalf, mut outbox: mpsc::Receiver<FromWorker>) {
    while let Some(message) = outbox.recv().await {
        let sent = match codec::encode(&message) {
            Ok(bytes) => frame::write(&mut writer, &bytes, MAX_FRAME).await,
            Err(e) => Err(e),
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn drain_on_term(drain: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    if let Ok(mut term) = signal(SignalKind::terminate()) {
        term.recv().await;
        drain_within(&drain, TERM_DRAIN);
    }
}

/// Starts the drain and makes sure that it ends.
fn drain_within(drain: &CancellationToken, within: Duration) {
    drain.cancel();
    tokio::spawn(async move {
        tokio::time::sleep(within).await;
        tracing::warn!(within_ms = within.as_millis(), "drain took too long");
        #[expect(
            clippy::exit,
            reason = "the drain's deadline is the supervisor's; what hangs must not outlive it"
        )]
        std::process::exit(ExitCode::Ok as i32);
    });
}

impl Worker {
    /// The agent of an `mcp:<agent>` worker; the whole name otherwise.
    pub fn instance(&self) -> &str {
        self.start.worker.split_once(':').map_or(self.start.worker.as_str(), |(_, instance)| instance)
    }

    /// An inherited unix listener, each once.
    ///
    /// # Errors
    /// When the supervisor did not hand over a listener of this name.
    pub fn unix_listener(&mut self, name: &str) -> Result<Listener, WorkerError> {
        Listener::try_from(self.take_listener(name)?)
            .map_err(|e| WorkerError::Failure(format!("the listener {name} cannot be used: {e:?}")))
    }

    /// An inherited listener's descriptor, each once.
    ///
    /// # Errors
    /// As [`Worker::unix_listener`].
    pub fn take_listener(&mut self, name: &str) -> Result<OwnedFd, WorkerError> {
        self.listeners
            .remove(name)
            .ok_or_else(|| WorkerError::Permanent(format!("the supervisor handed over no listener {name}")))
    }

    /// Whether the supervisor handed over a listener of this name.
    pub fn has_listener(&self, name: &str) -> bool {
        self.listeners.contains_key(name)
    }

    /// The configuration, which changes while the worker runs.
    pub fn config(&self) -> watch::Receiver<Config> {
        self.config.clone()
    }

    /// Changes every few seconds, whenever the supervisor asks for a heartbeat: for what is to be looked
    /// after now and then, without a timer of its own.
    pub fn beats(&self) -> watch::Receiver<u64> {
        self.beat.clone()
    }

    /// The state of all workers (hub and http only).
    pub fn workers(&self) -> watch::Receiver<Vec<WorkerStatus>> {
        self.workers.clone()
    }

    /// A client of the hub.
    pub fn hub(&self) -> Client<HubRequest> {
        Client::new(self.home.hub_socket(), Role::Worker, self.start.generation)
    }

    /// A client of the agents worker.
    pub fn agents(&self) -> Client<AgentsRequest> {
        Client::new(self.home.agents_socket(), Role::Worker, self.start.generation)
    }

    /// Sends the supervisor a message; it is dropped when the supervisor is gone.
    pub async fn tell(&self, message: FromWorker) {
        let _ = self.out.send(message).await;
    }

    /// A sender of messages to the supervisor, for tasks of the worker.
    pub fn supervisor(&self) -> mpsc::Sender<FromWorker> {
        self.out.clone()
    }

    /// Says that the worker is ready, and beats from now on when it is asked to: `probe` goes through the
    /// loop that does the work and returns when it came round, so that a deadlock looks like one.
    ///
    /// # Errors
    /// When the supervisor is gone.
    pub fn ready<P, Fut>(&mut self, probe: P) -> Result<(), WorkerError>
    where
        P: Fn() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let Some(mut pipe) = self.ready.take() else { return Ok(()) };
        pipe.write_all(b"\n")
            .map_err(|source| IpcError::Io { doing: "saying that the worker is ready", source })?;
        let mut beat = self.beat.clone();
        beat.mark_unchanged();
        tokio::spawn(async move {
            while beat.changed().await.is_ok() {
                probe().await;
                // A full pipe means that the supervisor is far behind: it has beats enough to read.
                if pipe.write_all(b".").is_err_and(|e| e.kind() != std::io::ErrorKind::WouldBlock) {
                    return;
                }
            }
        });
        Ok(())
    }
}
