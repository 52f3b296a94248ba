//! A scripted model on loopback that speaks the Anthropic Messages API and OpenAI's Responses and chat
//! completions, streaming and not, so that the real Claude Code, codex and opencode run with no account.
//!
//! What it answers is written in the newest user prompt that holds a directive, one a line, which may
//! stand behind `[Leo Chat] `:
//!
//! - `>>tool NAME {json}` calls the tool whose name is NAME or ends in it;
//! - `>>par [{"name":…,"input":…}]` makes several calls in one message;
//! - `>>sleep SECONDS` waits, `>>hold NAME` waits until the test lets NAME go;
//! - `>>say TEXT` ends the turn; without it the turn ends with `echo: ` and the end of the prompt.

mod openai;

use anyhow::Result;
use axum::{
    Json, Router,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
    routing::{any, post},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// Characters of a prompt that an echo repeats.
const ECHO: usize = 200;

/// A running model. It ends with the test's runtime.
#[derive(Clone)]
pub struct Model {
    shared: Arc<Shared>,
    port: u16,
}

struct Shared {
    requests: Mutex<Vec<Value>>,
    released: watch::Sender<BTreeSet<String>>,
    next_id: AtomicU64,
    fail_with: Mutex<Option<u16>>,
}

impl Model {
    /// Starts a model on a free port.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start() -> Result<Model> {
        let shared = Arc::new(Shared {
            requests: Mutex::default(),
            released: watch::Sender::new(BTreeSet::new()),
            next_id: AtomicU64::new(1),
            fail_with: Mutex::default(),
        });
        let router = Router::new()
            .route("/v1/messages", post(messages))
            .route("/v1/responses", post(openai::responses))
            .route("/v1/chat/completions", post(openai::chat))
            .route("/v1/messages/count_tokens", post(|| async { Json(json!({ "input_tokens": 10 })) }))
            .fallback(any(|| async { Json(json!({})) }))
            .with_state(shared.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Model { shared, port })
    }

    /// Its base URL.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Lets everything that waits at `>>hold name` go on, now and later.
    pub fn release(&self, name: &str) {
        self.shared.released.send_modify(|names| {
            names.insert(name.to_owned());
        });
    }

    /// Answers every later request with this HTTP status, or as scripted again.
    pub fn fail_with(&self, status: Option<u16>) {
        *self.shared.fail_with.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// The texts of all user prompts that reached the model in conversations with tools, each once in
    /// the order of their first arrival.
    pub fn prompts(&self) -> Vec<String> {
        let mut seen: Vec<String> = Vec::new();
        for body in self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            for item in items(body) {
                if let Item::User(text) = item
                    && !seen.contains(&text)
                {
                    seen.push(text);
                }
            }
        }
        seen
    }

    /// The user prompts of the newest conversation with tools, the oldest first.
    pub fn last_conversation(&self) -> Vec<String> {
        let requests = self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = requests.last().map(items).unwrap_or_default();
        newest
            .into_iter()
            .filter_map(|item| if let Item::User(text) = item { Some(text) } else { None })
            .collect()
    }

    /// How often a text was told to the model, as a person's prompt or as what Claude says of another
    /// session's message: how often it stands in one conversation, or in how many that did not go on from
    /// each other (a Claude that was killed may have kept nothing of its last turn).
    pub fn times_read(&self, text: &str) -> usize {
        let requests = self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut most, mut began, mut before) = (0, 0, 0);
        for body in requests.iter() {
            let times = times_told(body, text);
            began += usize::from(times > 0 && before == 0);
            most = most.max(times);
            before = times;
        }
        most.max(began)
    }

    /// The texts of all tool results of all conversations, a subagent's included.
    pub fn every_tool_result(&self) -> Vec<String> {
        let requests = self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let all = requests.iter().flat_map(items);
        all.filter_map(|item| if let Item::Result(text) = item { Some(text) } else { None }).collect()
    }

    /// The texts of the tool results of the newest request.
    pub fn tool_results(&self) -> Vec<String> {
        let requests = self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = requests.iter().rev().take(1).flat_map(items);
        newest.filter_map(|item| if let Item::Result(text) = item { Some(text) } else { None }).collect()
    }
}

