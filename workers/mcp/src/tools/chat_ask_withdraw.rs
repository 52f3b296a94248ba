//! `leo_chat_ask_withdraw`: takes an own open question back.

use super::{Args, Call, Tool, ToolError, object, spec};
use futures_util::future::BoxFuture;
use leo_ipc::{MessageId, ask::WithdrawAsk};
use serde_json::{Value, json};
use std::time::Duration;

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
        let description = "Takes back a question that you asked with leo_chat_ask and that is still open, when you no \
             longer need the answer.";
        spec(self.name(), "Withdraw a question", description, input, output, |hints| hints)
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
