//! Agents: what they are, and what a person tells them to do (WIRE.md §6).

use crate::{
    answer::{Answer, Data, Refusal, Refusals, Success},
    app::{AGENTS_DEADLINE, App, HUB_DEADLINE},
    extract::{AgentPath, Json, Key, Optional, Query},
};
use axum::extract::State;
use leo_ipc::{
    AgentName,
    agent::{Agent, AgentRecord, GetAgent, ListAgents, PutAgent, Source},
    agents::{
        AgentLogs, AttachCommand, AttachSpec, ClearContext, CompactContext, DeleteAgent, InterruptAgent,
        LogText, MAX_INSTRUCTIONS, RestartAgent, StartAgent, StopAgent,
    },
    config::{AgentConfig, Harness},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};
use utoipa::{IntoParams, ToSchema};

/// Most lines of a terminal that can be asked for.
const MAX_LINES: u32 = 5000;

/// Lines when the caller does not say.
const DEFAULT_LINES: u32 = 200;

/// Which agent.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its schema is used; the extractor reads the path itself")]
pub(crate) struct AgentParam {
    /// Its name.
    agent: String,
}

/// All agents.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Agents {
    /// By name.
    agents: Vec<Agent>,
}

/// All agents, by name.
#[utoipa::path(get, operation_id = "list_agents", path = "/api/v1/agents", tag = "agents",
    responses((status = 200, body = Success<Agents>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn list(State(app): State<App>) -> Answer<Agents> {
    let records = app.hub.call(ListAgents {}, HUB_DEADLINE).await?.agents;
    Ok(Data::ok(Agents { agents: records.into_iter().map(|record| record.agent).collect() }))
}

/// A new agent.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewAgent {
    /// Its name.
    name: AgentName,
    /// Which program it is.
    harness: Harness,
    /// Absolute path of the folder it works in.
    workspace: String,
    /// Model name for the harness.
    model: Option<String>,
    /// Environment variables added to its own.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Arguments added to the harness's command line.
    #[serde(default)]
    args: Vec<String>,
    /// Whether to start it now and with the supervisor; true unless given.
    autostart: Option<bool>,
    /// Seconds without anything to do after which it is stopped until a message comes; never unless given.
    idle_suspend_after_s: Option<u64>,
    /// Claude's permission mode.
    permission_mode: Option<String>,
}

impl NewAgent {
    fn into_request(self) -> Result<PutAgent, Refusal> {
        if !matches!(self.harness, Harness::Claude | Harness::Demo) {
            return Err(Refusal::bad_request("at $.harness: this build runs `claude` and `demo`"));
        }
        if !Path::new(&self.workspace).is_absolute() {
            return Err(Refusal::bad_request("at $.workspace: must be an absolute path"));
        }
        let config = AgentConfig {
            harness: self.harness,
            workspace: self.workspace,
            model: self.model,
            env: self.env,
            args: self.args,
            autostart: self.autostart.unwrap_or(true),
            idle_suspend_after_s: self.idle_suspend_after_s.filter(|seconds| *seconds > 0),
            permission_mode: self.permission_mode,
        };
        Ok(PutAgent { name: self.name, config, source: Source::Api, must_be_new: true, key: None })
    }
}

/// Defines an agent and, unless `autostart` is false, starts it. 409 `agent_exists` when there is one.
#[utoipa::path(post, operation_id = "create_agent", path = "/api/v1/agents", tag = "agents", request_body = NewAgent,
    responses((status = 201, body = Success<Agent>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn create(
    State(app): State<App>,
    Key(key): Key,
    Json(body): Json<NewAgent>,
) -> Answer<Agent> {
    let request = PutAgent { key: Some(key), ..body.into_request()? };
    let (name, start) = (request.name.clone(), request.config.autostart);
    let record = app.hub.call(request, HUB_DEADLINE).await?;
    if !start {
        return Ok(Data::created(record.agent));
    }
    match app.agents.call(StartAgent { name }, AGENTS_DEADLINE).await {
        Ok(record) => Ok(Data::created(record.agent)),
        Err(error) => {
            // It is defined, which is what was asked for first; the agents worker goes on trying, and
            // the agent's own state says what is in the way.
            tracing::warn!(error = %error, "a new agent could not be started at once");
            Ok(Data::created(record.agent))
        }
    }
}

/// One agent.
#[utoipa::path(get, operation_id = "get_agent", path = "/api/v1/agents/{agent}", tag = "agents", params(AgentParam),
    responses((status = 200, body = Success<Agent>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn get(State(app): State<App>, AgentPath(name): AgentPath) -> Answer<Agent> {
    Ok(Data::ok(app.hub.call(GetAgent { name }, HUB_DEADLINE).await?.agent))
}

/// An agent that is gone.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Removed {
    /// Its name.
    name: AgentName,
    /// Always true.
    removed: bool,
}

/// Ends an agent's process and forgets it; its thread stays readable.
#[utoipa::path(delete, operation_id = "remove_agent", path = "/api/v1/agents/{agent}", tag = "agents", params(AgentParam),
    responses((status = 200, body = Success<Removed>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn remove(State(app): State<App>, AgentPath(name): AgentPath) -> Answer<Removed> {
    app.agents.call(DeleteAgent { name: name.clone() }, AGENTS_DEADLINE).await?;
    Ok(Data::ok(Removed { name, removed: true }))
}

/// Starts an agent; a running one stays as it is.
#[utoipa::path(post, operation_id = "start_agent", path = "/api/v1/agents/{agent}/start", tag = "agents", params(AgentParam),
    responses((status = 200, body = Success<Agent>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn start(State(app): State<App>, AgentPath(name): AgentPath) -> Answer<Agent> {
    shown(app.agents.call(StartAgent { name }, AGENTS_DEADLINE).await?)
}

/// Stops an agent until a message or a person starts it.
#[utoipa::path(post, operation_id = "stop_agent", path = "/api/v1/agents/{agent}/stop", tag = "agents", params(AgentParam),
    responses((status = 200, body = Success<Agent>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn stop(State(app): State<App>, AgentPath(name): AgentPath) -> Answer<Agent> {
    shown(app.agents.call(StopAgent { name }, AGENTS_DEADLINE).await?)
}

/// Stops and starts an agent; its session goes on.
#[utoipa::path(post, operation_id = "restart_agent", path = "/api/v1/agents/{agent}/restart", tag = "agents", params(AgentParam),
    responses((status = 200, body = Success<Agent>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn restart(State(app): State<App>, AgentPath(name): AgentPath) -> Answer<Agent> {
    shown(app.agents.call(RestartAgent { name }, AGENTS_DEADLINE).await?)
}

/// Interrupts the running turn, as Esc in the terminal does.
#[utoipa::path(post, operation_id = "interrupt_agent", path = "/api/v1/agents/{agent}/interrupt", tag = "agents", params(AgentParam),
    responses((status = 200, body = Success<Agent>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn interrupt(State(app): State<App>, AgentPath(name): AgentPath) -> Answer<Agent> {
    app.agents.call(InterruptAgent { name: name.clone() }, AGENTS_DEADLINE).await?;
    shown(app.hub.call(GetAgent { name }, HUB_DEADLINE).await?)
}

/// Empties the context of an agent that has nothing to do: it begins a new session, and its thread stays.
/// 409 `agent_busy` while a turn runs or something is written in its terminal, 409 `agent_refused` when it
/// did not do it.
#[utoipa::path(post, operation_id = "clear_agent", path = "/api/v1/agents/{agent}/clear", tag = "agents", params(AgentParam),
    responses((status = 200, body = Success<Agent>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn clear(
    State(app): State<App>,
    AgentPath(name): AgentPath,
    Key(key): Key,
) -> Answer<Agent> {
    app.agents.call(ClearContext { name: name.clone(), key }, AGENTS_DEADLINE).await?;
    shown(app.hub.call(GetAgent { name }, HUB_DEADLINE).await?)
}

/// What a summary is to keep.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Compaction {
    /// In words, at most 4 KiB.
    instructions: Option<String>,
}

/// Puts a summary in the place of the context of an agent that has nothing to do. Answered as soon as it is
/// at it; the thread says how it ends. Refused as `clear` is.
#[utoipa::path(post, operation_id = "compact_agent", path = "/api/v1/agents/{agent}/compact", tag = "agents", params(AgentParam),
    request_body = Compaction,
    responses((status = 202, body = Success<Agent>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn compact(
    State(app): State<App>,
    AgentPath(name): AgentPath,
    Key(key): Key,
    Optional(body): Optional<Compaction>,
) -> Answer<Agent> {
    let instructions = body
        .and_then(|body| body.instructions)
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty());
    if let Some(length) = instructions.as_ref().map(String::len).filter(|length| *length > MAX_INSTRUCTIONS) {
        let text = format!("at $.instructions: at most {MAX_INSTRUCTIONS} bytes, found {length}");
        return Err(Refusal::bad_request(text));
    }
    app.agents.call(CompactContext { name: name.clone(), instructions, key }, AGENTS_DEADLINE).await?;
    let record = app.hub.call(GetAgent { name }, HUB_DEADLINE).await?;
    Ok(Data::accepted(true, record.agent))
}

fn shown(record: AgentRecord) -> Answer<Agent> {
    Ok(Data::ok(record.agent))
}

/// How much of the terminal.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Lines {
    /// Lines from its end, 1 to 5000; 200 unless given.
    lines: Option<u32>,
}

/// The end of an agent's terminal, as plain text.
#[utoipa::path(get, operation_id = "agent_logs", path = "/api/v1/agents/{agent}/logs", tag = "agents", params(AgentParam, Lines),
    responses((status = 200, body = Success<LogText>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn logs(
    State(app): State<App>,
    AgentPath(name): AgentPath,
    Query(query): Query<Lines>,
) -> Answer<LogText> {
    let lines = query.lines.unwrap_or(DEFAULT_LINES);
    if !(1..=MAX_LINES).contains(&lines) {
        return Err(Refusal::bad_request(format!("in the query: lines: 1 to {MAX_LINES}, found {lines}")));
    }
    Ok(Data::ok(app.agents.call(AgentLogs { name, lines }, AGENTS_DEADLINE).await?))
}

/// How to attach a terminal.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Attach {
    /// Program and arguments.
    argv: Vec<String>,
}

/// The command that attaches a terminal to an agent.
#[utoipa::path(get, operation_id = "agent_attach", path = "/api/v1/agents/{agent}/attach", tag = "agents", params(AgentParam),
    responses((status = 200, body = Success<Attach>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn attach(State(app): State<App>, AgentPath(name): AgentPath) -> Answer<Attach> {
    let AttachCommand { argv } = app.agents.call(AttachSpec { name }, AGENTS_DEADLINE).await?;
    Ok(Data::ok(Attach { argv }))
}
