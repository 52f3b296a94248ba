//! What every route can reach.

use crate::{
    auth::{Identities, Operator},
    live::Live,
    rate::Rates,
};
use leo_ipc::{
    agents::AgentsRequest, client::Client, config::Config, control::WorkerStatus, hub::HubRequest,
    paths::Home,
};
use std::{ops::Deref, sync::Arc, time::Duration};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long the hub may take to answer a call.
pub(crate) const HUB_DEADLINE: Duration = Duration::from_secs(10);

/// How long the agents worker may take: stopping a harness gives it seconds to end by itself.
pub(crate) const AGENTS_DEADLINE: Duration = Duration::from_secs(30);

/// The router's state; clones are one.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

/// What it is made of.
pub(crate) struct Parts {
    /// The home folder, where uploads are written.
    pub(crate) home: Home,
    /// Changes with each start of the supervisor.
    pub(crate) boot_id: String,
    /// For `/health`.
    pub(crate) supervisor_pid: u32,
    /// The hub.
    pub(crate) hub: Client<HubRequest>,
    /// The agents worker.
    pub(crate) agents: Client<AgentsRequest>,
    /// The event stream's source.
    pub(crate) live: Arc<Live>,
    /// The operator's token and sessions.
    pub(crate) operator: Operator,
    /// Agents' tokens.
    pub(crate) identities: Identities,
    /// How often API clients spoke.
    pub(crate) rates: Rates,
    /// The configuration.
    pub(crate) config: watch::Receiver<Config>,
    /// All workers, for `/health`.
    pub(crate) workers: watch::Receiver<Vec<WorkerStatus>>,
    /// Cancelled when this worker should finish.
    pub(crate) drain: CancellationToken,
}

impl App {
    /// The state of these parts.
    pub(crate) fn new(parts: Parts) -> App {
        App(Arc::new(parts))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
