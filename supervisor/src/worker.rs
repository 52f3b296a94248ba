//! What a worker is, apart from its process: its name, how it is started, what it listens on and how
//! long it may take. Adding a kind means adding it here.

use crate::machine::Limits;
use leo_ipc::AgentName;
use std::{fmt, time::Duration};

/// Time to become ready for a worker that opens nothing large. Measured at 5 ms; the bound is for a
/// machine that is busy with a build.
const START: Duration = Duration::from_secs(20);
/// The hub recovers its database first, and asks for more when it migrates one.
const START_HUB: Duration = Duration::from_secs(60);
/// Time to finish what is in hand. Everything is safe without it, so it only has to feel prompt.
const DRAIN: Duration = Duration::from_secs(5);

/// A worker's name. The order is the order of starts and of lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WorkerName {
    /// The database.
    Hub,
    /// The HTTP API.
    Http,
    /// The agents' terminals.
    Agents,
    /// The clock on the wall.
    Reminders,
    /// Schedules and headless runs.
    Tasks,
    /// Speech to text.
    Transcribe,
    /// The MCP server of one agent.
    Mcp(AgentName),
}

/// What speaks on a listener, which decides how the stand-in answers there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Frames with requests and answers.
    Ipc,
    /// Frames of the MCP shim, which has no answers of ours.
    Shim,
    /// HTTP.
    Http,
}

impl WorkerName {
    /// The argument after `leo worker`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            WorkerName::Hub => "hub",
            WorkerName::Http => "http",
            WorkerName::Agents => "agents",
            WorkerName::Reminders => "reminders",
            WorkerName::Tasks => "tasks",
            WorkerName::Transcribe => "transcribe",
            WorkerName::Mcp(_) => "mcp",
        }
    }

    /// How long it may take.
    pub(crate) fn limits(&self) -> Limits {
        match self {
            WorkerName::Hub => Limits { start: START_HUB, drain: DRAIN },
            _ => Limits { start: START, drain: DRAIN },
        }
    }

    /// Whether it is told the state of all workers.
    pub(crate) fn is_told_about_workers(&self) -> bool {
        matches!(self, WorkerName::Hub | WorkerName::Http)
    }

    /// Name of its log file, without the ending.
    pub(crate) fn log_name(&self) -> String {
        match self {
            // A colon in a file name is a trap on macOS.
            WorkerName::Mcp(agent) => format!("mcp-{agent}"),
            _ => self.kind().to_owned(),
        }
    }
}

impl fmt::Display for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkerName::Mcp(agent) => write!(f, "mcp:{agent}"),
            _ => f.write_str(self.kind()),
        }
    }
}
