//! A hook's event, recorded: the decision of `turn.rs` carried out in one transaction.

use crate::{
    agent,
    ask::{permission, settle},
    delivery,
    error::Outcome,
    session,
    statements::Cached,
    turn::{self, Action, Scene},
    writer::Tx,
};
use leo_ipc::{
    AgentName,
    agent::{AgentIdentity, Wake},
    hook::{HookEvent, ReportHook, Source},
    id::token_hash,
};

/// Hook keys are remembered this long; a hook process lives for seconds, a spooled event for as long
/// as the system was down, and then its file is gone.
const REMEMBER_KEYS_MS: i64 = 24 * 3600 * 1000;

/// Whether an event only says what the agent is doing at the moment.
pub(crate) fn is_passing(event: &HookEvent) -> bool {
    matches!(
        event.name.as_str(),
        "PreToolUse" | "PostToolUse" | "PostToolUseFailure" | "PostToolBatch" | "Notification"
    )
}

/// Records a hook's event; the same key does it once.
pub(crate) fn report(tx: &mut Tx<'_>, tmux_socket: &str, request: &ReportHook) -> Outcome<()> {
    let who = agent::authenticate_any(tx.db, &token_hash(&request.token))?;
    let fresh = tx
        .db
        .prepare_cached("INSERT INTO hook_keys (key, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(rusqlite::params![request.hook_key.as_str(), tx.now.millis()])?;
    if fresh == 0 {
        return Ok(());
    }
    let event = &request.event;
    if !counts(tx, &who, request)? {
        return Ok(());
    }
    let current = session::follow(tx, &who, event)?;
    if current {
        session::say_what_changed(tx, &who.name, event, &request.hook_key)?;
    }
    // Before whatever else this wakes for: the agent's task has to know that a turn begins when it hears
    // that its message was delivered, or it hands the next one over into that turn.
    let wake = Wake::Hook {
        name: who.name.clone(),
        launch: who.launch.clone(),
        event: Box::new(without_texts(event)),
    };
    tx.wake(wake);
    let scene = scene(tx, &who, event)?;
    for action in turn::step(&scene, event) {
        apply(tx, tmux_socket, &who.name, current, action)?;
    }
    if event.name == "PreToolUse" {
        permission::remember_call(tx, &who.name, event)?;
    }
    settle::by_hook(tx, &who.name, event, request.at_ms)
}

/// Whether this report of an event is the one that counts. Claude tells its hooks and the mod inside it
/// of the same turns, and either may be away for a while: so each event counts once, with whoever
/// brings it first, and the other's report of it changes nothing. The same event can happen twice in a
/// turn; then each reporter tells of it twice.
fn counts(tx: &Tx<'_>, who: &AgentIdentity, request: &ReportHook) -> Outcome<bool> {
    let event = &request.event;
    if event.agent_id.is_some() || !matches!(event.name.as_str(), "UserPromptSubmit" | "Stop" | "StopFailure")
    {
        return Ok(true);
    }
    let texts = [&event.prompt, &event.last_assistant_message, &event.error].map(Option::as_deref);
    let what = format!(
        "{} {} {}",
        event.name,
        event.prompt_id.as_deref().unwrap_or_default(),
        token_hash(&texts.map(Option::unwrap_or_default).join("\0"))
    );
    let (mine, others) = match request.source {
        Source::Bridge => ("bridge", "hook"),
        Source::Hook => ("hook", "bridge"),
    };
    let counts = tx
        .db
        .prepare_cached(&format!(
            "INSERT INTO told_events (launch, what, {mine}, at) VALUES (?1, ?2, 1, ?3)
             ON CONFLICT (launch, what) DO UPDATE SET {mine} = {mine} + 1, at = excluded.at
             RETURNING {mine} > {others}"
        ))?
        .query_row(rusqlite::params![who.launch.as_str(), what, tx.now.millis()], |row| row.get(0))?;
    Ok(counts)
}

/// Forgets old hook keys.
pub(crate) fn prune(tx: &mut Tx<'_>) -> Outcome<()> {
    tx.db.execute_cached("DELETE FROM hook_keys WHERE at < ?1", [tx.now.millis() - REMEMBER_KEYS_MS])?;
    tx.db.execute_cached("DELETE FROM told_events WHERE at < ?1", [tx.now.millis() - REMEMBER_KEYS_MS])?;
    tx.db.execute_cached("DELETE FROM tool_calls WHERE at < ?1", [tx.now.millis() - REMEMBER_KEYS_MS])?;
    Ok(())
}

fn scene(tx: &Tx<'_>, who: &AgentIdentity, event: &HookEvent) -> Outcome<Scene> {
    let agent = &who.name;
    let named = match &event.prompt_id {
        Some(id) => turn::find(tx.db, agent, id)?,
        None => None,
    };
    Ok(Scene {
        running: turn::running(tx.db, agent)?,
        named,
        handed: delivery::handed(tx.db, agent, &who.launch, event.prompt.as_deref())?,
        unbound: delivery::has_unbound(tx.db, agent, tx.now)?,
    })
}

fn apply(
    tx: &mut Tx<'_>,
    tmux_socket: &str,
    agent: &AgentName,
    current: bool,
    action: Action,
) -> Outcome<()> {
    match action {
        Action::Deliver { message_id, bound } => delivery::delivered(tx, agent, &message_id, bound),
        Action::Begin { prompt_id, message_id } => turn::begin(tx, agent, &prompt_id, message_id.as_ref()),
        Action::End { prompt_id, state } => turn::end(tx, agent, &prompt_id, state),
        Action::Keep { prompt_id, answer } => turn::keep(tx, agent, &prompt_id, answer.as_deref()),
        Action::Reply { prompt_id, message_id, text } => {
            turn::reply(tx, agent, &prompt_id, &message_id, &text)
        }
        Action::FailureNote { prompt_id, error, .. } => turn::failure_note(tx, agent, &prompt_id, &error),
        // A late event of an old launch is history: it says nothing about what the agent does now.
        Action::Activity(activity) if current => agent::set_activity(tx, tmux_socket, agent, activity),
        Action::Activity(_) => Ok(()),
    }
}

fn without_texts(event: &HookEvent) -> HookEvent {
    HookEvent { prompt: None, last_assistant_message: None, error: None, ..event.clone() }
}
