//! Agents: their definition, what is wanted of them, their launches, and what was seen of them.

use crate::{
    ask::settle,
    chat::object,
    error::{Outcome, unknown_agent},
    message::{self, from_word, word},
    statements::Cached,
    turn::{self, TurnState},
    writer::Tx,
};
use leo_ipc::{
    AgentName, Fault, LaunchId, Time,
    agent::{
        Activity, Agent, AgentIdentity, AgentRecord, AgentRecords, AuthAgent, BeginLaunch, Desired,
        EndLaunch, Launch, PutAgent, ReportAgent, SetDesired, SetWaiting, Status,
    },
    ask::Run,
    chat::{Route, WaitingFor},
    config::AgentConfig,
};
use rusqlite::{Connection, OptionalExtension, Row};

const COLUMNS: &str = "a.name, a.config, a.source, a.desired, a.status, a.activity, a.waiting_for, a.session_id, \
     a.transcript_path, a.resume_session, a.launch, a.pane, a.pid, a.route, a.restarts, a.last_activity_at, \
     l.tmux_session, l.begun_at, a.unread FROM agents a LEFT JOIN launches l ON l.id = a.launch";

/// 404 unless the agent is there.
pub(crate) fn must_exist(db: &Connection, name: &AgentName) -> Outcome<()> {
    let found: Option<i64> = db
        .prepare_cached("SELECT 1 FROM agents WHERE name = ?1 AND removed = 0")?
        .query_row([name.as_str()], |row| row.get(0))
        .optional()?;
    found.map(|_| ()).ok_or_else(|| unknown_agent(name).into())
}

/// 404 unless the agent is there, or was and left messages or reminders.
pub(crate) fn must_have_thread(db: &Connection, name: &AgentName) -> Outcome<()> {
    let found: Option<i64> = db
        .prepare_cached(
            "SELECT 1 FROM agents WHERE name = ?1
             AND (removed = 0 OR EXISTS (SELECT 1 FROM messages WHERE agent = ?1)
                  OR EXISTS (SELECT 1 FROM reminders WHERE agent = ?1 AND state = 'open'))",
        )?
        .query_row([name.as_str()], |row| row.get(0))
        .optional()?;
    found.map(|_| ()).ok_or_else(|| unknown_agent(name).into())
}

/// Reads one agent.
pub(crate) fn load(db: &Connection, tmux_socket: &str, name: &AgentName) -> Outcome<AgentRecord> {
    let mut statement =
        db.prepare_cached(&format!("SELECT {COLUMNS} WHERE a.name = ?1 AND a.removed = 0"))?;
    let record = statement.query_row([name.as_str()], |row| from_row(row, tmux_socket)).optional()?;
    record.ok_or_else(|| unknown_agent(name).into())
}

/// Reads all agents, by name.
pub(crate) fn list(db: &Connection, tmux_socket: &str) -> Outcome<AgentRecords> {
    let mut statement =
        db.prepare_cached(&format!("SELECT {COLUMNS} WHERE a.removed = 0 ORDER BY a.name"))?;
    let rows = statement.query_map([], |row| from_row(row, tmux_socket))?;
    Ok(AgentRecords { agents: rows.collect::<Result<_, _>>()? })
}

fn from_row(row: &Row<'_>, tmux_socket: &str) -> Result<AgentRecord, rusqlite::Error> {
    let bad = |e: Box<dyn std::error::Error + Send + Sync>| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, e)
    };
    let name = AgentName::try_from(row.get::<_, String>(0)?).map_err(|e| bad(Box::new(e)))?;
    let config: AgentConfig =
        serde_json::from_str(&row.get::<_, String>(1)?).map_err(|e| bad(Box::new(e)))?;
    let pane: Option<String> = row.get(11)?;
    let launch = match (row.get::<_, Option<String>>(10)?, row.get::<_, Option<String>>(16)?) {
        (Some(id), Some(tmux_session)) => Some(Launch {
            id: LaunchId(id),
            tmux_session,
            pane: pane.clone(),
            pid: row.get(12)?,
            at: Time::from_millis(row.get(17)?),
        }),
        _ => None,
    };
    Ok(AgentRecord {
        agent: Agent {
            harness: config.harness,
            workspace: config.workspace.clone(),
            model: config.model.clone(),
            status: from_word(row.get(4)?)?,
            wake_on_message: true,
            suspended: launch.is_none() && row.get::<_, String>(3)? == word(Desired::Suspended),
            activity: from_word(row.get(5)?)?,
            waiting_for: row.get(6)?,
            session_id: row.get(7)?,
            tmux_socket: tmux_socket.to_owned(),
            tmux_pane: if launch.is_some() { pane.unwrap_or_default() } else { String::new() },
            restarts: row.get(14)?,
            started_at: launch.as_ref().map(|l| l.at),
            last_activity_at: row.get::<_, Option<i64>>(15)?.map(Time::from_millis),
            route: row.get::<_, Option<String>>(13)?.map(from_word::<Route>).transpose()?,
            unread: row.get(18)?,
            name,
        },
        config,
        source: from_word(row.get(2)?)?,
        desired: from_word(row.get(3)?)?,
        launch,
        transcript_path: row.get(8)?,
        resume_session: row.get(9)?,
    })
}

