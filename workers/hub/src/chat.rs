//! Messages from people: accept, send again, take back, read marks, the list of threads.

use crate::{
    agent,
    attachment::{self, mime},
    delivery,
    error::Outcome,
    message::{self, New},
    prompt,
    statements::Cached,
    task, voice,
    writer::Tx,
};
use leo_ipc::{
    AgentName, Fault, MessageId,
    agent::{Activity, Status, Wake},
    chat::{
        Accepted, CancelMessage, Direction, FailedReason, ListMessages, MAX_TEXT, MAX_TEXT_ENCODED, MarkRead,
        Message, MessageKind, MessagePage, MessageState, ReadMark, RetryMessage, SendMessage, Thread,
        Threads,
    },
    config::AgentConfig,
    paths::Home,
};
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Map, Value};
use std::path::Path;

/// Most messages waiting for one agent. Beyond it the sender is told, and nothing is dropped.
pub(crate) const MAX_OUTBOX: u64 = 256;

/// Bytes of text waiting for one agent.
pub(crate) const MAX_OUTBOX_BYTES: u64 = 32 * 1024 * 1024;

/// Longest id that an app may give its message.
const MAX_CLIENT_ID: usize = 200;

/// Accepts a message: one row, its delivery and its event, or the row that the same id made before.
pub(crate) fn send(tx: &mut Tx<'_>, home: &Home, request: &SendMessage) -> Outcome<Accepted> {
    check(request)?;
    agent::must_exist(tx.db, &request.agent)?;
    let dedupe = match &request.client_msg_id {
        Some(id) => format!("client:{id}"),
        None => format!("key:{}", request.key),
    };
    if let Some(id) = message::by_dedupe(tx.db, &request.agent, &dedupe)? {
        return repeated(tx.db, &id, request);
    }
    if let Some(reply_to) = &request.reply_to {
        message::find(tx.db, &request.agent, reply_to)?;
    }
    check_outbox(tx.db, &request.agent, request.text.len())?;
    let files = attachment::take(tx, home, &request.agent, &request.attachments)?;
    let new = New {
        agent: &request.agent,
        direction: Direction::In,
        kind: kind_of(&files),
        text: &request.text,
        state: MessageState::Pending,
        reply_to: request.reply_to.as_ref(),
        client_msg_id: request.client_msg_id.as_deref(),
        dedupe: Some(&dedupe),
    };
    let id = message::insert(tx, &new)?;
    attachment::bind(tx, &id, &files)?;
    if new.kind == MessageKind::Voice {
        voice::enqueue(tx, &request.agent, &id, request.text.len())?;
    } else {
        let paths: Vec<&Path> = files.iter().map(|file| file.path.as_path()).collect();
        let text = prompt::with_files(&request.text, &paths);
        let prompt = prompt_of(tx.db, &request.agent, request.reply_to.as_ref(), &text)?;
        delivery::enqueue(tx, &request.agent, &id, &prompt)?;
    }
    if request.steer {
        delivery::mark_steer(tx, &id)?;
    }
    let message = message::emit_new(tx, &id)?;
    tx.wake(Wake::Outbox { name: request.agent.clone() });
    Ok(Accepted { message, created: true })
}

/// What the agent reads for a text that may reply to another message.
pub(crate) fn prompt_of(
    db: &Connection,
    agent: &AgentName,
    reply_to: Option<&MessageId>,
    text: &str,
) -> Outcome<String> {
    let replied = reply_to.map(|id| message::find(db, agent, id)).transpose()?;
    Ok(match &replied {
        Some(ask) if ask.kind == MessageKind::Ask => prompt::reply_to_ask(text, ask),
        Some(card) if card.kind == MessageKind::Task && card.direction == Direction::Out => {
            prompt::reply_to_card(text, card)
        }
        _ => prompt::compose(text),
    })
}

/// A sound makes its message a voice note (seed 001, "API").
fn kind_of(files: &[attachment::File]) -> MessageKind {
    match files {
        [] => MessageKind::Text,
        files if files.iter().any(|file| mime::is_audio(&file.mime)) => MessageKind::Voice,
        _ => MessageKind::File,
    }
}

