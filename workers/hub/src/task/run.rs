//! Runs: made once, begun once, ended once, each with its event. A row goes
//! `queued → running → succeeded | failed | interrupted`, or is `skipped` at once.

use super::{card, configured, find, load, owner, owner_of};
use crate::{
    agent, ask, chat, delivery,
    error::Outcome,
    message::{self, New, word},
    prompt,
    statements::Cached,
    turn::TurnState,
    writer::Tx,
};
use leo_ipc::{
    AgentName, Fault, MessageId, TaskName,
    agent::Wake,
    chat::{Direction, FailedReason, MessageKind, MessageState},
    config::{AgentConfig, Config, TaskRuntime},
    task::{
        BeginRun, Begun, ClaimRun, EndRun, KEPT_RUNS, MAX_ERROR, NoteAttempt, RunState, TaskRun, Trigger,
    },
};
use rusqlite::OptionalExtension;

/// Makes a run, or finds the one that was made before.
pub(crate) fn claim(tx: &mut Tx<'_>, config: &Config, request: &ClaimRun) -> Outcome<TaskRun> {
    if let Some(run) = find(tx.db, &request.run_id)? {
        return Ok(run);
    }
    configured(config, &request.task)?;
    let due = request.due_at.filter(|_| request.trigger == Trigger::Schedule);
    if let Some(due) = due {
        let made: Option<String> = tx
            .db
            .query_row_cached(
                "SELECT id FROM runs WHERE task = ?1 AND due_at = ?2",
                rusqlite::params![request.task.as_str(), due.millis()],
                |row| row.get(0),
            )
            .optional()?;
        if let Some(id) = made {
            return load(tx.db, &id);
        }
        tx.db.execute_cached(
            "UPDATE tasks SET cursor = ?2 WHERE name = ?1 AND coalesce(cursor, 0) < ?2",
            rusqlite::params![request.task.as_str(), due.millis()],
        )?;
    }
    let state = if request.skipped.is_some() { RunState::Skipped } else { RunState::Queued };
    tx.db.execute_cached(
        "INSERT INTO runs (id, task, trigger, state, due_at, error, ended_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        rusqlite::params![
            request.run_id,
            request.task.as_str(),
            word(request.trigger),
            word(state),
            due.map(leo_ipc::Time::millis),
            request.skipped,
            request.skipped.is_some().then(|| tx.now.millis()),
        ],
    )?;
    forget_old(tx, &request.task)?;
    tx.tasks_changed();
    let run = load(tx.db, &request.run_id)?;
    if state == RunState::Skipped {
        tx.emit("task_run_skipped", chat::object("run", &run))?;
    }
    Ok(run)
}

fn forget_old(tx: &Tx<'_>, task: &TaskName) -> Outcome<()> {
    tx.db.execute_cached(
        "DELETE FROM runs WHERE task = ?1 AND state NOT IN ('queued', 'running') AND id NOT IN
             (SELECT id FROM runs WHERE task = ?1 ORDER BY id DESC LIMIT ?2)",
        rusqlite::params![task.as_str(), KEPT_RUNS],
    )?;
    Ok(())
}

