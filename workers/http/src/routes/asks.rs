//! Questions to a person, from both sides: what apps answer and dismiss, and how an agent without MCP
//! asks, waits and takes back (WIRE.md §2 and §3). Which answer is good and which one is first is the
//! hub's to say.

use super::{agents::AgentParam, chat::MessageParam};
use crate::{
    answer::{Answer, Data, Failure, Refusal, Refusals, Success},
    app::{App, HUB_DEADLINE},
    auth::Caller,
    extract::{Json, Key, MessagePath, NoBody, Query, http_key, message_id, own_id},
};
use axum::extract::State;
use leo_ipc::{
    AgentName, CallKey, IpcError, MessageId,
    ask::{
        AnswerAsk, AnswerBody, AskResult, DismissAsk, OpenAsk, QuestionAnswer, StopWaiting, WaitAsk,
        WithdrawAsk,
    },
    chat::{GetMessage, Message, MessageKind, MessageState},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};
use utoipa::{IntoParams, ToSchema};

/// Longest wait of one call for an answer, in seconds: the call window of the agent tools.
const MAX_WAIT_S: u64 = 1800;

/// Who answers on these routes: nobody but the operator may use them.
const OPERATOR: &str = "operator";

/// An answer: `values` and `text`, or `answers` for a questions card.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct GivenAnswer {
    /// Chosen values; for a permission prompt `allow` or `deny`.
    values: Option<Vec<String>>,
    /// Free text, at most 4000 characters; with `deny` it is what the model is told.
    text: Option<String>,
    /// Answers of a questions card, by question id.
    answers: Option<BTreeMap<String, QuestionAnswer>>,
    /// The app's own id for this answer: the same id again is the same answer, and no conflict.
    client_msg_id: Option<String>,
}

/// Answers an open ask, permission prompt or questions card. The first answer wins: a later one is
/// refused with `already_settled` and the settled message as `data`.
#[utoipa::path(post, operation_id = "answer_message", path = "/api/v1/chat/{agent}/messages/{id}/answer", tag = "chat", params(
        MessageParam,
        ("Idempotency-Key" = Option<String>, Header, description = "As `client_msg_id`, which goes first.")
    ),
    request_body = GivenAnswer,
    responses((status = 200, body = Success<Message>),
        (status = 409, body = Failure, description = "`already_settled`, with the settled message as `data`"),
        Refusals),
    security(("operator" = []), ("session" = [])))]
pub(crate) async fn answer(
    State(app): State<App>,
    path: MessagePath,
    Key(key): Key,
    Json(body): Json<GivenAnswer>,
) -> Answer<Message> {
    if body.values.is_none() && body.text.is_none() && body.answers.is_none() {
        return Err(Refusal::bad_request("at $: an answer needs values or text, or answers"));
    }
    let own = body.client_msg_id.map(|id| own_id(&id, "at $.client_msg_id")).transpose()?;
    let request = AnswerAsk {
        agent: path.agent,
        message_id: path.id,
        answer: AnswerBody {
            values: body.values.unwrap_or_default(),
            text: body.text.unwrap_or_default(),
            labels: None,
            answers: body.answers,
        },
        by: OPERATOR.to_owned(),
        key: own.map_or(key, |own| http_key(&own)),
    };
    Ok(Data::ok(app.hub.call(request, HUB_DEADLINE).await?))
}

/// Closes an open questions card without an answer; the agent's own dialog stays.
#[utoipa::path(post, operation_id = "dismiss_message", path = "/api/v1/chat/{agent}/messages/{id}/dismiss", tag = "chat", params(MessageParam),
    responses((status = 200, body = Success<Message>),
        (status = 409, body = Failure, description = "`already_settled`, with the settled message as `data`"),
        Refusals),
    security(("operator" = []), ("session" = [])))]
pub(crate) async fn dismiss(State(app): State<App>, path: MessagePath, _: NoBody) -> Answer<Message> {
    let MessagePath { agent, id: message_id } = path;
    Ok(Data::ok(app.hub.call(DismissAsk { agent, message_id }, HUB_DEADLINE).await?))
}

/// A question from the agent, or with `message_id` alone a further wait for the answer to an earlier one.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Ask {
    /// The question, at most 4000 characters.
    question: Option<String>,
    /// `{type, options?, allow_text?, min?, max?, placeholder?}`; not together with `options`.
    input: Option<Value>,
    /// Options of buttons: texts, or `{value, label, description?}`.
    options: Option<Value>,
    /// Seconds until it expires, at most 3600; 0 or none: it waits for as long as it takes.
    timeout_s: Option<u64>,
    /// The ask to go on waiting for.
    message_id: Option<String>,
}

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wait {
    /// Seconds that this call waits for the answer, 0 to 1800; 1800 unless given. The ask stays open
    /// after it: the answer is then `pending: true`.
    wait_s: Option<u64>,
}

