//! Extractors of our own, so that whatever cannot be read is answered in the envelope, with the place
//! where the trouble is.

use crate::answer::Refusal;
use axum::{
    body::Body,
    extract::{FromRequest, FromRequestParts, Query as AxumQuery, RawPathParams, Request},
};
use bytes::Bytes;
use http::{HeaderMap, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use leo_ipc::{AgentName, CallKey, ClientName, MessageId, TaskName};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Largest body (WIRE.md §1).
pub(crate) const MAX_BODY: usize = 10 * 1024 * 1024;

/// How long a body may take to arrive: 10 MiB at 170 KiB/s.
const BODY_DEADLINE: Duration = Duration::from_secs(60);

/// Longest id or key that is looked at; ours have 36 characters.
const MAX_ID: usize = 200;

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        require_json(request.headers())?;
        let bytes = read(request.into_body()).await?;
        parse(&bytes).map(Json)
    }
}

/// No body, or an object in which nothing is looked at: a client that always sends JSON may do so here.
pub(crate) struct NoBody;

impl<S: Send + Sync> FromRequest<S> for NoBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let json = require_json(request.headers());
        let bytes = read(request.into_body()).await?;
        if !bytes.is_empty() {
            json?;
            parse::<serde_json::Map<String, serde_json::Value>>(&bytes)?;
        }
        Ok(NoBody)
    }
}

/// A JSON body, or none.
pub(crate) struct Optional<T>(pub(crate) Option<T>);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Optional<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let json = require_json(request.headers());
        let bytes = read(request.into_body()).await?;
        if bytes.is_empty() {
            return Ok(Optional(None));
        }
        json?;
        parse(&bytes).map(|value| Optional(Some(value)))
    }
}

fn require_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let given = headers.get(header::CONTENT_TYPE).map(|v| v.to_str().unwrap_or_default());
    let essence = given.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    let found = given.map_or_else(|| "there is none".to_owned(), |g| format!("it is {g:?}"));
    Err(Refusal::new("unsupported_media_type", format!("Content-Type must be application/json; {found}")))
}

async fn read(body: Body) -> Result<Bytes, Refusal> {
    let collected = tokio::time::timeout(BODY_DEADLINE, Limited::new(body, MAX_BODY).collect()).await;
    match collected {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(e)) if e.is::<LengthLimitError>() => {
            Err(Refusal::new("too_large", format!("the body has more than {MAX_BODY} bytes")))
        }
        Ok(Err(_)) => Err(Refusal::bad_request("the body ended before it was complete")),
        Err(_) => Err(Refusal::new(
            "timeout",
            format!("the body did not arrive within {} s", BODY_DEADLINE.as_secs()),
        )),
    }
}

/// Reads JSON and says where it is wrong (`at $.tools[0].name: …`).
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let text = std::str::from_utf8(bytes)
        .map_err(|e| Refusal::bad_request(format!("the body is not UTF-8 at byte {}", e.valid_up_to())))?;
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let path = e.path().to_string();
        let place = match path.as_str() {
            "." => "$".to_owned(),
            path if path.starts_with('[') => format!("${path}"),
            path => format!("$.{path}"),
        };
        Refusal::bad_request(format!("at {place}: {}", e.into_inner()))
    })?;
    json.end().map_err(|e| Refusal::bad_request(format!("after the JSON value: {e}")))?;
    Ok(value)
}

/// The query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let AxumQuery(value) = AxumQuery::try_from_uri(&parts.uri)
            .map_err(|e| Refusal::bad_request(format!("in the query: {}", source_of(&e))))?;
        Ok(Query(value))
    }
}

/// The innermost source's sentence: what axum puts around it names its own types.
fn source_of(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// The agent that the path names. A name that cannot be one is an agent that does not exist.
pub(crate) struct AgentPath(pub(crate) AgentName);

impl<S: Send + Sync> FromRequestParts<S> for AgentPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let params = params(parts, state).await?;
        agent_in(&params).map(AgentPath)
    }
}

/// The task that the path names.
pub(crate) struct TaskPath(pub(crate) TaskName);

impl<S: Send + Sync> FromRequestParts<S> for TaskPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let params = params(parts, state).await?;
        let unknown = |_| Refusal::new("unknown_task", "there is no such task");
        param(&params, "task").parse().map(TaskPath).map_err(unknown)
    }
}

/// The message that the path names.
pub(crate) struct MessagePath {
    /// Its thread.
    pub(crate) agent: AgentName,
    /// Its id.
    pub(crate) id: MessageId,
}

