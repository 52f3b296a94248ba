//! What a person does with an ask: answer or dismiss it. The first answer wins; whoever comes later is
//! told what won.

use super::{
    answer,
    machine::{Event, Kind, State},
    store::{self, Ask, Settlement},
};
use crate::{
    agent,
    error::{Outcome, Refusal, unknown_message},
    message,
    statements::Cached,
    task,
    writer::Tx,
};
use leo_ipc::{
    AgentName, Fault, MessageId,
    ask::{AnswerAsk, DismissAsk},
    chat::Message,
};
use serde_json::Value;

/// How long an answer is kept for the call that waits for it before it goes out as a message. A call
/// that is connected takes it at once; one whose worker has just died comes back within this time.
const COLLECT_MS: i64 = 15_000;

fn find(tx: &Tx<'_>, agent: &AgentName, id: &MessageId) -> Outcome<Ask> {
    agent::must_have_thread(tx.db, agent)?;
    let found = store::find(tx.db, id)?.filter(|ask| ask.agent == *agent);
    match found {
        Some(ask) => Ok(ask),
        None => {
            message::find(tx.db, agent, id)?;
            Err(Fault::new("not_open", "that message asks nothing").into())
        }
    }
}

/// Answers an ask.
pub(crate) fn answer(tx: &mut Tx<'_>, request: &AnswerAsk) -> Outcome<Message> {
    let ask = find(tx, &request.agent, &request.message_id)?;
    if ask.state != State::Open && ask.answer_key.as_deref() == Some(request.key.as_str()) {
        return message::load(tx.db, &request.message_id);
    }
    // Settled or not comes first: a late answer is late, whatever it says.
    if ask.state != State::Open {
        return Err(settled_before(tx, &request.message_id)?);
    }
    let input = ask.input.as_ref().ok_or_else(|| unknown_message(&request.message_id))?;
    let checked = answer::check(input, &request.answer, ask.kind == Kind::Permission)?;
    let settlement = Settlement {
        event: Event::Answer,
        answer: Some(checked),
        by: Some(&request.by),
        key: Some(request.key.as_str()),
    };
    if !store::settle(tx, &ask, &settlement)? {
        return Err(settled_before(tx, &request.message_id)?);
    }
    let message = message::load(tx.db, &request.message_id)?;
    // Asks of a task run that has no agent of its own are not delivered; resuming returns their answer.
    let reachable = match &message.run_id {
        Some(run_id) => ask.asker.is_none() && !task::is_headless(tx.db, run_id)?,
        None => message.task.is_none(),
    };
    if ask.kind == Kind::Ask && reachable {
        let late_at = tx.now.millis() + if ask.waiter.is_some() { COLLECT_MS } else { 0 };
        tx.db.execute_cached(
            "UPDATE asks SET late_at = ?2 WHERE message_id = ?1",
            rusqlite::params![request.message_id.as_str(), late_at],
        )?;
    }
    Ok(message)
}

/// Closes a questions card without an answer.
pub(crate) fn dismiss(tx: &mut Tx<'_>, request: &DismissAsk) -> Outcome<Message> {
    let ask = match find(tx, &request.agent, &request.message_id) {
        Err(Refusal::Fault(fault)) if fault.code == "not_open" => {
            return Err(Fault::new("not_a_questions_card", "that message is not a questions card").into());
        }
        found => found?,
    };
    match store::settle(tx, &ask, &Settlement::of(Event::Dismiss)) {
        Err(Refusal::Fault(fault)) if fault.code == "already_settled" => {
            Err(settled_before(tx, &request.message_id)?)
        }
        other => {
            other?;
            message::load(tx.db, &request.message_id)
        }
    }
}

fn settled_before(tx: &Tx<'_>, id: &MessageId) -> Outcome<Refusal> {
    let message = message::load(tx.db, id)?;
    let by = message.answered_by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
    let data = serde_json::to_value(&message).unwrap_or(Value::Null);
    Ok(Fault::new("already_settled", format!("it was settled before{by}")).with_data(data).into())
}
