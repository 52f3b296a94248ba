//! Reminders: scheduled, listed, cancelled, and posted when they are due. What is due is decided here, by
//! the hub's clock at the commit; the reminders worker only says that it is time to look. Claim, message
//! and events are one transaction, so that a process killed anywhere loses and doubles nothing.
//!
//! An instant is UTC milliseconds; zones matter only where one is read or shown.

mod time;

use crate::{
    agent,
    error::Outcome,
    message::{self, New},
    statements::Cached,
    task,
    writer::Tx,
};
use jiff::tz::TimeZone;
use leo_ipc::{
    AgentName, Fault, MessageId, Time,
    ask::Run,
    chat::{Direction, MAX_POST_TEXT, MessageKind, MessageState},
    reminder::{
        CancelReminder, CancelledReminder, Fired, KEEP_DAYS, ListReminders, MAX_OPEN, MAX_OPEN_BYTES,
        Reminder, Reminders, ScheduleReminder,
    },
};
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::Map;

/// Most reminders of one transaction: the others follow in the next, and what else waits for the writer
/// comes in between.
const BATCH: u32 = 32;

/// A stored reminder.
struct Stored {
    id: MessageId,
    agent: AgentName,
    text: String,
    due: Time,
    run: Option<Run>,
}

const COLUMNS: &str = "id, agent, text, due, task, run_id";

fn from_row(row: &Row<'_>) -> Result<Stored, rusqlite::Error> {
    let agent = AgentName::try_from(row.get::<_, String>(1)?).map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, Box::new(e))
    })?;
    let run = row.get::<_, Option<String>>(4)?.zip(row.get::<_, Option<String>>(5)?);
    Ok(Stored {
        id: MessageId(row.get(0)?),
        agent,
        text: row.get(2)?,
        due: Time::from_millis(row.get(3)?),
        run: run.map(|(task, run_id)| Run { task, run_id }),
    })
}

impl Stored {
    fn shown(self, zone: &TimeZone) -> Reminder {
        let at = time::local(self.due.timestamp(), zone);
        let (task, run_id) = self.run.map(|run| (run.task, run.run_id)).unzip();
        Reminder { id: self.id, agent: self.agent, text: self.text, at, task, run_id }
    }
}