/// Journals an agent as apps see it and wakes the agents worker.
pub(crate) fn changed(
    tx: &mut Tx<'_>,
    tmux_socket: &str,
    kind: &str,
    name: &AgentName,
) -> Outcome<AgentRecord> {
    let record = load(tx.db, tmux_socket, name)?;
    tx.emit(kind, object("agent", &record.agent))?;
    tx.wake_agent(name);
    Ok(record)
}

/// Defines an agent or changes its configuration. A removed one of the same name comes back with its
/// old thread.
pub(crate) fn put(tx: &mut Tx<'_>, tmux_socket: &str, request: &PutAgent) -> Outcome<AgentRecord> {
    let config = serde_json::to_string(&request.config).map_err(|e| Fault::bad_request(e.to_string()))?;
    let known: Option<(String, bool, String, Option<String>)> = tx
        .db
        .query_row_cached(
            "SELECT config, removed, source, put_key FROM agents WHERE name = ?1",
            [request.name.as_str()],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )
        .optional()?;
    let key = request.key.as_ref().map(leo_ipc::CallKey::as_str);
    let desired = if request.config.autostart { Desired::Running } else { Desired::Stopped };
    match known {
        Some((_, false, _, made_by)) if request.must_be_new && key.is_some() && made_by.as_deref() == key => {
            return load(tx.db, tmux_socket, &request.name);
        }
        Some((_, false, ..)) if request.must_be_new => {
            let text = format!("there is already an agent `{}`", request.name);
            return Err(Fault::new("agent_exists", text).into());
        }
        Some((old, false, source, _)) if old == config && source == word(request.source) => {
            return load(tx.db, tmux_socket, &request.name);
        }
        Some((_, false, ..)) => {
            tx.db.execute_cached(
                "UPDATE agents SET config = ?2, source = ?3 WHERE name = ?1",
                [request.name.as_str(), &config, &word(request.source)],
            )?;
        }
        Some((_, true, ..)) => {
            tx.db.execute_cached(
                "UPDATE agents SET config = ?2, source = ?3, desired = ?4, put_key = ?5, removed = 0, session_id = NULL,
                 transcript_path = NULL, resume_session = NULL WHERE name = ?1",
                rusqlite::params![request.name.as_str(), config, word(request.source), word(desired), key],
            )?;
        }
        None => {
            tx.db.execute_cached(
                "INSERT INTO agents (name, config, source, desired, put_key) VALUES (?1, ?2, ?3, ?4, ?5)",
                rusqlite::params![request.name.as_str(), config, word(request.source), word(desired), key],
            )?;
        }
    }
    changed(tx, tmux_socket, "agent_state_changed", &request.name)
}

/// Forgets an agent; its thread stays. What still waited for it fails.
pub(crate) fn remove(tx: &mut Tx<'_>, tmux_socket: &str, name: &AgentName) -> Outcome<()> {
    let record = load(tx.db, tmux_socket, name)?;
    if let Some(launch) = &record.launch {
        end_launch(
            tx,
            tmux_socket,
            &EndLaunch {
                name: name.clone(),
                launch: launch.id.clone(),
                resumable: false,
                needs_person: None,
            },
        )?;
    }
    settle::agent_gone(tx, name, settle::Gone::Removed)?;
    crate::delivery::fail_all(tx, name, "The agent was removed before this message reached it.")?;
    tx.db.execute_cached(
        "UPDATE agents SET removed = 1, queue_waiting = NULL WHERE name = ?1",
        [name.as_str()],
    )?;
    tx.emit("agent_stopped", object("agent", &Agent { status: Status::Stopped, ..record.agent }))?;
    tx.wake_agent(name);
    Ok(())
}

