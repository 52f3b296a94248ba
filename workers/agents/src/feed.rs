//! What the hub, the configuration and the system say, brought to the fleet.

use crate::{
    agent::{Command, Shared},
    fleet::Event,
    hub::Hub,
};
use leo_ipc::{
    AgentName,
    agent::{ListAgents, PutAgent, Source, Wake, WatchAgents},
    client::Client,
    config::Config,
    hub::HubRequest,
};
use std::{io, sync::Arc, thread, time::Duration};
use tokio::sync::{mpsc, oneshot, watch};

/// Time to start the stream, connections that fail included.
const SUBSCRIBE: Duration = Duration::from_secs(5);

/// Pause before subscribing again: a hub that is being replaced is back within milliseconds.
const AGAIN: Duration = Duration::from_millis(50);

/// How often the processes in our panes are looked at.
const PID_LOOK: Duration = Duration::from_secs(1);

/// Looks for ever whether the agents' processes are still there. In a thread of its own: a timer of the
/// runtime wakes it two or three times a second where this wakes once.
pub(crate) fn watch_processes(shared: Arc<Shared>, fleet: mpsc::Sender<Event>) -> io::Result<()> {
    let look = move || {
        while !fleet.is_closed() {
            thread::sleep(PID_LOOK);
            let gone = shared.pids.gone();
            if !gone.is_empty() && fleet.blocking_send(Event::Gone(gone)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("processes".to_owned()).spawn(look).map(drop)
}

/// Follows the hub for ever. `watching` is a client of its own, so that its stream never holds calls
/// back.
pub(crate) async fn follow_hub(watching: Client<HubRequest>, hub: Hub, fleet: mpsc::Sender<Event>) {
    loop {
        match watching.stream(WatchAgents {}, SUBSCRIBE).await {
            Ok(mut wakes) => loop {
                match wakes.next().await {
                    Ok(Some(Wake::All {} | Wake::Unknown)) => {
                        if let Ok(list) = hub.ask(ListAgents {}).await {
                            let names = list.agents.into_iter().map(|r| r.agent.name).collect();
                            if fleet.send(Event::Agents(names)).await.is_err() {
                                return;
                            }
                        }
                    }
                    Ok(Some(wake)) => {
                        if fleet.send(Event::Wake(wake)).await.is_err() {
                            return;
                        }
                    }
                    Ok(None) => break,
                    Err(e) => {
                        tracing::info!(error = %e, "the hub's stream ended; subscribing again");
                        break;
                    }
                }
            },
            Err(e) => tracing::warn!(error = %e, "no stream from the hub; trying again"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Keeps the agents of the configuration in the hub: defines each, and removes those that were in it
/// and are no longer.
pub(crate) async fn follow_config(mut config: watch::Receiver<Config>, hub: Hub, fleet: mpsc::Sender<Event>) {
    loop {
        let agents = config.borrow_and_update().agents.clone();
        for (name, settings) in &agents {
            let put = PutAgent {
                name: name.clone(),
                config: settings.clone(),
                source: Source::Config,
                must_be_new: false,
                key: None,
            };
            hub.tell("an agent of the configuration", put).await;
        }
        if let Ok(list) = hub.ask(ListAgents {}).await {
            let vanished = list
                .agents
                .into_iter()
                .filter(|r| r.source == Source::Config && !agents.contains_key(&r.agent.name))
                .map(|r| r.agent.name);
            for name in vanished {
                remove(name, &fleet).await;
            }
        }
        if config.changed().await.is_err() {
            return;
        }
    }
}

async fn remove(name: AgentName, fleet: &mpsc::Sender<Event>) {
    tracing::info!(agent = %name, "no longer in the configuration; removing it");
    let (reply, removed) = oneshot::channel();
    if fleet.send(Event::Command(name.clone(), Command::Delete(reply))).await.is_ok()
        && let Ok(Err(fault)) = removed.await
    {
        tracing::warn!(agent = %name, error = fault.message, "it was not removed");
    }
}
