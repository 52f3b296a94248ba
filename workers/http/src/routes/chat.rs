//! Threads and messages (WIRE.md §2).

use crate::{
    answer::{Answer, Data, Refusal, Refusals, Success},
    app::{App, HUB_DEADLINE},
    extract::{AgentPath, Json, Key, MessagePath, Optional, Query, message_id, own_id},
};
use axum::extract::State;
use leo_ipc::{
    AgentName, CallKey,
    attachment::MAX_FILES,
    chat::{
        Accepted, CancelMessage, GetMessage, ListMessages, ListThreads, MAX_PAGE, MAX_TEXT, MAX_TEXT_ENCODED,
        MarkRead, Message, MessagePage, ReadMark, RetryMessage, SendMessage, Threads,
    },
};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

/// Messages of a page when the caller does not say.
const DEFAULT_PAGE: u32 = 50;

/// Which thread.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its schema is used; the extractor reads the path itself")]
pub(crate) struct ThreadParam {
    /// The agent's name, which is its thread's.
    agent: String,
}

/// Which message.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its schema is used; the extractor reads the path itself")]
pub(crate) struct MessageParam {
    /// The agent's name, which is its thread's.
    agent: String,
    /// The message's id.
    id: String,
}

/// All threads, `assistant` first, then by newest activity.
#[utoipa::path(get, operation_id = "list_threads", path = "/api/v1/chat/threads", tag = "chat",
    responses((status = 200, body = Success<Threads>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn threads(State(app): State<App>) -> Answer<Threads> {
    Ok(Data::ok(app.hub.call(ListThreads {}, HUB_DEADLINE).await?))
}

/// Which page of a thread.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Only messages older than this one.
    before: Option<String>,
    /// Only messages newer than this one; not together with `before`.
    after: Option<String>,
    /// At most so many, 1 to 200; 50 unless given.
    limit: Option<u32>,
}

impl Page {
    fn of(self, agent: AgentName) -> Result<ListMessages, Refusal> {
        let limit = self.limit.unwrap_or(DEFAULT_PAGE);
        if !(1..=MAX_PAGE).contains(&limit) {
            return Err(Refusal::bad_request(format!("in the query: limit: 1 to {MAX_PAGE}, found {limit}")));
        }
        if self.before.is_some() && self.after.is_some() {
            return Err(Refusal::bad_request("in the query: give before or after, not both"));
        }
        let cursor = |text: Option<String>, name: &str| {
            text.map(|text| message_id(&text, &format!("in the query: {name}"))).transpose()
        };
        let before = cursor(self.before, "before")?;
        let after = cursor(self.after, "after")?;
        Ok(ListMessages { agent, before, after, limit })
    }
}

/// A page of a thread, oldest message first; without a cursor the newest page.
#[utoipa::path(get, operation_id = "list_messages", path = "/api/v1/chat/{agent}/messages", tag = "chat", params(ThreadParam, Page),
    responses((status = 200, body = Success<MessagePage>), Refusals),
    security(("operator" = []), ("session" = [])))]
pub(crate) async fn messages(
    State(app): State<App>,
    AgentPath(agent): AgentPath,
    Query(page): Query<Page>,
) -> Answer<MessagePage> {
    Ok(Data::ok(app.hub.call(page.of(agent)?, HUB_DEADLINE).await?))
}

/// One message.
#[utoipa::path(get, operation_id = "get_message", path = "/api/v1/chat/{agent}/messages/{id}", tag = "chat", params(MessageParam),
    responses((status = 200, body = Success<Message>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn message(State(app): State<App>, path: MessagePath) -> Answer<Message> {
    let MessagePath { agent, id } = path;
    Ok(Data::ok(app.hub.call(GetMessage { agent, id }, HUB_DEADLINE).await?))
}

/// A message to an agent.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewMessage {
    /// Its text, at most 256 KiB; may be empty beside files.
    #[serde(default)]
    pub(super) text: String,
    /// Ids of uploaded files.
    #[serde(default)]
    pub(super) attachments: Vec<String>,
    /// The message it answers.
    pub(super) reply_to: Option<String>,
    /// The app's own id for it: the same id and body again is the same message.
    pub(super) client_msg_id: Option<String>,
    /// Hands it to the turn that runs, as far as the harness can: it is read at that turn's next tool
    /// call, and the turn's reply is its reply. Without a running turn it is a message like any other.
    pub(super) steer: Option<bool>,
}

/// Sends a message. 202 when it was accepted, 200 when it had been accepted before.
#[utoipa::path(post, operation_id = "send_message", path = "/api/v1/chat/{agent}/messages", tag = "chat", params(ThreadParam),
    request_body = NewMessage,
    responses((status = 202, body = Success<Message>), (status = 200, body = Success<Message>), Refusals),
    security(("operator" = []), ("session" = [])))]
pub(crate) async fn send(
    State(app): State<App>,
    AgentPath(agent): AgentPath,
    Key(key): Key,
    Json(body): Json<NewMessage>,
) -> Answer<Message> {
    deliver(&app, agent, key, body).await
}

