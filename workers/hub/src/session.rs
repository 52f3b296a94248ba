//! The sessions of an agent's harness: their ids and transcripts as its hooks name them. They change
//! with `/clear` and at a resume; the agent and its thread stay. Nothing here is ever computed from a
//! path or a folder.

use crate::{error::Outcome, note, statements::Cached, writer::Tx};
use leo_ipc::{
    AgentName, CallKey, LaunchId, Time,
    agent::{AgentIdentity, ListSessions, Session, Sessions},
    hook::HookEvent,
};
use rusqlite::Connection;

/// Sessions that are told: evidence of a message is looked for in the one it was handed to, which a
/// `/clear` or a fresh start may have replaced since, but hardly more than a few times.
const TOLD: u32 = 4;

/// Takes the session's id and transcript from an event. Says whether the event's launch is the current
/// one.
pub(crate) fn follow(tx: &mut Tx<'_>, who: &AgentIdentity, event: &HookEvent) -> Outcome<bool> {
    let (current, session_id, path): (bool, Option<String>, Option<String>) = tx
        .db
        .prepare_cached(
            "SELECT coalesce(launch, '') = ?2, session_id, transcript_path FROM agents WHERE name = ?1",
        )?
        .query_row([who.name.as_str(), who.launch.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    // A session that ends names itself for the last time; its successor has spoken or will.
    if !current || event.agent_id.is_some() || event.name == "SessionEnd" {
        return Ok(current);
    }
    let now = tx.now.millis();
    tx.db
        .prepare_cached(
            "UPDATE agents SET session_id = coalesce(?2, session_id),
             transcript_path = coalesce(?3, transcript_path), last_activity_at = ?4 WHERE name = ?1",
        )?
        .execute(rusqlite::params![who.name.as_str(), event.session_id, event.transcript_path, now])?;
    let moved =
        session_id != event.session_id || path != event.transcript_path || event.name == "SessionStart";
    if let (true, Some(session_id), Some(path)) = (moved, &event.session_id, &event.transcript_path) {
        tx.db.execute_cached(
            "INSERT INTO sessions (agent, session_id, transcript_path, launch, since) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (agent, session_id, transcript_path) DO UPDATE SET launch = ?4, since = ?5",
            rusqlite::params![who.name.as_str(), session_id, path, who.launch.as_str(), now],
        )?;
    }
    Ok(true)
}

/// Says in the thread that the agent does not know any more what it knew, whoever had it forget: a person
/// in the terminal or from afar, or the harness itself.
pub(crate) fn say_what_changed(
    tx: &mut Tx<'_>,
    agent: &AgentName,
    event: &HookEvent,
    key: &CallKey,
) -> Outcome<()> {
    let said = match (event.name.as_str(), event.source.as_deref()) {
        ("SessionStart", Some("clear")) => {
            "The agent's context was cleared. It begins anew, and can still read this thread."
        }
        ("SessionStart", Some("compact")) => {
            "The agent's context was compacted. It goes on from a summary, and can still read this thread."
        }
        _ => return Ok(()),
    };
    note::post(tx, agent, &format!("context:{}", key.as_str()), said)?;
    Ok(())
}

/// The newest sessions, the current one first.
pub(crate) fn newest(db: &Connection, request: &ListSessions) -> Outcome<Sessions> {
    let mut statement = db.prepare_cached(
        "SELECT session_id, transcript_path, launch, since FROM sessions WHERE agent = ?1
         ORDER BY since DESC LIMIT ?2",
    )?;
    let rows = statement.query_map(rusqlite::params![request.name.as_str(), TOLD], |row| {
        Ok(Session {
            session_id: row.get(0)?,
            transcript_path: row.get(1)?,
            launch: LaunchId(row.get(2)?),
            since: Time::from_millis(row.get(3)?),
        })
    })?;
    Ok(Sessions { sessions: rows.collect::<Result<_, _>>()? })
}
