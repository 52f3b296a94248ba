//! The agents worker's socket: commands about processes, which only it may give to tmux.

use crate::{AgentName, CallKey, Done, agent::AgentRecord};
use serde::{Deserialize, Serialize};

/// Starts an agent that is stopped; a running one stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartAgent {
    /// Which.
    pub name: AgentName,
}

/// Stops an agent and keeps it stopped until a message or a person starts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopAgent {
    /// Which.
    pub name: AgentName,
}

/// Stops and starts an agent; its session is resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartAgent {
    /// Which.
    pub name: AgentName,
}

/// Interrupts the running turn, as Esc in the terminal does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptAgent {
    /// Which.
    pub name: AgentName,
}

/// Longest instructions of [`CompactContext`], in bytes.
pub const MAX_INSTRUCTIONS: usize = 4 * 1024;

/// Empties the context of an agent that has nothing to do: it begins a new session, as `/clear` in the
/// terminal does. Answered when it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClearContext {
    /// Which.
    pub name: AgentName,
    /// The same key is the same request, where the harness can tell.
    pub key: CallKey,
}

/// Puts a summary in the place of the context of an agent that has nothing to do, as `/compact` in the
/// terminal does. Answered when it is at it; the thread says how it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactContext {
    /// Which.
    pub name: AgentName,
    /// What the summary is to keep, at most [`MAX_INSTRUCTIONS`].
    pub instructions: Option<String>,
    /// As in [`ClearContext`].
    pub key: CallKey,
}

/// Ends an agent's process and forgets it; its thread stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteAgent {
    /// Which.
    pub name: AgentName,
}

/// Asks for the end of an agent's terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLogs {
    /// Which.
    pub name: AgentName,
    /// Lines, 1 to 5000.
    pub lines: u32,
}

/// Answer to [`AgentLogs`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LogText {
    /// The lines as plain text.
    pub text: String,
}

/// Asks how to attach a terminal to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachSpec {
    /// Which.
    pub name: AgentName,
}

/// Answer to [`AttachSpec`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachCommand {
    /// Program and arguments.
    pub argv: Vec<String>,
}

crate::rpc::requests! {
    /// A request to the agents worker.
    AgentsRequest {
        /// Start.
        "start" => Start(StartAgent) -> AgentRecord,
        /// Stop.
        "stop" => Stop(StopAgent) -> AgentRecord,
        /// Restart.
        "restart" => Restart(RestartAgent) -> AgentRecord,
        /// Interrupt.
        "interrupt" => Interrupt(InterruptAgent) -> Done,
        /// Empty the context.
        "clear" => Clear(ClearContext) -> Done,
        /// Summarise the context.
        "compact" => Compact(CompactContext) -> Done,
        /// Forget.
        "delete" => Delete(DeleteAgent) -> Done,
        /// The terminal's text.
        "logs" => Logs(AgentLogs) -> LogText,
        /// How to attach.
        "attach" => Attach(AttachSpec) -> AttachCommand,
    }
    streams {}
}