/// How often a text stands in a conversation, the model's own words aside.
fn times_told(body: &Value, text: &str) -> usize {
    let messages = body["messages"].as_array().into_iter().flatten();
    let told = messages.filter(|m| m["role"] != "assistant");
    let blocks = told.flat_map(|m| match m["content"].as_array() {
        Some(blocks) => blocks.iter().filter(|b| b["type"] == "text").map(|b| text_of(&b["text"])).collect(),
        None => vec![text_of(&m["content"])],
    });
    blocks.map(|block| block.matches(text).count()).sum()
}

enum Item {
    User(String),
    Call,
    Result(String),
}

fn items(body: &Value) -> Vec<Item> {
    if body.get("input").is_some() {
        return openai::items_of_responses(body);
    }
    let mut out = Vec::new();
    for message in body["messages"].as_array().into_iter().flatten() {
        let content = &message["content"];
        let blocks = match content.as_str() {
            Some(text) => vec![json!({ "type": "text", "text": text })],
            None => content.as_array().cloned().unwrap_or_default(),
        };
        for block in blocks {
            match (message["role"].as_str(), block["type"].as_str()) {
                (Some("user"), Some("text")) => out.push(Item::User(text_of(&block["text"]))),
                (Some("user"), Some("tool_result")) => out.push(Item::Result(result_text(&block["content"]))),
                (Some("assistant"), Some("tool_use")) => out.push(Item::Call),
                (Some("tool"), Some("text")) => out.push(Item::Result(text_of(&block["text"]))),
                _ => {}
            }
        }
        // OpenAI's chat keeps calls beside the content.
        out.extend(message["tool_calls"].as_array().into_iter().flatten().map(|_| Item::Call));
    }
    out
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn result_text(content: &Value) -> String {
    match content.as_str() {
        Some(text) => text.to_owned(),
        None => content
            .as_array()
            .into_iter()
            .flatten()
            .map(|b| text_of(&b["text"]))
            .collect::<Vec<_>>()
            .join(" "),
    }
}

enum Step {
    Say(String),
    Calls(Vec<(String, Value)>),
    Sleep(Duration),
    Hold(String),
}

/// The directives of a prompt.
fn script(prompt: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for line in prompt.lines() {
        let line = line.trim_start();
        let line = line.strip_prefix("[Leo Chat] ").unwrap_or(line);
        let Some((verb, rest)) = line.strip_prefix(">>").map(|l| l.split_once(' ').unwrap_or((l, ""))) else {
            continue;
        };
        let rest = rest.trim();
        match verb {
            "say" => steps.push(Step::Say(rest.to_owned())),
            "sleep" => steps.push(Step::Sleep(Duration::from_secs_f64(rest.parse().unwrap_or(1.0)))),
            "hold" => steps.push(Step::Hold(rest.to_owned())),
            "tool" => {
                let (name, input) = rest.split_once(' ').unwrap_or((rest, "{}"));
                let input = serde_json::from_str(input).unwrap_or(json!({}));
                steps.push(Step::Calls(vec![(name.to_owned(), input)]));
            }
            "par" => {
                let calls: Vec<Value> = serde_json::from_str(rest).unwrap_or_default();
                let call = |c: Value| (text_of(&c["name"]), c["input"].clone());
                steps.push(Step::Calls(calls.into_iter().map(call).collect()));
            }
            _ => {}
        }
    }
    steps
}

/// What Claude adds around prompts is no prompt of a person's.
fn is_prompt(text: &str) -> bool {
    let text = text.trim_start();
    !text.is_empty() && (!text.starts_with('<') || text.starts_with("<pasted_content"))
}

async fn next_step(shared: &Shared, body: &Value) -> Step {
    let items = items(body);
    let newest = items.iter().enumerate().rev().find_map(|(at, item)| match item {
        Item::User(text) if is_prompt(text) => Some((at, text.clone())),
        _ => None,
    });
    let Some((start, prompt)) = newest else { return Step::Say("echo: nothing".to_owned()) };
    let done = items[start..].iter().filter(|i| matches!(i, Item::Call)).count();
    let mut made = 0;
    for step in script(&prompt) {
        match step {
            Step::Calls(calls) if made == done => return Step::Calls(calls),
            Step::Calls(calls) => made += calls.len(),
            Step::Say(text) if made == done => return Step::Say(text),
            Step::Sleep(pause) if made == done => tokio::time::sleep(pause).await,
            Step::Hold(name) if made == done => {
                // The sender lives in `shared`, so waiting ends only by release.
                let _ = shared.released.subscribe().wait_for(|names| names.contains(&name)).await;
            }
            _ => {}
        }
    }
    let tail: Vec<char> = prompt.chars().collect();
    Step::Say(format!("echo: {}", tail[tail.len().saturating_sub(ECHO)..].iter().collect::<String>()))
}

/// The failure that the test wants, in words that the clients of all three APIs understand.
fn scripted_failure(shared: &Shared) -> Option<Response> {
    let status = *shared.fail_with.lock().unwrap_or_else(PoisonError::into_inner);
    let code = status.and_then(|s| http::StatusCode::from_u16(s).ok())?;
    let error = json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "scripted failure" } });
    Some((code, Json(error)).into_response())
}

