//! Asks: questions from an agent, permission prompts of its harness, and question cards, which are one
//! thing to the hub: a message that is open until it is answered or closes (seed 001, "Ask inputs",
//! "Ask lifecycle", "Permission prompts", "Questions cards"; WIRE.md §2).

use crate::{AgentName, CallKey, LaunchId, MessageId, chat::Message};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Longest answer text in characters.
pub const MAX_ANSWER_TEXT: usize = 4000;
/// Longest question in characters.
pub const MAX_QUESTION: usize = 4000;
/// Most options of one question.
pub const MAX_OPTIONS: usize = 20;
/// Longest value and label in characters.
pub const MAX_LABEL: usize = 200;
/// Longest description of an option in characters.
pub const MAX_DESCRIPTION: usize = 500;
/// Longest deadline that an agent may give its ask, in seconds.
pub const MAX_TIMEOUT_S: u64 = 3600;
/// Deadline of an ask from a headless run that gives none, in seconds (seed 001, "Ask lifecycle").
pub const RUN_TIMEOUT_S: u64 = 300;
/// Most questions of one questions card.
pub const MAX_QUESTIONS: usize = 4;

/// How an ask is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum InputType {
    /// Tap one.
    Buttons,
    /// Pick one and submit.
    Radio,
    /// Pick several.
    Checkboxes,
    /// Write text.
    Text,
    /// Several questions of Claude's at once; only the hub makes these.
    Questions,
    /// A type of a newer build: show the question as text.
    #[serde(other)]
    Unknown,
}

/// One option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Choice {
    /// What the answer holds.
    pub value: String,
    /// What a person reads.
    pub label: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What a person is asked to give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Input {
    /// How it is answered.
    #[serde(rename = "type")]
    pub kind: InputType,
    /// The options of a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<Choice>>,
    /// Whether a free text is an answer too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_text: Option<bool>,
    /// Fewest selections of checkboxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// Most selections of checkboxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Hint in the text field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    /// The questions of a questions card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<Vec<Question>>,
}

/// One question of a questions card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Question {
    /// `q1`, `q2`, … by position.
    pub id: String,
    /// A word or two above it.
    pub header: String,
    /// The question.
    pub question: String,
    /// Whether several options may be picked.
    pub multi: bool,
    /// Always true: Claude always offers "Other".
    pub allow_text: bool,
    /// The options; value equals label.
    pub options: Vec<Choice>,
}

/// An answer as given and as stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct AnswerBody {
    /// Chosen values; `["terminal"]` when it was settled there.
    pub values: Vec<String>,
    /// Free text.
    pub text: String,
    /// The values' labels, in the same order; filled in by the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// Answers of a questions card, by question id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<BTreeMap<String, QuestionAnswer>>,
}

/// The answer to one question of a card.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct QuestionAnswer {
    /// Chosen values.
    pub values: Vec<String>,
    /// Free text.
    pub text: String,
}

/// What a permission prompt is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Permission {
    /// The tool.
    pub tool: String,
    /// The command, path or URL, at most 200 characters, hidden characters shown as `\u{…}`.
    pub summary: String,
    /// The whole input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Whether the input was too large to keep whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The subagent that asks, when one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// False when there is no dialog in the terminal while this card is open (a subagent's prompt).
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub in_terminal: bool,
}

fn yes() -> bool {
    true
}

/// Why an ask closed without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClosedReason {
    /// Its deadline passed.
    Timeout,
    /// The agent took it back.
    Withdrawn,
    /// Its agent was stopped by a person, or removed.
    AgentGone,
    /// A person dismissed the card.
    Dismissed,
    /// A reason of a newer build.
    #[serde(other)]
    Unknown,
}

/// `leo_chat_ask`: opens an ask, or with only `message_id` goes on waiting for one. Answered at once:
/// waiting is [`WaitAsk`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenAsk {
    /// The agent, established by the caller from its token.
    pub agent: AgentName,
    /// The launch it runs under, when known.
    #[serde(default)]
    pub launch: Option<LaunchId>,
    /// The same key asks for the same ask.
    pub call_key: CallKey,
    /// The question.
    pub question: String,
    /// The input as the agent gave it; bare-string options are allowed here.
    #[serde(default)]
    pub input: Option<Value>,
    /// Shorthand for buttons.
    #[serde(default)]
    pub options: Option<Value>,
    /// Seconds until it expires; none or 0 waits for as long as it takes, in a headless run for
    /// [`RUN_TIMEOUT_S`].
    #[serde(default)]
    pub timeout_s: Option<u64>,
    /// The headless run that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
}