/// Records what a person wants.
pub(crate) fn set_desired(tx: &mut Tx<'_>, tmux_socket: &str, request: &SetDesired) -> Outcome<AgentRecord> {
    must_exist(tx.db, &request.name)?;
    tx.db.execute_cached(
        "UPDATE agents SET desired = ?2, restarts = 0 WHERE name = ?1",
        [request.name.as_str(), &word(request.desired)],
    )?;
    if request.by_person && request.desired == Desired::Stopped {
        settle::agent_gone(tx, &request.name, settle::Gone::Stopped)?;
    }
    tx.wake_agent(&request.name);
    load(tx.db, tmux_socket, &request.name)
}

/// Records a launch before it is made. Whatever launch was there before is over.
pub(crate) fn begin_launch(
    tx: &mut Tx<'_>,
    tmux_socket: &str,
    request: &BeginLaunch,
) -> Outcome<AgentRecord> {
    let record = load(tx.db, tmux_socket, &request.name)?;
    match &record.launch {
        Some(launch) if launch.id == request.launch => return Ok(record),
        Some(launch) => {
            let end = EndLaunch {
                name: request.name.clone(),
                launch: launch.id.clone(),
                resumable: true,
                needs_person: None,
            };
            end_launch(tx, tmux_socket, &end)?;
        }
        None => {}
    }
    tx.db.execute_cached(
        "INSERT INTO launches (id, agent, token_hash, tmux_session, begun_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        rusqlite::params![
            request.launch.as_str(),
            request.name.as_str(),
            request.token_hash,
            request.tmux_session,
            tx.now.millis()
        ],
    )?;
    tx.db.execute_cached(
        "UPDATE agents SET launch = ?2, status = 'starting', activity = 'unknown', waiting_for = NULL, pane = NULL,
         pid = NULL, restarts = restarts + ?3, last_activity_at = ?4 WHERE name = ?1",
        rusqlite::params![
            request.name.as_str(),
            request.launch.as_str(),
            i64::from(request.crash_restart),
            tx.now.millis()
        ],
    )?;
    changed(tx, tmux_socket, "agent_spawned", &request.name)
}

/// Records what was seen of the current launch.
pub(crate) fn report(tx: &mut Tx<'_>, tmux_socket: &str, request: &ReportAgent) -> Outcome<AgentRecord> {
    let before = load(tx.db, tmux_socket, &request.name)?;
    must_be_current(&before, &request.launch)?;
    let patch = &request.patch;
    tx.db.execute_cached(
        "UPDATE agents SET status = coalesce(?2, status), activity = coalesce(?3, activity),
         waiting_for = CASE WHEN ?4 IS NULL THEN waiting_for WHEN ?4 = '' THEN NULL ELSE ?4 END,
         pane = coalesce(?5, pane), pid = coalesce(?6, pid), session_id = coalesce(?7, session_id),
         route = coalesce(?8, route) WHERE name = ?1",
        rusqlite::params![
            request.name.as_str(),
            patch.status.map(word),
            patch.activity.map(word),
            patch.waiting_for,
            patch.pane,
            patch.pid,
            patch.session_id,
            patch.route.map(word),
        ],
    )?;
    // The dialog that was there is not any more: the terminal has settled what had opened before.
    if let (Some(at_ms), Some(Activity::Working | Activity::Idle)) = (patch.status_at_ms, patch.activity) {
        settle::main_prompts(tx, &request.name, at_ms)?;
    }
    let after = load(tx.db, tmux_socket, &request.name)?;
    if before == after {
        return Ok(after);
    }
    let only_activity =
        before.agent.status == after.agent.status && before.agent.activity != after.agent.activity;
    let kind = if only_activity { "agent_activity" } else { "agent_state_changed" };
    tx.emit(kind, object("agent", &after.agent))?;
    Ok(after)
}

/// Records that a launch is over.
pub(crate) fn end_launch(tx: &mut Tx<'_>, tmux_socket: &str, request: &EndLaunch) -> Outcome<AgentRecord> {
    let record = load(tx.db, tmux_socket, &request.name)?;
    if record.launch.as_ref().map(|l| &l.id) != Some(&request.launch) {
        // Said before, or a launch that another one has replaced.
        return Ok(record);
    }
    tx.db.execute_cached(
        "UPDATE launches SET ended_at = ?2 WHERE id = ?1 AND ended_at IS NULL",
        rusqlite::params![request.launch.as_str(), tx.now.millis()],
    )?;
    let resume = record.agent.session_id.filter(|_| request.resumable);
    tx.db.execute_cached(
        "UPDATE agents SET launch = NULL, status = 'stopped', waiting_for = ?4, pane = NULL, pid = NULL,
         activity = CASE WHEN ?4 IS NULL THEN 'unknown' ELSE 'needs_input' END,
         resume_session = ?2, last_activity_at = ?3 WHERE name = ?1",
        rusqlite::params![request.name.as_str(), resume, tx.now.millis(), request.needs_person],
    )?;
    turn::end_running(tx, &request.name, TurnState::Interrupted)?;
    changed(tx, tmux_socket, "agent_stopped", &request.name)
}

