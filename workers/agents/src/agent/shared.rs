//! What all agents' tasks share.

use crate::{env::Env, hub::Hub, tmux::Tmux};
use leo_ipc::{AgentName, paths::Home};
use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};
use tokio::sync::mpsc;

/// What an agent's task tells the fleet. Two per launch at most; a full queue makes the task wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// Whether it needs an MCP worker now.
    Mcp {
        /// The agent.
        name: AgentName,
        /// Whether it does.
        needed: bool,
    },
}

/// Shared by the tasks.
pub(crate) struct Shared {
    /// The home folder.
    pub(crate) home: Home,
    /// Absolute path of `leo`.
    pub(crate) program: String,
    /// Our own environment.
    pub(crate) base: Env,
    /// The tmux server.
    pub(crate) tmux: Tmux,
    /// The hub.
    pub(crate) hub: Hub,
    /// To the fleet.
    pub(crate) fleet: mpsc::Sender<Told>,
    /// Processes whose end is watched for.
    pub(crate) pids: Pids,
}

/// The processes in our panes. One timer looks after all of them: a look costs one system call a
/// process and no tmux client.
#[derive(Debug, Default)]
pub(crate) struct Pids {
    watched: Mutex<BTreeMap<AgentName, u32>>,
}

impl Pids {
    /// Watches an agent's process instead of the one before.
    pub(crate) fn watch(&self, agent: &AgentName, pid: u32) {
        self.lock().insert(agent.clone(), pid);
    }

    /// Watches an agent's process no more.
    pub(crate) fn forget(&self, agent: &AgentName) {
        self.lock().remove(agent);
    }

    /// The agents whose process is gone.
    pub(crate) fn gone(&self) -> Vec<AgentName> {
        self.lock().iter().filter(|(_, pid)| !is_alive(**pid)).map(|(name, _)| name.clone()).collect()
    }

    /// The agents that are watched.
    pub(crate) fn all(&self) -> Vec<AgentName> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<AgentName, u32>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a process of this number is there. Only its absence proves anything: the number may have
/// passed to another process.
pub(crate) fn is_alive(pid: u32) -> bool {
    i32::try_from(pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
}