/// Reads reminders that a condition picks. The condition is ours, its values are bound.
fn all(db: &Connection, condition: &str, values: &[&dyn rusqlite::ToSql]) -> Outcome<Vec<Stored>> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} FROM reminders WHERE {condition}"))?;
    let rows = statement.query_map(values, from_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Schedules a reminder; the same key schedules it once.
pub(crate) fn schedule(tx: &mut Tx<'_>, request: &ScheduleReminder, zone: &TimeZone) -> Outcome<Reminder> {
    agent::must_exist(tx.db, &request.agent)?;
    let key = request.call_key.as_str();
    // A call that is made again may come when the run that it was made under is over.
    for thread in task::threads_of(tx.db, &request.agent)? {
        if let Some(known) = all(tx.db, "agent = ?1 AND call_key = ?2", &[&thread.as_str(), &key])?.pop() {
            return Ok(known.shown(zone));
        }
    }
    check_text(&request.text)?;
    let due = time::due(&request.at, tx.now, zone)?;
    let filed = task::filed(tx.db, &request.agent, request.run.as_ref())?;
    let thread = task::thread_of(&request.agent, filed.as_ref());
    let run = filed.as_ref().map(|filed| &filed.run);
    check_room(tx.db, thread, request.text.len())?;
    let id = tx.next_id();
    tx.db.execute_cached(
        "INSERT INTO reminders (id, agent, text, bytes, due, state, task, run_id, made_at, call_key)
         VALUES (?1, ?2, ?3, ?4, ?5, 'open', ?6, ?7, ?8, ?9)",
        rusqlite::params![
            id.as_str(),
            thread.as_str(),
            request.text,
            request.text.len(),
            due.millis(),
            run.map(|run| &run.task),
            run.map(|run| &run.run_id),
            tx.now.millis(),
            key,
        ],
    )?;
    emit(tx, thread, &id, "scheduled")?;
    let stored = Stored { id, agent: thread.clone(), text: request.text.clone(), due, run: run.cloned() };
    Ok(stored.shown(zone))
}

fn check_text(text: &str) -> Outcome<()> {
    if text.trim().is_empty() {
        return Err(Fault::bad_request("at $.text: a reminder needs text").into());
    }
    if text.len() > MAX_POST_TEXT {
        let said = format!("at $.text: {} bytes, at most {MAX_POST_TEXT} are possible", text.len());
        return Err(Fault::new("too_large", said).into());
    }
    Ok(())
}

fn check_room(db: &Connection, thread: &AgentName, bytes: usize) -> Outcome<()> {
    let (count, held): (u64, u64) = db
        .prepare_cached(
            "SELECT count(*), coalesce(sum(bytes), 0) FROM reminders WHERE agent = ?1 AND state = 'open'",
        )?
        .query_row([thread.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if count >= MAX_OPEN || held + bytes as u64 > MAX_OPEN_BYTES {
        let said =
            format!("{count} reminders of {held} bytes are open in this thread already: cancel some first");
        return Err(Fault::new("too_many_reminders", said).into());
    }
    Ok(())
}

/// A thread's open reminders, the next one first. A removed agent's thread keeps its own: they are
/// promises to the person, who reads the thread for as long as there is something in it.
pub(crate) fn list(db: &Connection, request: &ListReminders, zone: &TimeZone) -> Outcome<Reminders> {
    agent::must_have_thread(db, &request.agent)?;
    let thread = thread(db, &request.agent, request.by_agent, request.run.as_ref())?;
    let open = all(db, "agent = ?1 AND state = 'open' ORDER BY due, id", &[&thread.as_str()])?;
    Ok(Reminders { reminders: open.into_iter().map(|stored| stored.shown(zone)).collect() })
}

/// Whose reminders are meant: a person names the thread, an agent means the one it leaves them in now.
fn thread(db: &Connection, agent: &AgentName, by_agent: bool, run: Option<&Run>) -> Outcome<AgentName> {
    let filed = if by_agent { task::filed(db, agent, run)? } else { None };
    Ok(task::thread_of(agent, filed.as_ref()).clone())
}

/// Takes an open reminder back. Each way in which that is not possible has a code of its own.
pub(crate) fn cancel(tx: &mut Tx<'_>, request: &CancelReminder) -> Outcome<CancelledReminder> {
    let id = request.id.as_str();
    let asked = thread(tx.db, &request.agent, request.by_agent, request.run.as_ref())?;
    let found: Option<(String, String, Option<String>)> = tx
        .db
        .prepare_cached("SELECT agent, state, cancel_key FROM reminders WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let (thread, state, cancelled_by) =
        found.ok_or_else(|| Fault::new("unknown_reminder", format!("there is no reminder `{id}`")))?;
    let cancelled = CancelledReminder { id: request.id.clone(), cancelled: true };
    let fault = match state.as_str() {
        _ if thread != asked.as_str() => {
            Fault::new("not_your_reminder", format!("the reminder `{id}` belongs to another thread"))
        }
        "cancelled" if cancelled_by.as_deref() == Some(request.key.as_str()) => return Ok(cancelled),
        "cancelled" => Fault::new("reminder_cancelled", format!("the reminder `{id}` was cancelled before")),
        "fired" => Fault::new("reminder_fired", format!("the reminder `{id}` was posted already")),
        _ => {
            settle(tx, &request.id, "cancelled")?;
            tx.db.execute_cached(
                "UPDATE reminders SET cancel_key = ?2 WHERE id = ?1",
                [id, request.key.as_str()],
            )?;
            emit(tx, &asked, &request.id, "cancelled")?;
            return Ok(cancelled);
        }
    };
    Err(fault.into())
}

/// Posts what is due by the transaction's time, the oldest first, at most [`BATCH`] at once.
pub(crate) fn fire(tx: &mut Tx<'_>, zone: &TimeZone) -> Outcome<Fired> {
    let now = tx.now.millis();
    let due = all(tx.db, "state = 'open' AND due <= ?1 ORDER BY due, id LIMIT ?2", &[&now, &BATCH])?;
    let mut fired = 0;
    for reminder in due {
        fired += u32::from(post(tx, &reminder, zone)?);
    }
    Ok(Fired { fired, next: next_due(tx.db)? })
}

/// Claims one reminder and posts it; false when it was not open any more.
fn post(tx: &mut Tx<'_>, reminder: &Stored, zone: &TimeZone) -> Outcome<bool> {
    if !settle(tx, &reminder.id, "fired")? {
        return Ok(false);
    }
    let text = time::posted(&reminder.text, reminder.due, tx.now, zone);
    let dedupe = format!("reminder:{}", reminder.id);
    let new = New {
        agent: &reminder.agent,
        direction: Direction::Out,
        kind: if reminder.run.is_some() { MessageKind::Task } else { MessageKind::Text },
        text: &text,
        state: MessageState::None,
        reply_to: None,
        client_msg_id: None,
        dedupe: Some(&dedupe),
    };
    let message_id = message::insert(tx, &new)?;
    if let Some(run) = &reminder.run {
        task::file(tx, &message_id, &run.task, &run.run_id)?;
    }
    tx.db.execute_cached(
        "UPDATE reminders SET message_id = ?2 WHERE id = ?1",
        [reminder.id.as_str(), message_id.as_str()],
    )?;
    message::emit_new(tx, &message_id)?;
    emit(tx, &reminder.agent, &reminder.id, "fired")?;
    Ok(true)
}

/// Compare-and-set from open; the text is the message's from now on, or nobody's.
fn settle(tx: &mut Tx<'_>, id: &MessageId, state: &str) -> Outcome<bool> {
    let changed = tx.db.execute_cached(
        "UPDATE reminders SET state = ?2, settled_at = ?3, text = '' WHERE id = ?1 AND state = 'open'",
        rusqlite::params![id.as_str(), state, tx.now.millis()],
    )?;
    Ok(changed > 0)
}

fn emit(tx: &mut Tx<'_>, thread: &AgentName, id: &MessageId, state: &str) -> Outcome<()> {
    let mut payload = Map::new();
    payload.insert("agent".to_owned(), thread.as_str().into());
    payload.insert("id".to_owned(), id.as_str().into());
    payload.insert("state".to_owned(), state.into());
    tx.reminders_changed();
    tx.emit("reminder.changed", payload)
}

/// When the next open reminder is due.
pub(crate) fn next_due(db: &Connection) -> Outcome<Option<Time>> {
    let due: Option<i64> = db
        .prepare_cached("SELECT min(due) FROM reminders WHERE state = 'open'")?
        .query_row([], |row| row.get(0))?;
    Ok(due.map(Time::from_millis))
}

/// Forgets what was settled [`KEEP_DAYS`] ago.
pub(crate) fn prune(tx: &mut Tx<'_>) -> Outcome<()> {
    let before = tx.now.millis() - KEEP_DAYS * 86_400_000;
    tx.db.execute_cached("DELETE FROM reminders WHERE state <> 'open' AND settled_at < ?1", [before])?;
    Ok(())
}

#[cfg(test)]
mod tests;
