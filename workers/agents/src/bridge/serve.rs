//! The HTTP half of the line.

use super::{
    links::{BETWEEN_POLLS, Found, Links},
    wire::{From, Gone, Hello, News, Permission, Poll, Receive, Report},
};
use crate::{fleet::Event, hub::Hub};
use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use leo_ipc::{
    CallKey, Fault,
    agent::{AgentIdentity, AuthAgent},
    ask::PermissionGone,
    hook::{HookEvent, ReportHook, Source},
    id::token_hash,
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::{net::UnixListener, sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

/// What this build speaks.
const PROTOCOL: u32 = 1;

/// How long a poll waits for a command. Claude's own fetch gives up much later.
const POLL: Duration = Duration::from_secs(25);

/// The same for a mod that is carrying out a command: what it has in hand when it asks, it may be done with
/// before it is answered, and then the same command given again must not wait long.
const POLL_IN_HAND: Duration = Duration::from_secs(1);

/// Largest request: a prompt of a harness with what JSON adds. The hub's frames hold 1 MiB.
const MAX_BODY: usize = 4 * 1024 * 1024;

struct Line {
    links: Arc<Links>,
    hub: Hub,
    fleet: mpsc::Sender<Event>,
}

type Answer = Result<Response, Refusal>;

/// Why a request is refused.
enum Refusal {
    /// The launch is over or was never ours: for good.
    Stale,
    /// Not now.
    Unavailable,
    /// It cannot be understood.
    Bad(String),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, code, text) = match self {
            Refusal::Stale => (StatusCode::GONE, "stale_launch", "this launch is over".to_owned()),
            Refusal::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "ask again".to_owned()),
            Refusal::Bad(text) => (StatusCode::BAD_REQUEST, "bad_request", text),
        };
        (status, Json(json!({ "code": code, "error": text }))).into_response()
    }
}

/// Serves until `stop`.
pub(crate) async fn serve(
    listener: UnixListener,
    links: Arc<Links>,
    hub: Hub,
    fleet: mpsc::Sender<Event>,
    stop: CancellationToken,
) {
    let line = Arc::new(Line { links, hub, fleet });
    let router = Router::new()
        .route("/v1/hello", post(hello))
        .route("/v1/poll", post(poll))
        .route("/v1/report", post(report))
        .route("/v1/receive", post(receive))
        .route("/v1/permission", post(permission))
        .route("/v1/permission/gone", post(gone))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(line);
    // Mods ask again on their own; nothing that waits here is worth a drain.
    tokio::select! {
        served = axum::serve(listener, router) => {
            if let Err(e) = served {
                tracing::error!(error = %e, "the bridge's listener failed");
            }
        }
        () = stop.cancelled() => {}
    }
}

fn token(headers: &HeaderMap) -> Result<String, Refusal> {
    let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let token = given.and_then(|v| v.strip_prefix("Bearer ")).filter(|t| !t.is_empty());
    token.map(str::to_owned).ok_or(Refusal::Stale)
}

fn refusal(fault: Fault) -> Refusal {
    match fault.code.as_str() {
        "unauthorized" | "stale_launch" | "unknown_agent" => Refusal::Stale,
        "bad_request" | "too_large" => Refusal::Bad(fault.message),
        _ => Refusal::Unavailable,
    }
}

impl Line {
    /// The launch that a token belongs to. Only the hub knows, and only the current one is welcome.
    async fn authenticate(&self, headers: &HeaderMap, from: &From) -> Result<AgentIdentity, Refusal> {
        let token_hash = token_hash(&token(headers)?);
        let who = self.hub.ask(AuthAgent { token_hash }).await.map_err(refusal)?;
        if who.launch == from.launch { Ok(who) } else { Err(Refusal::Stale) }
    }

    async fn tell(&self, from: &From, news: News) {
        if let Some(agent) = self.links.agent(from) {
            // A send error means that this process ends.
            let _ = self.fleet.send(Event::Bridge(agent, from.launch.clone(), news)).await;
        }
    }
}

async fn hello(State(line): State<Arc<Line>>, headers: HeaderMap, Json(hello): Json<Hello>) -> Answer {
    if hello.protocol != PROTOCOL {
        return Err(Refusal::Bad(format!("this build speaks protocol {PROTOCOL}")));
    }
    let who = line.authenticate(&headers, &hello.from).await?;
    tracing::info!(agent = %who.name, launch = %who.launch, claude = hello.claude, "a mod is here");
    line.links.greet(&who.name, &hello.from);
    line.tell(&hello.from, News::Up).await;
    Ok(Json(json!({})).into_response())
}

