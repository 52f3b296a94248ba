//! Notes of ours in a thread: what happened to the agent or to a message, in a sentence.

use crate::{
    agent,
    error::Outcome,
    message::{self, New},
    writer::Tx,
};
use leo_ipc::{
    AgentName, MessageId,
    chat::{Direction, MessageKind, MessageState, PostNote, Posted},
};

/// Posts a note; the same key posts it once.
pub(crate) fn post(tx: &mut Tx<'_>, agent: &AgentName, key: &str, text: &str) -> Outcome<MessageId> {
    let dedupe = format!("note:{key}");
    if let Some(id) = message::by_dedupe(tx.db, agent, &dedupe)? {
        return Ok(id);
    }
    let new = New {
        agent,
        direction: Direction::Out,
        kind: MessageKind::System,
        text,
        state: MessageState::None,
        reply_to: None,
        client_msg_id: None,
        dedupe: Some(&dedupe),
    };
    let id = message::insert(tx, &new)?;
    message::emit_new(tx, &id)?;
    Ok(id)
}

/// The request [`PostNote`].
pub(crate) fn request(tx: &mut Tx<'_>, note: &PostNote) -> Outcome<Posted> {
    agent::must_exist(tx.db, &note.agent)?;
    Ok(Posted { message_id: post(tx, &note.agent, note.key.as_str(), &note.text)? })
}