/// What to answer a request that offers these tools.
async fn step_for(shared: &Shared, body: &Value, names: &[String]) -> Step {
    if names.is_empty() {
        // A side request, such as a title for the conversation.
        return Step::Say("ok".to_owned());
    }
    shared.requests.lock().unwrap_or_else(PoisonError::into_inner).push(body.clone());
    next_step(shared, body).await
}

/// The offered tool that a script means: of this name, or ending in it.
fn meant(names: &[String], name: &str) -> String {
    names.iter().find(|n| **n == name || n.ends_with(name)).cloned().unwrap_or_else(|| name.to_owned())
}

impl Shared {
    fn id(&self, kind: &str) -> String {
        format!("{kind}_{:020}", self.next_id.fetch_add(1, Ordering::Relaxed))
    }
}

async fn messages(
    State(shared): State<Arc<Shared>>,
    _headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    if let Some(failure) = scripted_failure(&shared) {
        return failure;
    }
    let names: Vec<String> =
        body["tools"].as_array().into_iter().flatten().map(|t| text_of(&t["name"])).collect();
    let step = step_for(&shared, &body, &names).await;
    let id = |kind: &str| shared.id(kind);
    let (blocks, stop) = match step {
        Step::Calls(calls) => {
            let block = |(name, input): (String, Value)| json!({ "type": "tool_use", "id": id("toolu"), "name": meant(&names, &name), "input": input });
            (calls.into_iter().map(block).collect::<Vec<_>>(), "tool_use")
        }
        Step::Say(text) => (vec![json!({ "type": "text", "text": text })], "end_turn"),
        Step::Sleep(_) | Step::Hold(_) => (vec![json!({ "type": "text", "text": "echo: done" })], "end_turn"),
    };
    let usage = json!({
        "input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0
    });
    let message = json!({
        "id": id("msg"), "type": "message", "role": "assistant", "model": body["model"], "content": blocks,
        "stop_reason": stop, "stop_sequence": null, "usage": usage
    });
    if body["stream"] == true {
        stream(&message, &blocks, stop, &usage)
    } else {
        Json(message).into_response()
    }
}

fn stream(message: &Value, blocks: &[Value], stop: &str, usage: &Value) -> Response {
    let mut out = String::new();
    let mut emit = |kind: &str, data: Value| {
        out.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
    };
    let mut start = message.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    emit("message_start", json!({ "type": "message_start", "message": start }));
    for (index, block) in blocks.iter().enumerate() {
        let (empty, delta) = if stop == "tool_use" {
            let mut empty = block.clone();
            empty["input"] = json!({});
            (empty, json!({ "type": "input_json_delta", "partial_json": block["input"].to_string() }))
        } else {
            (json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": block["text"] }))
        };
        emit(
            "content_block_start",
            json!({ "type": "content_block_start", "index": index, "content_block": empty }),
        );
        emit("content_block_delta", json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        emit("content_block_stop", json!({ "type": "content_block_stop", "index": index }));
    }
    let delta = json!({ "stop_reason": stop, "stop_sequence": null });
    emit("message_delta", json!({ "type": "message_delta", "delta": delta, "usage": usage }));
    emit("message_stop", json!({ "type": "message_stop" }));
    ([("content-type", "text/event-stream")], out).into_response()
}
