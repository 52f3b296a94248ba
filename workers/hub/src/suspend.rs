//! Letting an idle agent rest: whether anything is going on that the hub knows of, and the wish for it
//! to be stopped until something is asked of it. What the terminal shows is the agents worker's part.

use crate::{agent, delivery, error::Outcome, statements::Cached, turn, writer::Tx};
use leo_ipc::{
    AgentName, Fault, Time,
    agent::{AgentRecord, SuspendAgent},
};
use rusqlite::{Connection, OptionalExtension};

/// Records that the agent may rest. A message that is accepted afterwards wakes it; one that was
/// accepted before is seen here.
pub(crate) fn suspend(tx: &mut Tx<'_>, tmux_socket: &str, request: &SuspendAgent) -> Outcome<AgentRecord> {
    let record = agent::load(tx.db, tmux_socket, &request.name)?;
    agent::must_be_current(&record, &request.launch)?;
    if let Some(obstacle) = obstacle(tx.db, &request.name, tx.now)? {
        return Err(Fault::new("not_idle", format!("`{}` is not idle: {obstacle}", request.name)).into());
    }
    tx.db
        .execute_cached("UPDATE agents SET desired = 'suspended' WHERE name = ?1", [request.name.as_str()])?;
    agent::load(tx.db, tmux_socket, &request.name)
}

/// What is going on, in words.
fn obstacle(db: &Connection, name: &AgentName, now: Time) -> Outcome<Option<&'static str>> {
    if turn::running(db, name)?.is_some() {
        return Ok(Some("a turn runs"));
    }
    if delivery::next(db, name).map(|next| next.delivery.is_some() || next.in_doubt.is_some())?
        || delivery::has_unbound(db, name, now)?
    {
        return Ok(Some("a message is on its way"));
    }
    // An ask nobody waits for is answered by a message, which wakes the agent. A blocked call (its key
    // begins with its launch) and a harness's own dialog end with the process.
    let waits: Option<i64> = db
        .prepare_cached(
            "SELECT 1 FROM asks JOIN agents ON name = coalesce(asker, agent)
             WHERE name = ?1 AND state = 'open' AND (kind <> 'ask' OR instr(waiter, launch) = 1)",
        )?
        .query_row([name.as_str()], |row| row.get(0))
        .optional()?;
    Ok(waits.map(|_| "a call waits for a person"))
}
