//! What all agents' tasks share.

use crate::{
    bridge::Links,
    hub::Hub,
    inbox::Inboxes,
    tmux::{PaneInfo, Tmux},
};
use leo_ipc::{AgentName, config::Config, paths::Home};
use leo_launch::Env;
use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::{mpsc, watch};

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
    /// The mods inside Claude.
    pub(crate) links: Arc<Links>,
    /// The peer inboxes of Claude.
    pub(crate) inboxes: Arc<Inboxes>,
    /// The configuration.
    pub(crate) config: watch::Receiver<Config>,
}

/// The processes in our panes. One timer looks after all of them: most looks cost one system call a
/// process and no tmux client.
#[derive(Debug, Default)]
pub(crate) struct Pids {
    watched: Mutex<BTreeMap<AgentName, Watched>>,
}

#[derive(Debug, Clone)]
struct Watched {
    pid: u32,
    pane: String,
}

impl Pids {
    /// Watches an agent's process and pane instead of those before.
    pub(crate) fn watch(&self, agent: &AgentName, pid: u32, pane: &str) {
        self.lock().insert(agent.clone(), Watched { pid, pane: pane.to_owned() });
    }

    /// Watches an agent's process no more.
    pub(crate) fn forget(&self, agent: &AgentName) {
        self.lock().remove(agent);
    }

    /// Whether there is anything to watch.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The agents whose process is gone.
    pub(crate) fn gone(&self) -> Vec<AgentName> {
        self.which(|watched| !is_alive(watched.pid))
    }

    /// The agents whose pane is not among the living ones.
    pub(crate) fn missing_from(&self, panes: &[PaneInfo]) -> Vec<AgentName> {
        self.which(|watched| !panes.iter().any(|pane| pane.id == watched.pane && !pane.dead))
    }

    fn which(&self, is: impl Fn(&Watched) -> bool) -> Vec<AgentName> {
        self.lock().iter().filter(|(_, watched)| is(watched)).map(|(name, _)| name.clone()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<AgentName, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a process of this number is there. Only its absence proves anything: the number may have
/// passed to another process, and one that has ended stays until tmux collects it.
pub(crate) fn is_alive(pid: u32) -> bool {
    i32::try_from(pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_panes_that_are_gone() {
        let pane = |id: &str, dead| PaneInfo {
            id: id.to_owned(),
            session_id: "$0".to_owned(),
            pid: 1,
            dead,
            exit_status: None,
            signal: None,
            launch: "l".to_owned(),
            session: "s".to_owned(),
        };
        let pids = Pids::default();
        assert!(pids.is_empty());
        let (a, b): (AgentName, AgentName) = ("a".parse().unwrap(), "b".parse().unwrap());
        pids.watch(&a, std::process::id(), "%1");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        pids.watch(&b, child.id(), "%2");
        assert_eq!(pids.gone(), std::slice::from_ref(&b));
        assert_eq!(pids.missing_from(&[pane("%1", false), pane("%2", true)]), std::slice::from_ref(&b));
        assert_eq!(pids.missing_from(&[]), [a, b.clone()]);
        pids.forget(&b);
        assert_eq!(pids.gone(), []);
    }
}