/// Records that a run starts; its prompt is delivered here if it is one of an agent's.
pub(crate) fn begin(tx: &mut Tx<'_>, config: &Config, request: &BeginRun) -> Outcome<Begun> {
    let run = load(tx.db, &request.run_id)?;
    if run.state == RunState::Running && has_token(tx, request)? {
        return begun(tx, &run);
    }
    if run.state != RunState::Queued {
        return Err(Fault::new("not_queued", format!("run {} was begun before", run.id)).into());
    }
    let task = configured(config, &run.task)?;
    let owner = owner_of(tx, config, &run.task)?;
    let prompt = request.prompt.as_ref().filter(|_| task.runtime == TaskRuntime::Persistent);
    let sent = match prompt {
        Some(text) => {
            let agents = super::known_agents(tx.db)?;
            let own = owner::own_agent(&run.task, task, &agents);
            if let (Some(named), None) = (&task.agent, own) {
                let text = format!("tasks.{}.agent names `{named}`, which is no agent here", run.task);
                return Err(Fault::new("unknown_agent", text).into());
            }
            let runs_in = own.unwrap_or(&owner).clone();
            Some((deliver(tx, &runs_in, &run, text)?, runs_in))
        }
        None => None,
    };
    tx.db.execute_cached(
        "UPDATE runs SET state = 'running', started_at = ?2, agent = ?3, token_hash = ?4, log_path = ?5,
         message_id = ?6, runs_in = ?7, attempts = max(attempts, ?8) WHERE id = ?1",
        rusqlite::params![
            run.id,
            tx.now.millis(),
            owner.as_str(),
            request.token_hash,
            request.log_path,
            sent.as_ref().map(|(id, _)| id.as_str()),
            sent.as_ref().map(|(_, agent)| agent.as_str()),
            1,
        ],
    )?;
    tx.tasks_changed();
    let run = load(tx.db, &run.id)?;
    tx.emit("task_run_started", chat::object("run", &run))?;
    begun(tx, &run)
}

fn has_token(tx: &Tx<'_>, request: &BeginRun) -> Outcome<bool> {
    Ok(tx.db.query_row_cached(
        "SELECT token_hash = ?2 FROM runs WHERE id = ?1",
        [&request.run_id, &request.token_hash],
        |row| row.get::<_, Option<bool>>(0),
    )? == Some(true))
}

fn begun(tx: &Tx<'_>, run: &TaskRun) -> Outcome<Begun> {
    let agent = run.agent.clone().ok_or_else(|| Fault::internal("a run that runs has no owner"))?;
    let config: Option<String> = tx
        .db
        .query_row_cached("SELECT config FROM agents WHERE name = ?1", [agent.as_str()], |row| row.get(0))
        .optional()?;
    let config: AgentConfig = config.and_then(|c| serde_json::from_str(&c).ok()).unwrap_or_default();
    Ok(Begun { run: run.clone(), agent, workspace: config.workspace })
}

/// Puts a run's prompt into its agent's queue, as any message.
fn deliver(tx: &mut Tx<'_>, agent: &AgentName, run: &TaskRun, text: &str) -> Outcome<MessageId> {
    agent::must_exist(tx.db, agent)?;
    chat::check_outbox(tx.db, agent, text.len())?;
    let new = New {
        agent,
        direction: Direction::In,
        kind: MessageKind::Task,
        text,
        state: MessageState::Pending,
        reply_to: None,
        client_msg_id: None,
        dedupe: Some(&format!("run:{}", run.id)),
    };
    let id = message::insert(tx, &new)?;
    super::file(tx, &id, run.task.as_str(), &run.id)?;
    delivery::enqueue(tx, agent, &id, &prompt::of_task(text, run.task.as_str(), &run.id))?;
    message::emit_new(tx, &id)?;
    tx.wake(Wake::Outbox { name: agent.clone() });
    Ok(id)
}

/// Records that an attempt begins.
pub(crate) fn attempt(tx: &mut Tx<'_>, request: &NoteAttempt) -> Outcome<()> {
    load(tx.db, &request.run_id)?;
    tx.db.execute_cached(
        "UPDATE runs SET attempts = max(attempts, ?2) WHERE id = ?1 AND state = 'running'",
        rusqlite::params![request.run_id, request.attempt],
    )?;
    Ok(())
}

