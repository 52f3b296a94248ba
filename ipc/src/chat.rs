//! Threads and messages: the objects of seed 001, as apps see them and as the hub stores them, and
//! the requests about them.

use crate::{AgentName, CallKey, LaunchId, MessageId, Time};
use serde::{Deserialize, Serialize};

/// Longest text of a message from an app, in bytes (WIRE.md §2).
pub const MAX_TEXT: usize = 256 * 1024;

/// Longest text once written as JSON: control characters grow sixfold, and the event that carries the
/// message must fit into one frame.
pub const MAX_TEXT_ENCODED: usize = 768 * 1024;

/// Longest text of `leo_chat_post`, in bytes (WIRE.md §3).
pub const MAX_POST_TEXT: usize = 64 * 1024;

/// Most files of one `leo_chat_post` (WIRE.md §3).
pub const MAX_POST_FILES: usize = 10;

/// Largest file of `leo_chat_post` in bytes (WIRE.md §3).
pub const MAX_POST_FILE_BYTES: u64 = 100 * 1024 * 1024;

/// Most messages of one page.
pub const MAX_PAGE: u32 = 200;

/// Which way a message went, seen from the agent: `in` is from a person to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From a person to the agent.
    In,
    /// From the agent, or from us about it.
    Out,
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Plain text.
    Text,
    /// A voice note.
    Voice,
    /// Files, with or without a caption.
    File,
    /// A card of a task run.
    Task,
    /// A question from the agent.
    Ask,
    /// A permission prompt of the agent's harness.
    Permission,
    /// A note from us; never pushed, never unread.
    System,
    /// A kind of a newer build: show it as text.
    #[serde(other)]
    Unknown,
}

/// Where a message stands. Inbound: `pending`, `delivered`, `failed`. Outbound text: empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// Outbound text has no state.
    #[serde(rename = "")]
    None,
    /// Accepted, not yet known to have reached the agent.
    Pending,
    /// The harness gave evidence that it has the message.
    Delivered,
    /// Not delivered; `failed_reason` says whether it may have been applied.
    Failed,
    /// A question or prompt that waits.
    Open,
    /// A question or prompt that was answered.
    Answered,
    /// A question or prompt that closed without an answer.
    Expired,
    /// A state of a newer build.
    #[serde(other)]
    Unknown,
}

/// Why an inbound message failed (WIRE.md §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailedReason {
    /// The agent could not be started or reached.
    AgentUnreachable,
    /// A dialog stayed open in the terminal.
    DialogOpen,
    /// It waited longer than a message may.
    Timeout,
    /// Handed over, but the harness never showed that it has it. It may have been applied, so it is
    /// never sent again by itself.
    Unproven,
    /// Larger than the route can carry.
    TooLarge,
    /// Taken back by the person.
    Cancelled,
    /// The voice note could not be transcribed.
    Transcription,
    /// The route broke before anything was handed over.
    Transport,
    /// A reason of a newer build.
    #[serde(other)]
    Unknown,
}

/// Why a pending message has not been handed over yet; shown beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitingFor {
    /// An earlier message of the thread.
    Queue,
    /// The agent to start.
    Start,
    /// The running turn to end.
    Turn,
    /// A dialog in the terminal to be answered.
    Dialog,
    /// A person's draft in the terminal's composer to be sent or cleared.
    Draft,
    /// A person: the agent cannot start without them (log-in, folder trust).
    Person,
    /// A voice note's own transcript.
    Transcription,
    /// A reason of a newer build.
    #[serde(other)]
    Unknown,
}

/// How a message reached the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// The mod inside Claude.
    Bridge,
    /// Claude's peer inbox.
    Inbox,
    /// codex's app server.
    AppServer,
    /// opencode's HTTP server.
    Http,
    /// A paste into the terminal.
    Paste,
    /// A route of a newer build.
    #[serde(other)]
    Unknown,
}

/// The delivery of an inbound message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DeliveryInfo {
    /// Route used or tried last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// Attempts begun, 0 before the first.
    pub attempts: u32,
    /// When the outcome was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// While pending: what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
}

/// A file of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Attachment {
    /// Its id.
    pub id: String,
    /// Its name as the sender gave it.
    pub filename: String,
    /// Media type.
    pub mime: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the bytes are still kept.
    pub available: bool,
}

/// One message of a thread (seed 001, "API").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Message {
    /// Its id, ordered by time.
    pub id: MessageId,
    /// The thread.
    pub agent: AgentName,
    /// Which way it went.
    pub direction: Direction,
    /// What it is.
    pub kind: MessageKind,
    /// Its text.
    pub text: String,
    /// `client:<name>` on a message an API client posted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// What was heard in a voice note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// The message this one answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<MessageId>,
    /// Task of a task card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Run of a task card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Where it stands.
    pub state: MessageState,
    /// Its files; `[]` when there are none.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    /// When it was accepted.
    pub ts: Time,
    /// The app's own id for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_msg_id: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_reason: Option<FailedReason>,
    /// The answer of an ask, a permission prompt or a questions card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<crate::ask::AnswerBody>,
    /// What a person is asked to give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<crate::ask::Input>,
    /// What a permission prompt is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<crate::ask::Permission>,
    /// When an open ask expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Why an ask closed without an answer; never on a permission prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_reason: Option<crate::ask::ClosedReason>,
    /// Who answered: `operator`, `app:<device>`, `terminal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// How it travels, on inbound messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryInfo>,
}

