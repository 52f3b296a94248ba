//! Tasks as the hub keeps them: how far each schedule was followed, the runs, whose thread they belong
//! to, and the cards of those that failed. It knows no cron pattern and starts nothing.

mod card;
mod filing;
mod owner;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use card::report as report_failure;
pub(crate) use filing::{file, filed, is_headless, thread_of, threads_of};
pub(crate) use run::{
    attempt, begin, claim, delivery_cancelled, delivery_failed, end, expire_asks, turn_ended,
};

use crate::{agent, error::Outcome, message::from_word, writer::Tx};
use leo_ipc::{
    AgentName, Fault, MessageId, TaskName, Time,
    config::{Config, TaskConfig},
    task::{EnableTask, Followup, KEPT_RUNS, ListRuns, Runs, Schedules, SyncTasks, TaskInfo, TaskRun, Tasks},
};
use owner::{Known, Owner};
use rusqlite::{Connection, OptionalExtension, Row};

/// How far the clock may go back without a schedule being followed again from there: more than any two
/// zones are apart, so that what ran at 3 does not run again when it is 2 once more.
const MAX_AHEAD_MS: i64 = 26 * 3600 * 1000;

const COLUMNS: &str = "id, task, trigger, state, agent, due_at, started_at, ended_at, attempts, exit_code, error, \
     log_path, message_id";

fn from_row(row: &Row<'_>) -> Result<TaskRun, rusqlite::Error> {
    let bad = |e: Box<dyn std::error::Error + Send + Sync>| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, e)
    };
    let time = |at: Option<i64>| at.map(Time::from_millis);
    let agent: Option<String> = row.get(4)?;
    Ok(TaskRun {
        id: row.get(0)?,
        task: TaskName::try_from(row.get::<_, String>(1)?).map_err(|e| bad(Box::new(e)))?,
        trigger: from_word(row.get(2)?)?,
        state: from_word(row.get(3)?)?,
        agent: agent.map(AgentName::try_from).transpose().map_err(|e| bad(Box::new(e)))?,
        due_at: time(row.get(5)?),
        started_at: time(row.get(6)?),
        ended_at: time(row.get(7)?),
        attempts: row.get(8)?,
        exit_code: row.get(9)?,
        error: row.get(10)?,
        log_path: row.get(11)?,
        message_id: row.get::<_, Option<String>>(12)?.map(MessageId),
    })
}

fn find(db: &Connection, id: &str) -> Outcome<Option<TaskRun>> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE id = ?1"))?;
    Ok(statement.query_row([id], from_row).optional()?)
}

fn load(db: &Connection, id: &str) -> Outcome<TaskRun> {
    let unknown = || Fault::new("unknown_run", format!("there is no run `{id}`"));
    Ok(find(db, id)?.ok_or_else(unknown)?)
}

fn configured<'a>(config: &'a Config, name: &TaskName) -> Outcome<&'a TaskConfig> {
    let unknown =
        || Fault::new("unknown_task", format!("there is no task `{name}` in this home's configuration"));
    Ok(config.tasks.get(name).ok_or_else(unknown)?)
}

fn known_agents(db: &Connection) -> Outcome<Vec<Known>> {
    let mut statement =
        db.prepare_cached("SELECT name, config FROM agents WHERE removed = 0 ORDER BY name")?;
    let mut rows = statement.query([])?;
    let mut agents = Vec::new();
    while let Some(row) = rows.next()? {
        let Ok(name) = AgentName::try_from(row.get::<_, String>(0)?) else { continue };
        let config: leo_ipc::config::AgentConfig =
            serde_json::from_str(&row.get::<_, String>(1)?).unwrap_or_default();
        agents.push(Known { name, workspace: config.workspace });
    }
    Ok(agents)
}

/// Resolves a task's owner, and says in its thread when the configured one is no agent. A task that is
/// no longer configured belongs to whom an empty configuration gives it.
fn owner_of(tx: &mut Tx<'_>, config: &Config, name: &TaskName) -> Outcome<AgentName> {
    let agents = known_agents(tx.db)?;
    let plain = TaskConfig::default();
    let Owner { agent, unknown } = owner::resolve(name, config.tasks.get(name).unwrap_or(&plain), &agents);
    let agent: AgentName = agent.parse().map_err(|e| Fault::internal(format!("{e}")))?;
    if agent::must_exist(tx.db, &agent).is_err() {
        let text = format!(
            "task `{name}` belongs to nobody: there is no agent `{agent}`; set tasks.{name}.owner to one that there is"
        );
        return Err(Fault::new("unknown_agent", text).into());
    }
    if let Some(unknown) = unknown {
        let shown: String = unknown.chars().take(100).flat_map(char::escape_debug).collect();
        let text = format!(
            "The task {name} is owned by `{shown}`, which is no agent here, so what it posts comes to {agent}. \
             Set tasks.{name}.owner in leo.yaml."
        );
        crate::note::post(tx, &agent, &format!("owner:{name}:{unknown}"), &text)?;
    }
    Ok(agent)
}

