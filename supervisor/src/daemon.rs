//! The supervisor itself: sets the ground (folders, lock, configuration, token, sockets), keeps the
//! workers, and takes everything down in order. It holds no chat or agent logic, and nothing that it
//! does takes long.

use crate::{
    board::Board,
    config::{self, ConfigError},
    control::{self, Control},
    fds, health,
    keeper::{COMMANDS, Held, Keeper, Socket},
    lock::{self, Lock, LockError},
    logs::Logs,
    machine::Event,
    sockets::{self, SocketError, UnixSocket},
    spawn::{Lifeline, Spawner},
    token::{self, TokenError},
    worker::{Protocol, WorkerName},
};
use leo_ipc::{AgentName, ExitCode, Time, config::Config, control::WorkerState, paths::Home};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{Id, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// How long the other workers wait for the hub at the start. They need it to be useful; a hub that
/// migrates its database for minutes must not keep the http worker from saying so.
const HUB_FIRST: Duration = Duration::from_secs(2);

/// Orders that wait for the daemon; beyond it the caller waits.
const ORDERS: usize = 16;

/// Why the supervisor cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// Another one runs, or the lock cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A folder or socket cannot be used.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The operator's token cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A path that workers and agents are told is not text.
    #[error("the path {} is not UTF-8 text: use another one", path.display())]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// The system refused something basic.
    #[error("{doing} failed: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl StartError {
    /// How the command that fails with this error ends.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            StartError::Lock(LockError::Held { .. })
            | StartError::Socket(SocketError::Tcp { .. })
            | StartError::System { .. } => ExitCode::Temporary,
            _ => ExitCode::Config,
        }
    }
}

/// What the parts of a running supervisor share.
pub(crate) struct Shared {
    /// The home folder.
    pub(crate) home: Home,
    /// Changes with each start.
    pub(crate) boot_id: String,
    /// The zero of every [`Moment`](crate::policy::Moment).
    pub(crate) started: Instant,
    /// The same, by the wall clock.
    pub(crate) since: Time,
    /// Starts processes.
    pub(crate) spawner: Spawner,
    /// Writes log files.
    pub(crate) logs: Logs,
    /// The configuration in force.
    pub(crate) config: watch::Sender<Config>,
    /// What is wrong with the file, when an older configuration is in force.
    config_error: Mutex<Option<String>>,
    /// The workers' states.
    pub(crate) board: Board,
    /// Counted up whenever every worker is asked for a heartbeat.
    pub(crate) beat: watch::Sender<u64>,
    /// Agents that need an MCP worker.
    pub(crate) mcp_agents: watch::Sender<Vec<AgentName>>,
    /// Agents in whose name a headless run works, whether or not they run themselves.
    pub(crate) mcp_runs: watch::Sender<Vec<AgentName>>,
    /// Where TCP is listened on.
    pub(crate) tcp: Option<SocketAddr>,
    /// Cancelled when everything should stop.
    pub(crate) stop: CancellationToken,
    /// To the daemon's loop.
    pub(crate) orders: mpsc::Sender<Order>,
}

/// Something that the daemon's loop has to do, since it owns the keepers.
pub(crate) enum Order {
    /// Send an event to these workers; answers with those that there are.
    Tell {
        /// One of them, or all.
        who: Option<String>,
        /// What to tell.
        event: Event,
        /// The workers that were told.
        told: oneshot::Sender<Vec<WorkerName>>,
    },
}

