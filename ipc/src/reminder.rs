//! Reminders: text that an agent leaves to be posted into its thread at a time (seed 001, "Reminders"),
//! and the requests about them.

use crate::{AgentName, CallKey, LaunchId, MessageId, Time, ask::Run};
use serde::{Deserialize, Serialize};

/// Most open reminders of one thread: far above what a person wants to be reminded of, and few enough
/// that a list of them can be read.
pub const MAX_OPEN: u64 = 100;

/// Bytes of text of one thread's open reminders, so that their list fits into one frame.
pub const MAX_OPEN_BYTES: u64 = 512 * 1024;

/// A reminder posted later than this after its time says so (seed 001, "Restarts").
pub const LATE_MS: i64 = 60_000;

/// Days after which a reminder that fired or was cancelled is forgotten: until then whoever cancels it
/// again is told what became of it.
pub const KEEP_DAYS: i64 = 90;

/// `leo_chat_schedule`: text to be posted into the thread at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleReminder {
    /// Who leaves it. It will post into this agent's thread, or into the owner's of the task run that it
    /// is left under, resolved now.
    pub agent: AgentName,
    /// The launch it runs under, when known.
    #[serde(default)]
    pub launch: Option<LaunchId>,
    /// The same key schedules the same reminder.
    pub call_key: CallKey,
    /// What to post, as Markdown; bounded like a post.
    pub text: String,
    /// When, as RFC 3339 with an offset; strictly in the future and at most a year away.
    pub at: String,
    /// The headless run that schedules it, by its token: it then fires as a card of that run.
    #[serde(default)]
    pub run: Option<Run>,
}

/// An open reminder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Reminder {
    /// Its id.
    pub id: MessageId,
    /// The thread that it posts into.
    pub agent: AgentName,
    /// What it posts.
    pub text: String,
    /// When, as RFC 3339 in the machine's own offset at that time.
    pub at: String,
    /// Task of the run that scheduled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The run that scheduled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// Asks for a thread's open reminders, the next one first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListReminders {
    /// The thread; or who asks, with `by_agent`.
    pub agent: AgentName,
    /// Whether the agent asks: then the thread is the one that it would leave a reminder in now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_agent: bool,
    /// The headless run that asks, by its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
}

/// Answer to [`ListReminders`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Reminders {
    /// The open reminders, the next one first.
    pub reminders: Vec<Reminder>,
}

/// Takes an open reminder back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelReminder {
    /// The thread, which must be the reminder's own; or who asks, with `by_agent`.
    pub agent: AgentName,
    /// As in [`ListReminders`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_agent: bool,
    /// As in [`ListReminders`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// The reminder.
    pub id: MessageId,
    /// The same key again is the same cancellation, and no error.
    pub key: CallKey,
}

/// A reminder that will not fire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CancelledReminder {
    /// Its id.
    pub id: MessageId,
    /// Always true.
    pub cancelled: bool,
}

/// Posts the reminders that are due by the hub's clock, each once, some at a time. It carries no key:
/// what has fired is not due any more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FireReminders {}

/// Answer to [`FireReminders`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fired {
    /// How many were posted.
    pub fired: u32,
    /// When the next one is due; in the past when there are more to be posted.
    #[serde(default)]
    pub next: Option<Time>,
}

/// Forgets reminders that have been settled for [`KEEP_DAYS`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PruneReminders {}

/// The next due time, at once and whenever it may have changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WatchReminders {}

/// Item of [`WatchReminders`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextReminder {
    /// When the next open reminder is due; none while there is none.
    #[serde(default)]
    pub next: Option<Time>,
}
