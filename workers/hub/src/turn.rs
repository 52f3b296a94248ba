//! Turns: which prompt an agent is working on, and which message its answer belongs to.
//!
//! The decision is pure: [`step`] takes what the database knows and one hook event, and says what to
//! do. It follows what was measured of Claude Code (`claude_facts.md` §1): `UserPromptSubmit` and
//! `Stop` carry the turn's `prompt_id`; a prompt that a person queued in the terminal carries the id
//! of the turn it waits behind; an interrupt fires nothing.

use crate::{
    delivery,
    error::Outcome,
    message::{self, New, from_word},
    note, prompt,
    statements::Cached,
    task,
    writer::Tx,
};
use leo_ipc::{
    AgentName, MessageId,
    agent::Activity,
    chat::{Direction, MAX_TEXT, MessageKind, MessageState},
    hook::{HookEvent, TURN_ABORTED},
};
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

/// How a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TurnState {
    Running,
    Completed,
    Failed,
    Interrupted,
}

/// A turn as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) prompt_id: String,
    pub(crate) message_id: Option<MessageId>,
    pub(crate) state: TurnState,
    /// The agent posted by itself during it, so its last words are not posted again.
    pub(crate) posted: bool,
}

/// A message that was handed over and has no outcome yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handed {
    pub(crate) message_id: MessageId,
    pub(crate) prompt: String,
}

/// What the database knows when an event arrives.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scene {
    /// The turn that is taken to be running.
    pub(crate) running: Option<Turn>,
    /// The turn that the event names, if it is known.
    pub(crate) named: Option<Turn>,
    /// The delivery in progress.
    pub(crate) handed: Option<Handed>,
    /// Whether a delivered message has no turn of its own yet.
    pub(crate) unbound: bool,
}

/// What an event leads to, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// The message is with the agent; `bound` when its turn is known.
    Deliver { message_id: MessageId, bound: bool },
    /// A turn began.
    Begin { prompt_id: String, message_id: Option<MessageId> },
    /// A turn ended.
    End { prompt_id: String, state: TurnState },
    /// Remember a finished turn whose message is not known yet, with its answer.
    Keep { prompt_id: String, answer: Option<String> },
    /// Post the agent's last words as the reply to a message.
    Reply { prompt_id: String, message_id: MessageId, text: String },
    /// Say in the thread that the turn failed.
    FailureNote { prompt_id: String, message_id: MessageId, error: String },
    /// What the agent is doing now.
    Activity(Activity),
}

/// Decides what a hook event means.
pub(crate) fn step(scene: &Scene, event: &HookEvent) -> Vec<Action> {
    // Events of subagents carry the newest main prompt's id, not their own: they say nothing of turns.
    if event.agent_id.is_some() {
        return Vec::new();
    }
    match event.name.as_str() {
        "UserPromptSubmit" => submitted(scene, event),
        "Stop" => stopped(scene, event),
        "StopFailure" => failed(scene, event),
        "PreToolUse" | "PostToolUse" | "PostToolUseFailure" if scene.running.is_some() => {
            vec![Action::Activity(Activity::Working)]
        }
        TURN_ABORTED => aborted(scene, event),
        // A cleared session has no turn any more. Compaction starts a session too, inside a turn.
        "SessionStart" if event.source.as_deref() == Some("clear") => interrupted(scene),
        "SessionEnd" => interrupted(scene),
        _ => Vec::new(),
    }
}

fn interrupted(scene: &Scene) -> Vec<Action> {
    let end = |t: &Turn| Action::End { prompt_id: t.prompt_id.clone(), state: TurnState::Interrupted };
    scene.running.iter().map(end).collect()
}

/// The mod saw the end of an interrupted turn. It names the prompt that the turn began with as well as it
/// can; of another turn than the running one it says nothing.
fn aborted(scene: &Scene, event: &HookEvent) -> Vec<Action> {
    let running = scene.running.as_ref().filter(|t| Some(&t.prompt_id) == event.prompt_id.as_ref());
    match running {
        Some(_) => [vec![Action::Activity(Activity::Idle)], interrupted(scene)].concat(),
        None => Vec::new(),
    }
}