fn check(request: &SendMessage) -> Outcome<()> {
    if request.text.trim().is_empty() && request.attachments.is_empty() {
        return Err(Fault::bad_request("at $.text: a message without files needs a text").into());
    }
    if request.text.len() > MAX_TEXT || message::escaped_len(&request.text) > MAX_TEXT_ENCODED {
        let text = format!("at $.text: {} bytes, at most {MAX_TEXT} are possible", request.text.len());
        return Err(Fault::new("too_large", text).into());
    }
    match &request.client_msg_id {
        Some(id) if id.is_empty() || id.len() > MAX_CLIENT_ID => {
            Err(Fault::bad_request(format!("at $.client_msg_id: 1 to {MAX_CLIENT_ID} bytes")).into())
        }
        _ => Ok(()),
    }
}

fn repeated(db: &Connection, id: &MessageId, request: &SendMessage) -> Outcome<Accepted> {
    let message = message::load(db, id)?;
    let same_files = attachment::ids(db, id)? == request.attachments;
    if message.text == request.text && message.reply_to == request.reply_to && same_files {
        return Ok(Accepted { message, created: false });
    }
    let text = "a different message was sent with this client_msg_id before";
    Err(Fault::new("idempotency_conflict", text).into())
}

pub(crate) fn check_outbox(db: &Connection, agent: &AgentName, bytes: usize) -> Outcome<()> {
    let (count, waiting): (u64, u64) = db
        .prepare_cached(
            "SELECT count(*), coalesce(sum(bytes), 0) FROM deliveries WHERE agent = ?1 AND phase <> 'done'",
        )?
        .query_row([agent.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if count >= MAX_OUTBOX || waiting + bytes as u64 > MAX_OUTBOX_BYTES {
        let text = format!("{count} messages already wait for `{agent}`: let it catch up, or cancel some");
        return Err(Fault::new("outbox_full", text).into());
    }
    Ok(())
}

/// Puts a failed inbound message back into the queue; the same key does it once.
pub(crate) fn retry(tx: &mut Tx<'_>, request: &RetryMessage) -> Outcome<Message> {
    agent::must_exist(tx.db, &request.agent)?;
    let message = message::find(tx.db, &request.agent, &request.id)?;
    let key: Option<String> = tx
        .db
        .query_row_cached(
            "SELECT retry_key FROM deliveries WHERE message_id = ?1",
            [request.id.as_str()],
            |row| row.get(0),
        )
        .optional()?
        .flatten();
    if key.as_deref() == Some(request.key.as_str()) {
        return Ok(message);
    }
    if message.direction != Direction::In || message.state != MessageState::Failed {
        return Err(Fault::new("not_failed", "only a failed message of yours can be sent again").into());
    }
    if request.as_file && message.kind != MessageKind::Voice {
        let text = "at $.as_file: only a voice note can be sent as a file instead";
        return Err(Fault::bad_request(text).into());
    }
    check_outbox(tx.db, &request.agent, message.text.len())?;
    tx.db.execute_cached(
        "UPDATE messages SET state = 'pending', failed_reason = NULL WHERE id = ?1",
        [request.id.as_str()],
    )?;
    let transcribe = voice::lacks_transcript(&message) && !request.as_file;
    let phase = if transcribe { "transcribing" } else { "queued" };
    tx.db.execute_cached(
        "UPDATE deliveries SET phase = ?3, retry_key = ?2, handed_prompt = NULL, handed_at = NULL,
         done_at = NULL, turn = NULL WHERE message_id = ?1",
        [request.id.as_str(), request.key.as_str(), phase],
    )?;
    if transcribe {
        voice::hold(tx, &request.id)?;
    } else if message.kind == MessageKind::Voice {
        voice::queue(tx, &request.id, request.as_file)?;
    }
    tx.wake(Wake::Outbox { name: request.agent.clone() });
    message::emit_changed(tx, &request.id, "state")
}

/// Takes a message back that has not been handed over.
pub(crate) fn cancel(tx: &mut Tx<'_>, request: &CancelMessage) -> Outcome<Message> {
    let message = message::find(tx.db, &request.agent, &request.id)?;
    if message.failed_reason == Some(FailedReason::Cancelled) {
        return Ok(message);
    }
    let changed = tx.db.execute_cached(
        "UPDATE deliveries SET phase = 'done', done_at = ?2 WHERE message_id = ?1 AND phase IN ('queued', 'transcribing')",
        rusqlite::params![request.id.as_str(), tx.now.millis()],
    )?;
    if changed == 0 {
        let text = "the message was already handed to the agent, or is not one that can be cancelled";
        let data = serde_json::to_value(&message).unwrap_or(Value::Null);
        return Err(Fault::new("already_handed", text).with_data(data).into());
    }
    tx.db.execute_cached(
        "UPDATE messages SET state = 'failed', failed_reason = 'cancelled' WHERE id = ?1",
        [request.id.as_str()],
    )?;
    tx.wake(Wake::Outbox { name: request.agent.clone() });
    task::delivery_cancelled(tx, &request.id, "its prompt was taken back")?;
    message::emit_changed(tx, &request.id, "state")
}

/// Moves the read mark forward.
pub(crate) fn mark_read(tx: &mut Tx<'_>, request: &MarkRead) -> Outcome<ReadMark> {
    agent::must_have_thread(tx.db, &request.agent)?;
    message::find(tx.db, &request.agent, &request.message_id)?;
    let moved = tx.db.execute_cached(
        "UPDATE agents SET last_read = ?2 WHERE name = ?1 AND coalesce(last_read, '') < ?2",
        [request.agent.as_str(), request.message_id.as_str()],
    )?;
    if moved > 0 {
        message::count_unread(tx.db, &request.agent)?;
    }
    let last_read: Option<String> = tx
        .db
        .query_row_cached("SELECT last_read FROM agents WHERE name = ?1", [request.agent.as_str()], |row| {
            row.get(0)
        })
        .optional()?
        .flatten();
    let mark = ReadMark {
        agent: request.agent.clone(),
        unread: message::unread(tx.db, &request.agent)?,
        last_read: last_read.map(MessageId),
    };
    if moved > 0
        && let Value::Object(payload) = serde_json::to_value(&mark).unwrap_or(Value::Null)
    {
        tx.emit("chat.read", payload)?;
    }
    Ok(mark)
}

/// A page of a thread that exists.
pub(crate) fn messages(db: &Connection, request: &ListMessages) -> Outcome<MessagePage> {
    agent::must_have_thread(db, &request.agent)?;
    for cursor in [&request.before, &request.after].into_iter().flatten() {
        message::find(db, &request.agent, cursor)?;
    }
    message::page(db, &request.agent, request.before.as_ref(), request.after.as_ref(), request.limit)
}

/// All threads: `assistant` first, then newest activity.
pub(crate) fn threads(db: &Connection) -> Outcome<Threads> {
    let mut statement = db.prepare_cached(
        "SELECT name, config, status, activity, removed FROM agents
         WHERE removed = 0 OR EXISTS (SELECT 1 FROM messages WHERE agent = name)
         OR EXISTS (SELECT 1 FROM reminders WHERE agent = name AND state = 'open')",
    )?;
    let mut rows = statement.query([])?;
    let mut threads = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let Ok(agent) = AgentName::try_from(name) else { continue };
        let removed: bool = row.get(4)?;
        let config: AgentConfig = serde_json::from_str(&row.get::<_, String>(1)?).unwrap_or_default();
        threads.push(Thread {
            last_message: message::newest(db, &agent)?,
            unread: message::unread(db, &agent)?,
            pinned: agent.as_str() == "assistant",
            harness: (!removed).then_some(config.harness),
            status: if removed { None } else { Some(message::from_word::<Status>(row.get(2)?)?) },
            activity: if removed { None } else { Some(message::from_word::<Activity>(row.get(3)?)?) },
            agent,
        });
    }
    threads.sort_by(|a, b| {
        let newest = |t: &Thread| t.last_message.as_ref().map(|m| m.id.clone());
        b.pinned.cmp(&a.pinned).then_with(|| newest(b).cmp(&newest(a))).then_with(|| a.agent.cmp(&b.agent))
    });
    Ok(Threads { threads })
}

/// A JSON object of one serialisable field.
pub(crate) fn object(key: &str, value: &impl serde::Serialize) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert(key.to_owned(), serde_json::to_value(value).unwrap_or(Value::Null));
    map
}
