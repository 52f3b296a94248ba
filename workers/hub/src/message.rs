//! Message rows: writing one with its event, reading one, reading pages.

use crate::{
    error::{Outcome, unknown_message},
    statements::Cached,
    writer::Tx,
};
use leo_ipc::{
    AgentName, MessageId, Time,
    chat::{
        Attachment, DeliveryInfo, Direction, FailedReason, MAX_PAGE, Message, MessageKind, MessagePage,
        MessageState, Route, WaitingFor,
    },
};
use rusqlite::{Connection, OptionalExtension, Row};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Bytes of text in one page; with its frame it stays below 1 MiB whatever the escaping.
const PAGE_TEXT: usize = 512 * 1024;

/// The text of a unit enum variant, as the wire writes it.
pub(crate) fn word<T: Serialize>(value: T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        // Only unit variants are passed here; anything else would show up as this word in a test.
        _ => "unknown".to_owned(),
    }
}

/// Reads a unit enum variant from its text; an unknown word becomes the enum's `Unknown`.
pub(crate) fn from_word<T: DeserializeOwned>(text: String) -> Result<T, rusqlite::Error> {
    serde_json::from_value(Value::String(text))
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(e)))
}

/// A new row.
pub(crate) struct New<'a> {
    pub(crate) agent: &'a AgentName,
    pub(crate) direction: Direction,
    pub(crate) kind: MessageKind,
    pub(crate) text: &'a str,
    pub(crate) state: MessageState,
    pub(crate) reply_to: Option<&'a MessageId>,
    pub(crate) client_msg_id: Option<&'a str>,
    /// Idempotency key with the prefix of its kind.
    pub(crate) dedupe: Option<&'a str>,
}

const COLUMNS: &str = "m.id, m.agent, m.direction, m.kind, m.text, m.sender, m.transcript, m.reply_to, m.task, \
     m.run_id, m.state, m.ts, m.client_msg_id, m.failed_reason, d.route, d.attempts, d.done_at, d.phase, \
     a.queue_waiting, (SELECT o.message_id FROM deliveries o WHERE o.agent = m.agent AND o.phase <> 'done' \
     AND NOT (o.phase = 'transcribing' AND EXISTS (SELECT 1 FROM voice_notes v \
     WHERE v.message_id = o.message_id AND v.held = 0)) ORDER BY o.message_id LIMIT 1)";

const FROM: &str = "FROM messages m LEFT JOIN deliveries d ON d.message_id = m.id \
     LEFT JOIN agents a ON a.name = m.agent";

/// Inserts a row and returns its id. Attachments, a delivery and the event are the caller's.
pub(crate) fn insert(tx: &mut Tx<'_>, new: &New<'_>) -> Outcome<MessageId> {
    let id = tx.next_id();
    tx.db
        .prepare_cached(
            "INSERT INTO messages (id, agent, direction, kind, text, reply_to, state, ts, client_msg_id, dedupe)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(rusqlite::params![
            id.as_str(),
            new.agent.as_str(),
            word(new.direction),
            word(new.kind),
            new.text,
            new.reply_to.map(MessageId::as_str),
            word(new.state),
            tx.now.millis(),
            new.client_msg_id,
            new.dedupe,
        ])?;
    if new.direction == Direction::Out && new.kind != MessageKind::System {
        tx.db
            .execute_cached("UPDATE agents SET unread = unread + 1 WHERE name = ?1", [new.agent.as_str()])?;
    }
    Ok(id)
}

/// What `chat.message` and `chat.updated` carry.
#[derive(Serialize)]
struct Payload<'a> {
    agent: &'a AgentName,
    message: &'a Message,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'a str>,
}

/// Journals a new message as `chat.message`.
pub(crate) fn emit_new(tx: &mut Tx<'_>, id: &MessageId) -> Outcome<Message> {
    let message = load(tx.db, id)?;
    tx.emit("chat.message", Payload { agent: &message.agent, message: &message, change: None })?;
    Ok(message)
}

