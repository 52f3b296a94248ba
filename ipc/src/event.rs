//! The event journal as it crosses the wire (WIRE.md §4).

use crate::EventId;
use serde::{Deserialize, Serialize};

/// Subscribes to the journal. The first item is [`EventItem::Start`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SubscribeEvents {
    /// The last event that the caller has; `None` starts with what happens from now on.
    #[serde(default)]
    pub since: Option<EventId>,
}

/// Whether a stream goes on where the caller stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resume {
    /// All missed events follow.
    Ok,
    /// Some are gone, or the place is of another database: fetch the state.
    Gap,
    /// No place was given.
    None,
    /// A verdict of a newer build; treat it as a gap.
    #[serde(other)]
    Unknown,
}

/// One item of the event stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "item", rename_all = "snake_case")]
pub enum EventItem {
    /// Where the stream starts.
    Start {
        /// The database's epoch.
        epoch: String,
        /// The journal's newest event when the stream began.
        head: u64,
        /// Whether missed events follow.
        resume: Resume,
    },
    /// Events in order, contiguous with what came before.
    Events {
        /// The events.
        events: Vec<JournalEvent>,
    },
    /// An item of a newer build; ignored.
    #[serde(other)]
    Unknown,
}

/// One event of the journal, in the form in which apps receive it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEvent {
    /// Its number, contiguous.
    pub seq: u64,
    /// Its type, such as `chat.message`.
    pub kind: String,
    /// A JSON object with `seq`, `at` and the payload.
    pub data: String,
}

/// Asks for a page of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListEvents {
    /// Only events after this number.
    pub after: u64,
    /// At most this many; fewer when they are large.
    pub limit: u32,
}

/// Answer to [`ListEvents`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventPage {
    /// The database's epoch.
    pub epoch: String,
    /// The oldest event that is still kept, 0 when none is.
    pub oldest: u64,
    /// The newest event.
    pub head: u64,
    /// The events, contiguous from `after + 1` when that is still kept.
    pub events: Vec<JournalEvent>,
}

/// Asks for everything that an app needs to begin with, as of one event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GetState {}

/// Answer to [`GetState`] (`GET /api/v1/state`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct State {
    /// As of which event.
    pub meta: StateMeta,
    /// The agents, by name.
    pub agents: Vec<crate::agent::Agent>,
    /// The threads, `assistant` first, then newest activity.
    pub threads: Vec<crate::chat::Thread>,
}

/// As of which event a [`State`] is true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StateMeta {
    /// The database's epoch.
    pub epoch: String,
    /// The newest event that the state includes.
    pub seq: u64,
}
