//! What happens to the chat screen, and what it wants done.

use super::log::Problem;
use leo_ipc::{
    AgentName, MessageId,
    agent::Agent,
    ask::AnswerBody,
    chat::{Message, MessagePage, ReadMark},
    event::{Resume, State as Snapshot},
    reminder::Reminder,
};
use std::path::PathBuf;

/// What happens to the screen.
#[derive(Debug)]
pub(super) enum Event {
    /// A key was pressed.
    Key(crossterm::event::KeyEvent),
    /// Text was pasted.
    Paste(String),
    /// The terminal has a new size.
    Resize(u16, u16),
    /// Time went by.
    Tick,
    /// The event stream was connected.
    Connected(Resume),
    /// The event stream was lost.
    Lost(String),
    /// A message is new or changed.
    Message {
        /// The message.
        message: Box<Message>,
        /// Whether it is new.
        new: bool,
    },
    /// A read mark moved.
    Read(ReadMark),
    /// An agent changed.
    Agent(Box<Agent>),
    /// Everything, as of one moment.
    Snapshot(Box<Snapshot>),
    /// A page of a thread was fetched.
    Page {
        /// The thread.
        agent: AgentName,
        /// Whether it holds earlier messages than were known.
        older: bool,
        /// The page, or why there is none.
        page: Result<MessagePage, String>,
    },
    /// A message of ours was accepted or not.
    Sent {
        /// The thread.
        agent: AgentName,
        /// Our id for it.
        client_msg_id: String,
        /// The row, or why there is none.
        result: Result<Box<Message>, Problem>,
    },
    /// A card was settled by us, or not.
    Settled {
        /// The thread.
        agent: AgentName,
        /// The card.
        id: MessageId,
        /// The settled card, or why it is not.
        result: Result<Box<Message>, NotTaken>,
    },
    /// A reminder of a thread was left, posted or taken back.
    ReminderChanged(AgentName),
    /// The open reminders of a thread.
    Reminders(AgentName, Vec<Reminder>),
    /// Something that was asked for was done, or why not.
    Done(Result<Option<String>, String>),
}

/// Why an answer was not taken.
#[derive(Debug)]
pub(super) struct NotTaken {
    /// A sentence.
    pub(super) problem: String,
    /// The card, when somebody else settled it first.
    pub(super) settled: Option<Box<Message>>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Send a message.
    Send {
        /// The thread.
        agent: AgentName,
        /// Its text.
        text: String,
        /// Files to send with it.
        files: Vec<PathBuf>,
        /// Our id for it.
        client_msg_id: String,
    },
    /// Fetch a page; without a cursor the newest one.
    Page {
        /// The thread.
        agent: AgentName,
        /// Only messages older than this one.
        before: Option<MessageId>,
    },
    /// Fetch everything.
    Snapshot,
    /// Send a failed message again.
    Retry(AgentName, MessageId),
    /// Send a failed voice note's recording as a file.
    AsFile(AgentName, MessageId),
    /// Take a waiting message back.
    Cancel(AgentName, MessageId),
    /// Answer a card.
    Answer {
        /// The thread.
        agent: AgentName,
        /// The card.
        id: MessageId,
        /// The answer.
        answer: AnswerBody,
        /// Our id for it.
        client_msg_id: String,
    },
    /// Close a questions card without an answer.
    Dismiss(AgentName, MessageId),
    /// Tell an agent something: `interrupt`, `start`, `stop`, `restart`, `clear`.
    Tell(AgentName, &'static str),
    /// Summarise an agent's context; what the summary is to keep.
    Compact(AgentName, Option<String>),
    /// Fetch a thread's open reminders.
    Reminders(AgentName),
    /// Take a reminder back.
    CancelReminder(AgentName, MessageId),
    /// Move the read mark.
    Read(AgentName, MessageId),
    /// Draw everything anew: something else wrote to the terminal.
    Redraw,
}
