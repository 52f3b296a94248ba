//! `leo_chat_schedule_list`: the open reminders of the thread.

use super::{Args, Call, Tool, ToolError, object, spec};
use futures_util::future::BoxFuture;
use leo_ipc::reminder::{ListReminders, Reminder};
use serde_json::{Value, json};
use std::time::Duration;

/// How long to ask the hub, over its restarts.
const WITHIN: Duration = Duration::from_secs(30);

/// Longest result in bytes of JSON, as of the history.
const MAX_RESULT: usize = 48_000;

/// How many characters of each text are shown, the first that make the list fit. The last one fits
/// whatever is in the most reminders that there can be.
const CUTS: [usize; 4] = [usize::MAX, 2000, 400, 60];

/// The tool.
pub(crate) struct ChatScheduleList;

impl Tool for ChatScheduleList {
    fn name(&self) -> &'static str {
        "leo_chat_schedule_list"
    }

    fn spec(&self) -> rmcp::model::Tool {
        let input = object(json!({ "type": "object", "properties": {}, "additionalProperties": false }));
        let output = object(json!({
            "type": "object",
            "properties": {
                "reminders": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "id": { "type": "string" },
                            "text": { "type": "string" },
                            "at": { "type": "string" },
                            "text_truncated": { "type": "boolean" }
                        },
                        "required": ["id", "text", "at"]
                    }
                }
            },
            "required": ["reminders"]
        }));
        let description = "Lists the reminders of your chat thread that have not been posted yet, the next one \
                           first, also those of earlier sessions.";
        spec(self.name(), "List reminders", description, input, output, |hints| {
            hints.read_only(true).idempotent(true)
        })
    }

    fn known(&self) -> &'static [&'static str] {
        &[]
    }

    fn call<'a>(&'a self, _: Args, call: Call<'a>) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let list = ListReminders {
                agent: call.caller.agent.clone(),
                by_agent: true,
                run: call.caller.run.clone(),
            };
            Ok(fit(&call.hub.call(list, WITHIN).await?.reminders))
        })
    }
}

fn fit(reminders: &[Reminder]) -> Value {
    let mut shown = Value::Null;
    for most in CUTS {
        let items: Vec<Value> = reminders.iter().map(|reminder| item(reminder, most)).collect();
        shown = json!({ "reminders": items });
        if shown.to_string().len() <= MAX_RESULT {
            break;
        }
    }
    shown
}

fn item(reminder: &Reminder, most: usize) -> Value {
    let mut item = json!({ "id": reminder.id, "text": reminder.text, "at": reminder.at });
    if reminder.text.chars().nth(most).is_some() {
        item["text"] = reminder.text.chars().take(most).collect::<String>().into();
        item["text_truncated"] = true.into();
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use leo_ipc::reminder::{MAX_OPEN, MAX_OPEN_BYTES};

    fn reminder(text: String) -> Reminder {
        let id = "019ad2f0-0000-7000-8000-000000000001".into();
        let (agent, at) = ("a".parse().unwrap(), "2026-10-14T09:00:00.250-04:00".to_owned());
        Reminder { id, agent, text, at, task: None, run_id: None }
    }

    #[test]
    fn whatever_is_open_fits_into_a_result() {
        let share = usize::try_from(MAX_OPEN_BYTES / MAX_OPEN).unwrap();
        for text in ["x", "\u{1}", "😀", "é"] {
            let text = text.repeat(share / text.len());
            let all: Vec<_> = (0..MAX_OPEN).map(|_| reminder(text.clone())).collect();
            let shown = fit(&all);
            assert!(shown.to_string().len() <= MAX_RESULT, "{text:.4}: {}", shown.to_string().len());
            assert_eq!(shown["reminders"].as_array().unwrap().len(), all.len());
            assert_eq!(shown["reminders"][0]["text_truncated"], true);
        }
        let short = fit(&[reminder("Stand-up".into())]);
        assert_eq!(short["reminders"][0]["text"], "Stand-up");
        assert!(short["reminders"][0].get("text_truncated").is_none());
    }
}
