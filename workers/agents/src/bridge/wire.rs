//! What goes over the line, as JSON. The mod's half is in `hooks/mod`.

use leo_ipc::LaunchId;
use serde::{Deserialize, Serialize};

/// Says which launch speaks, and which load of the mod in it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct From {
    pub(super) launch: LaunchId,
    pub(super) instance: String,
}

/// `hello`
#[derive(Debug, Deserialize)]
pub(super) struct Hello {
    #[serde(flatten)]
    pub(super) from: From,
    /// The version of this protocol.
    pub(super) protocol: u32,
    /// Claude's version.
    #[serde(default)]
    pub(super) claude: String,
}

/// `poll`
#[derive(Debug, Deserialize)]
pub(super) struct Poll {
    #[serde(flatten)]
    pub(super) from: From,
    /// Commands that are being carried out.
    #[serde(default)]
    pub(super) have: Vec<String>,
}

/// `report`
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) from: From,
    /// The same key is the same report.
    pub(super) key: String,
    pub(super) at_ms: i64,
    /// An event, as Claude gives it to hooks.
    #[serde(default)]
    pub(super) hook: Option<serde_json::Value>,
    /// What became of a command.
    #[serde(default)]
    pub(super) ack: Option<Ack>,
}

/// `receive`
#[derive(Debug, Deserialize)]
pub(super) struct Receive {
    #[serde(flatten)]
    pub(super) from: From,
    pub(super) text: String,
}

/// `permission`
#[derive(Debug, Deserialize)]
pub(super) struct Permission {
    pub(super) key: String,
    pub(super) at_ms: i64,
    /// What Claude gives to a hook.
    pub(super) payload: serde_json::Value,
}

/// `permission/gone`
#[derive(Debug, Deserialize)]
pub(super) struct Gone {
    pub(super) key: String,
}

/// A command to the mod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Command {
    /// The same id is the same command.
    pub(crate) id: String,
    /// What to do.
    #[serde(flatten)]
    pub(crate) op: Op,
}

/// What a command asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Op {
    /// Submit a prompt as the person's.
    Deliver {
        /// The prompt.
        text: String,
    },
    /// Begin a new session.
    Clear,
    /// Put a summary in the place of the conversation.
    Compact {
        /// What the summary is to keep.
        #[serde(skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
    },
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Ack {
    /// Which.
    pub(crate) id: String,
    /// What.
    pub(crate) outcome: AckOutcome,
    /// The prompt's id in Claude.
    #[serde(default)]
    pub(crate) prompt_id: Option<String>,
    /// Claude's words for a refusal.
    #[serde(default)]
    pub(crate) why: Option<String>,
}

/// The outcomes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AckOutcome {
    /// The prompt's turn has started; a change of the context is made.
    Started,
    /// Claude did not take it, and never will.
    Refused,
    /// An earlier load of the mod had it; it may have been taken, or be yet.
    Unsure,
}

/// What an agent's task hears of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// The mod is there.
    Up,
    /// It is no longer.
    Down,
    /// What became of a command.
    Ack(Ack),
}
