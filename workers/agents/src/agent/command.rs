//! What a person asks of an agent, and what reaches its task.

use super::context::Change;
use crate::{bridge::News, inbox::Receipt};
use leo_ipc::{
    CallKey, Done, Fault, LaunchId, agent::AgentRecord, agents::AttachCommand, agents::LogText,
    hook::HookEvent,
};
use tokio::sync::oneshot;

/// Where an answer goes. Nobody may be waiting for it any more.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Fault>>;

/// A request from the `agents` socket.
#[derive(Debug)]
pub(crate) enum Command {
    /// Start.
    Start(Reply<AgentRecord>),
    /// Stop.
    Stop(Reply<AgentRecord>),
    /// Stop and start.
    Restart(Reply<AgentRecord>),
    /// Interrupt the running turn.
    Interrupt(Reply<Done>),
    /// Clear or compact its context.
    Context(Change, CallKey, Reply<Done>),
    /// End and forget.
    Delete(Reply<Done>),
    /// The end of the terminal, so many lines.
    Logs(u32, Reply<LogText>),
    /// How to attach.
    Attach(Reply<AttachCommand>),
}

impl Command {
    /// Answers with a refusal.
    pub(crate) fn refuse(self, fault: Fault) {
        // A send error means that the caller has left.
        match self {
            Command::Start(reply) | Command::Stop(reply) | Command::Restart(reply) => {
                drop(reply.send(Err(fault)))
            }
            Command::Interrupt(reply) | Command::Context(_, _, reply) | Command::Delete(reply) => {
                drop(reply.send(Err(fault)))
            }
            Command::Logs(_, reply) => drop(reply.send(Err(fault))),
            Command::Attach(reply) => drop(reply.send(Err(fault))),
        }
    }
}

/// What reaches an agent's task.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Its record may have changed or gone; its messages too.
    Changed,
    /// A message waits, or one was taken back.
    Outbox,
    /// A hook of its harness reported something.
    Hook {
        /// The launch it came from.
        launch: LaunchId,
        /// What it said.
        event: Box<HookEvent>,
    },
    /// Its harness has listed our tools.
    Tools {
        /// In this launch.
        launch: LaunchId,
    },
    /// The mod inside it said something.
    Bridge {
        /// The launch it is in.
        launch: LaunchId,
        /// What.
        news: News,
    },
    /// Its peer inbox said something.
    Receipt(Receipt),
    /// The process in its pane may have ended.
    PaneGone,
    /// A person asks something.
    Command(Command),
}
