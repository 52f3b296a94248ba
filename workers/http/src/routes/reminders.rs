//! Reminders, from both sides: what an agent leaves, and what a person sees of it and may take back
//! (WIRE.md §2 and §3). Which time is good and what is still open is the hub's to say.

use super::{
    agents::AgentParam,
    chat::{MessageParam, ThreadParam},
};
use crate::{
    answer::{Answer, Data, Refusal, Refusals, Success},
    app::{App, HUB_DEADLINE},
    auth::Caller,
    extract::{AgentPath, Json, Key, MessagePath, NoBody, is_id},
};
use axum::extract::State;
use leo_ipc::{
    MessageId,
    reminder::{CancelReminder, CancelledReminder, ListReminders, Reminders, ScheduleReminder},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A reminder to be left.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewReminder {
    /// What is posted then, at most 64 KiB.
    text: String,
    /// When: RFC 3339 with an offset, in the future, at most a year away.
    at: String,
}

/// A reminder that was left.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Scheduled {
    /// Its id.
    id: MessageId,
    /// When it is posted, in the offset of the machine.
    at: String,
}

/// Leaves a reminder: text that is posted into the agent's thread at a time. With an `Idempotency-Key`,
/// asking again leaves nothing twice.
#[utoipa::path(post, operation_id = "agent_schedule", path = "/api/agent/{agent}/chat/schedule", tag = "agent side", params(
        AgentParam,
        ("Idempotency-Key" = Option<String>, Header, description = "The same key asks for the same reminder.")
    ),
    request_body = NewReminder,
    responses((status = 200, body = Success<Scheduled>), Refusals), security(("agent" = []), ("operator" = [])))]
pub(crate) async fn schedule(
    State(app): State<App>,
    caller: Caller,
    Key(key): Key,
    Json(body): Json<NewReminder>,
) -> Answer<Scheduled> {
    let request = ScheduleReminder {
        agent: caller.agent,
        launch: caller.launch,
        call_key: key,
        text: body.text,
        at: body.at,
        run: caller.run,
    };
    let reminder = app.hub.call(request, HUB_DEADLINE).await?;
    Ok(Data::ok(Scheduled { id: reminder.id, at: reminder.at }))
}

/// The open reminders of the agent's own thread, the next one first.
#[utoipa::path(post, operation_id = "agent_schedule_list", path = "/api/agent/{agent}/chat/schedule/list", tag = "agent side", params(AgentParam),
    responses((status = 200, body = Success<Reminders>), Refusals),
    security(("agent" = []), ("operator" = [])))]
pub(crate) async fn agent_list(State(app): State<App>, caller: Caller, _: NoBody) -> Answer<Reminders> {
    let request = ListReminders { agent: caller.agent, by_agent: true, run: caller.run };
    Ok(Data::ok(app.hub.call(request, HUB_DEADLINE).await?))
}

/// Which reminder.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct WhichReminder {
    /// Its id.
    id: String,
}

/// Takes an open reminder of the agent's own thread back.
#[utoipa::path(post, operation_id = "agent_schedule_cancel", path = "/api/agent/{agent}/chat/schedule/cancel", tag = "agent side", params(
        AgentParam,
        ("Idempotency-Key" = Option<String>, Header, description = "The same key again is the same cancellation.")
    ),
    request_body = WhichReminder,
    responses((status = 200, body = Success<CancelledReminder>), Refusals),
    security(("agent" = []), ("operator" = [])))]
pub(crate) async fn agent_cancel(
    State(app): State<App>,
    caller: Caller,
    Key(key): Key,
    Json(body): Json<WhichReminder>,
) -> Answer<CancelledReminder> {
    if !is_id(&body.id) {
        return Err(unknown());
    }
    let request =
        CancelReminder { agent: caller.agent, by_agent: true, run: caller.run, id: MessageId(body.id), key };
    Ok(Data::ok(app.hub.call(request, HUB_DEADLINE).await?))
}

/// A thread's open reminders, the next one first.
#[utoipa::path(get, operation_id = "list_reminders", path = "/api/v1/chat/{agent}/reminders", tag = "chat", params(ThreadParam),
    responses((status = 200, body = Success<Reminders>), Refusals),
    security(("operator" = []), ("session" = [])))]
pub(crate) async fn list(State(app): State<App>, AgentPath(agent): AgentPath) -> Answer<Reminders> {
    let request = ListReminders { agent, by_agent: false, run: None };
    Ok(Data::ok(app.hub.call(request, HUB_DEADLINE).await?))
}

/// Takes an open reminder back. 409 `reminder_fired` or `reminder_cancelled` when it is open no longer.
#[utoipa::path(delete, operation_id = "cancel_reminder", path = "/api/v1/chat/{agent}/reminders/{id}", tag = "chat", params(
        MessageParam,
        ("Idempotency-Key" = Option<String>, Header, description = "The same key again is the same cancellation.")
    ),
    responses((status = 200, body = Success<CancelledReminder>), Refusals),
    security(("operator" = []), ("session" = [])))]
pub(crate) async fn cancel(
    State(app): State<App>,
    path: Result<MessagePath, Refusal>,
    Key(key): Key,
) -> Answer<CancelledReminder> {
    // What cannot be an id names no reminder, whatever the extractor calls it.
    let MessagePath { agent, id } = path.map_err(|refusal| match refusal.code() {
        "unknown_message" => unknown(),
        _ => refusal,
    })?;
    let request = CancelReminder { agent, by_agent: false, run: None, id, key };
    Ok(Data::ok(app.hub.call(request, HUB_DEADLINE).await?))
}

fn unknown() -> Refusal {
    Refusal::new("unknown_reminder", "there is no such reminder")
}