impl Shared {
    /// Reads the configuration again. A wrong one changes nothing but the status.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) async fn reload(&self) -> Result<Vec<String>, ConfigError> {
        let new = match config::read(&self.home.config(), user_home().as_deref()) {
            Ok(new) => new,
            Err(e) => {
                tracing::error!(error = %e, "the configuration is wrong; the last good one stays in force");
                self.set_config_error(Some(e.to_string()));
                return Err(e);
            }
        };
        self.set_config_error(None);
        let needs_restart = config::needs_restart(&self.config.borrow(), &new);
        tracing::info!(?needs_restart, "the configuration was read");
        self.config.send_if_modified(|old| {
            let differs = *old != new;
            *old = new;
            differs
        });
        let (told, _) = oneshot::channel();
        // Without a daemon there is nobody to tell.
        let _ = self.orders.send(Order::Tell { who: None, event: Event::ConfigChanged, told }).await;
        Ok(needs_restart)
    }

    /// Takes over what may change without being told (`chat.*`, WIRE.md §7); the rest waits for a
    /// reload.
    pub(crate) fn reload_chat(&self) {
        match config::read(&self.home.config(), user_home().as_deref()) {
            Err(e) => {
                tracing::error!(error = %e, "the configuration is wrong; the last good one stays in force");
                self.set_config_error(Some(e.to_string()));
            }
            Ok(new) => {
                self.set_config_error(None);
                let changed = self.config.send_if_modified(|old| {
                    let differs = old.chat != new.chat;
                    old.chat = new.chat;
                    differs
                });
                if changed {
                    tracing::info!("chat.* of the configuration changed");
                }
            }
        }
    }

    fn set_config_error(&self, error: Option<String>) {
        *self.config_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// What is wrong with the configuration file, when an older one is in force.
    pub(crate) fn config_error(&self) -> Option<String> {
        self.config_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn user_home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// A supervisor that has everything but its workers.
pub(crate) struct Daemon {
    shared: Arc<Shared>,
    orders: mpsc::Receiver<Order>,
    control: UnixSocket,
    listeners: BTreeMap<WorkerName, Vec<Held>>,
    keepers: HashMap<WorkerName, mpsc::Sender<Event>>,
    tasks: JoinSet<()>,
    names: HashMap<Id, WorkerName>,
    wanted_mcp: BTreeSet<AgentName>,
    lifeline: Lifeline,
    lock: Lock,
}

impl Daemon {
    /// Takes the home's lock, reads its configuration and binds its sockets. The folders must have
    /// been prepared. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// As [`StartError`] says; nothing is left behind but folders.
    pub(crate) fn prepare(home: Home, logs: Logs, program: PathBuf) -> Result<Daemon, StartError> {
        for path in [home.root(), program.as_path()] {
            if path.to_str().is_none() {
                return Err(StartError::NotText { path: path.to_owned() });
            }
        }
        let lock = lock::take(&home)?;
        let (spawner, lifeline) = Spawner::new(program, home.root().to_owned())
            .map_err(|source| StartError::System { doing: "making the lifeline", source })?;
        let config = config::read(&home.config(), user_home().as_deref())?;
        token::ensure(&home)?;
        sockets::remove_dead_mcp_sockets(&home);
        let tcp = sockets::bind_tcp(&home, &config.web)?;
        let address = tcp.as_ref().and_then(|listener| listener.local_addr().ok());
        let unix = |name, protocol, path| -> Result<Held, SocketError> {
            Ok(Held { name, protocol, socket: Socket::Unix(UnixSocket::bind(path)?) })
        };
        let tcp = tcp.map(|l| Held { name: "tcp", protocol: Protocol::Http, socket: Socket::Tcp(l) });
        let http = unix("http", Protocol::Http, home.http_socket())?;
        let listeners = BTreeMap::from([
            (WorkerName::Hub, vec![unix("hub", Protocol::Ipc, home.hub_socket())?]),
            (WorkerName::Http, tcp.into_iter().chain([http]).collect()),
            (
                WorkerName::Agents,
                vec![
                    unix("agents", Protocol::Ipc, home.agents_socket())?,
                    unix("bridge", Protocol::Http, home.bridge_socket())?,
                ],
            ),
            (WorkerName::Reminders, Vec::new()),
            // Nobody asks it anything: it follows the hub.
            (WorkerName::Tasks, Vec::new()),
            (WorkerName::Transcribe, Vec::new()),
        ]);
        let control = UnixSocket::bind(home.control_socket())?;
        fds::raise_open_files();
        let (orders, order_queue) = mpsc::channel(ORDERS);
        let shared = Shared {
            boot_id: uuid::Uuid::now_v7().simple().to_string(),
            started: Instant::now(),
            since: Time::now(),
            spawner,
            logs,
            config: watch::Sender::new(config),
            config_error: Mutex::new(None),
            board: Board::new(),
            beat: watch::Sender::new(0),
            mcp_agents: watch::Sender::new(Vec::new()),
            mcp_runs: watch::Sender::new(Vec::new()),
            tcp: address,
            stop: CancellationToken::new(),
            orders,
            home,
        };
        Ok(Daemon {
            shared: Arc::new(shared),
            orders: order_queue,
            control,
            listeners,
            keepers: HashMap::new(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
            wanted_mcp: BTreeSet::new(),
            lifeline,
            lock,
        })
    }

    /// What can be seen of it and asked of it from outside.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Runs until it is told to stop, and takes everything down.
    pub(crate) async fn run(mut self) -> ExitCode {
        tracing::info!(
            home = %self.shared.home.root().display(),
            boot_id = self.shared.boot_id,
            tcp = self.shared.tcp.map(|a| a.to_string()),
            version = leo_ipc::version::BUILD,
            "supervisor starts"
        );
        // However this ends, whoever waits for the end of the supervisor must hear of it.
        let stop = self.shared.stop.clone();
        let _ended = stop.clone().drop_guard();
        let serving = CancellationToken::new();
        if let Err(e) = control::serve(&self.control, Control::new(self.shared()), serving.clone()) {
            tracing::error!(error = %e, "the control socket cannot be served");
            return ExitCode::Temporary;
        }
        let mut ended = ExitCode::Ok;
        self.want(WorkerName::Hub);
        self.hub_settled().await;
        self.want(WorkerName::Http);
        self.want(WorkerName::Agents);
        self.want(WorkerName::Reminders);
        self.want(WorkerName::Tasks);
        self.want(WorkerName::Transcribe);
        let watching = tokio::spawn(config::watch::run(self.shared()));
        let beating = tokio::spawn(health::ask(self.shared.beat.clone()));
        let mut mcp_agents = self.shared.mcp_agents.subscribe();
        let mut mcp_runs = self.shared.mcp_runs.subscribe();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(order) = self.orders.recv() => self.obey(order).await,
                Ok(()) = mcp_agents.changed() => {
                    self.wanted_mcp = both(&mut mcp_agents, &mut mcp_runs);
                    self.reconcile_mcp().await;
                }
                Ok(()) = mcp_runs.changed() => {
                    self.wanted_mcp = both(&mut mcp_agents, &mut mcp_runs);
                    self.reconcile_mcp().await;
                }
                Some(done) = self.tasks.join_next_with_id() => {
                    if let Err(bug) = self.keeper_ended(done) {
                        tracing::error!(error = %bug, "a keeper is gone; its worker has no parent any more");
                        ended = ExitCode::Failure;
                        break;
                    }
                    self.reconcile_mcp().await;
                }
            }
        }
        watching.abort();
        beating.abort();
        self.shut_down().await;
        serving.cancel();
        tracing::info!("supervisor ends");
        self.shared.logs.flush();
        // Whatever is left of our processes ends with this; the lock goes last.
        drop(self.lifeline);
        drop(self.lock);
        ended
    }

    /// Starts keeping a worker that is not kept yet.
    fn want(&mut self, name: WorkerName) {
        let listeners = match self.listeners.remove(&name) {
            Some(listeners) => listeners,
            None => match self.mcp_listeners(&name) {
                Some(listeners) => listeners,
                None => return,
            },
        };
        let (commands, queue) = mpsc::channel(COMMANDS);
        // The queue is empty and ours, so this cannot fail.
        let _ = commands.try_send(Event::Want);
        let keeper = Keeper::new(name.clone(), listeners, self.shared.clone(), queue);
        let task = self.tasks.spawn(keeper.run());
        self.names.insert(task.id(), name.clone());
        self.keepers.insert(name, commands);
    }

    fn mcp_listeners(&self, name: &WorkerName) -> Option<Vec<Held>> {
        let WorkerName::Mcp(agent) = name else { return None };
        match sockets::bind_mcp(&self.shared.home, agent) {
            Ok(socket) => {
                Some(vec![Held { name: "mcp", protocol: Protocol::Shim, socket: Socket::Unix(socket) }])
            }
            Err(e) => {
                // Tried again when the agents worker next says whom it has.
                tracing::error!(worker = %name, error = %e, "the socket cannot be made");
                None
            }
        }
    }

    async fn hub_settled(&self) {
        let mut board = self.shared.board.watch();
        let settled = board.wait_for(|entries| {
            entries.get(&WorkerName::Hub).is_some_and(|hub| hub.status.state != WorkerState::Starting)
        });
        tokio::select! {
            () = self.shared.stop.cancelled() => {}
            _ = tokio::time::timeout(HUB_FIRST, settled) => {}
        }
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Tell { who, event, told } => {
                let mut reached = Vec::new();
                for (name, commands) in &self.keepers {
                    let meant = who.as_ref().is_none_or(|who| *who == name.to_string());
                    if meant && commands.send(event.clone()).await.is_ok() {
                        reached.push(name.clone());
                    }
                }
                // The asker may have left.
                let _ = told.send(reached);
            }
        }
    }

    async fn reconcile_mcp(&mut self) {
        let kept: Vec<(WorkerName, AgentName)> = self
            .keepers
            .keys()
            .filter_map(|name| match name {
                WorkerName::Mcp(agent) => Some((name.clone(), agent.clone())),
                _ => None,
            })
            .collect();
        for (name, agent) in &kept {
            let event = if self.wanted_mcp.contains(agent) { Event::Want } else { Event::Unwant };
            if let Some(commands) = self.keepers.get(name) {
                // One that has just ended is noticed by its task's end, which leads here again.
                let _ = commands.send(event).await;
            }
        }
        let missing: Vec<AgentName> =
            self.wanted_mcp.iter().filter(|agent| !kept.iter().any(|(_, k)| k == *agent)).cloned().collect();
        for agent in missing {
            self.want(WorkerName::Mcp(agent));
        }
    }

    fn keeper_ended(
        &mut self,
        done: Result<(Id, ()), tokio::task::JoinError>,
    ) -> Result<(), tokio::task::JoinError> {
        let id = match &done {
            Ok((id, ())) => *id,
            Err(e) => e.id(),
        };
        if let Some(name) = self.names.remove(&id) {
            self.keepers.remove(&name);
        }
        done.map(|_| ())
    }

    /// Drains the workers, the hub last, since the others still call it. Bounded by the machines' drain
    /// deadlines; a second request to stop kills at once.
    async fn shut_down(&mut self) {
        tracing::info!("stopping the workers");
        let (hub, others): (Vec<_>, Vec<_>) =
            self.keepers.keys().cloned().partition(|name| *name == WorkerName::Hub);
        for group in [others, hub] {
            for name in &group {
                if let Some(commands) = self.keepers.get(name) {
                    let _ = commands.send(Event::Unwant).await;
                }
            }
            while group.iter().any(|name| self.keepers.contains_key(name)) {
                tokio::select! {
                    Some(done) = self.tasks.join_next_with_id() => {
                        if let Err(bug) = self.keeper_ended(done) {
                            tracing::error!(error = %bug, "a keeper is gone");
                        }
                    }
                    Some(order) = self.orders.recv() => self.obey(order).await,
                }
            }
        }
    }
}

/// Whoever is in one of two lists.
fn both(
    agents: &mut watch::Receiver<Vec<AgentName>>,
    runs: &mut watch::Receiver<Vec<AgentName>>,
) -> BTreeSet<AgentName> {
    let agents = agents.borrow_and_update().clone();
    agents.into_iter().chain(runs.borrow_and_update().iter().cloned()).collect()
}

#[cfg(test)]
#[path = "daemon_tests.rs"]
mod tests;
