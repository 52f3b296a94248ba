//! Deliveries: how a pending message is handed to a harness, and the three outcomes that there are
//! (DESIGN.md, invariant 8): delivered, failed, failed and unproven.

use crate::{
    AgentName, LaunchId, MessageId,
    chat::{FailedReason, Route},
};
use serde::{Deserialize, Serialize};

/// Asks for the oldest pending message of an agent. Asking takes nothing: only
/// [`BeginHandover`] does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextDelivery {
    /// The agent.
    pub agent: AgentName,
}

/// Answer to [`NextDelivery`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Next {
    /// The delivery to make, if any.
    pub delivery: Option<Delivery>,
    /// One that was handed over and has no outcome yet: it comes first, and nothing else may be
    /// handed over meanwhile.
    pub in_doubt: Option<Delivery>,
    /// The oldest pending one that is for the turn that runs.
    #[serde(default)]
    pub steer: Option<Delivery>,
    /// One that was handed to a running turn and has no outcome yet. It stands in nobody's way.
    #[serde(default)]
    pub steer_in_doubt: Option<Delivery>,
    /// Whether a hook said that a turn began, and nothing yet that it ended.
    #[serde(default)]
    pub turn_runs: bool,
}

/// A message on its way to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// The agent.
    pub agent: AgentName,
    /// The message.
    pub message_id: MessageId,
    /// The attempt, from 1. With the message's id it is the delivery's idempotency key.
    pub attempt: u32,
    /// Exactly what the agent is to read (`[Leo Chat] …`).
    pub prompt: String,
    /// The launch it was handed to, when it was.
    #[serde(default)]
    pub launch: Option<LaunchId>,
    /// Milliseconds since it was handed over, when it was.
    #[serde(default)]
    pub handed_ms_ago: Option<i64>,
    /// The prompt as it was really handed over, when that differs (a prompt that names a file).
    #[serde(default)]
    pub handed_prompt: Option<String>,
    /// The route it was handed to, when it was.
    #[serde(default)]
    pub route: Option<Route>,
}

impl Delivery {
    /// What tells this attempt from every other: the id under which a harness is given it.
    pub fn id(&self) -> String {
        format!("{}:{}", self.message_id, self.attempt)
    }
}

/// Says that the message is about to be handed over: from here on it may have been applied. Refused
/// with `not_pending` when it was cancelled, or with `stale_launch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginHandover {
    /// The agent.
    pub agent: AgentName,
    /// The message.
    pub message_id: MessageId,
    /// The attempt.
    pub attempt: u32,
    /// The launch it goes to.
    pub launch: LaunchId,
    /// The route.
    pub route: Route,
    /// What is handed over, when it is not the prompt itself.
    #[serde(default)]
    pub handed_prompt: Option<String>,
    /// Whether it goes to the turn that runs, past the queue.
    #[serde(default)]
    pub steer: bool,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The harness has it: seen in its transcript (a hook's evidence reaches the hub by itself).
    Delivered {
        /// The prompt's id in the harness, when known.
        #[serde(default)]
        prompt_id: Option<String>,
    },
    /// Proven not applied; it stays pending and will be tried again.
    NotApplied {},
    /// Proven not applied and not to be tried again.
    Failed {
        /// Why.
        reason: FailedReason,
        /// A sentence for the thread.
        note: String,
    },
    /// May have been applied; never tried again by itself.
    Unproven {
        /// A sentence for the thread.
        note: String,
    },
    /// An outcome of a newer build.
    #[serde(other)]
    Unknown,
}

/// Reports how an attempt ended. Only the first outcome of an attempt counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportOutcome {
    /// The agent.
    pub agent: AgentName,
    /// The message.
    pub message_id: MessageId,
    /// The attempt.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// Asks which delivered messages have no turn of their own yet (a person had queued prompts), and
/// which turn is taken to be running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTurns {
    /// The agent.
    pub agent: AgentName,
}

/// Answer to [`OpenTurns`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns {
    /// The running turn's prompt id.
    #[serde(default)]
    pub running: Option<String>,
    /// What was handed over to start it, when a message did.
    #[serde(default)]
    pub running_message: Option<Started>,
    /// Delivered messages whose turn is not known: their id and what was handed over.
    #[serde(default)]
    pub unbound: Vec<Unbound>,
    /// Delivered messages whose turn is over without an answer, until [`BindTurn`] or [`PromptRefused`]
    /// says whether there was one.
    #[serde(default)]
    pub doubtful: Vec<Started>,
}

/// A delivered message whose turn is, or was, taken to be running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The message.
    pub message_id: MessageId,
    /// What was handed over.
    pub prompt: String,
    /// When, in milliseconds since 1970.
    pub handed_ms: i64,
}

/// A delivered message whose turn is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unbound {
    /// The message.
    pub message_id: MessageId,
    /// What was handed over.
    pub prompt: String,
}

/// Says which turn a delivered message started, found in the transcript. `None`: it was folded into
/// another turn and has no reply of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindTurn {
    /// The agent.
    pub agent: AgentName,
    /// The message.
    pub message_id: MessageId,
    /// The turn.
    #[serde(default)]
    pub prompt_id: Option<String>,
}

/// Says that the harness dropped a prompt of which its hooks had told: another hook, one of the person's
/// own, did not let it pass. No turn came of it, and the model has read nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptRefused {
    /// The agent.
    pub agent: AgentName,
    /// The launch.
    pub launch: LaunchId,
    /// The message.
    pub message_id: MessageId,
    /// The turn that it was taken to have started.
    pub prompt_id: Option<String>,
    /// The hook's words.
    pub why: String,
}

/// Characters of a hook's words in a note.
const MAX_REASON: usize = 300;

/// What the thread says of a message that a hook of the person's own refused.
pub fn refusal_note(why: &str) -> String {
    let why: String = why.chars().take(MAX_REASON).collect();
    format!("The agent did not take the message, a hook refused it: {why}")
}

/// Says that the harness is idle although a turn is taken to be running: it was interrupted, which
/// fires no hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnInterrupted {
    /// The agent.
    pub agent: AgentName,
    /// The launch.
    pub launch: LaunchId,
    /// The turn.
    pub prompt_id: String,
}
