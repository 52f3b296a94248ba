//! What the wall clock does to asks: deadlines, hooks that do not come back, and answers that nobody
//! collected, which go out as messages. Looked at by the wall clock, since a laptop that slept must
//! expire at wake what was due meanwhile.

use super::{
    machine::{Event, Kind, State},
    store::{self, Ask, Settlement},
};
use crate::{
    error::Outcome,
    message::{self, New},
    prompt,
    statements::Cached,
    writer::Tx,
};
use leo_ipc::{
    agent::Wake,
    ask::AnswerBody,
    chat::{Direction, MessageKind, MessageState},
};
use rusqlite::Connection;
use std::time::Duration;

/// How long a prompt waits for its hook to come back.
const REATTACH_MS: i64 = 15_000;

/// Longest pause between two looks while something may come due: a clock that jumps is noticed within
/// this time.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Shortest pause, so that a due time in the past cannot spin.
const MIN_PAUSE: Duration = Duration::from_millis(20);

/// How long to wait until the next look; `None` when nothing can come due.
pub(crate) fn next_look(db: &Connection, now_ms: i64) -> Outcome<Option<Duration>> {
    let due: Option<i64> = db.query_row_cached(
        "SELECT min(due) FROM (
             SELECT min(deadline) AS due FROM asks WHERE state = 'open'
             UNION ALL SELECT min(detached_at) + ?1 FROM asks WHERE state = 'open' AND detached_at IS NOT NULL
             UNION ALL SELECT min(late_at) FROM asks WHERE late_at IS NOT NULL)",
        [REATTACH_MS],
        |row| row.get(0),
    )?;
    // Voice notes that hold others back come due by the same clock.
    let due = [due, crate::voice::next_look(db)?].into_iter().flatten().min();
    let pause = |due: i64| Duration::from_millis(u64::try_from(due - now_ms).unwrap_or(0));
    Ok(due.map(|due| pause(due).clamp(MIN_PAUSE, MAX_PAUSE)))
}

/// Carries out what is due.
pub(crate) fn tick(tx: &mut Tx<'_>) -> Outcome<()> {
    let now = tx.now.millis();
    for ask in store::all(tx.db, "state = 'open' AND deadline <= ?1", &[&now])? {
        store::settle(tx, &ask, &Settlement::of(Event::Deadline))?;
    }
    let lost = now - REATTACH_MS;
    for ask in store::all(tx.db, "state = 'open' AND detached_at <= ?1", &[&lost])? {
        store::settle(tx, &ask, &Settlement::of(Event::HookLost))?;
    }
    for ask in store::all(tx.db, "late_at <= ?1", &[&now])? {
        deliver_late(tx, &ask)?;
    }
    Ok(())
}

/// Sends an answer that nobody collected to its agent as a message of its own.
fn deliver_late(tx: &mut Tx<'_>, ask: &Ask) -> Outcome<()> {
    tx.db.execute_cached(
        "UPDATE asks SET late_at = NULL, waiter = NULL WHERE message_id = ?1",
        [ask.message_id.as_str()],
    )?;
    if ask.kind != Kind::Ask || ask.state != State::Answered {
        return Ok(());
    }
    let dedupe = format!("late:{}", ask.message_id);
    let known = message::by_dedupe(tx.db, &ask.agent, &dedupe)?.is_some();
    // An agent that is no more has nobody to read it.
    if known || crate::agent::must_exist(tx.db, &ask.agent).is_err() {
        return Ok(());
    }
    let question = message::load(tx.db, &ask.message_id)?;
    let result = store::result(ask);
    let text = first_line(ask.answer.as_ref());
    let new = New {
        agent: &ask.agent,
        direction: Direction::In,
        kind: MessageKind::Text,
        text: &text,
        state: MessageState::Pending,
        reply_to: Some(&ask.message_id),
        client_msg_id: None,
        dedupe: Some(&dedupe),
    };
    let id = message::insert(tx, &new)?;
    let answer = serde_json::json!({
        "message_id": result.message_id, "values": result.values, "labels": result.labels, "text": result.text,
    });
    let prompt = prompt::late_answer(&text, &question, &ordered(&answer));
    crate::delivery::enqueue(tx, &ask.agent, &id, &prompt)?;
    message::emit_new(tx, &id)?;
    tx.wake(Wake::Outbox { name: ask.agent.clone() });
    Ok(())
}

/// The chosen labels, then any free text.
fn first_line(answer: Option<&AnswerBody>) -> String {
    let Some(answer) = answer else { return "(no selection)".to_owned() };
    let labels = answer.labels.as_ref().unwrap_or(&answer.values);
    let text = (!answer.text.trim().is_empty()).then_some(&answer.text);
    let parts: Vec<&str> = labels.iter().chain(text).map(String::as_str).collect();
    if parts.is_empty() { "(no selection)".to_owned() } else { parts.join(", ") }
}

/// The answer's JSON in the order of the document, whatever order maps have.
fn ordered(answer: &serde_json::Value) -> String {
    let part = |key: &str| format!("{}:{}", serde_json::Value::from(key), answer[key]);
    format!("{{{},{},{},{}}}", part("message_id"), part("values"), part("labels"), part("text"))
}
