//! The system about itself: health, version, state.

use crate::{
    answer::{Answer, Data, Refusals, Success},
    app::{App, HUB_DEADLINE},
    auth::{Principal, Trust, principal},
};
use axum::{Extension, extract::State};
use http::HeaderMap;
use leo_ipc::{
    Time,
    control::{WorkerState, WorkerStatus},
    event::{GetState, State as HubState},
    version::BUILD,
};
use serde::Serialize;
use utoipa::ToSchema;

/// Whether the system can be used. Without a token on TCP only the first two fields are there.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// Build.
    version: &'static str,
    /// Whether the hub answers, without which nothing else does.
    ready: bool,
    /// The supervisor's process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Changes with each start of the supervisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    boot_id: Option<String>,
    /// The workers, as the supervisor last saw them.
    #[serde(skip_serializing_if = "Option::is_none")]
    workers: Option<Vec<WorkerHealth>>,
}

/// One worker.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkerHealth {
    /// `hub`, `http`, `agents`, `mcp:<agent>`.
    name: String,
    /// Its process, when it has one.
    pid: Option<u32>,
    /// Its state.
    state: WorkerState,
    /// Starts after the first.
    restarts: u64,
    /// Seconds since its process was started; 0 when it has none.
    uptime_s: u64,
    /// Why it is degraded, failed or in backoff.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl WorkerHealth {
    fn of(status: &WorkerStatus, now: Time) -> WorkerHealth {
        let uptime_ms = status.since.map_or(0, |since| now.millis().saturating_sub(since.millis()));
        WorkerHealth {
            name: status.name.clone(),
            pid: status.pid,
            state: status.state,
            restarts: status.restarts,
            uptime_s: u64::try_from(uptime_ms / 1000).unwrap_or(0),
            reason: status.reason.clone(),
        }
    }
}

/// Whether the system can be used.
#[utoipa::path(get, operation_id = "health", path = "/health", tag = "system",
    responses((status = 200, body = Success<Health>), Refusals), security((), ("operator" = []), ("session" = [])))]
pub(crate) async fn health(
    State(app): State<App>,
    Extension(trust): Extension<Trust>,
    headers: HeaderMap,
) -> Answer<Health> {
    let full = matches!(principal(&app, trust, &headers).await, Ok(Principal::Operator));
    let now = Time::now();
    let workers = || app.workers.borrow().iter().map(|status| WorkerHealth::of(status, now)).collect();
    Ok(Data::ok(Health {
        version: BUILD,
        ready: app.live.connected(),
        pid: full.then_some(app.supervisor_pid),
        boot_id: full.then(|| app.boot_id.clone()),
        workers: full.then(workers),
    }))
}

/// What this build is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Version {
    /// Build.
    version: &'static str,
    /// Version of this API, in its paths too.
    api: u32,
    /// What this build can do, as the event stream's hello lists it.
    features: Vec<&'static str>,
}

/// What this build is and can do.
#[utoipa::path(get, operation_id = "version", path = "/version", tag = "system",
    responses((status = 200, body = Success<Version>), Refusals), security(()))]
pub(crate) async fn version() -> Answer<Version> {
    Ok(Data::ok(Version { version: BUILD, api: 1, features: crate::live::FEATURES.to_vec() }))
}

/// Everything that an app begins with, as of one event (`meta`). After a gap in the event stream, fetch
/// this and apply only what is newer.
#[utoipa::path(get, operation_id = "get_state", path = "/api/v1/state", tag = "events",
    responses((status = 200, body = Success<HubState>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn state(State(app): State<App>) -> Answer<HubState> {
    Ok(Data::ok(app.hub.call(GetState {}, HUB_DEADLINE).await?))
}
