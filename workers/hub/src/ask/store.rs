//! Asks in the database: open, settle, read. Every settlement is a compare-and-set on the open row, in
//! one transaction with its event.

use super::machine::{self, Event, Kind, Next, State};
use crate::{
    error::Outcome,
    message::{self, New, from_word, word},
    statements::Cached,
    writer::Tx,
};
use leo_ipc::{
    AgentName, MessageId, Time,
    ask::{AnswerBody, AskResult, ClosedReason, Input, Permission, Run},
    chat::{Direction, Message, MessageKind, MessageState},
};
use rusqlite::{Connection, OptionalExtension, Row};
use serde::{Serialize, de::DeserializeOwned};

/// A stored ask.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) message_id: MessageId,
    pub(crate) agent: AgentName,
    pub(crate) kind: Kind,
    pub(crate) state: State,
    pub(crate) deadline: Option<Time>,
    pub(crate) input: Option<Input>,
    pub(crate) permission: Option<Permission>,
    pub(crate) answer: Option<AnswerBody>,
    pub(crate) answered_by: Option<String>,
    pub(crate) answer_key: Option<String>,
    pub(crate) closed_reason: Option<ClosedReason>,
    pub(crate) waiter: Option<String>,
    pub(crate) tool_input: Option<String>,
    /// The agent that asked, where it is not the thread's: a persistent task's whose owner is another.
    pub(crate) asker: Option<AgentName>,
}

const COLUMNS: &str = "message_id, agent, kind, state, deadline, input, permission, answer, answered_by, \
     answer_key, closed_reason, waiter, tool_input, asker";

fn from_row(row: &Row<'_>) -> Result<Ask, rusqlite::Error> {
    let name = |text: String| {
        AgentName::try_from(text).map_err(|e| {
            rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, Box::new(e))
        })
    };
    Ok(Ask {
        message_id: MessageId(row.get(0)?),
        agent: name(row.get(1)?)?,
        kind: from_word(row.get(2)?)?,
        state: from_word(row.get(3)?)?,
        deadline: row.get::<_, Option<i64>>(4)?.map(Time::from_millis),
        input: json(row.get(5)?)?,
        permission: json(row.get(6)?)?,
        answer: json(row.get(7)?)?,
        answered_by: row.get(8)?,
        answer_key: row.get(9)?,
        closed_reason: row.get::<_, Option<String>>(10)?.map(from_word).transpose()?,
        waiter: row.get(11)?,
        tool_input: row.get(12)?,
        asker: row.get::<_, Option<String>>(13)?.map(name).transpose()?,
    })
}

fn json<T: DeserializeOwned>(text: Option<String>) -> Result<Option<T>, rusqlite::Error> {
    let bad = |e| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(e));
    text.map(|t| serde_json::from_str(&t).map_err(bad)).transpose()
}

fn text_of<T: Serialize>(value: Option<&T>) -> Option<String> {
    value.and_then(|v| serde_json::to_string(v).ok())
}

/// Reads an ask by its message.
pub(crate) fn find(db: &Connection, id: &MessageId) -> Outcome<Option<Ask>> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} FROM asks WHERE message_id = ?1"))?;
    Ok(statement.query_row([id.as_str()], from_row).optional()?)
}

/// Reads an ask by the hook that holds it.
pub(crate) fn by_hook(db: &Connection, hook_key: &str) -> Outcome<Option<Ask>> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} FROM asks WHERE hook_key = ?1"))?;
    Ok(statement.query_row([hook_key], from_row).optional()?)
}

/// Reads asks that a condition picks. The condition is ours, its values are bound.
pub(crate) fn all(db: &Connection, condition: &str, values: &[&dyn rusqlite::ToSql]) -> Outcome<Vec<Ask>> {
    let mut statement =
        db.prepare_cached(&format!("SELECT {COLUMNS} FROM asks WHERE {condition} ORDER BY message_id"))?;
    let rows = statement.query_map(values, from_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A new ask.
pub(crate) struct NewAsk<'a> {
    pub(crate) agent: &'a AgentName,
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) input: &'a Input,
    pub(crate) permission: Option<&'a Permission>,
    pub(crate) deadline: Option<Time>,
    pub(crate) opened_ms: i64,
    pub(crate) dedupe: &'a str,
    pub(crate) run: Option<&'a Run>,
    /// Who asks, where it is not the thread's agent.
    pub(crate) asker: Option<&'a AgentName>,
    pub(crate) hook: Option<Hook<'a>>,
}

/// What belongs to an ask that a hook holds.
pub(crate) struct Hook<'a> {
    pub(crate) key: &'a str,
    pub(crate) tool_name: &'a str,
    pub(crate) tool_input: Option<String>,
    pub(crate) input_hash: &'a str,
    pub(crate) tool_use_id: Option<String>,
    pub(crate) subagent: Option<&'a str>,
}

