//! Under which run a post or an ask is filed, and in whose thread (seed 001, "Agent tools"): a headless
//! run's by its token, a persistent task's by the turn that is in flight.

use crate::{error::Outcome, statements::Cached, writer::Tx};
use leo_ipc::{AgentName, MessageId, ask::Run};
use rusqlite::{Connection, OptionalExtension, Row};

/// A run that something is filed under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filed {
    /// The run.
    pub(crate) run: Run,
    /// Its owner's thread.
    pub(crate) thread: AgentName,
    /// Whether it is a process of its own.
    pub(crate) headless: bool,
}

/// The run under which to file what `agent` posts or asks now.
pub(crate) fn filed(db: &Connection, agent: &AgentName, run: Option<&Run>) -> Outcome<Option<Filed>> {
    let found = match run {
        // The token has said whose run it is; that it still runs is checked here.
        Some(run) => db
            .prepare_cached(
                "SELECT id, task, agent, message_id IS NULL FROM runs WHERE id = ?1 AND agent = ?2 AND state = 'running'",
            )?
            .query_row([run.run_id.as_str(), agent.as_str()], row)
            .optional()?,
        None => db
            .prepare_cached(
                "SELECT r.id, r.task, r.agent, 0 FROM turns t JOIN runs r ON r.message_id = t.message_id
                 WHERE t.agent = ?1 AND t.state = 'running' AND r.state = 'running'",
            )?
            .query_row([agent.as_str()], row)
            .optional()?,
    };
    Ok(found)
}

fn row(row: &Row<'_>) -> Result<Filed, rusqlite::Error> {
    let thread = AgentName::try_from(row.get::<_, String>(2)?).map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, Box::new(e))
    })?;
    let run = Run { run_id: row.get(0)?, task: row.get(1)? };
    Ok(Filed { run, thread, headless: row.get(3)? })
}

/// The thread of what is filed, else the agent's own.
pub(crate) fn thread_of<'a>(agent: &'a AgentName, filed: Option<&'a Filed>) -> &'a AgentName {
    filed.map_or(agent, |filed| &filed.thread)
}

/// The threads into which an agent has posted: its own, and those of tasks that ran in it. A call that
/// is made again is looked for in all of them, since its turn may be over by then.
pub(crate) fn threads_of(db: &Connection, agent: &AgentName) -> Outcome<Vec<AgentName>> {
    let mut statement = db.prepare_cached(
        "SELECT DISTINCT agent FROM runs WHERE runs_in = ?1 AND agent IS NOT NULL AND agent <> ?1",
    )?;
    let rows = statement.query_map([agent.as_str()], |row| row.get::<_, String>(0))?;
    let mut threads = vec![agent.clone()];
    for thread in rows {
        threads.extend(AgentName::try_from(thread?).ok());
    }
    Ok(threads)
}

/// Puts a message under a run.
pub(crate) fn file(tx: &Tx<'_>, id: &MessageId, task: &str, run_id: &str) -> Outcome<()> {
    tx.db.execute_cached(
        "UPDATE messages SET task = ?2, run_id = ?3 WHERE id = ?1",
        [id.as_str(), task, run_id],
    )?;
    Ok(())
}

/// Whether a run has no agent that a late answer could go to. One that is no longer known has none.
pub(crate) fn is_headless(db: &Connection, run_id: &str) -> Outcome<bool> {
    let found: Option<bool> = db
        .prepare_cached("SELECT message_id IS NULL FROM runs WHERE id = ?1")?
        .query_row([run_id], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or(true))
}
