//! `leo_chat_schedule_cancel`: takes a reminder back.

use super::{Args, Call, Tool, ToolError, object, spec};
use futures_util::future::BoxFuture;
use leo_ipc::{MessageId, reminder::CancelReminder};
use serde_json::{Value, json};
use std::time::Duration;

/// How long to ask the hub, over its restarts.
const WITHIN: Duration = Duration::from_secs(30);

/// The tool.
pub(crate) struct ChatScheduleCancel;

const KNOWN: [&str; 1] = ["id"];

impl Tool for ChatScheduleCancel {
    fn name(&self) -> &'static str {
        "leo_chat_schedule_cancel"
    }

    fn spec(&self) -> rmcp::model::Tool {
        let input = object(json!({
            "type": "object",
            "properties": { "id": { "type": "string", "description": "Id of the reminder." } },
            "required": ["id"],
            "additionalProperties": false
        }));
        let output = object(json!({
            "type": "object",
            "properties": { "id": { "type": "string" }, "cancelled": { "type": "boolean" } },
            "required": ["id", "cancelled"]
        }));
        let description = "Takes back a reminder of your chat thread that has not been posted yet.";
        spec(self.name(), "Cancel a reminder", description, input, output, |hints| hints)
    }

    fn known(&self) -> &'static [&'static str] {
        &KNOWN
    }

    fn call<'a>(&'a self, args: Args, call: Call<'a>) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let id = args.text("id")?.map(str::trim).filter(|id| !id.is_empty());
            let id = id.map(MessageId::from).ok_or_else(|| {
                ToolError::Arguments("at $.id: expected the id of a reminder of this thread".to_owned())
            })?;
            let cancel = CancelReminder {
                agent: call.caller.agent.clone(),
                by_agent: true,
                run: call.caller.run.clone(),
                id,
                key: call.key,
            };
            let done = call.hub.call(cancel, WITHIN).await?;
            Ok(json!({ "id": done.id, "cancelled": done.cancelled }))
        })
    }
}