fn enabled(task: &TaskConfig, word: Option<bool>) -> bool {
    word.unwrap_or(task.enabled)
}

fn info(db: &Connection, name: &TaskName, task: &TaskConfig, agents: &[Known]) -> Outcome<TaskInfo> {
    let row: Option<(Option<i64>, Option<bool>, u32)> = db
        .prepare_cached("SELECT next_at, enabled, failures FROM tasks WHERE name = ?1")?
        .query_row([name.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let (next_at, word, failures) = row.unwrap_or_default();
    let enabled = enabled(task, word);
    let owner = owner::resolve(name, task, agents).agent;
    Ok(TaskInfo {
        name: name.clone(),
        schedule: task.schedule.clone(),
        timezone: task.timezone.clone(),
        enabled,
        runtime: task.runtime,
        agent: agents.iter().find(|agent| agent.name.as_str() == owner).map(|agent| agent.name.clone()),
        next_at: next_at.filter(|_| enabled && task.schedule.is_some()).map(Time::from_millis),
        failures,
        last_run: runs(db, name, 1)?.pop(),
    })
}

/// All tasks of the configuration.
pub(crate) fn list(db: &Connection, config: &Config) -> Outcome<Tasks> {
    let agents = known_agents(db)?;
    let tasks = config.tasks.iter().map(|(name, task)| info(db, name, task, &agents));
    Ok(Tasks { tasks: tasks.collect::<Outcome<_>>()? })
}

fn runs(db: &Connection, name: &TaskName, limit: u32) -> Outcome<Vec<TaskRun>> {
    let mut statement =
        db.prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE task = ?1 ORDER BY id DESC LIMIT ?2"))?;
    let rows = statement.query_map(rusqlite::params![name.as_str(), limit], from_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The newest runs of a task; of one that is no longer configured too.
pub(crate) fn list_runs(db: &Connection, config: &Config, request: &ListRuns) -> Outcome<Runs> {
    let runs = runs(db, &request.task, request.limit.clamp(1, KEPT_RUNS))?;
    if runs.is_empty() {
        configured(config, &request.task)?;
    }
    Ok(Runs { runs })
}

/// Follows a schedule or no longer. One that is followed again counts from now on.
pub(crate) fn enable(tx: &mut Tx<'_>, config: &Config, request: &EnableTask) -> Outcome<TaskInfo> {
    let task = configured(config, &request.task)?;
    let word: Option<bool> = tx
        .db
        .query_row("SELECT enabled FROM tasks WHERE name = ?1", [request.task.as_str()], |row| row.get(0))
        .optional()?
        .flatten();
    if enabled(task, word) != request.enabled {
        let word = (task.enabled != request.enabled).then_some(request.enabled);
        tx.db.execute(
            "INSERT INTO tasks (name, enabled, cursor) VALUES (?1, ?2, ?3)
             ON CONFLICT (name) DO UPDATE SET enabled = ?2, cursor = ?3",
            rusqlite::params![request.task.as_str(), word, tx.now.millis()],
        )?;
        tx.tasks_changed();
    }
    info(tx.db, &request.task, task, &known_agents(tx.db)?)
}

/// Takes over what the tasks worker follows, and says how far each schedule was followed.
pub(crate) fn sync(tx: &mut Tx<'_>, config: &Config, request: &SyncTasks) -> Outcome<Schedules> {
    let mut tasks = Vec::with_capacity(request.tasks.len());
    for followed in &request.tasks {
        let row: Option<(Option<String>, Option<i64>, Option<bool>)> = tx
            .db
            .query_row(
                "SELECT schedule, cursor, enabled FROM tasks WHERE name = ?1",
                [followed.name.as_str()],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        let (schedule, cursor, word) = row.unwrap_or_default();
        let same = schedule.as_deref() == Some(followed.schedule.as_str());
        let now = tx.now.millis();
        // A cursor far in the future is what a wrong clock left behind: it would hold the task for good.
        let cursor = cursor.filter(|cursor| same && *cursor <= now + MAX_AHEAD_MS).unwrap_or(now);
        tx.db.execute(
            "INSERT INTO tasks (name, schedule, cursor, next_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (name) DO UPDATE SET schedule = ?2, cursor = ?3, next_at = ?4
             WHERE schedule IS NOT ?2 OR cursor IS NOT ?3 OR next_at IS NOT ?4",
            rusqlite::params![
                followed.name.as_str(),
                followed.schedule,
                cursor,
                followed.next_at.map(Time::millis)
            ],
        )?;
        let plain = TaskConfig::default();
        let task = config.tasks.get(&followed.name).unwrap_or(&plain);
        tasks.push(Followup {
            name: followed.name.clone(),
            cursor: Time::from_millis(cursor),
            enabled: enabled(task, word),
        });
    }
    let mut statement = tx.db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM runs WHERE state IN ('queued', 'running') ORDER BY id"
    ))?;
    let open = statement.query_map([], from_row)?.collect::<Result<_, _>>()?;
    Ok(Schedules { tasks, open })
}