/// Journals a change as `chat.updated`; `change` is one of WIRE.md §4.
pub(crate) fn emit_changed(tx: &mut Tx<'_>, id: &MessageId, change: &str) -> Outcome<Message> {
    let message = load(tx.db, id)?;
    tx.emit("chat.updated", Payload { agent: &message.agent, message: &message, change: Some(change) })?;
    Ok(message)
}

/// Reads a row that must be there.
pub(crate) fn load(db: &Connection, id: &MessageId) -> Outcome<Message> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} {FROM} WHERE m.id = ?1"))?;
    let mut message = statement.query_row([id.as_str()], from_row)?;
    attach(db, &mut message)?;
    Ok(message)
}

/// Reads a row of a thread.
pub(crate) fn find(db: &Connection, agent: &AgentName, id: &MessageId) -> Outcome<Message> {
    let mut statement =
        db.prepare_cached(&format!("SELECT {COLUMNS} {FROM} WHERE m.id = ?1 AND m.agent = ?2"))?;
    let found = statement.query_row([id.as_str(), agent.as_str()], from_row).optional()?;
    let mut message = found.ok_or_else(|| unknown_message(id))?;
    attach(db, &mut message)?;
    Ok(message)
}

/// The row that an idempotency key has made, if it has.
pub(crate) fn by_dedupe(db: &Connection, agent: &AgentName, dedupe: &str) -> Outcome<Option<MessageId>> {
    Ok(db
        .prepare_cached("SELECT id FROM messages WHERE agent = ?1 AND dedupe = ?2")?
        .query_row([agent.as_str(), dedupe], |row| row.get::<_, String>(0).map(MessageId))
        .optional()?)
}

/// The newest row of a thread.
pub(crate) fn newest(db: &Connection, agent: &AgentName) -> Outcome<Option<Message>> {
    Ok(page(db, agent, None, None, 1)?.messages.pop())
}

/// A page of a thread, oldest first.
pub(crate) fn page(
    db: &Connection,
    agent: &AgentName,
    before: Option<&MessageId>,
    after: Option<&MessageId>,
    limit: u32,
) -> Outcome<MessagePage> {
    let limit = usize::try_from(limit.clamp(1, MAX_PAGE)).unwrap_or(1);
    let (condition, order, cursor) = match (before, after) {
        (_, Some(after)) => ("m.id > ?2", "ASC", after.as_str()),
        (Some(before), None) => ("m.id < ?2", "DESC", before.as_str()),
        // Greater than every id.
        (None, None) => ("m.id < ?2", "DESC", "~"),
    };
    let sql =
        format!("SELECT {COLUMNS} {FROM} WHERE m.agent = ?1 AND {condition} ORDER BY m.id {order} LIMIT ?3");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query(rusqlite::params![agent.as_str(), cursor, limit + 1])?;
    let mut messages: Vec<Message> = Vec::new();
    let mut bytes = 0;
    let mut has_more = false;
    while let Some(row) = rows.next()? {
        let mut message = from_row(row)?;
        attach(db, &mut message)?;
        bytes += weight(&message);
        if messages.len() == limit || (bytes > PAGE_TEXT && !messages.is_empty()) {
            has_more = true;
            break;
        }
        messages.push(message);
    }
    if order == "DESC" {
        messages.reverse();
    }
    Ok(MessagePage { messages, has_more })
}

/// Bytes of a message's texts once they are written.
fn weight(message: &Message) -> usize {
    let transcript = message.transcript.as_deref().map_or(0, escaped_len);
    let files: usize = message.attachments.iter().map(|file| escaped_len(&file.filename) + 200).sum();
    escaped_len(&message.text) + transcript + files
}

/// Length of a text once it is JSON, roughly and never too small.
pub(crate) fn escaped_len(text: &str) -> usize {
    text.bytes()
        .map(|b| {
            if b < 0x20 {
                6
            } else if b == b'"' || b == b'\\' {
                2
            } else {
                1
            }
        })
        .sum()
}

