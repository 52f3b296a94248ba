//! Frames of asks, permission prompts and question cards.

use super::{Golden, values::least_message};
use leo_ipc::{
    ask::{AskResult, Decision},
    chat::Message,
    hub::HubRequest,
};
use serde_json::{Value, json};

fn message_with(fields: Value) -> Value {
    let mut message = least_message();
    if let (Value::Object(message), Value::Object(fields)) = (&mut message, fields) {
        message.extend(fields);
    }
    message
}

pub(crate) fn asks() -> Vec<Golden> {
    let hub = Golden::new::<HubRequest>;
    let message = |name, fields| Golden::new::<Message>(name, message_with(fields));
    let choice = json!({"value": "y", "label": "Yes", "description": "Do it."});
    let question = json!({
        "id": "q1", "header": "Size", "question": "Which size?", "multi": true, "allow_text": true,
        "options": [{"value": "L", "label": "L"}]
    });
    vec![
        hub(
            "hub.ask.open",
            json!({
                "op": "ask.open", "agent": "a", "launch": "l1", "call_key": "k", "question": "Ship it?",
                "input": {"type": "radio", "options": ["y", {"value": "n", "label": "No"}]}, "options": ["x"],
                "timeout_s": 60
            }),
        ),
        hub("hub.ask.open.least", json!({"op": "ask.open", "agent": "a", "call_key": "k", "question": "?"})),
        hub("hub.ask.wait", json!({"op": "ask.wait", "agent": "a", "message_id": "01a2", "call_key": "k"})),
        hub(
            "hub.ask.stop_waiting",
            json!({"op": "ask.stop_waiting", "agent": "a", "message_id": "01a2", "call_key": "k"}),
        ),
        hub("hub.ask.withdraw", json!({"op": "ask.withdraw", "agent": "a", "message_id": "01a2"})),
        hub(
            "hub.ask.answer",
            json!({
                "op": "ask.answer", "agent": "a", "message_id": "01a2", "by": "app:phone", "key": "k",
                "answer": {"values": ["y"], "text": "now", "labels": ["Yes"],
                    "answers": {"q1": {"values": ["L"], "text": "large"}}}
            }),
        ),
        hub(
            "hub.ask.answer.least",
            json!({
                "op": "ask.answer", "agent": "a", "message_id": "01a2", "by": "operator", "key": "k", "answer": {}
            }),
        ),
        hub("hub.ask.dismiss", json!({"op": "ask.dismiss", "agent": "a", "message_id": "01a2"})),
        hub(
            "hub.permission.ask",
            json!({
                "op": "permission.ask", "hook_key": "h1", "token": "t", "at_ms": 1_764_450_870_706_i64,
                "tool_name": "Bash", "tool_input": {"command": "ls", "n": [1, null, 0.5]}, "prompt_id": "p1",
                "session_id": "s1", "agent_id": "sub", "agent_type": "general-purpose",
                "permission_mode": "default"
            }),
        ),
        hub(
            "hub.permission.ask.least",
            json!({
                "op": "permission.ask", "hook_key": "h1", "token": "t", "at_ms": 1, "tool_name": "Bash",
                "tool_input": {}
            }),
        ),
        hub("hub.permission.gone", json!({"op": "permission.gone", "hook_key": "h1", "token": "t"})),
        hub(
            "hub.hook.batch",
            json!({
                "op": "hook", "hook_key": "h1", "token": "t", "at_ms": 1,
                "event": {"name": "PostToolBatch", "tool_use_ids": ["u1", "u2"]}
            }),
        ),
        Golden::new::<AskResult>(
            "ask.result",
            json!({"message_id": "01a2", "values": ["y"], "labels": ["Yes"], "text": "now"}),
        ),
        Golden::new::<AskResult>("ask.result.pending", json!({"message_id": "01a2", "pending": true})),
        Golden::new::<AskResult>(
            "ask.result.closed",
            json!({"message_id": "01a2", "timed_out": true, "closed_reason": "agent_gone"}),
        ),
        Golden::new::<Decision>("decision.nothing", json!({"decision": "nothing"})),
        Golden::new::<Decision>(
            "decision.allow",
            json!({"decision": "allow", "updated_input": {"questions": [], "answers": {"Which?": ["a", "b"]}}}),
        ),
        Golden::new::<Decision>("decision.allow.least", json!({"decision": "allow"})),
        Golden::new::<Decision>("decision.deny", json!({"decision": "deny", "message": "no"})),
        Golden::new::<Decision>("decision.deny.least", json!({"decision": "deny"})),
        message(
            "message.ask",
            json!({
                "kind": "ask", "state": "answered", "deadline": "2026-11-29T21:14:30.706Z",
                "input": {"type": "checkboxes", "options": [choice], "allow_text": true, "min": 0, "max": 1,
                    "placeholder": "or else"},
                "answer": {"values": ["y"], "text": "now", "labels": ["Yes"]}, "answered_by": "operator"
            }),
        ),
        message(
            "message.permission",
            json!({
                "kind": "permission", "state": "open",
                "permission": {"tool": "Bash", "summary": "ls", "input": {"command": "ls"}, "truncated": true,
                    "agent_type": "general-purpose", "in_terminal": false}
            }),
        ),
        message(
            "message.questions",
            json!({
                "kind": "ask", "state": "expired", "closed_reason": "dismissed",
                "input": {"type": "questions", "questions": [question]}
            }),
        ),
    ]
}