impl<S: Send + Sync> FromRequestParts<S> for MessagePath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let params = params(parts, state).await?;
        let agent = agent_in(&params)?;
        let id = param(&params, "id");
        if !is_id(id) {
            return Err(Refusal::new("unknown_message", "there is no such message in this thread"));
        }
        Ok(MessagePath { agent, id: MessageId(id.to_owned()) })
    }
}

/// The API client that the path names.
pub(crate) struct ClientPath(pub(crate) ClientName);

impl<S: Send + Sync> FromRequestParts<S> for ClientPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let params = params(parts, state).await?;
        let unknown = |_| Refusal::new("unknown_client", "there is no API client of that name");
        param(&params, "name").parse().map(ClientPath).map_err(unknown)
    }
}

/// The attachment that the path names.
pub(crate) struct AttachmentPath(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for AttachmentPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let params = params(parts, state).await?;
        let id = param(&params, "id");
        if !is_id(id) {
            return Err(Refusal::new("unknown_attachment", "there is no such attachment"));
        }
        Ok(AttachmentPath(id.to_owned()))
    }
}

async fn params<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<RawPathParams, Refusal> {
    RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| Refusal::new("not_found", "the path is not UTF-8"))
}

fn param<'p>(params: &'p RawPathParams, name: &str) -> &'p str {
    params.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
}

fn agent_in(params: &RawPathParams) -> Result<AgentName, Refusal> {
    param(params, "agent")
        .parse()
        .map_err(|_| Refusal::new("unknown_agent", "there is no agent of that name"))
}

/// Whether a text can be an id of ours: a path or a cursor that cannot be one never reaches the hub.
pub(crate) fn is_id(text: &str) -> bool {
    (1..=MAX_ID).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// A message id in a body or a query; `place` says where, for the refusal.
pub(crate) fn message_id(text: &str, place: &str) -> Result<MessageId, Refusal> {
    if is_id(text) {
        Ok(MessageId(text.to_owned()))
    } else {
        Err(Refusal::bad_request(format!("{place}: not a message id")))
    }
}

/// A caller's own id for what it asks: printable, so that it can be shown and logged.
pub(crate) fn own_id(text: &str, place: &str) -> Result<String, Refusal> {
    if (1..=MAX_ID).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err(Refusal::bad_request(format!("{place}: 1 to {MAX_ID} printable ASCII characters without spaces")))
    }
}

/// The request's idempotency key: what the caller gave in `Idempotency-Key`, else a fresh one, which
/// still protects the call to the hub.
pub(crate) struct Key(pub(crate) CallKey);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let Some(given) = parts.headers.get("idempotency-key") else { return Ok(Key(CallKey::fresh())) };
        let text = own_id(given.to_str().unwrap_or_default(), "the header Idempotency-Key")?;
        Ok(Key(http_key(&text)))
    }
}

/// The key of an HTTP caller's own id for a request: it never meets one that another worker made.
pub(crate) fn http_key(own: &str) -> CallKey {
    CallKey(format!("http:{own}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    struct Tool {
        #[expect(dead_code, reason = "only its type matters")]
        name: String,
    }

    #[derive(Debug, Deserialize)]
    struct Body {
        #[expect(dead_code, reason = "only its type matters")]
        tools: Vec<Tool>,
    }

    fn error(bytes: &[u8]) -> String {
        let refusal = parse::<Body>(bytes).unwrap_err();
        assert_eq!(refusal.code(), "bad_request");
        format!("{refusal:?}")
    }

    #[test]
    fn says_where_json_is_wrong() {
        assert!(error(br#"{"tools":[{"name":7}]}"#).contains("at $.tools[0].name: invalid type: integer"));
        assert!(error(b"[1]").contains("at $"));
        assert!(error(b"").contains("at $: EOF"));
        assert!(error(br#"{"tools":[]} x"#).contains("after the JSON value"));
        assert!(error(b"{\"tools\":\"\xff\"}").contains("not UTF-8 at byte 10"));
        assert!(error("[".repeat(100_000).as_bytes()).contains("at $"));
    }

    #[test]
    fn ids_are_checked() {
        assert!(is_id("019ad2f0-0000-7000-8000-000000000000"));
        for bad in ["", "a b", "a/b", "é", "%00", &"x".repeat(201)] {
            assert!(!is_id(bad), "{bad}");
        }
        assert!(own_id("client:1/2", "x").is_ok());
        assert!(own_id("a\n", "x").is_err());
    }

    #[test]
    fn content_types() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, value.parse().unwrap());
            require_json(&headers)
        };
        assert!(with("application/json").is_ok());
        assert!(with("Application/JSON; charset=utf-8").is_ok());
        assert!(with("application/merge-patch+json").is_ok());
        assert_eq!(with("text/plain").unwrap_err().code(), "unsupported_media_type");
        assert!(require_json(&HeaderMap::new()).is_err());
    }
}