/// Ids that cannot be one never reach the hub.
fn check_files(ids: &[String]) -> Result<(), Refusal> {
    if ids.len() > MAX_FILES {
        let text = format!("at $.attachments: at most {MAX_FILES} files, found {}", ids.len());
        return Err(Refusal::bad_request(text));
    }
    match ids.iter().position(|id| !crate::extract::is_id(id)) {
        None => Ok(()),
        Some(index) => Err(Refusal::new(
            "unknown_attachment",
            format!("at $.attachments[{index}]: there is no such upload"),
        )),
    }
}

/// Sends a message to an agent, on whatever route it was asked for.
pub(super) async fn deliver(app: &App, agent: AgentName, key: CallKey, body: NewMessage) -> Answer<Message> {
    let NewMessage { text, attachments, reply_to, client_msg_id, steer } = body;
    check_files(&attachments)?;
    if text.trim().is_empty() && attachments.is_empty() {
        return Err(Refusal::bad_request("at $.text: a message without files needs a text"));
    }
    check_text(&text)?;
    let reply_to = reply_to.map(|id| message_id(&id, "at $.reply_to")).transpose()?;
    let client_msg_id = client_msg_id.map(|id| own_id(&id, "at $.client_msg_id")).transpose()?;
    let request = SendMessage {
        steer: steer.unwrap_or_default(),
        agent,
        text,
        reply_to,
        attachments,
        client_msg_id,
        key,
    };
    let Accepted { message, created } = app.hub.call(request, HUB_DEADLINE).await?;
    Ok(Data::accepted(created, message))
}

pub(super) fn check_text(text: &str) -> Result<(), Refusal> {
    if text.len() > MAX_TEXT {
        return Err(Refusal::new(
            "too_large",
            format!("at $.text: at most {MAX_TEXT} bytes, found {}: send it as a file", text.len()),
        ));
    }
    // Control characters grow when they are written as JSON, and the event must fit into a frame.
    let encoded: usize = text.chars().map(|c| if c.is_control() { 6 } else { c.len_utf8() }).sum();
    if encoded > MAX_TEXT_ENCODED {
        return Err(Refusal::new("too_large", "at $.text: too many control characters for so long a text"));
    }
    Ok(())
}

/// How a failed message is sent again.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct Retry {
    /// Sends a voice note's recording to the agent as a file, instead of transcribing it again.
    as_file: bool,
}

/// Sends a failed message again: the same row, its next attempt. A voice note that could not be
/// transcribed is transcribed again, or sent as a file.
#[utoipa::path(post, operation_id = "retry_message", path = "/api/v1/chat/{agent}/messages/{id}/retry", tag = "chat", params(MessageParam),
    request_body = Option<Retry>,
    responses((status = 202, body = Success<Message>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn retry(
    State(app): State<App>,
    path: MessagePath,
    Key(key): Key,
    body: Optional<Retry>,
) -> Answer<Message> {
    let MessagePath { agent, id } = path;
    let as_file = body.0.unwrap_or_default().as_file;
    let message = app.hub.call(RetryMessage { agent, id, key, as_file }, HUB_DEADLINE).await?;
    Ok(Data::accepted(true, message))
}

/// Takes back a message that the agent has not been handed yet.
#[utoipa::path(post, operation_id = "cancel_message", path = "/api/v1/chat/{agent}/messages/{id}/cancel", tag = "chat", params(MessageParam),
    responses((status = 200, body = Success<Message>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn cancel(State(app): State<App>, path: MessagePath) -> Answer<Message> {
    let MessagePath { agent, id } = path;
    Ok(Data::ok(app.hub.call(CancelMessage { agent, id }, HUB_DEADLINE).await?))
}

/// What was read.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ReadUpTo {
    /// The newest message that was seen.
    message_id: String,
}

/// Moves the read mark forward; it never moves back.
#[utoipa::path(post, operation_id = "mark_read", path = "/api/v1/chat/{agent}/read", tag = "chat", params(ThreadParam),
    request_body = ReadUpTo,
    responses((status = 200, body = Success<ReadMark>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn read(
    State(app): State<App>,
    AgentPath(agent): AgentPath,
    Json(body): Json<ReadUpTo>,
) -> Answer<ReadMark> {
    let message_id = message_id(&body.message_id, "at $.message_id")?;
    Ok(Data::ok(app.hub.call(MarkRead { agent, message_id }, HUB_DEADLINE).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_checked() {
        let page = |before: Option<&str>, after: Option<&str>, limit| {
            Page { before: before.map(Into::into), after: after.map(Into::into), limit }
                .of("a".parse().unwrap())
                .map_err(|e| e.code().to_owned())
        };
        assert_eq!(page(None, None, None).unwrap().limit, DEFAULT_PAGE);
        assert_eq!(page(Some("m1"), None, Some(200)).unwrap().before.unwrap().as_str(), "m1");
        for bad in [
            page(None, None, Some(0)),
            page(None, None, Some(201)),
            page(Some("a"), Some("b"), None),
            page(Some("a b"), None, None),
            page(None, Some(""), None),
        ] {
            assert_eq!(bad.unwrap_err(), "bad_request");
        }
    }

    #[test]
    fn texts_are_checked() {
        assert!(check_text("x").is_ok());
        assert!(check_text(&"x".repeat(MAX_TEXT)).is_ok());
        assert_eq!(check_text(&"x".repeat(MAX_TEXT + 1)).unwrap_err().code(), "too_large");
        assert_eq!(check_text(&"\u{1}".repeat(MAX_TEXT)).unwrap_err().code(), "too_large");
    }
}
