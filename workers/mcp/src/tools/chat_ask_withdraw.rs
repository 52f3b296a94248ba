//! `leo_chat_ask_withdraw`: takes an own open question back.

use super::{Args, Call, Tool, ToolError, always_loaded, object};
use futures_util::future::BoxFuture;
use leo_ipc::{MessageId, ask::WithdrawAsk};
use rmcp::model::ToolAnnotations;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// How long to ask the hub, over its restarts.
const WITHIN: Duration = Duration::from_secs(30);

/// The tool.
pub(crate) struct ChatAskWithdraw;

const KNOWN: [&str; 1] = ["message_id"];

impl Tool for ChatAskWithdraw {
    fn name(&self) -> &'static str {
        "leo_chat_ask_withdraw"
    }

    fn spec(&self) -> rmcp::model::Tool {
        let input = object(json!({
            "type": "object",
            "properties": {
                "message_id": { "type": "string", "description": "Id of your open question." }
            },
            "required": ["message_id"],
            "additionalProperties": false
        }));
        let output = object(json!({
            "type": "object",
            "properties": { "message_id": { "type": "string" }, "withdrawn": { "type": "boolean" } },
            "required": ["message_id", "withdrawn"]
        }));
        rmcp::model::Tool::new(
            self.name(),
            "Takes back a question that you asked with leo_chat_ask and that is still open, when you no \
             longer need the answer.",
            Arc::new(input),
        )
        .with_title("Withdraw a question")
        .with_raw_output_schema(Arc::new(output))
        .with_annotations(
            ToolAnnotations::new().read_only(false).destructive(false).idempotent(false).open_world(false),
        )
        .with_meta(always_loaded())
    }

    fn known(&self) -> &'static [&'static str] {
        &KNOWN
    }

    fn call<'a>(&'a self, args: Args, call: Call<'a>) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let id = args.text("message_id")?.map(str::trim).filter(|id| !id.is_empty());
            let message_id = id.map(MessageId::from).ok_or_else(|| {
                ToolError::Arguments("at $.message_id: expected the id of a question of yours".to_owned())
            })?;
            let withdraw = WithdrawAsk { agent: call.caller.agent.clone(), message_id };
            let message = call.hub.call(withdraw, WITHIN).await?;
            Ok(json!({ "message_id": message.id, "withdrawn": true }))
        })
    }
}
