//! Voice notes: which wait for their transcript, what becomes of each, and how long later messages of the
//! thread wait for it. The recording is stored before anything else, and is kept whatever happens.

#[cfg(test)]
mod tests;

use crate::{
    attachment::mime,
    error::Outcome,
    message::{self, word},
    note, prompt,
    writer::Tx,
};
use leo_ipc::{
    AgentName, MessageId,
    agent::Wake,
    chat::{FailedReason, Message, MessageKind},
    voice::{CheckNote, EndNote, MAX_TRANSCRIPT, Note, NoteEnd, TakeNote, Wanted},
};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::PathBuf;

/// How long later messages of the thread wait for a voice note. A note of a minute is transcribed within
/// it on an idle machine; a person who has written on meanwhile should not wait longer. Then they go ahead,
/// and the note follows when it is ready.
pub(crate) const HOLD_MS: i64 = 30_000;

/// How often a note is taken up again after whoever had it died. A recording that kills its reader must
/// not do so for ever.
pub(crate) const MAX_TRIES: u32 = 5;

/// What a person can do about a note that was not transcribed.
const OFFER: &str = "Try again, or send the recording as a file.";

/// Keeps a voice note back until it is transcribed.
pub(crate) fn enqueue(tx: &mut Tx<'_>, agent: &AgentName, id: &MessageId, bytes: usize) -> Outcome<()> {
    tx.db.execute(
        "INSERT INTO deliveries (message_id, agent, phase, prompt, bytes) VALUES (?1, ?2, 'transcribing', '', ?3)",
        params![id.as_str(), agent.as_str(), bytes],
    )?;
    hold(tx, id)
}

/// Lets later messages wait for a note from now on, and whoever transcribes know of it.
pub(crate) fn hold(tx: &mut Tx<'_>, id: &MessageId) -> Outcome<()> {
    tx.db.execute(
        "INSERT INTO voice_notes (message_id, held_until) VALUES (?1, ?2)
         ON CONFLICT (message_id) DO UPDATE SET held = 1, held_until = ?2, tries = 0, take_key = NULL",
        params![id.as_str(), tx.now.millis() + HOLD_MS],
    )?;
    tx.voice_changed();
    Ok(())
}

/// Whether a failed note is to be transcribed again when it is sent again.
pub(crate) fn lacks_transcript(message: &Message) -> bool {
    message.kind == MessageKind::Voice && message.transcript.is_none()
}

/// Gives out the oldest note that waits.
pub(crate) fn take(tx: &mut Tx<'_>, request: &TakeNote) -> Outcome<Option<Note>> {
    loop {
        let Some((id, agent, tries, attempts, key)) = oldest(tx.db)? else { return Ok(None) };
        let again = key.as_deref() == Some(request.key.as_str());
        if !again && tries >= MAX_TRIES {
            let why = format!("The transcription broke off {MAX_TRIES} times over this voice note.");
            failed(tx, &id, attempts, &why)?;
            continue;
        }
        let attempt = if again { attempts } else { attempts + 1 };
        if !again {
            tx.db.execute(
                "UPDATE voice_notes SET attempts = ?2, tries = tries + 1, take_key = ?3 WHERE message_id = ?1",
                params![id.as_str(), attempt, request.key.as_str()],
            )?;
        }
        let recordings = files(tx.db, &id)?
            .into_iter()
            .filter(|(mime, _)| mime::is_audio(mime))
            .map(|(_, path)| path.to_string_lossy().into_owned())
            .collect();
        return Ok(Some(Note { agent, message_id: id, attempt, recordings }));
    }
}

type Oldest = (MessageId, AgentName, u32, u32, Option<String>);

fn oldest(db: &Connection) -> Outcome<Option<Oldest>> {
    let mut statement = db.prepare_cached(
        "SELECT v.message_id, d.agent, v.tries, v.attempts, v.take_key
         FROM deliveries d JOIN voice_notes v ON v.message_id = d.message_id
         WHERE d.phase = 'transcribing' ORDER BY d.message_id LIMIT 1",
    )?;
    let found = statement.query_row([], |row| {
        let agent = AgentName::try_from(row.get::<_, String>(1)?).map_err(|e| {
            rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, Box::new(e))
        })?;
        Ok((MessageId(row.get(0)?), agent, row.get(2)?, row.get(3)?, row.get(4)?))
    });
    Ok(found.optional()?)
}

/// Whether any note waits.
pub(crate) fn any(db: &Connection) -> Outcome<bool> {
    Ok(oldest(db)?.is_some())
}

