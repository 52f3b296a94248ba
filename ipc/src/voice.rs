//! Voice notes on their way to text: the requests between the `transcribe` worker and the hub. The hub
//! keeps which notes wait and how often each was tried; the worker keeps nothing.

use crate::{AgentName, CallKey, MessageId};
use serde::{Deserialize, Serialize};

/// Longest transcript in bytes; as long as a text message may be.
pub const MAX_TRANSCRIPT: usize = crate::chat::MAX_TEXT;

/// Asks for the next voice note. The answer comes when there is one. Whoever asks has no other note in
/// hand: one that was taken before and has no end is given again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeNote {
    /// The same key takes the same note once.
    pub key: CallKey,
}

/// Answer to [`TakeNote`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The thread.
    pub agent: AgentName,
    /// The voice note's message.
    pub message_id: MessageId,
    /// Which attempt this is, counted up for ever.
    pub attempt: u32,
    /// Absolute paths of its recordings, in their order.
    pub recordings: Vec<String>,
}

/// Asks whether a note is still wanted: it may have been taken back meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckNote {
    /// The voice note's message.
    pub message_id: MessageId,
    /// The attempt.
    pub attempt: u32,
}

/// Answer to [`CheckNote`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Whether to go on.
    pub wanted: bool,
}

/// How an attempt ended. Only the first end of an attempt counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndNote {
    /// The voice note's message.
    pub message_id: MessageId,
    /// The attempt.
    pub attempt: u32,
    /// What came of it.
    pub end: NoteEnd,
}

/// What came of an attempt to transcribe a voice note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum NoteEnd {
    /// Somebody said this.
    Speech {
        /// The words, at most [`MAX_TRANSCRIPT`] bytes.
        text: String,
    },
    /// Nobody said anything.
    Silence {},
    /// It could not be found out.
    Failed {
        /// Why, and what a person can do about it, in sentences.
        why: String,
    },
    /// An end of a newer build.
    #[serde(other)]
    Unknown,
}