/// Asks the person and waits for the answer. With an `Idempotency-Key`, asking again waits for the same
/// ask instead of opening another.
#[utoipa::path(post, operation_id = "agent_ask", path = "/api/agent/{agent}/chat/ask", tag = "agent side", params(
        AgentParam,
        Wait,
        ("Idempotency-Key" = Option<String>, Header, description = "The same key asks for the same ask.")
    ),
    request_body = Ask,
    responses((status = 200, body = Success<AskResult>), Refusals), security(("agent" = []), ("operator" = [])))]
pub(crate) async fn ask(
    State(app): State<App>,
    caller: Caller,
    Query(wait): Query<Wait>,
    Key(key): Key,
    Json(body): Json<Ask>,
) -> Answer<AskResult> {
    let wait_s = wait.wait_s.unwrap_or(MAX_WAIT_S);
    if wait_s > MAX_WAIT_S {
        return Err(Refusal::bad_request(format!("in the query: wait_s: 0 to {MAX_WAIT_S}, found {wait_s}")));
    }
    let agent = caller.agent.clone();
    let message_id = match body.message_id {
        Some(ref id) => {
            only_the_id(&body)?;
            message_id(id, "at $.message_id")?
        }
        None => {
            let question = body.question.filter(|q| !q.trim().is_empty());
            let question = question.ok_or_else(|| {
                Refusal::bad_request("at $.question: a question is needed, or the message_id of an open ask")
            })?;
            let open = OpenAsk {
                agent: caller.agent,
                launch: caller.launch,
                call_key: key.clone(),
                question,
                input: body.input,
                options: body.options,
                timeout_s: body.timeout_s,
                run: caller.run,
            };
            app.hub.call(open, HUB_DEADLINE).await?.id
        }
    };
    outcome(&app, agent, message_id, key, Duration::from_secs(wait_s)).await.map(Data::ok)
}

/// A wait for an earlier ask changes nothing about it.
fn only_the_id(body: &Ask) -> Result<(), Refusal> {
    let given = [
        ("question", body.question.is_some()),
        ("input", body.input.is_some()),
        ("options", body.options.is_some()),
        ("timeout_s", body.timeout_s.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Refusal::bad_request(format!("at $.{name}: not together with message_id"))),
        None => Ok(()),
    }
}

/// How the ask ended within the patience, or that it is still open. A caller that hangs up drops this,
/// which cancels the wait at the hub.
async fn outcome(
    app: &App,
    agent: AgentName,
    message_id: MessageId,
    call_key: CallKey,
    patience: Duration,
) -> Result<AskResult, Refusal> {
    let wait = WaitAsk { agent: agent.clone(), message_id: message_id.clone(), call_key: call_key.clone() };
    let waited = async {
        if patience.is_zero() {
            return None;
        }
        tokio::select! {
            result = app.hub.call(wait, patience) => Some(result),
            // This worker is being replaced: `pending` sends the caller to the next one.
            () = app.drain.cancelled() => None,
        }
    };
    match waited.await {
        Some(Ok(result)) => return Ok(result),
        Some(Err(IpcError::Deadline { .. })) | None => {}
        Some(Err(error)) => return Err(error.into()),
    }
    // First the hub is told, then the ask is looked at: an answer between the two is both returned and
    // delivered as a message, while the other way around it could get lost.
    let stop = StopWaiting { agent: agent.clone(), message_id: message_id.clone(), call_key };
    app.hub.call(stop, HUB_DEADLINE).await?;
    let message = app.hub.call(GetMessage { agent, id: message_id }, HUB_DEADLINE).await?;
    if message.kind != MessageKind::Ask {
        return Err(Refusal::new("not_your_ask", "at $.message_id: this message is no ask of yours"));
    }
    Ok(result_of(message))
}

fn result_of(message: Message) -> AskResult {
    let answer = message.answer.unwrap_or_default();
    AskResult {
        message_id: message.id.0,
        values: answer.values,
        labels: answer.labels.unwrap_or_default(),
        text: answer.text,
        pending: message.state == MessageState::Open,
        timed_out: message.state == MessageState::Expired,
        closed_reason: message.closed_reason,
    }
}

/// Which ask.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Withdraw {
    /// The ask, which must be the agent's own.
    message_id: String,
}

/// An ask that was taken back.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Withdrawn {
    /// The ask.
    message_id: MessageId,
    /// Always true.
    withdrawn: bool,
}

/// Takes an open ask back; whoever waits for it is told at once.
#[utoipa::path(post, operation_id = "agent_withdraw_ask", path = "/api/agent/{agent}/chat/ask/withdraw", tag = "agent side", params(AgentParam),
    request_body = Withdraw,
    responses((status = 200, body = Success<Withdrawn>), Refusals), security(("agent" = []), ("operator" = [])))]
pub(crate) async fn withdraw(
    State(app): State<App>,
    caller: Caller,
    Json(body): Json<Withdraw>,
) -> Answer<Withdrawn> {
    let message_id = message_id(&body.message_id, "at $.message_id")?;
    let request = WithdrawAsk { agent: caller.agent, message_id };
    let message = app.hub.call(request, HUB_DEADLINE).await?;
    Ok(Data::ok(Withdrawn { message_id: message.id, withdrawn: true }))
}
