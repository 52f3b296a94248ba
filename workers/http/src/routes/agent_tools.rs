//! The agent's own side of the chat (WIRE.md §3), for harnesses and scripts that do not speak MCP.

use super::agents::AgentParam;
use crate::{
    answer::{Answer, Data, Refusal, Refusals, Success},
    app::{App, HUB_DEADLINE},
    auth::Caller,
    extract::{Json, Key, message_id},
};
use axum::extract::State;
use leo_ipc::chat::{AgentPost, ListMessages, MAX_POST_FILES, MAX_POST_TEXT, MessagePage, Posted};
use serde::Deserialize;
use std::path::Path;
use utoipa::ToSchema;

/// Messages of the history when the caller does not say, and at most.
const DEFAULT_HISTORY: u32 = 20;
const MAX_HISTORY: u32 = 100;

/// A message from the agent.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Post {
    /// Text, or the caption of the files; at most 64 KiB.
    #[serde(default)]
    text: String,
    /// Absolute paths of files to attach, at most 10.
    #[serde(default)]
    files: Vec<String>,
    /// The message it answers.
    reply_to: Option<String>,
}

/// Posts into the agent's thread. With an `Idempotency-Key`, asking again posts nothing twice.
#[utoipa::path(post, operation_id = "agent_post", path = "/api/agent/{agent}/chat/post", tag = "agent side", params(
        AgentParam,
        ("Idempotency-Key" = Option<String>, Header, description = "The same key asks for the same post.")
    ),
    request_body = Post,
    responses((status = 200, body = Success<Posted>), Refusals), security(("agent" = []), ("operator" = [])))]
pub(crate) async fn post(
    State(app): State<App>,
    caller: Caller,
    Key(key): Key,
    Json(body): Json<Post>,
) -> Answer<Posted> {
    if body.text.trim().is_empty() && body.files.is_empty() {
        return Err(Refusal::bad_request("at $.text: a post needs a text or a file"));
    }
    if body.text.len() > MAX_POST_TEXT {
        let found = body.text.len();
        let message = format!("at $.text: at most {MAX_POST_TEXT} bytes, found {found}");
        return Err(Refusal::new("too_large", message));
    }
    if body.files.len() > MAX_POST_FILES {
        let found = body.files.len();
        return Err(Refusal::bad_request(format!("at $.files: at most {MAX_POST_FILES}, found {found}")));
    }
    if let Some(i) = body.files.iter().position(|file| !Path::new(file).is_absolute()) {
        return Err(Refusal::bad_request(format!("at $.files[{i}]: must be an absolute path")));
    }
    let request = AgentPost {
        agent: caller.agent,
        launch: caller.launch,
        call_key: key,
        text: body.text,
        files: body.files,
        reply_to: body.reply_to.map(|id| message_id(&id, "at $.reply_to")).transpose()?,
        run: caller.run,
    };
    Ok(Data::ok(app.hub.call(request, HUB_DEADLINE).await?))
}

/// Which part of the history.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct History {
    /// At most so many, 1 to 100; 20 unless given.
    limit: Option<u32>,
    /// Only messages older than this one.
    before: Option<String>,
}

/// The agent's own thread, oldest message first.
#[utoipa::path(post, operation_id = "agent_history", path = "/api/agent/{agent}/chat/history", tag = "agent side", params(AgentParam),
    request_body = History,
    responses((status = 200, body = Success<MessagePage>), Refusals),
    security(("agent" = []), ("operator" = [])))]
pub(crate) async fn history(
    State(app): State<App>,
    caller: Caller,
    Json(body): Json<History>,
) -> Answer<MessagePage> {
    let limit = body.limit.unwrap_or(DEFAULT_HISTORY);
    if !(1..=MAX_HISTORY).contains(&limit) {
        return Err(Refusal::bad_request(format!("at $.limit: 1 to {MAX_HISTORY}, found {limit}")));
    }
    let before = body.before.map(|id| message_id(&id, "at $.before")).transpose()?;
    let request = ListMessages { agent: caller.agent, before, after: None, limit };
    Ok(Data::ok(app.hub.call(request, HUB_DEADLINE).await?))
}