/// The headless run that an agent's process belongs to (`LEO_TASK`, `LEO_RUN_ID`): it has no agent to
/// hand a late answer to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The task.
    pub task: String,
    /// The run.
    pub run_id: String,
}

/// Waits for the end of an ask; answered when it is settled. A caller that stops waiting cancels the
/// request, or says so with [`StopWaiting`] where it cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitAsk {
    /// The agent, which must be the ask's own.
    pub agent: AgentName,
    /// The ask.
    pub message_id: MessageId,
    /// The waiting call. The same key after a reconnect is the same wait.
    pub call_key: CallKey,
}

/// The harness no longer waits: a later answer is delivered as a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopWaiting {
    /// The agent.
    pub agent: AgentName,
    /// The ask.
    pub message_id: MessageId,
    /// The wait.
    pub call_key: CallKey,
}

/// How an ask ended, for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct AskResult {
    /// The ask.
    pub message_id: String,
    /// Chosen values.
    pub values: Vec<String>,
    /// Their labels, in the same order.
    pub labels: Vec<String>,
    /// Free text.
    pub text: String,
    /// It is still open.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    /// It closed without an answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Why it closed without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_reason: Option<ClosedReason>,
}

/// `leo_chat_ask_withdraw`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithdrawAsk {
    /// The agent, which must be the ask's own.
    pub agent: AgentName,
    /// The ask.
    pub message_id: MessageId,
}

/// A person's answer to an ask, a permission prompt or a questions card. The first one wins; the rest
/// get `already_settled` with the settled message. The same `key` again is the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerAsk {
    /// The thread.
    pub agent: AgentName,
    /// The ask.
    pub message_id: MessageId,
    /// The answer.
    pub answer: AnswerBody,
    /// Who answers: `operator`, `app:<device>`.
    pub by: String,
    /// Idempotency key.
    pub key: CallKey,
}

/// Closes a questions card without an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DismissAsk {
    /// The thread.
    pub agent: AgentName,
    /// The card.
    pub message_id: MessageId,
}

/// A harness asks for permission, or asks its questions; answered when the hook may end. The same key
/// after a reconnect is the same prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskPermission {
    /// Fresh per hook process.
    pub hook_key: CallKey,
    /// The launch's token.
    pub token: String,
    /// Milliseconds since 1970 when the hook was started.
    pub at_ms: i64,
    /// The tool.
    pub tool_name: String,
    /// Its input, verbatim.
    pub tool_input: Value,
    /// The turn.
    #[serde(default)]
    pub prompt_id: Option<String>,
    /// The session.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The subagent that asks.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// Its type.
    #[serde(default)]
    pub agent_type: Option<String>,
    /// The harness's permission mode.
    #[serde(default)]
    pub permission_mode: Option<String>,
}

/// What the hook prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// Nothing: the terminal decides, or has decided.
    Nothing {},
    /// Allow, with another input where the answer is one.
    Allow {
        /// Replaces the tool's input.
        #[serde(default)]
        updated_input: Option<Value>,
    },
    /// Deny.
    Deny {
        /// What the model is told.
        #[serde(default)]
        message: Option<String>,
    },
    /// A decision of a newer build; print nothing.
    #[serde(other)]
    Unknown,
}

/// The harness ended the hook (SIGTERM): the prompt was settled in the terminal, or its turn is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionGone {
    /// The hook.
    pub hook_key: CallKey,
    /// The launch's token.
    pub token: String,
}

/// SHA-256 of a tool's input, whatever the order of its keys: parallel calls of one tool are told apart
/// by it, since a permission prompt carries no id of its call.
pub fn input_hash(input: &Value) -> String {
    let mut text = String::new();
    write_sorted(input, &mut text);
    crate::id::token_hash(&text)
}

fn write_sorted(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for key in keys {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_sorted(&map[key.as_str()], out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_sorted(item, out);
                out.push(',');
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

/// The answer to requests that settle or open an ask: its message.
pub type Asked = Message;