impl Message {
    /// An empty text message with nothing that is optional, for the fields that matter to be put in.
    pub fn bare(id: MessageId, agent: AgentName, direction: Direction) -> Message {
        Message {
            id,
            agent,
            direction,
            kind: MessageKind::Text,
            text: String::new(),
            sender: None,
            transcript: None,
            reply_to: None,
            task: None,
            run_id: None,
            state: MessageState::None,
            attachments: Vec::new(),
            ts: Time::from_millis(0),
            client_msg_id: None,
            failed_reason: None,
            answer: None,
            input: None,
            permission: None,
            deadline: None,
            closed_reason: None,
            answered_by: None,
            delivery: None,
        }
    }
}

/// One thread in the list of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Thread {
    /// The agent, whose name is the thread's.
    pub agent: AgentName,
    /// Its newest message.
    pub last_message: Option<Message>,
    /// Outbound messages after the read mark, system notes excepted.
    pub unread: u64,
    /// Whether it stays on top; only `assistant` does.
    pub pinned: bool,
    /// The agent's harness, absent when the agent was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<crate::config::Harness>,
    /// The agent's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<crate::agent::Status>,
    /// The agent's activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<crate::agent::Activity>,
}

/// Asks for all threads, `assistant` first, then newest activity.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListThreads {}

/// Answer to [`ListThreads`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Threads {
    /// The threads.
    pub threads: Vec<Thread>,
}

/// Asks for a page of a thread. Without a cursor: the newest page. At most one of `before` and
/// `after`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListMessages {
    /// The thread.
    pub agent: AgentName,
    /// Only messages older than this one.
    #[serde(default)]
    pub before: Option<MessageId>,
    /// Only messages newer than this one.
    #[serde(default)]
    pub after: Option<MessageId>,
    /// 1 to [`MAX_PAGE`].
    pub limit: u32,
}

/// A page of a thread, oldest first. It may hold fewer than asked for, because of its size in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MessagePage {
    /// The messages.
    pub messages: Vec<Message>,
    /// Whether there are more in the direction asked for.
    pub has_more: bool,
}

/// Asks for one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetMessage {
    /// The thread.
    pub agent: AgentName,
    /// The message.
    pub id: MessageId,
}

/// A message from a person to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendMessage {
    /// The thread.
    pub agent: AgentName,
    /// Its text.
    pub text: String,
    /// The message it answers.
    #[serde(default)]
    pub reply_to: Option<MessageId>,
    /// Ids of uploaded files, which belong to this message from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<String>,
    /// The app's id for it, which is also its idempotency key.
    #[serde(default)]
    pub client_msg_id: Option<String>,
    /// Whether to hand it to the turn that runs, instead of waiting for one of its own.
    #[serde(default)]
    pub steer: bool,
    /// Idempotency key where the app gave no id of its own.
    pub key: CallKey,
}

/// Answer to [`SendMessage`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// The row.
    pub message: Message,
    /// False when the same message had been accepted before.
    pub created: bool,
}

/// Sends a failed inbound message again (same row, next attempt).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryMessage {
    /// The thread.
    pub agent: AgentName,
    /// The message.
    pub id: MessageId,
    /// The same key asks for the same retry.
    pub key: CallKey,
    /// Whether a voice note's recording goes to the agent as a file instead of being transcribed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_file: bool,
}

/// Takes back a message that has not been handed to the harness. Asking again is harmless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelMessage {
    /// The thread.
    pub agent: AgentName,
    /// The message.
    pub id: MessageId,
}

/// Moves the read mark forward; it never moves back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkRead {
    /// The thread.
    pub agent: AgentName,
    /// The newest message that was seen.
    pub message_id: MessageId,
}

/// Answer to [`MarkRead`], and the payload of `chat.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReadMark {
    /// The thread.
    pub agent: AgentName,
    /// Unread messages left.
    pub unread: u64,
    /// The read mark.
    pub last_read: Option<MessageId>,
}

/// `leo_chat_post`: a message from the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPost {
    /// The agent, established by the caller from its token.
    pub agent: AgentName,
    /// The launch it runs under, when known.
    #[serde(default)]
    pub launch: Option<LaunchId>,
    /// The same key asks for the same post.
    pub call_key: CallKey,
    /// Text, or the caption of the files.
    #[serde(default)]
    pub text: String,
    /// Absolute paths of files to attach; the hub copies them.
    #[serde(default)]
    pub files: Vec<String>,
    /// The message it answers.
    #[serde(default)]
    pub reply_to: Option<MessageId>,
    /// The headless run that posts, established from its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<crate::ask::Run>,
}

/// Answer to [`AgentPost`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Posted {
    /// The message.
    pub message_id: MessageId,
}

/// A note from us in a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostNote {
    /// The thread.
    pub agent: AgentName,
    /// The same key posts the same note.
    pub key: CallKey,
    /// Its text.
    pub text: String,
}

/// Asks where an attachment's bytes lie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAttachment {
    /// Its id.
    pub id: String,
}

/// Answer to [`GetAttachment`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentFile {
    /// What it is.
    pub attachment: Attachment,
    /// Absolute path of its bytes.
    pub path: String,
}