/// A poll that waits. Dropped before its answer, the mod has gone away.
struct Waiting {
    line: Arc<Line>,
    from: From,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(turn) = self.line.links.end_poll(&self.from) else { return };
        let (line, from) = (self.line.clone(), self.from.clone());
        tokio::spawn(async move {
            tokio::time::sleep(BETWEEN_POLLS).await;
            if let Some(agent) = line.links.drop_silent(&from, turn) {
                tracing::info!(agent = %agent, launch = %from.launch, "the mod is gone");
                let _ = line.fleet.send(Event::Bridge(agent, from.launch, News::Down)).await;
            }
        });
    }
}

async fn poll(State(line): State<Arc<Line>>, headers: HeaderMap, Json(poll): Json<Poll>) -> Answer {
    let Poll { from, have } = poll;
    if line.links.agent(&from).is_none() {
        // Whether it is welcome is for its greeting to find out.
        line.authenticate(&headers, &from).await?;
        return Ok(StatusCode::CONFLICT.into_response());
    }
    line.links.begin_poll(&from);
    let _waiting = Waiting { line: line.clone(), from: from.clone() };
    let until = Instant::now() + if have.is_empty() { POLL } else { POLL_IN_HAND };
    loop {
        let wake = match line.links.find(&from, &have) {
            Found::Command(command) => return Ok(Json(command).into_response()),
            Found::Stranger => return Ok(StatusCode::CONFLICT.into_response()),
            Found::Wait(wake) => wake,
        };
        let notified = wake.notified();
        tokio::pin!(notified);
        notified.as_mut().enable();
        // Looked at again, since a command may have come in between.
        if !matches!(line.links.find(&from, &have), Found::Wait(_)) {
            continue;
        }
        if tokio::time::timeout_at(until, notified).await.is_err() {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
}

async fn report(State(line): State<Arc<Line>>, headers: HeaderMap, Json(report): Json<Report>) -> Answer {
    let Report { from, key, at_ms, hook, ack } = report;
    if let Some(hook) = hook {
        let bytes = serde_json::to_vec(&hook).map_err(|e| Refusal::Bad(e.to_string()))?;
        let event = HookEvent::from_json(&bytes).map_err(|e| Refusal::Bad(e.to_string()))?;
        let report = ReportHook {
            hook_key: CallKey(format!("bridge:{key}")),
            token: token(&headers)?,
            at_ms,
            event,
            source: Source::Bridge,
        };
        line.hub.ask(report).await.map_err(refusal)?;
    }
    if let Some(ack) = ack {
        line.authenticate(&headers, &from).await?;
        line.links.done(&from.launch, &ack.id);
        line.tell(&from, News::Ack(ack)).await;
    }
    Ok(Json(json!({})).into_response())
}

async fn receive(State(line): State<Arc<Line>>, headers: HeaderMap, Json(receive): Json<Receive>) -> Answer {
    line.authenticate(&headers, &receive.from).await?;
    Ok(match line.links.in_inbox(&receive.from, &receive.text) {
        Some(id) => Json(json!({ "id": id })).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Holds the request until the prompt is settled. Claude closes the connection when the terminal settles
/// it with a No; dropping the call tells the hub that nobody waits.
async fn permission(
    State(line): State<Arc<Line>>,
    headers: HeaderMap,
    Json(permission): Json<Permission>,
) -> Answer {
    let input = serde_json::to_vec(&permission.payload).map_err(|e| Refusal::Bad(e.to_string()))?;
    let undecided = || Ok(Json(json!({})).into_response());
    let Some(ask) = leo_hooks::permission_prompt(&input, token(&headers)?, permission.at_ms) else {
        return undecided();
    };
    let ask = leo_ipc::ask::AskPermission { hook_key: CallKey(format!("bridge:{}", permission.key)), ..ask };
    let decided = line.hub.wait(ask).await.map_err(refusal)?;
    match leo_hooks::permission_decision(decided) {
        Some(decision) => Ok(Json(json!({ "decision": decision })).into_response()),
        None => undecided(),
    }
}

async fn gone(State(line): State<Arc<Line>>, headers: HeaderMap, Json(gone): Json<Gone>) -> Answer {
    let hook_key = CallKey(format!("bridge:{}", gone.key));
    let request = PermissionGone { hook_key, token: token(&headers)? };
    line.hub.ask(request).await.map_err(refusal)?;
    Ok(Json(json!({})).into_response())
}