fn submitted(scene: &Scene, event: &HookEvent) -> Vec<Action> {
    let text = event.prompt.as_deref().unwrap_or_default();
    // Contained, not equal: what a person had typed before stands in front of a paste.
    let ours = scene.handed.as_ref().filter(|h| leo_ipc::prompt::contains(text, &h.prompt));
    let running = scene.running.as_ref();
    let own_turn = match (&event.prompt_id, running) {
        (Some(id), Some(running)) => *id != running.prompt_id,
        (Some(_), None) => true,
        (None, _) => false,
    };
    let mut actions = vec![Action::Activity(Activity::Working)];
    if let (true, Some(prompt_id)) = (own_turn, &event.prompt_id) {
        // Its end was an interrupt, or its hook is late; a late `Stop` still finds it.
        actions.extend(interrupted(scene));
        actions.push(Action::Begin {
            prompt_id: prompt_id.clone(),
            message_id: ours.map(|h| h.message_id.clone()),
        });
    }
    if let Some(handed) = ours {
        actions.push(Action::Deliver { message_id: handed.message_id.clone(), bound: own_turn });
    }
    actions
}

/// The turn that an ending event is about: the one it names, or the running one where it names none.
fn subject<'a>(scene: &'a Scene, event: &HookEvent) -> Option<&'a Turn> {
    if event.prompt_id.is_some() { scene.named.as_ref() } else { scene.running.as_ref() }
}

fn stopped(scene: &Scene, event: &HookEvent) -> Vec<Action> {
    let answer = event.last_assistant_message.clone().filter(|text| !text.trim().is_empty());
    let mut actions = vec![Action::Activity(Activity::Idle)];
    match (subject(scene, event), &event.prompt_id) {
        (Some(turn), _) => {
            actions.push(Action::End { prompt_id: turn.prompt_id.clone(), state: TurnState::Completed });
            if let (Some(message_id), Some(text), false) = (&turn.message_id, answer, turn.posted) {
                let (prompt_id, message_id) = (turn.prompt_id.clone(), message_id.clone());
                actions.push(Action::Reply { prompt_id, message_id, text });
            }
        }
        (None, Some(prompt_id)) => {
            let answer = answer.filter(|_| scene.unbound);
            actions.push(Action::Keep { prompt_id: prompt_id.clone(), answer });
        }
        (None, None) => {}
    }
    actions
}

fn failed(scene: &Scene, event: &HookEvent) -> Vec<Action> {
    let mut actions = vec![Action::Activity(Activity::Idle)];
    if let Some(turn) = subject(scene, event) {
        actions.push(Action::End { prompt_id: turn.prompt_id.clone(), state: TurnState::Failed });
        if let Some(message_id) = &turn.message_id {
            let error = event.last_assistant_message.as_ref().or(event.error.as_ref());
            actions.push(Action::FailureNote {
                prompt_id: turn.prompt_id.clone(),
                message_id: message_id.clone(),
                error: error.cloned().unwrap_or_else(|| "no reason was given".to_owned()),
            });
        }
    }
    actions
}

// === the database's side ===

/// Reads the running turn.
pub(crate) fn running(db: &Connection, agent: &AgentName) -> Outcome<Option<Turn>> {
    let mut statement = db.prepare_cached(
        "SELECT prompt_id, message_id, state, posted FROM turns WHERE agent = ?1 AND state = 'running' LIMIT 1",
    )?;
    Ok(statement.query_row([agent.as_str()], turn_row).optional()?)
}

/// Reads a turn by its prompt's id.
pub(crate) fn find(db: &Connection, agent: &AgentName, prompt_id: &str) -> Outcome<Option<Turn>> {
    let mut statement = db.prepare_cached(
        "SELECT prompt_id, message_id, state, posted FROM turns WHERE agent = ?1 AND prompt_id = ?2",
    )?;
    Ok(statement.query_row([agent.as_str(), prompt_id], turn_row).optional()?)
}

fn turn_row(row: &rusqlite::Row<'_>) -> Result<Turn, rusqlite::Error> {
    Ok(Turn {
        prompt_id: row.get(0)?,
        message_id: row.get::<_, Option<String>>(1)?.map(MessageId),
        state: from_word(row.get(2)?)?,
        posted: row.get(3)?,
    })
}

/// Records that a turn began.
pub(crate) fn begin(
    tx: &mut Tx<'_>,
    agent: &AgentName,
    prompt_id: &str,
    message: Option<&MessageId>,
) -> Outcome<()> {
    // The same id again is a turn that goes on (a queued prompt that became a turn of its own).
    tx.db.execute_cached(
        "INSERT INTO turns (agent, prompt_id, message_id, state, started_at) VALUES (?1, ?2, ?3, 'running', ?4)
         ON CONFLICT (agent, prompt_id) DO UPDATE SET state = 'running', message_id = coalesce(message_id, ?3)",
        rusqlite::params![agent.as_str(), prompt_id, message.map(MessageId::as_str), tx.now.millis()],
    )?;
    emit(tx, agent, "agent_turn_started", prompt_id, "running")
}

