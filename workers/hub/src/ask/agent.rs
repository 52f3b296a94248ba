//! What an agent does with its asks: open, wait, stop waiting, withdraw.

use super::{
    input,
    machine::{Event, Kind, State},
    store::{self, Ask, NewAsk, Settlement},
};
use crate::{
    agent,
    error::{Outcome, unknown_message},
    message,
    statements::Cached,
    task,
    writer::Tx,
};
use leo_ipc::{
    AgentName, Fault, MessageId, Time,
    ask::{AskResult, OpenAsk, RUN_TIMEOUT_S, StopWaiting, WaitAsk, WithdrawAsk},
    chat::Message,
};
use rusqlite::Connection;

/// Opens an ask; the same key opens it once.
pub(crate) fn open(tx: &mut Tx<'_>, request: &OpenAsk) -> Outcome<Message> {
    agent::must_exist(tx.db, &request.agent)?;
    let dedupe = format!("ask:{}", request.call_key);
    for thread in task::threads_of(tx.db, &request.agent)? {
        if let Some(id) = message::by_dedupe(tx.db, &thread, &dedupe)? {
            return message::load(tx.db, &id);
        }
    }
    input::question(&request.question, request.timeout_s)?;
    let input = input::parse(request.input.as_ref(), request.options.as_ref())?;
    let filed = task::filed(tx.db, &request.agent, request.run.as_ref())?;
    let thread = task::thread_of(&request.agent, filed.as_ref());
    let foreign = *thread != request.agent;
    // A headless run, or a persistent task whose owner is another agent, has no agent to hand a late
    // answer to: it cannot wait for ever.
    let bounded = foreign || filed.as_ref().is_some_and(|f| f.headless) || request.run.is_some();
    let given = request.timeout_s.filter(|s| *s > 0);
    let timeout = given.or(bounded.then_some(RUN_TIMEOUT_S)).and_then(|s| i64::try_from(s).ok());
    let deadline = timeout.map(|s| Time::from_millis(tx.now.millis() + s * 1000));
    let new = NewAsk {
        agent: thread,
        kind: Kind::Ask,
        text: &request.question,
        input: &input,
        permission: None,
        deadline,
        opened_ms: tx.now.millis(),
        dedupe: &dedupe,
        run: filed.as_ref().map(|f| &f.run).or(request.run.as_ref()),
        asker: foreign.then_some(&request.agent),
        hook: None,
    };
    store::open(tx, &new)
}

/// An ask of this agent's.
fn own(db: &Connection, agent: &AgentName, id: &MessageId) -> Outcome<Ask> {
    let ask = store::find(db, id)?.ok_or_else(|| unknown_message(id))?;
    if ask.asker.as_ref().unwrap_or(&ask.agent) != agent || ask.kind != Kind::Ask {
        return Err(Fault::new("not_your_ask", "that ask belongs to another agent").into());
    }
    Ok(ask)
}

/// Marks a call as waiting; an answer that comes now is its own.
pub(crate) fn begin_wait(tx: &mut Tx<'_>, request: &WaitAsk) -> Outcome<()> {
    let ask = own(tx.db, &request.agent, &request.message_id)?;
    if ask.state == State::Open && ask.waiter.as_deref() != Some(request.call_key.as_str()) {
        tx.db.execute_cached(
            "UPDATE asks SET waiter = ?2 WHERE message_id = ?1",
            [request.message_id.as_str(), request.call_key.as_str()],
        )?;
    }
    Ok(())
}

/// The result, once there is one.
pub(crate) fn settled(db: &Connection, request: &WaitAsk) -> Outcome<Option<AskResult>> {
    let ask = own(db, &request.agent, &request.message_id)?;
    Ok((ask.state != State::Open).then(|| store::result(&ask)))
}

/// The waiting call takes the result with it: nothing more is delivered.
pub(crate) fn collect(tx: &mut Tx<'_>, request: &WaitAsk) -> Outcome<()> {
    tx.db.execute_cached(
        "UPDATE asks SET waiter = NULL, late_at = NULL WHERE message_id = ?1",
        [request.message_id.as_str()],
    )?;
    Ok(())
}

/// The harness no longer waits; a result that it did not take is late now.
pub(crate) fn stop_waiting(tx: &mut Tx<'_>, request: &StopWaiting) -> Outcome<AskResult> {
    let ask = own(tx.db, &request.agent, &request.message_id)?;
    let changed = tx.db.execute_cached(
        "UPDATE asks SET waiter = NULL, late_at = CASE WHEN late_at IS NULL THEN NULL ELSE ?3 END
         WHERE message_id = ?1 AND waiter = ?2",
        rusqlite::params![request.message_id.as_str(), request.call_key.as_str(), tx.now.millis()],
    )?;
    if changed > 0 {
        tx.asks_changed();
    }
    Ok(store::result(&ask))
}

/// Takes an own open ask back.
pub(crate) fn withdraw(tx: &mut Tx<'_>, request: &WithdrawAsk) -> Outcome<Message> {
    let ask = own(tx.db, &request.agent, &request.message_id)?;
    store::settle(tx, &ask, &Settlement::of(Event::Withdraw))?;
    message::load(tx.db, &request.message_id)
}
