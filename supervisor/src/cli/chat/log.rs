//! One thread as far as it was fetched, and what was written but not accepted yet. Pure.

use super::cards;
use leo_ipc::{
    MessageId, Time,
    chat::{Direction, Message, MessageKind, MessagePage, MessageState},
};
use std::{collections::BTreeMap, path::PathBuf};

/// A message of ours that the daemon has not accepted yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outgoing {
    /// Our id for it, which makes sending it again harmless.
    pub(super) client_msg_id: String,
    /// Its text.
    pub(super) text: String,
    /// Files to send with it.
    pub(super) files: Vec<PathBuf>,
    /// When it was written.
    pub(super) at: Time,
    /// Why it was not accepted; `None` while it is being sent.
    pub(super) problem: Option<Problem>,
}

/// Why a message was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// A sentence.
    pub(super) text: String,
    /// Whether the daemon could not be asked, so that sending again by itself is right.
    pub(super) unreachable: bool,
}

/// A thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Log {
    messages: BTreeMap<MessageId, Message>,
    /// Not accepted yet, in the order of writing.
    pub(super) outgoing: Vec<Outgoing>,
    /// Whether the newest page was fetched.
    pub(super) loaded: bool,
    /// Whether there are earlier messages.
    pub(super) has_older: bool,
    /// Whether a page of them is on its way.
    pub(super) loading_older: bool,
}

impl Log {
    /// All messages, oldest first.
    pub(super) fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.messages.values()
    }

    /// Messages older than one, newest first.
    pub(super) fn before(&self, id: &MessageId) -> impl Iterator<Item = &Message> {
        self.messages.range(..id.clone()).rev().map(|(_, message)| message)
    }

    /// One message.
    pub(super) fn get(&self, id: &MessageId) -> Option<&Message> {
        self.messages.get(id)
    }

    /// The oldest message.
    pub(super) fn oldest(&self) -> Option<&Message> {
        self.messages.values().next()
    }

    /// Takes a message as the event stream has it.
    pub(super) fn put(&mut self, message: Message) {
        self.drop_outgoing(&message);
        self.messages.insert(message.id.clone(), message);
    }

    /// Takes a message as an answer has it: the stream may have brought a newer form of it already.
    pub(super) fn put_if_absent(&mut self, message: Message) {
        self.drop_outgoing(&message);
        self.messages.entry(message.id.clone()).or_insert(message);
    }

    /// Takes a settled card as an answer has it, unless the stream has settled it already.
    pub(super) fn settle(&mut self, message: Message) {
        let open = self.messages.get(&message.id).is_none_or(|known| known.state == MessageState::Open);
        if open {
            self.messages.insert(message.id.clone(), message);
        }
    }

    /// Cards that can be answered, newest first.
    pub(super) fn open_cards(&self) -> impl Iterator<Item = &Message> {
        self.messages().rev().filter(|message| cards::is_open(message))
    }

    fn drop_outgoing(&mut self, message: &Message) {
        if let Some(own) = &message.client_msg_id {
            self.outgoing.retain(|outgoing| outgoing.client_msg_id != *own);
        }
    }

    /// Takes a page: the newest one, or one of earlier messages.
    pub(super) fn take(&mut self, page: MessagePage, older: bool) {
        if older {
            self.loading_older = false;
        } else {
            self.loaded = true;
        }
        self.has_older = page.has_more;
        for message in page.messages {
            self.put_if_absent(message);
        }
    }

    /// Forgets what was fetched, after a gap; what was written stays.
    pub(super) fn forget(&mut self) {
        let outgoing = std::mem::take(&mut self.outgoing);
        *self = Log { outgoing, ..Log::default() };
    }

    /// The newest message from the agent, for the read mark.
    pub(super) fn newest_out(&self) -> Option<&Message> {
        self.messages().rev().find(|m| m.direction == Direction::Out && m.kind != MessageKind::System)
    }

    /// The newest message of ours that failed and was not taken back.
    pub(super) fn last_failed(&self) -> Option<&Message> {
        use leo_ipc::chat::FailedReason;
        self.messages().rev().find(|m| {
            m.direction == Direction::In
                && m.state == MessageState::Failed
                && m.failed_reason != Some(FailedReason::Cancelled)
        })
    }

    /// The newest message of ours that waits.
    pub(super) fn last_pending(&self) -> Option<&Message> {
        self.messages().rev().find(|m| m.direction == Direction::In && m.state == MessageState::Pending)
    }
}
