//! The `agents` socket: each request becomes a command in an agent's mailbox.

use crate::{
    agent::{Change, Command},
    fleet::Event,
};
use leo_ipc::{
    AgentName, Fault,
    agents::{
        AgentLogs, AgentsRequest, AttachSpec, ClearContext, CompactContext, DeleteAgent, InterruptAgent,
        RestartAgent, StartAgent, StopAgent,
    },
    server::{Answer, Handler, Peer},
};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

/// Answers requests.
pub(crate) struct Agents {
    fleet: mpsc::Sender<Event>,
}

impl Agents {
    /// Passes requests on to the fleet.
    pub(crate) fn new(fleet: mpsc::Sender<Event>) -> Agents {
        Agents { fleet }
    }

    async fn ask<T: Serialize>(
        &self,
        name: AgentName,
        command: impl FnOnce(oneshot::Sender<Result<T, Fault>>) -> Command,
    ) -> Answer {
        let (reply, answer) = oneshot::channel();
        let gone = || Fault::unavailable("the agents worker is stopping; try again");
        if self.fleet.send(Event::Command(name, command(reply))).await.is_err() {
            return Answer::Fault(gone());
        }
        Answer::of(answer.await.unwrap_or_else(|_| Err(gone())))
    }
}

impl Handler for Agents {
    type Request = AgentsRequest;

    async fn handle(&self, _peer: Peer, request: AgentsRequest) -> Answer {
        match request {
            AgentsRequest::Start(StartAgent { name }) => self.ask(name, Command::Start).await,
            AgentsRequest::Stop(StopAgent { name }) => self.ask(name, Command::Stop).await,
            AgentsRequest::Restart(RestartAgent { name }) => self.ask(name, Command::Restart).await,
            AgentsRequest::Interrupt(InterruptAgent { name }) => self.ask(name, Command::Interrupt).await,
            AgentsRequest::Clear(ClearContext { name, key }) => {
                self.ask(name, |reply| Command::Context(Change::Clear, key, reply)).await
            }
            AgentsRequest::Compact(CompactContext { name, instructions, key }) => {
                self.ask(name, |reply| Command::Context(Change::Compact(instructions), key, reply)).await
            }
            AgentsRequest::Delete(DeleteAgent { name }) => self.ask(name, Command::Delete).await,
            AgentsRequest::Logs(AgentLogs { name, lines }) => {
                self.ask(name, |reply| Command::Logs(lines, reply)).await
            }
            AgentsRequest::Attach(AttachSpec { name }) => self.ask(name, Command::Attach).await,
            AgentsRequest::Unknown => Answer::unknown_request(),
        }
    }
}