/// Unread messages of a thread: outbound ones after the read mark, system notes excepted. The number is kept
/// with the agent: [`insert`] counts up, and [`count_unread`] counts anew when the mark moves.
pub(crate) fn unread(db: &Connection, agent: &AgentName) -> Outcome<u64> {
    Ok(db.query_row_cached("SELECT unread FROM agents WHERE name = ?1", [agent.as_str()], |row| row.get(0))?)
}

/// Counts the messages after the read mark.
pub(crate) fn count_unread(db: &Connection, agent: &AgentName) -> Outcome<()> {
    db.execute_cached(
        "UPDATE agents SET unread = (SELECT count(*) FROM messages m WHERE m.agent = ?1 AND m.direction = 'out'
         AND m.kind <> 'system' AND m.id > coalesce(last_read, '')) WHERE name = ?1",
        [agent.as_str()],
    )?;
    Ok(())
}

fn from_row(row: &Row<'_>) -> Result<Message, rusqlite::Error> {
    let id: String = row.get(0)?;
    let agent: String = row.get(1)?;
    let phase: Option<String> = row.get(17)?;
    let delivery = match phase {
        None => None,
        Some(phase) => Some(DeliveryInfo {
            route: row.get::<_, Option<String>>(14)?.map(from_word::<Route>).transpose()?,
            attempts: row.get(15)?,
            at: row.get::<_, Option<i64>>(16)?.map(Time::from_millis),
            waiting_for: waiting_for(
                &phase,
                &id,
                row.get(18)?,
                row.get::<_, Option<String>>(19)?.as_deref(),
            )?,
        }),
    };
    let agent = AgentName::try_from(agent).map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, Box::new(e))
    })?;
    let direction = from_word(row.get(2)?)?;
    Ok(Message {
        kind: from_word(row.get(3)?)?,
        text: row.get(4)?,
        sender: row.get(5)?,
        transcript: row.get(6)?,
        reply_to: row.get::<_, Option<String>>(7)?.map(MessageId),
        task: row.get(8)?,
        run_id: row.get(9)?,
        state: from_word(row.get(10)?)?,
        ts: Time::from_millis(row.get(11)?),
        client_msg_id: row.get(12)?,
        failed_reason: row.get::<_, Option<String>>(13)?.map(from_word::<FailedReason>).transpose()?,
        delivery,
        ..Message::bare(MessageId(id), agent, direction)
    })
}

/// What a pending message waits for: the agent's reason for the first of the queue, the queue for the
/// others.
fn waiting_for(
    phase: &str,
    id: &str,
    queue_waiting: Option<String>,
    first: Option<&str>,
) -> Result<Option<WaitingFor>, rusqlite::Error> {
    match phase {
        "transcribing" => Ok(Some(WaitingFor::Transcription)),
        "queued" if first != Some(id) => Ok(Some(WaitingFor::Queue)),
        "queued" => queue_waiting.map(from_word::<WaitingFor>).transpose(),
        _ => Ok(None),
    }
}

fn attach(db: &Connection, message: &mut Message) -> Outcome<()> {
    if matches!(message.kind, MessageKind::Ask | MessageKind::Permission) {
        return crate::ask::store::complete(db, message);
    }
    // Text messages have no files; asking for them would cost each page a query a row.
    if !matches!(message.kind, MessageKind::File | MessageKind::Voice | MessageKind::Task) {
        return Ok(());
    }
    let mut statement = db.prepare_cached(
        "SELECT id, filename, mime, bytes, available FROM attachments WHERE message_id = ?1 ORDER BY position",
    )?;
    let rows = statement.query_map([message.id.as_str()], |row| {
        Ok(Attachment {
            id: row.get(0)?,
            filename: row.get(1)?,
            mime: row.get(2)?,
            bytes: row.get(3)?,
            available: row.get(4)?,
        })
    })?;
    message.attachments = rows.collect::<Result<_, _>>()?;
    Ok(())
}