/// Stores a new ask with its message and event.
pub(crate) fn open(tx: &mut Tx<'_>, new: &NewAsk<'_>) -> Outcome<Message> {
    let kind = if new.kind == Kind::Permission { MessageKind::Permission } else { MessageKind::Ask };
    let row = New {
        agent: new.agent,
        direction: Direction::Out,
        kind,
        text: new.text,
        state: MessageState::Open,
        reply_to: None,
        client_msg_id: None,
        dedupe: Some(new.dedupe),
    };
    let id = message::insert(tx, &row)?;
    if let Some(run) = new.run {
        crate::task::file(tx, &id, &run.task, &run.run_id)?;
    }
    let hook = new.hook.as_ref();
    tx.db.execute_cached(
        "INSERT INTO asks (message_id, agent, kind, state, opened_ms, deadline, input, permission, hook_key, tool_name,
         tool_input, input_hash, tool_use_id, subagent, asker)
         VALUES (?1, ?2, ?3, 'open', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        rusqlite::params![
            id.as_str(),
            new.agent.as_str(),
            word(new.kind),
            new.opened_ms,
            new.deadline.map(Time::millis),
            text_of(Some(new.input)),
            text_of(new.permission),
            hook.map(|h| h.key),
            hook.map(|h| h.tool_name),
            hook.and_then(|h| h.tool_input.as_deref()),
            hook.map(|h| h.input_hash),
            hook.and_then(|h| h.tool_use_id.as_deref()),
            hook.and_then(|h| h.subagent),
            new.asker.map(AgentName::as_str),
        ],
    )?;
    tx.asks_changed();
    message::emit_new(tx, &id)
}

/// What settles an ask, with what is stored of it.
pub(crate) struct Settlement<'a> {
    pub(crate) event: Event,
    pub(crate) answer: Option<AnswerBody>,
    pub(crate) by: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
}

impl Settlement<'_> {
    /// One that nobody answered.
    pub(crate) fn of(event: Event) -> Settlement<'static> {
        Settlement { event, answer: None, by: None, key: None }
    }
}

/// Settles an ask if it is open; says whether this did it.
pub(crate) fn settle(tx: &mut Tx<'_>, ask: &Ask, settlement: &Settlement<'_>) -> Outcome<bool> {
    let next = machine::step(ask.kind, ask.state, settlement.event)?;
    let terminal = terminal();
    let (state, answer, by, reason) = match next {
        Next::Same => return Ok(false),
        Next::Answered => (State::Answered, settlement.answer.as_ref(), settlement.by, None),
        Next::AnsweredThere => (State::Answered, Some(&terminal), Some("terminal"), None),
        Next::Expired(reason) => (State::Expired, None, None, reason),
    };
    let changed = tx.db.execute_cached(
        "UPDATE asks SET state = ?2, answer = ?3, answered_by = ?4, answer_key = ?5, closed_reason = ?6, detached_at = NULL
         WHERE message_id = ?1 AND state = 'open'",
        rusqlite::params![
            ask.message_id.as_str(),
            word(state),
            text_of(answer),
            by,
            settlement.key,
            reason.map(word),
        ],
    )?;
    if changed == 0 {
        return Ok(false);
    }
    tx.db.execute_cached(
        "UPDATE messages SET state = ?2 WHERE id = ?1",
        [ask.message_id.as_str(), &word(state)],
    )?;
    tx.asks_changed();
    let change = if state == State::Answered { "answer" } else { "state" };
    message::emit_changed(tx, &ask.message_id, change)?;
    Ok(true)
}

/// Sets right who was first: the harness shows that the terminal had decided before the app's answer
/// reached it, so the card must say what really ran.
pub(crate) fn terminal_was_first(tx: &mut Tx<'_>, ask: &Ask) -> Outcome<()> {
    let changed = tx.db.execute_cached(
        "UPDATE asks SET answer = ?2, answered_by = 'terminal'
         WHERE message_id = ?1 AND state = 'answered' AND answered_by <> 'terminal'",
        rusqlite::params![ask.message_id.as_str(), text_of(Some(&terminal()))],
    )?;
    if changed > 0 {
        message::emit_changed(tx, &ask.message_id, "answer")?;
    }
    Ok(())
}

/// The answer of a card that was settled in the terminal.
fn terminal() -> AnswerBody {
    AnswerBody { values: vec!["terminal".to_owned()], ..AnswerBody::default() }
}

/// Puts an ask's parts into its message.
pub(crate) fn complete(db: &Connection, message: &mut Message) -> Outcome<()> {
    if let Some(ask) = find(db, &message.id)? {
        message.answer = ask.answer;
        message.input = ask.input;
        message.permission = ask.permission;
        message.deadline = ask.deadline;
        message.closed_reason = ask.closed_reason;
        message.answered_by = ask.answered_by;
    }
    Ok(())
}

/// An ask as its agent learns it.
pub(crate) fn result(ask: &Ask) -> AskResult {
    let answer = ask.answer.clone().unwrap_or_default();
    AskResult {
        message_id: ask.message_id.to_string(),
        values: answer.values,
        labels: answer.labels.unwrap_or_default(),
        text: answer.text,
        pending: ask.state == State::Open,
        timed_out: ask.state == State::Expired,
        closed_reason: ask.closed_reason,
    }
}
