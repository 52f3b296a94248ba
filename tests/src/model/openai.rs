//! OpenAI's two APIs: Responses, which codex speaks, and chat completions, which opencode's compatible
//! providers speak.

use super::{Item, Shared, Step, meant, scripted_failure, step_for, text_of};
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The parts of a Responses request, in order.
pub(super) fn items_of_responses(body: &Value) -> Vec<Item> {
    let mut out = Vec::new();
    for item in body["input"].as_array().into_iter().flatten() {
        let kind = item["type"].as_str().unwrap_or("message");
        match kind {
            "message" if item["role"] == "user" => {
                let texts = item["content"].as_array().into_iter().flatten();
                out.extend(texts.map(|block| Item::User(text_of(&block["text"]))));
            }
            "function_call" => out.push(Item::Call),
            "function_call_output" => {
                let output = &item["output"];
                let text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
                out.push(Item::Result(text));
            }
            _ => {}
        }
    }
    out
}

pub(super) async fn responses(State(shared): State<Arc<Shared>>, Json(body): Json<Value>) -> Response {
    if let Some(failure) = scripted_failure(&shared) {
        return failure;
    }
    // Tools of a server are offered inside of a namespace, whose name the call must repeat.
    let offered: Vec<(String, Option<String>)> = body["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|tool| match tool["tools"].as_array() {
            Some(inner) => {
                let space = text_of(&tool["name"]);
                inner.iter().map(|t| (text_of(&t["name"]), Some(space.clone()))).collect()
            }
            None => vec![(text_of(&tool["name"]), None)],
        })
        .collect();
    let names: Vec<String> = offered.iter().map(|(name, _)| name.clone()).collect();
    let output: Vec<Value> = match step_for(&shared, &body, &names).await {
        Step::Calls(calls) => calls
            .into_iter()
            .map(|(name, input)| {
                let name = meant(&names, &name);
                let mut call = json!({
                    "type": "function_call", "id": shared.id("fc"), "call_id": shared.id("call"), "name": name,
                    "arguments": input.to_string(), "status": "completed",
                });
                if let Some((_, Some(space))) = offered.iter().find(|(known, _)| *known == name) {
                    call["namespace"] = json!(space);
                }
                call
            })
            .collect(),
        Step::Say(text) => vec![said(&shared, &text)],
        Step::Sleep(_) | Step::Hold(_) => vec![said(&shared, "echo: done")],
    };
    let usage = json!({
        "input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
        "input_tokens_details": { "cached_tokens": 0 }, "output_tokens_details": { "reasoning_tokens": 0 },
    });
    let response = json!({
        "id": shared.id("resp"), "object": "response", "created_at": 1, "status": "completed",
        "model": body["model"], "output": output, "usage": usage,
    });
    if body["stream"] != true {
        return Json(response).into_response();
    }
    let mut begun = response.clone();
    begun["status"] = json!("in_progress");
    begun["output"] = json!([]);
    let mut events = vec![json!({ "type": "response.created", "response": begun })];
    for (index, item) in output.iter().enumerate() {
        events.push(json!({ "type": "response.output_item.added", "output_index": index, "item": item }));
        events.push(json!({ "type": "response.output_item.done", "output_index": index, "item": item }));
    }
    events.push(json!({ "type": "response.completed", "response": response }));
    let text: String = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()))
        .collect();
    ([("content-type", "text/event-stream")], text).into_response()
}

fn said(shared: &Shared, text: &str) -> Value {
    json!({
        "type": "message", "id": shared.id("msg"), "role": "assistant", "status": "completed",
        "content": [{ "type": "output_text", "text": text, "annotations": [] }],
    })
}

pub(super) async fn chat(State(shared): State<Arc<Shared>>, Json(body): Json<Value>) -> Response {
    if let Some(failure) = scripted_failure(&shared) {
        return failure;
    }
    let tools = body["tools"].as_array().into_iter().flatten();
    let names: Vec<String> = tools.map(|tool| text_of(&tool["function"]["name"])).collect();
    let (message, finish) = match step_for(&shared, &body, &names).await {
        Step::Calls(calls) => {
            let calls: Vec<Value> = calls
                .into_iter()
                .enumerate()
                .map(|(index, (name, input))| {
                    json!({
                        "index": index, "id": shared.id("call"), "type": "function",
                        "function": { "name": meant(&names, &name), "arguments": input.to_string() },
                    })
                })
                .collect();
            (json!({ "role": "assistant", "content": null, "tool_calls": calls }), "tool_calls")
        }
        Step::Say(text) => (json!({ "role": "assistant", "content": text }), "stop"),
        Step::Sleep(_) | Step::Hold(_) => (json!({ "role": "assistant", "content": "echo: done" }), "stop"),
    };
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    let base = |object: &str, choices: Value| json!({ "id": shared.id("chatcmpl"), "object": object, "created": 1, "model": body["model"], "choices": choices });
    if body["stream"] != true {
        let choices = json!([{ "index": 0, "message": message, "finish_reason": finish }]);
        let mut whole = base("chat.completion", choices);
        whole["usage"] = usage;
        return Json(whole).into_response();
    }
    let chunk = |choices| base("chat.completion.chunk", choices);
    let mut last = chunk(json!([]));
    last["usage"] = usage;
    let chunks = [
        chunk(json!([{ "index": 0, "delta": message, "finish_reason": null }])),
        chunk(json!([{ "index": 0, "delta": {}, "finish_reason": finish }])),
        last,
    ];
    let mut text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    text.push_str("data: [DONE]\n\n");
    ([("content-type", "text/event-stream")], text).into_response()
}
