//! API clients: the operator gives and takes their tokens; they themselves may message an agent and post
//! into a thread (WIRE.md §1). What one may is the hub's to say.

use super::{
    agents::AgentParam,
    chat::{NewMessage, ThreadParam, check_text, deliver},
};
use crate::{
    answer::{Answer, Data, Refusal, Refusals, Success},
    app::{App, HUB_DEADLINE},
    auth::Speaker,
    extract::{AgentPath, ClientPath, Json, Key, own_id},
};
use axum::extract::State;
use leo_ipc::{
    ClientName,
    api_client::{
        AddClient, AgentGlob, ApiClient, ClientMessage, Clients, ListClients, Permissions, RemoveClient,
        ThreadPost,
    },
    chat::{Accepted, MAX_POST_TEXT, Message},
    id::{fresh_token, token_hash},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which client.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its schema is used; the extractor reads the path itself")]
pub(crate) struct ClientParam {
    /// Its name.
    name: String,
}

/// All API clients, by name; those of the configuration without a token included.
#[utoipa::path(get, operation_id = "list_clients", path = "/api/v1/clients", tag = "clients",
    responses((status = 200, body = Success<Clients>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn list(State(app): State<App>) -> Answer<Clients> {
    Ok(Data::ok(app.hub.call(ListClients {}, HUB_DEADLINE).await?))
}

/// A new API client, or the token of one of the configuration.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewClient {
    /// Its name.
    name: ClientName,
    /// The agents that it may message, as globs. Not for a client of the configuration.
    #[serde(default)]
    can_message: Vec<AgentGlob>,
    /// The agents into whose threads it may post, as globs. Not for a client of the configuration.
    #[serde(default)]
    can_post: Vec<AgentGlob>,
}

/// A client with its token, which is shown this once.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GivenToken {
    /// The client.
    client: ApiClient,
    /// Its token: 64 hexadecimal characters. Only its hash is kept.
    token: String,
}

/// Gives an API client its token. 409 `client_exists` when it has one.
#[utoipa::path(post, operation_id = "add_client", path = "/api/v1/clients", tag = "clients", request_body = NewClient,
    responses((status = 201, body = Success<GivenToken>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn add(
    State(app): State<App>,
    Key(key): Key,
    Json(body): Json<NewClient>,
) -> Answer<GivenToken> {
    let token = fresh_token();
    let request = AddClient {
        name: body.name,
        permissions: Permissions { can_message: body.can_message, can_post: body.can_post },
        token_hash: token_hash(&token),
        key,
    };
    let client = app.hub.call(request, HUB_DEADLINE).await?;
    Ok(Data::created(GivenToken { client, token }))
}

/// A client that has no token any more.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RemovedClient {
    /// Its name.
    name: ClientName,
    /// Always true.
    removed: bool,
}

/// Takes an API client's token away, at once.
#[utoipa::path(delete, operation_id = "remove_client", path = "/api/v1/clients/{name}", tag = "clients", params(ClientParam),
    responses((status = 200, body = Success<RemovedClient>), Refusals),
    security(("operator" = []), ("session" = [])))]
pub(crate) async fn remove(
    State(app): State<App>,
    ClientPath(name): ClientPath,
    Key(key): Key,
) -> Answer<RemovedClient> {
    app.hub.call(RemoveClient { name: name.clone(), key }, HUB_DEADLINE).await?;
    Ok(Data::ok(RemovedClient { name, removed: true }))
}

/// A message to an agent, in short.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ShortMessage {
    /// Its text, at most 256 KiB.
    text: String,
    /// The caller's own id for it: the same id and body again is the same message.
    client_msg_id: Option<String>,
}

/// Sends an agent a message, which is one of its thread. From the operator it is a person's; from an API
/// client the agent reads `[message from <client>] …`, and `sender` says so in the thread.
#[utoipa::path(post, operation_id = "send_short_message", path = "/api/v1/agents/{agent}/message", tag = "agents", params(AgentParam),
    request_body = ShortMessage,
    responses((status = 202, body = Success<Message>), (status = 200, body = Success<Message>), Refusals),
    security(("operator" = []), ("session" = []), ("client" = [])))]
pub(crate) async fn message(
    State(app): State<App>,
    AgentPath(agent): AgentPath,
    speaker: Speaker,
    Key(key): Key,
    Json(body): Json<ShortMessage>,
) -> Answer<Message> {
    let Some(client) = speaker.client else {
        let client_msg_id = body.client_msg_id;
        let message = NewMessage {
            text: body.text,
            attachments: Vec::new(),
            reply_to: None,
            client_msg_id,
            steer: None,
        };
        return deliver(&app, agent, key, message).await;
    };
    check_text(&body.text)?;
    let client_msg_id = body.client_msg_id.map(|id| own_id(&id, "at $.client_msg_id")).transpose()?;
    let request = ClientMessage { client, agent, text: body.text, client_msg_id, key };
    let Accepted { message, created } = app.hub.call(request, HUB_DEADLINE).await?;
    Ok(Data::accepted(created, message))
}

/// A message for the person.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewPost {
    /// Its text as Markdown, at most 64 KiB.
    text: String,
    /// The caller's own id for it: the same id and body again is the same message.
    client_msg_id: Option<String>,
}

/// Puts a message for the person into an agent's thread; the agent does not read it. `sender` says who
/// it is from: `client:<name>`, or `operator`.
#[utoipa::path(post, operation_id = "post_into_thread", path = "/api/v1/chat/{agent}/post", tag = "chat", params(ThreadParam),
    request_body = NewPost,
    responses((status = 202, body = Success<Message>), (status = 200, body = Success<Message>), Refusals),
    security(("operator" = []), ("session" = []), ("client" = [])))]
pub(crate) async fn post(
    State(app): State<App>,
    AgentPath(agent): AgentPath,
    speaker: Speaker,
    Key(key): Key,
    Json(body): Json<NewPost>,
) -> Answer<Message> {
    if body.text.trim().is_empty() {
        return Err(Refusal::bad_request("at $.text: a post needs a text"));
    }
    if body.text.len() > MAX_POST_TEXT {
        let found = body.text.len();
        let text = format!("at $.text: at most {MAX_POST_TEXT} bytes, found {found}");
        return Err(Refusal::new("too_large", text));
    }
    let client_msg_id = body.client_msg_id.map(|id| own_id(&id, "at $.client_msg_id")).transpose()?;
    let request = ThreadPost { client: speaker.client, agent, text: body.text, client_msg_id, key };
    let Accepted { message, created } = app.hub.call(request, HUB_DEADLINE).await?;
    Ok(Data::accepted(created, message))
}
