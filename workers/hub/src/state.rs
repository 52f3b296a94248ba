//! Everything an app begins with, as of one event.

use crate::{agent, chat, error::Outcome, journal};
use leo_ipc::event::{State, StateMeta};
use rusqlite::Connection;

/// Reads the state in the snapshot that `db` holds.
pub(crate) fn snapshot(db: &Connection, epoch: &str, tmux_socket: &str) -> Outcome<State> {
    let (_, seq) = journal::bounds(db)?;
    let agents = agent::list(db, tmux_socket)?.agents.into_iter().map(|record| record.agent).collect();
    Ok(State {
        meta: StateMeta { epoch: epoch.to_owned(), seq },
        agents,
        threads: chat::threads(db)?.threads,
    })
}
