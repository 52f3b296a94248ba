//! All agents of this home: one task each, started when the hub knows an agent, fed with what the hub
//! and the system report, and started again should one end by a bug.

use crate::{
    agent::{self, Command, Handle, Mail, Shared, Told},
    bridge::News,
    inbox::Receipt,
    tmux::PaneInfo,
};
use leo_ipc::{AgentName, Fault, LaunchId, agent::Wake, control::FromWorker};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

/// Pause before the task of an agent is started again after a bug ended it.
const TASK_AGAIN: Duration = Duration::from_secs(1);

/// What reaches the fleet.
#[derive(Debug)]
pub(crate) enum Event {
    /// From the hub.
    Wake(Wake),
    /// These agents exist.
    Agents(Vec<AgentName>),
    /// The mod of an agent's launch says something.
    Bridge(AgentName, LaunchId, News),
    /// An agent's peer inbox says what became of a message.
    Receipt(AgentName, Receipt),
    /// A person asks something of an agent.
    Command(AgentName, Command),
    /// The processes of these agents are gone.
    Gone(Vec<AgentName>),
    /// The heartbeat comes round.
    Ping(oneshot::Sender<()>),
}

/// The agents.
pub(crate) struct Fleet {
    panes: mpsc::Sender<Vec<PaneInfo>>,
    seen_panes: Option<mpsc::Receiver<Vec<PaneInfo>>>,
    shared: Arc<Shared>,
    agents: BTreeMap<AgentName, Handle>,
    tasks: JoinSet<AgentName>,
    supervisor: mpsc::Sender<FromWorker>,
    mcp: BTreeSet<AgentName>,
    /// Agents that have not said yet whether they need an MCP worker; `None` before the first list.
    /// Until all have, the supervisor is told nothing: it takes each set for the whole one, and would
    /// end the workers of those that are still being adopted.
    unsettled: Option<BTreeSet<AgentName>>,
}

impl Fleet {
    /// No agents yet.
    pub(crate) fn new(shared: Arc<Shared>, supervisor: mpsc::Sender<FromWorker>) -> Fleet {
        let (panes, seen_panes) = mpsc::channel(1);
        Fleet {
            panes,
            seen_panes: Some(seen_panes),
            shared,
            agents: BTreeMap::new(),
            tasks: JoinSet::new(),
            supervisor,
            mcp: BTreeSet::new(),
            unsettled: None,
        }
    }

    /// Serves until `events` ends. It never waits for the hub or tmux, so its heartbeat is honest.
    pub(crate) async fn run(mut self, mut events: mpsc::Receiver<Event>, mut told: mpsc::Receiver<Told>) {
        let Some(mut panes) = self.seen_panes.take() else { return };
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.handle(event),
                    None => return,
                },
                Some(panes) = panes.recv() => {
                    for name in self.shared.pids.missing_from(&panes) {
                        self.mail(&name, Mail::PaneGone);
                    }
                }
                Some(told) = told.recv() => self.told(told).await,
                Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => self.ended(ended),
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Ping(pong) => {
                let _ = pong.send(());
                // A process's number may have passed to another, and one that tmux has not collected
                // looks alive: so tmux is asked as well, now and then.
                if !self.shared.pids.is_empty() {
                    tokio::spawn(ask_tmux(self.shared.clone(), self.panes.clone()));
                }
            }
            Event::Gone(names) => {
                for name in &names {
                    self.mail(name, Mail::PaneGone);
                }
            }
            Event::Agents(names) => {
                for name in &names {
                    self.ensure(name);
                }
                self.unsettled.get_or_insert_with(|| names.iter().cloned().collect());
                // Those that are not among them find out for themselves.
                for handle in self.agents.values() {
                    handle.send(Mail::Changed);
                }
            }
            Event::Wake(Wake::Agent { name }) => {
                if !self.ensure(&name) {
                    self.mail(&name, Mail::Changed);
                }
            }
            Event::Wake(Wake::Outbox { name }) => {
                self.ensure(&name);
                self.mail(&name, Mail::Outbox);
            }
            Event::Wake(Wake::Hook { name, launch, event }) => self.mail(&name, Mail::Hook { launch, event }),
            Event::Wake(Wake::Tools { name, launch }) => self.mail(&name, Mail::Tools { launch }),
            Event::Bridge(name, launch, news) => self.mail(&name, Mail::Bridge { launch, news }),
            Event::Receipt(name, receipt) => self.mail(&name, Mail::Receipt(receipt)),
            // The hub's client turns these into a list of all agents.
            Event::Wake(Wake::All {} | Wake::Unknown) => {}
            Event::Command(name, command) => {
                // The task itself finds out whether there is such an agent.
                self.ensure(&name);
                match self.agents.get(&name) {
                    Some(handle) => handle.send(Mail::Command(command)),
                    None => command.refuse(Fault::unavailable("the agent's task is not there")),
                }
            }
        }
    }

    /// Makes sure that the agent has a task; says whether it was started now.
    fn ensure(&mut self, name: &AgentName) -> bool {
        if self.agents.contains_key(name) {
            return false;
        }
        let handle = agent::spawn(Duration::ZERO, name.clone(), self.shared.clone(), &mut self.tasks);
        self.agents.insert(name.clone(), handle);
        true
    }

    fn mail(&self, name: &AgentName, mail: Mail) {
        if let Some(handle) = self.agents.get(name) {
            handle.send(mail);
        }
    }

    async fn told(&mut self, told: Told) {
        let Told::Mcp { name, needed } = told;
        let first = self.unsettled.as_mut().is_some_and(|unsettled| unsettled.remove(&name));
        let changed = if needed { self.mcp.insert(name) } else { self.mcp.remove(&name) };
        if (changed || first) && self.unsettled.as_ref().is_some_and(BTreeSet::is_empty) {
            let agents = self.mcp.iter().cloned().collect();
            // A send error means that the supervisor is gone, and this process with it.
            let _ = self.supervisor.send(FromWorker::McpAgents { agents }).await;
        }
    }

    fn ended(&mut self, ended: Result<(tokio::task::Id, AgentName), tokio::task::JoinError>) {
        let (id, bug) = match ended {
            Ok((id, _)) => (id, false),
            Err(e) => {
                tracing::error!(error = %e, "the task of an agent ended by a bug");
                (e.id(), true)
            }
        };
        let name =
            self.agents.iter().find(|(_, handle)| handle.abort.id() == id).map(|(name, _)| name.clone());
        let Some(name) = name else { return };
        self.agents.remove(&name);
        if bug {
            // Start is recovery: the task finds its agent again by the recorded launch.
            let handle = agent::spawn(TASK_AGAIN, name.clone(), self.shared.clone(), &mut self.tasks);
            self.agents.insert(name, handle);
        }
    }
}

/// Lists the panes beside the fleet, which never waits. One list at a time; another one is dropped.
async fn ask_tmux(shared: Arc<Shared>, panes: mpsc::Sender<Vec<PaneInfo>>) {
    let Ok(slot) = panes.try_reserve() else { return };
    match shared.tmux.panes().await {
        Ok(list) => slot.send(list),
        Err(e) => tracing::warn!(error = %e, "tmux cannot be asked for its panes"),
    }
}
