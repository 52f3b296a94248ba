//! `leo_chat_history`: earlier messages of the agent's own thread.

use super::{Args, Call, Tool, ToolError, object, spec};
use futures_util::future::BoxFuture;
use leo_ipc::{
    MessageId,
    chat::{ListMessages, Message},
};
use serde_json::{Value, json};
use std::{ops::RangeInclusive, time::Duration};

/// How long to ask the hub, over its restarts.
const WITHIN: Duration = Duration::from_secs(30);

/// Messages that may be asked for.
const LIMITS: RangeInclusive<u32> = 1..=100;

/// Messages when no limit is given.
const DEFAULT_LIMIT: u32 = 20;

/// Longest result in bytes of JSON. Claude Code replaces a result of more than 25,000 tokens by the
/// name of a file; 60,000 characters of words still passed.
const MAX_RESULT: usize = 48_000;

/// The tool.
pub(crate) struct ChatHistory;

const KNOWN: [&str; 2] = ["limit", "before"];

impl Tool for ChatHistory {
    fn name(&self) -> &'static str {
        "leo_chat_history"
    }

    fn spec(&self) -> rmcp::model::Tool {
        let input = object(json!({
            "type": "object",
            "properties": {
                "limit": {
                    "type": "integer",
                    "minimum": LIMITS.start(),
                    "maximum": LIMITS.end(),
                    "default": DEFAULT_LIMIT,
                    "description": "How many messages; fewer are returned when they are long."
                },
                "before": {
                    "type": "string",
                    "description": "Id of a message: return only older ones, to page back."
                }
            },
            "additionalProperties": false
        }));
        let output = object(json!({
            "type": "object",
            "properties": {
                "messages": { "type": "array", "items": { "type": "object" } },
                "has_more": { "type": "boolean" }
            },
            "required": ["messages", "has_more"]
        }));
        let description = "Reads your chat thread with the person you work for: the newest messages, oldest first. \
             direction \"in\" is from them to you, \"out\" from you to them.";
        spec(self.name(), "Read chat history", description, input, output, |hints| {
            hints.read_only(true).idempotent(true)
        })
    }

    fn known(&self) -> &'static [&'static str] {
        &KNOWN
    }

    fn call<'a>(&'a self, args: Args, call: Call<'a>) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let limit = args.integer("limit", &LIMITS)?.unwrap_or(DEFAULT_LIMIT);
            let before = args.text("before")?.map(MessageId::from);
            let ask = ListMessages { agent: call.caller.agent.clone(), before, after: None, limit };
            let page = call.hub.call(ask, WITHIN).await?;
            fit(&page.messages, page.has_more)
        })
    }
}

/// The page as JSON, without its oldest messages where it would be too long; a single message that is
/// too long by itself loses the end of its text.
fn fit(messages: &[Message], has_more: bool) -> Result<Value, ToolError> {
    let mut kept: Vec<Value> = Vec::new();
    let mut size = 0;
    for message in messages.iter().rev() {
        let mut json = serde_json::to_value(message).map_err(|e| ToolError::Internal(e.to_string()))?;
        let mut bytes = json.to_string().len();
        if bytes > MAX_RESULT && kept.is_empty() {
            cut_text(&mut json, bytes);
            bytes = MAX_RESULT;
        }
        if size + bytes > MAX_RESULT {
            break;
        }
        size += bytes;
        kept.push(json);
    }
    let has_more = has_more || kept.len() < messages.len();
    kept.reverse();
    Ok(json!({ "messages": kept, "has_more": has_more }))
}

fn cut_text(message: &mut Value, bytes: usize) {
    let Some(text) = message.get("text").and_then(Value::as_str) else { return };
    // What does not belong to the text stays; the text may grow when it is escaped, so it is measured so.
    let around = bytes.saturating_sub(Value::from(text).to_string().len());
    let mut room = MAX_RESULT.saturating_sub(around + 100);
    let kept: String = text
        .chars()
        .take_while(|c| {
            let cost = Value::from(c.to_string()).to_string().len() - 2;
            let fits = cost <= room;
            room = room.saturating_sub(cost);
            fits
        })
        .collect();
    message["text"] = Value::from(kept);
    message["text_truncated"] = Value::Bool(true);
}

#[cfg(test)]
mod tests {
    use super::*;
    use leo_ipc::chat::{Direction, MessageState};

    fn message(id: &str, text: String) -> Message {
        Message {
            text,
            state: MessageState::Delivered,
            ..Message::bare(id.into(), "a".parse().unwrap(), Direction::In)
        }
    }

    fn ids(page: &Value) -> Vec<&str> {
        page["messages"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect()
    }

    #[test]
    fn a_page_that_fits_stays_as_it_is() {
        let page = fit(&[message("1", "a".into()), message("2", "b".into())], false).unwrap();
        assert_eq!(ids(&page), ["1", "2"]);
        assert_eq!(page["has_more"], false);
        assert_eq!(fit(&[], false).unwrap(), json!({"messages": [], "has_more": false}));
    }

    #[test]
    fn the_oldest_go_first_and_are_said_to_exist() {
        let messages: Vec<_> = (0..9).map(|i| message(&i.to_string(), "x".repeat(10_000))).collect();
        let page = fit(&messages, false).unwrap();
        assert_eq!(ids(&page), ["5", "6", "7", "8"]);
        assert_eq!(page["has_more"], true);
    }

    #[test]
    fn one_long_message_is_cut_however_it_is_escaped() {
        for text in ["x".repeat(300_000), "\u{1}".repeat(250_000), "\"é\n".repeat(60_000)] {
            let page = fit(&[message("0", "old".into()), message("1", text.clone())], false).unwrap();
            assert!(page.to_string().len() <= MAX_RESULT + 100, "{}", page.to_string().len());
            assert_eq!(ids(&page), ["1"]);
            let cut = page["messages"][0]["text"].as_str().unwrap();
            assert!(text.starts_with(cut) && cut.len() > 5_000);
            assert_eq!(page["messages"][0]["text_truncated"], true);
        }
    }
}