/// Records that a turn ended; journaled when it had been running.
pub(crate) fn end(tx: &mut Tx<'_>, agent: &AgentName, prompt_id: &str, state: TurnState) -> Outcome<()> {
    let ended = state;
    let state = message::word(state);
    let was_running = tx.db.execute_cached(
        "UPDATE turns SET state = ?3, ended_at = ?4 WHERE agent = ?1 AND prompt_id = ?2 AND state = 'running'",
        rusqlite::params![agent.as_str(), prompt_id, state, tx.now.millis()],
    )?;
    if was_running > 0 {
        if let Some(message) = find(tx.db, agent, prompt_id)?.and_then(|turn| turn.message_id) {
            if ended == TurnState::Interrupted {
                delivery::doubt(tx, &message)?;
            }
            task::turn_ended(tx, &message, ended)?;
        }
        return emit(tx, agent, "agent_turn_completed", prompt_id, &state);
    }
    tx.db.execute_cached(
        "UPDATE turns SET state = ?3 WHERE agent = ?1 AND prompt_id = ?2",
        [agent.as_str(), prompt_id, &state],
    )?;
    Ok(())
}

/// Ends whatever turn runs.
pub(crate) fn end_running(tx: &mut Tx<'_>, agent: &AgentName, state: TurnState) -> Outcome<()> {
    if let Some(turn) = running(tx.db, agent)? {
        end(tx, agent, &turn.prompt_id, state)?;
    }
    Ok(())
}

/// Remembers a finished turn that nobody knew, with its answer while a message may claim it.
pub(crate) fn keep(tx: &mut Tx<'_>, agent: &AgentName, prompt_id: &str, answer: Option<&str>) -> Outcome<()> {
    tx.db.execute_cached(
        "INSERT INTO turns (agent, prompt_id, state, started_at, ended_at, answer)
         VALUES (?1, ?2, 'completed', ?3, ?3, ?4) ON CONFLICT (agent, prompt_id) DO NOTHING",
        rusqlite::params![agent.as_str(), prompt_id, tx.now.millis(), answer],
    )?;
    Ok(())
}

/// Posts a turn's last words as the reply to its message. A turn that goes on after a first `Stop`
/// posts what it says then as well; nothing is posted twice for one `Stop`, since hooks are told apart
/// by their keys.
pub(crate) fn reply(
    tx: &mut Tx<'_>,
    agent: &AgentName,
    prompt_id: &str,
    to: &MessageId,
    text: &str,
) -> Outcome<()> {
    // A task's own turn has no reply: what it wants to say it posts (seed 001, "Replies").
    if message::load(tx.db, to)?.task.is_some() {
        return Ok(());
    }
    let mut last = None;
    for part in prompt::split(text, MAX_TEXT) {
        let new = New {
            agent,
            direction: Direction::Out,
            kind: MessageKind::Text,
            text: part,
            state: MessageState::None,
            reply_to: Some(to),
            client_msg_id: None,
            dedupe: None,
        };
        let id = message::insert(tx, &new)?;
        message::emit_new(tx, &id)?;
        last = Some(id);
    }
    tx.db.execute_cached(
        "UPDATE turns SET reply_id = ?3, answer = NULL WHERE agent = ?1 AND prompt_id = ?2",
        rusqlite::params![agent.as_str(), prompt_id, last.as_ref().map(MessageId::as_str)],
    )?;
    Ok(())
}

/// Says in the thread that a turn failed.
pub(crate) fn failure_note(tx: &mut Tx<'_>, agent: &AgentName, prompt_id: &str, error: &str) -> Outcome<()> {
    let short: String = error.chars().take(500).collect();
    note::post(
        tx,
        agent,
        &format!("turn-failed:{prompt_id}"),
        &format!("The turn ended with an error: {short}"),
    )?;
    Ok(())
}

/// Marks the running turn: the agent has posted by itself.
pub(crate) fn mark_posted(tx: &mut Tx<'_>, agent: &AgentName) -> Outcome<()> {
    tx.db.execute_cached(
        "UPDATE turns SET posted = 1 WHERE agent = ?1 AND state = 'running'",
        [agent.as_str()],
    )?;
    Ok(())
}

fn emit(tx: &mut Tx<'_>, agent: &AgentName, kind: &str, prompt_id: &str, state: &str) -> Outcome<()> {
    let mut payload = serde_json::Map::new();
    payload.insert("agent".to_owned(), agent.as_str().into());
    let message = find(tx.db, agent, prompt_id)?.and_then(|turn| turn.message_id);
    let mut turn = serde_json::json!({ "id": prompt_id, "state": state });
    if let Some(message) = message {
        turn["message_id"] = message.as_str().into();
    }
    payload.insert("turn".to_owned(), turn);
    tx.emit(kind, payload)
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