/// Records how a run ended; the first end counts.
pub(crate) fn end(tx: &mut Tx<'_>, config: &Config, request: &EndRun) -> Outcome<TaskRun> {
    if !request.state.is_over() || request.state == RunState::Unknown {
        return Err(Fault::bad_request(
            "at $.state: a run ends as succeeded, failed, interrupted or skipped",
        )
        .into());
    }
    let run = load(tx.db, &request.run_id)?;
    if run.state.is_over() {
        return Ok(run);
    }
    let error: Option<String> = request.error.as_ref().map(|error| error.chars().take(MAX_ERROR).collect());
    tx.db.execute_cached(
        "UPDATE runs SET state = ?2, ended_at = ?3, exit_code = ?4, error = ?5, token_hash = NULL WHERE id = ?1",
        rusqlite::params![run.id, word(request.state), tx.now.millis(), request.exit_code, error],
    )?;
    expire_asks(tx, &run.id)?;
    if let Some(message_id) = &run.message_id {
        take_back(tx, message_id)?;
    }
    tx.tasks_changed();
    let run = load(tx.db, &run.id)?;
    let kind = match request.state {
        RunState::Succeeded => "task_run_succeeded",
        RunState::Skipped => "task_run_skipped",
        _ => "task_run_failed",
    };
    tx.emit(kind, chat::object("run", &run))?;
    card::outcome(tx, config, &run)?;
    Ok(run)
}

/// Nobody waits any more for what a run asked.
pub(crate) fn expire_asks(tx: &mut Tx<'_>, run_id: &str) -> Outcome<()> {
    let of_run = "state = 'open' AND message_id IN
         (SELECT m.id FROM messages m JOIN runs r ON r.id = m.run_id WHERE r.id = ?1 AND r.message_id IS NULL)";
    for open in ask::store::all(tx.db, of_run, &[&run_id])? {
        let settlement = ask::store::Settlement::of(ask::machine::Event::Deadline);
        ask::store::settle(tx, &open, &settlement)?;
    }
    Ok(())
}

/// A prompt that has not been handed over when its run ends never will be.
fn take_back(tx: &mut Tx<'_>, id: &MessageId) -> Outcome<()> {
    let waited = tx.db.execute_cached(
        "UPDATE deliveries SET phase = 'done', done_at = ?2 WHERE message_id = ?1 AND phase = 'queued'",
        rusqlite::params![id.as_str(), tx.now.millis()],
    )?;
    if waited > 0 {
        tx.db.execute_cached(
            "UPDATE messages SET state = 'failed', failed_reason = ?2 WHERE id = ?1",
            [id.as_str(), &word(FailedReason::Timeout)],
        )?;
        message::emit_changed(tx, id, "state")?;
    }
    Ok(())
}

/// The open run whose prompt a message was.
fn of_message(tx: &Tx<'_>, id: &MessageId) -> Outcome<Option<String>> {
    Ok(tx
        .db
        .prepare_cached("SELECT id FROM runs WHERE message_id = ?1 AND state = 'running'")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?)
}

fn end_of_message(tx: &mut Tx<'_>, id: &MessageId, state: RunState, error: Option<String>) -> Outcome<()> {
    if let Some(run_id) = of_message(tx, id)? {
        // A persistent task posts no failure card, so its configuration does not matter here.
        end(tx, &Config::default(), &EndRun { run_id, state, exit_code: None, error })?;
    }
    Ok(())
}

/// A turn has ended; with it the run whose prompt started it.
pub(crate) fn turn_ended(tx: &mut Tx<'_>, id: &MessageId, state: TurnState) -> Outcome<()> {
    let (state, error) = match state {
        TurnState::Running => return Ok(()),
        TurnState::Completed => (RunState::Succeeded, None),
        TurnState::Failed => (RunState::Failed, Some("the turn ended with an error".to_owned())),
        TurnState::Interrupted => (RunState::Interrupted, Some("the turn was interrupted".to_owned())),
    };
    end_of_message(tx, id, state, error)
}

/// A run's prompt did not reach its agent.
pub(crate) fn delivery_failed(tx: &mut Tx<'_>, id: &MessageId, why: &str) -> Outcome<()> {
    end_of_message(tx, id, RunState::Failed, Some(why.to_owned()))
}

/// A run's prompt was taken back, or became part of another turn.
pub(crate) fn delivery_cancelled(tx: &mut Tx<'_>, id: &MessageId, why: &str) -> Outcome<()> {
    end_of_message(tx, id, RunState::Interrupted, Some(why.to_owned()))
}