/// Refuses what belongs to a launch that is over: 409 `stale_launch`.
pub(crate) fn must_be_current(record: &AgentRecord, launch: &LaunchId) -> Outcome<()> {
    if record.launch.as_ref().map(|l| &l.id) == Some(launch) {
        return Ok(());
    }
    let text = format!("launch {launch} of `{}` is over", record.agent.name);
    Err(Fault::new("stale_launch", text).into())
}

/// Keeps the reason why pending messages wait, and tells the apps about the first of them.
pub(crate) fn set_waiting(tx: &mut Tx<'_>, request: &SetWaiting) -> Outcome<()> {
    must_exist(tx.db, &request.agent)?;
    let reason: Option<String> = request.waiting_for.map(word::<WaitingFor>);
    let changed = tx.db.execute_cached(
        "UPDATE agents SET queue_waiting = ?2 WHERE name = ?1 AND queue_waiting IS NOT ?2",
        rusqlite::params![request.agent.as_str(), reason],
    )?;
    if changed > 0
        && let Some(first) = crate::delivery::first_queued(tx.db, &request.agent)?
    {
        message::emit_changed(tx, &first, "state")?;
    }
    Ok(())
}

/// Whose token this is. Only the current launch's token is good, or one of a headless run's that is not
/// over.
pub(crate) fn authenticate(db: &Connection, request: &AuthAgent) -> Outcome<AgentIdentity> {
    if let Some(run) = of_run(db, &request.token_hash)? {
        return Ok(run);
    }
    let found: Option<(String, String)> = db
        .prepare_cached(
            "SELECT l.agent, l.id FROM launches l JOIN agents a ON a.name = l.agent AND a.launch = l.id
             WHERE l.token_hash = ?1 AND a.removed = 0",
        )?
        .query_row([&request.token_hash], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    identity(found)
}

/// Whose token this is, launches that are over included: an event that happened stays true.
pub(crate) fn authenticate_any(db: &Connection, token_hash: &str) -> Outcome<AgentIdentity> {
    let found: Option<(String, String)> = db
        .prepare_cached(
            "SELECT l.agent, l.id FROM launches l JOIN agents a ON a.name = l.agent
             WHERE l.token_hash = ?1 AND a.removed = 0",
        )?
        .query_row([token_hash], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    identity(found)
}

fn identity(found: Option<(String, String)>) -> Outcome<AgentIdentity> {
    let denied = || Fault::new("unauthorized", "this token belongs to no agent that runs now");
    let (name, launch) = found.ok_or_else(denied)?;
    let name = AgentName::try_from(name).map_err(|e| Fault::internal(e.to_string()))?;
    Ok(AgentIdentity { name, launch: LaunchId(launch), run: None })
}

/// The headless run that a token was made for, which speaks in its owner's thread.
fn of_run(db: &Connection, token_hash: &str) -> Outcome<Option<AgentIdentity>> {
    let found: Option<(String, String, String)> = db
        .prepare_cached(
            "SELECT r.agent, r.id, r.task FROM runs r JOIN agents a ON a.name = r.agent
             WHERE r.token_hash = ?1 AND r.state = 'running' AND r.message_id IS NULL AND a.removed = 0",
        )?
        .query_row([token_hash], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((name, run_id, task)) = found else { return Ok(None) };
    let name = AgentName::try_from(name).map_err(|e| Fault::internal(e.to_string()))?;
    Ok(Some(AgentIdentity { name, launch: LaunchId(run_id.clone()), run: Some(Run { task, run_id }) }))
}

/// Sets an agent's activity from a hook, with its event when it changed.
pub(crate) fn set_activity(
    tx: &mut Tx<'_>,
    tmux_socket: &str,
    name: &AgentName,
    activity: Activity,
) -> Outcome<()> {
    let changed = tx.db.execute_cached(
        "UPDATE agents SET activity = ?2, last_activity_at = ?3 WHERE name = ?1 AND activity <> ?2",
        rusqlite::params![name.as_str(), word(activity), tx.now.millis()],
    )?;
    if changed > 0 {
        let record = load(tx.db, tmux_socket, name)?;
        tx.emit("agent_activity", object("agent", &record.agent))?;
    }
    Ok(())
}
