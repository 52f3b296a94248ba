//! `leo_chat_schedule`: a reminder, posted into the thread at a time.

use super::{Args, Call, Tool, ToolError, object, spec};
use futures_util::future::BoxFuture;
use leo_ipc::{
    chat::MAX_POST_TEXT,
    reminder::{MAX_OPEN, ScheduleReminder},
};
use serde_json::{Value, json};
use std::time::Duration;

/// How long to ask the hub, over its restarts.
const WITHIN: Duration = Duration::from_secs(30);

/// The tool.
pub(crate) struct ChatSchedule;

const KNOWN: [&str; 2] = ["text", "at"];

impl Tool for ChatSchedule {
    fn name(&self) -> &'static str {
        "leo_chat_schedule"
    }

    fn spec(&self) -> rmcp::model::Tool {
        let input = object(json!({
            "type": "object",
            "properties": {
                "text": {
                    "type": "string",
                    "description": "What they read then, as Markdown; at most 64 KiB."
                },
                "at": {
                    "type": "string",
                    "description": "When: RFC 3339 with an offset, such as 2026-10-14T09:00:00-04:00; in the \
                                    future, at most a year away."
                }
            },
            "required": ["text", "at"],
            "additionalProperties": false
        }));
        let output = object(json!({
            "type": "object",
            "properties": { "id": { "type": "string" }, "at": { "type": "string" } },
            "required": ["id", "at"]
        }));
        let description = format!(
            "Leaves a reminder: text that is posted into your chat thread with the person you work for at a \
             time, as a message from you. It reaches them, not you: you are not woken by it. Posted once; \
             to change one, cancel it and schedule another. At most {MAX_OPEN} may be open."
        );
        spec(self.name(), "Schedule a reminder", description, input, output, |hints| hints)
    }

    fn known(&self) -> &'static [&'static str] {
        &KNOWN
    }

    fn call<'a>(&'a self, args: Args, call: Call<'a>) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let text = args.text("text")?.unwrap_or_default();
            if text.trim().is_empty() {
                return Err(ToolError::Arguments("at $.text: expected what to remind them of".to_owned()));
            }
            if text.len() > MAX_POST_TEXT {
                return Err(ToolError::Arguments(format!(
                    "at $.text: {} bytes are more than the {MAX_POST_TEXT} that a message may have",
                    text.len()
                )));
            }
            let at = args.text("at")?.map(str::trim).filter(|at| !at.is_empty()).ok_or_else(|| {
                ToolError::Arguments("at $.at: expected a time, such as 2026-10-14T09:00:00-04:00".to_owned())
            })?;
            let schedule = ScheduleReminder {
                agent: call.caller.agent.clone(),
                launch: Some(call.caller.launch.clone()),
                call_key: call.key,
                text: text.to_owned(),
                at: at.to_owned(),
                run: call.caller.run.clone(),
            };
            let reminder = call.hub.call(schedule, WITHIN).await?;
            Ok(json!({ "id": reminder.id, "at": reminder.at }))
        })
    }
}
