//! Between the supervisor and its workers (an inherited socket pair), and the supervisor's own socket
//! for a person's commands.

use crate::{AgentName, Done, Generation, Time, config::Config};
use serde::{Deserialize, Serialize};

/// Fd of the control socket pair in every worker.
pub const CONTROL_FD: i32 = 3;
/// Fd of the lifeline: its end of file means that the supervisor is gone.
pub const LIFELINE_FD: i32 = 4;
/// Fd to which a worker writes one byte when its event loop runs, and one after each
/// [`ToWorker::Ping`]. A pipe of its own: a socket's writer is woken once more when it is read.
pub const READY_FD: i32 = 5;
/// Fd of the first listener; the others follow in the order of [`Start::listeners`].
pub const FIRST_LISTENER_FD: i32 = 6;

/// What a worker is told first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The worker's name: `hub`, `http`, `agents`, `reminders`, `mcp:<agent>`.
    pub worker: String,
    /// Its generation.
    pub generation: Generation,
    /// Absolute path of the home folder.
    pub home: String,
    /// Changes with each start of the supervisor.
    pub boot_id: String,
    /// The supervisor's pid, for `/health`.
    pub supervisor_pid: u32,
    /// Absolute path of the `leo` program, for hooks and shims.
    pub program: String,
    /// What the inherited listeners are, in fd order: `tcp`, `http`, `hub`, `agents`, `mcp`.
    pub listeners: Vec<String>,
    /// Seconds between two [`ToWorker::Ping`]s.
    pub heartbeat_s: u32,
    /// The configuration.
    pub config: Config,
}

/// A frame from the supervisor to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum ToWorker {
    /// First.
    Start(Box<Start>),
    /// The configuration changed.
    Config {
        /// The new one.
        config: Box<Config>,
    },
    /// The state of all workers, sent to the http worker (for `/health`) and the hub (for events) when
    /// it changes.
    Workers {
        /// All of them.
        workers: Vec<WorkerStatus>,
    },
    /// Write a byte to [`READY_FD`] when the loop that does the work has come round.
    Ping {
        /// Counted up.
        turn: u64,
    },
    /// Finish what is in hand and exit.
    Drain {
        /// How long there is.
        within_ms: u64,
    },
    /// A frame of a newer build; ignored.
    #[serde(other)]
    Unknown,
}

/// A frame from a worker to the supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum FromWorker {
    /// The loop that does the work has come round; so says a worker that keeps the time itself.
    Heartbeat {
        /// Counted up.
        turn: u64,
    },
    /// The start takes longer than its deadline for a good reason.
    ExtendStart {
        /// How much longer, from now.
        ms: u64,
        /// What it is doing, for the log.
        why: String,
    },
    /// Which agents need an MCP worker; sent by the agents worker and by the tasks worker, each its own
    /// whole set each time.
    McpAgents {
        /// The agents.
        agents: Vec<AgentName>,
    },
    /// The worker is about to exit for a reason that a person should read.
    Fatal {
        /// A sentence.
        reason: String,
    },
    /// A frame of a newer build; ignored.
    #[serde(other)]
    Unknown,
}

/// State of a worker, as `/health` and `leo worker list` show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// Spawned, not ready.
    Starting,
    /// Ready.
    Running,
    /// Dead, waiting for its next start.
    Backoff,
    /// It dies often; it is still being started, slowly.
    Degraded,
    /// Given up; the supervisor answers for it.
    Failed,
    /// Asked to stop.
    Stopping,
    /// Not wanted.
    Stopped,
    /// A state of a newer build.
    #[serde(other)]
    Unknown,
}

/// One worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WorkerStatus {
    /// `hub`, `http`, `agents`, `reminders`, `mcp:<agent>`.
    pub name: String,
    /// Its process, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its state.
    pub state: WorkerState,
    /// Starts after the first.
    pub restarts: u64,
    /// Since when it has been in this process, for the uptime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Why it is degraded, failed or in backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Resident memory in bytes; only in `leo worker list` and `leo status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// CPU in percent of one core; only in `leo worker list` and `leo status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f32>,
}

/// Asks the supervisor about itself and its workers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GetStatus {
    /// Whether to measure memory and CPU, which takes about 200 ms.
    #[serde(default)]
    pub measure: bool,
}

/// Answer to [`GetStatus`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SupervisorStatus {
    /// Build.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Changes with each start.
    pub boot_id: String,
    /// Since when it runs.
    pub since: Time,
    /// Bound TCP address, when listening.
    #[serde(default)]
    pub tcp: Option<String>,
    /// What is wrong with the configuration file, when the last good one is in force.
    #[serde(default)]
    pub config_error: Option<String>,
    /// Resident memory in bytes, when measured.
    #[serde(default)]
    pub rss_bytes: Option<u64>,
    /// CPU in percent of one core, when measured.
    #[serde(default)]
    pub cpu_percent: Option<f32>,
    /// The workers.
    pub workers: Vec<WorkerStatus>,
}

/// Replaces a worker's process; a failed one is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartWorker {
    /// Its name, or `all`.
    pub name: String,
}

/// Reads the configuration again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reload {}

/// Answer to [`Reload`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// Keys that changed but need a restart of the supervisor to take effect.
    #[serde(default)]
    pub needs_restart: Vec<String>,
}

/// Stops the supervisor and its workers; agents stay.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shutdown {}

crate::rpc::requests! {
    /// A request to the supervisor.
    ControlRequest {
        /// Status.
        "status" => Status(GetStatus) -> SupervisorStatus,
        /// Replace a worker.
        "worker.restart" => RestartWorker(RestartWorker) -> Done,
        /// Read the configuration again.
        "reload" => Reload(Reload) -> Reloaded,
        /// Stop.
        "shutdown" => Shutdown(Shutdown) -> Done,
    }
    streams {}
}