/// Media type and path of each file of a message.
fn files(db: &Connection, id: &MessageId) -> Outcome<Vec<(String, PathBuf)>> {
    let mut statement =
        db.prepare_cached("SELECT mime, path FROM attachments WHERE message_id = ?1 ORDER BY position")?;
    let rows = statement.query_map([id.as_str()], |row| {
        Ok((row.get::<_, String>(0)?, PathBuf::from(row.get::<_, String>(1)?)))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn in_hand(db: &Connection, id: &MessageId, attempt: u32) -> Outcome<bool> {
    Ok(db
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM voice_notes v JOIN deliveries d ON d.message_id = v.message_id
             WHERE v.message_id = ?1 AND v.attempts = ?2 AND v.take_key IS NOT NULL AND d.phase = 'transcribing')",
        )?
        .query_row(params![id.as_str(), attempt], |row| row.get(0))?)
}

/// Whether a note that was given out is still wanted.
pub(crate) fn check(db: &Connection, request: &CheckNote) -> Outcome<Wanted> {
    Ok(Wanted { wanted: in_hand(db, &request.message_id, request.attempt)? })
}

/// Records how an attempt ended.
pub(crate) fn end(tx: &mut Tx<'_>, request: &EndNote) -> Outcome<()> {
    let (id, attempt) = (&request.message_id, request.attempt);
    if !in_hand(tx.db, id, attempt)? {
        return Ok(());
    }
    match &request.end {
        NoteEnd::Speech { text } if !text.trim().is_empty() => {
            let text: String = cut(text.trim(), MAX_TRANSCRIPT).to_owned();
            tx.db.execute("UPDATE messages SET transcript = ?2 WHERE id = ?1", [id.as_str(), &text])?;
            queue(tx, id, false)?;
            message::emit_changed(tx, id, "transcript")?;
            Ok(())
        }
        NoteEnd::Speech { .. } | NoteEnd::Silence {} => {
            failed(tx, id, attempt, "No speech was heard in the voice note, so the agent got nothing.")
        }
        NoteEnd::Failed { why } => failed(tx, id, attempt, why),
        NoteEnd::Unknown => failed(tx, id, attempt, "The voice note could not be transcribed."),
    }
}

/// Queues a note for its agent: with its transcript, or with its recording when that is sent as a file.
pub(crate) fn queue(tx: &mut Tx<'_>, id: &MessageId, as_file: bool) -> Outcome<()> {
    let message = message::load(tx.db, id)?;
    let files = files(tx.db, id)?;
    let attached: Vec<_> = files
        .iter()
        .filter(|(mime, _)| as_file || !mime::is_audio(mime))
        .map(|(_, path)| path.as_path())
        .collect();
    let heard = message.transcript.as_deref().filter(|_| !as_file).unwrap_or_default();
    let said: Vec<&str> =
        [message.text.as_str(), heard].into_iter().filter(|t| !t.trim().is_empty()).collect();
    let text = prompt::with_files(&said.join("\n"), &attached);
    let prompt = crate::chat::prompt_of(tx.db, &message.agent, message.reply_to.as_ref(), &text)?;
    tx.db.execute(
        "UPDATE deliveries SET phase = 'queued', prompt = ?2, bytes = ?3 WHERE message_id = ?1",
        params![id.as_str(), prompt, prompt.len()],
    )?;
    tx.wake(Wake::Outbox { name: message.agent });
    Ok(())
}

fn failed(tx: &mut Tx<'_>, id: &MessageId, attempt: u32, why: &str) -> Outcome<()> {
    tx.db.execute(
        "UPDATE deliveries SET phase = 'done', done_at = ?2 WHERE message_id = ?1",
        params![id.as_str(), tx.now.millis()],
    )?;
    tx.db.execute(
        "UPDATE messages SET state = 'failed', failed_reason = ?2 WHERE id = ?1",
        [id.as_str(), &word(FailedReason::Transcription)],
    )?;
    let message = message::emit_changed(tx, id, "state")?;
    note::post(tx, &message.agent, &format!("voice:{id}:{attempt}"), &format!("{} {OFFER}", why.trim_end()))?;
    tx.wake(Wake::Outbox { name: message.agent });
    Ok(())
}

/// Lets go of what waited long enough for a note.
pub(crate) fn tick(tx: &mut Tx<'_>) -> Outcome<()> {
    let due: Vec<String> = {
        let mut statement =
            tx.db.prepare_cached("SELECT message_id FROM voice_notes WHERE held = 1 AND held_until <= ?1")?;
        let rows = statement.query_map([tx.now.millis()], |row| row.get(0))?;
        rows.collect::<Result<_, _>>()?
    };
    for id in due {
        tx.db.execute("UPDATE voice_notes SET held = 0 WHERE message_id = ?1", [&id])?;
        let still: Option<(String, bool)> = tx
            .db
            .query_row(
                "SELECT d.agent, EXISTS (SELECT 1 FROM deliveries q WHERE q.agent = d.agent
                     AND q.phase = 'queued' AND q.message_id > d.message_id)
                 FROM deliveries d WHERE d.message_id = ?1 AND d.phase = 'transcribing'",
                [&id],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()?;
        let Some((Ok(agent), overtaken)) = still.map(|(agent, late)| (AgentName::try_from(agent), late))
        else {
            continue;
        };
        if overtaken {
            let text = format!(
                "The voice note takes more than {} s to transcribe: what was written after it goes ahead.",
                HOLD_MS / 1000
            );
            note::post(tx, &agent, &format!("voice-late:{id}:{}", tx.now.millis()), &text)?;
        }
        tx.wake(Wake::Outbox { name: agent });
    }
    Ok(())
}

/// When the next note stops holding others back, in milliseconds of the wall clock.
pub(crate) fn next_look(db: &Connection) -> Outcome<Option<i64>> {
    Ok(db.query_row("SELECT min(held_until) FROM voice_notes WHERE held = 1", [], |row| row.get(0))?)
}

/// The start of a text, cut between characters.
fn cut(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
