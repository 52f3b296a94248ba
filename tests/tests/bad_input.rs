//! Bad input on every route: the right status and code, nothing stored, never a 5xx.

use anyhow::{Context, Result, ensure};
use leo_tests::{Api, Leo};
use reqwest::Method;
use serde_json::json;

/// One bad request: method, path, body, expected status, expected code.
struct Case {
    method: Method,
    path: &'static str,
    body: Body,
    status: u16,
    code: &'static str,
}

enum Body {
    None,
    Json(&'static str),
    Bytes(&'static [u8]),
    Typed(&'static str, &'static str),
}

fn case(method: Method, path: &'static str, body: Body, status: u16, code: &'static str) -> Case {
    Case { method, path, body, status, code }
}

fn cases() -> Vec<Case> {
    use Body::{Bytes, Json, None, Typed};
    let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
    let thread = "/api/v1/chat/assistant/messages";
    vec![
        case(get.clone(), "/api/v1/no-such-route", None, 404, "not_found"),
        case(Method::PATCH, "/api/v1/chat/threads", None, 405, "method_not_allowed"),
        case(get.clone(), "/chat/task-failure", None, 404, "not_found"),
        case(get.clone(), "/api/v1/chat/nobody/messages", None, 404, "unknown_agent"),
        case(get.clone(), "/api/v1/chat/Not%20A%20Name/messages", None, 404, "unknown_agent"),
        case(get.clone(), "/api/v1/chat/%ff%fe/messages", None, 404, "not_found"),
        case(get.clone(), "/api/v1/chat/assistant/messages?limit=0", None, 400, "bad_request"),
        case(get.clone(), "/api/v1/chat/assistant/messages?limit=201", None, 400, "bad_request"),
        case(get.clone(), "/api/v1/chat/assistant/messages?limit=many", None, 400, "bad_request"),
        case(get.clone(), "/api/v1/chat/assistant/messages?before=x", None, 404, "unknown_message"),
        case(get.clone(), "/api/v1/chat/assistant/messages?before=a&after=b", None, 400, "bad_request"),
        case(get.clone(), "/api/v1/chat/assistant/messages/no-such-id", None, 404, "unknown_message"),
        case(get.clone(), "/api/v1/chat/attachments/no-such-id", None, 404, "unknown_attachment"),
        case(post.clone(), thread, Json("{}"), 400, "bad_request"),
        case(post.clone(), thread, Json("[]"), 400, "bad_request"),
        case(post.clone(), thread, Json("null"), 400, "bad_request"),
        case(post.clone(), thread, Json("{\"text\": 5}"), 400, "bad_request"),
        case(post.clone(), thread, Json("{\"text\": \"\"}"), 400, "bad_request"),
        case(post.clone(), thread, Json("{\"text\": \"  \\n\"}"), 400, "bad_request"),
        case(post.clone(), thread, Json("{\"text\": \"x\""), 400, "bad_request"),
        case(post.clone(), thread, Json("{\"text\": \"x\", \"reply_to\": \"nope\"}"), 404, "unknown_message"),
        case(post.clone(), thread, Json("{\"text\": \"x\", \"client_msg_id\": 7}"), 400, "bad_request"),
        case(
            post.clone(),
            thread,
            Json("{\"text\": \"x\", \"attachments\": [\"nope\"]}"),
            404,
            "unknown_attachment",
        ),
        case(post.clone(), thread, Typed("application/json", "\u{0}"), 400, "bad_request"),
        case(post.clone(), thread, Bytes(b"{\"text\": \"\xff\xfe\"}"), 400, "bad_request"),
        case(post.clone(), thread, Typed("text/plain", "hello"), 415, "unsupported_media_type"),
        case(post.clone(), "/api/v1/chat/assistant/messages/nope/retry", Json("{}"), 404, "unknown_message"),
        case(post.clone(), "/api/v1/chat/assistant/messages/nope/cancel", Json("{}"), 404, "unknown_message"),
        case(
            post.clone(),
            "/api/v1/chat/assistant/messages/nope/answer",
            Json("{\"text\":\"x\"}"),
            404,
            "unknown_message",
        ),
        case(post.clone(), "/api/v1/chat/assistant/messages/nope/answer", Json("{}"), 400, "bad_request"),
        case(
            post.clone(),
            "/api/v1/chat/assistant/messages/nope/answer",
            Json("{\"answers\":{\"q1\":7}}"),
            400,
            "bad_request",
        ),
        case(
            post.clone(),
            "/api/v1/chat/nobody/messages/nope/answer",
            Json("{\"text\":\"x\"}"),
            404,
            "unknown_agent",
        ),
        case(post.clone(), "/api/v1/chat/assistant/messages/nope/dismiss", None, 404, "unknown_message"),
        case(post.clone(), "/api/v1/chat/assistant/messages/nope/dismiss", Json("[]"), 400, "bad_request"),
        case(post.clone(), "/api/v1/chat/assistant/read", Json("{}"), 400, "bad_request"),
        case(
            post.clone(),
            "/api/v1/chat/assistant/read",
            Json("{\"message_id\": \"nope\"}"),
            404,
            "unknown_message",
        ),
        case(get.clone(), "/api/v1/events?since=nonsense", None, 400, "bad_request"),
        case(get.clone(), "/api/v1/agents/nobody", None, 404, "unknown_agent"),
        case(delete, "/api/v1/agents/nobody", None, 404, "unknown_agent"),
        case(post.clone(), "/api/v1/agents/nobody/start", Json("{}"), 404, "unknown_agent"),
        case(post.clone(), "/api/v1/agents/nobody/stop", Json("{}"), 404, "unknown_agent"),
        case(post.clone(), "/api/v1/agents/nobody/interrupt", Json("{}"), 404, "unknown_agent"),
        case(post.clone(), "/api/v1/agents/nobody/clear", Json("{}"), 404, "unknown_agent"),
        case(post.clone(), "/api/v1/agents/nobody/compact", Json("{}"), 404, "unknown_agent"),
        case(
            post.clone(),
            "/api/v1/agents/nobody/compact",
            Json(r#"{"instructions": 1}"#),
            400,
            "bad_request",
        ),
        case(get, "/api/v1/agents/assistant/logs?lines=-1", None, 400, "bad_request"),
        case(post.clone(), "/api/v1/agents", Json("{}"), 400, "bad_request"),
        case(
            post.clone(),
            "/api/v1/agents",
            Json("{\"name\":\"Bad Name\",\"harness\":\"demo\"}"),
            400,
            "bad_request",
        ),
        case(
            post.clone(),
            "/api/v1/agents",
            Json("{\"name\":\"x\",\"harness\":\"emacs\"}"),
            400,
            "bad_request",
        ),
        case(
            post.clone(),
            "/api/v1/agents",
            Json("{\"name\":\"x\",\"harness\":\"demo\",\"workspace\":\"relative\"}"),
            400,
            "bad_request",
        ),
        case(
            post.clone(),
            "/api/v1/agents",
            Json("{\"name\":\"assistant\",\"harness\":\"demo\",\"workspace\":\"/tmp\"}"),
            409,
            "agent_exists",
        ),
        case(post.clone(), "/api/agent/nobody/chat/post", Json("{\"text\":\"x\"}"), 404, "unknown_agent"),
        case(post.clone(), "/api/agent/assistant/chat/post", Json("{}"), 400, "bad_request"),
        case(
            post.clone(),
            "/api/agent/assistant/chat/post",
            Json("{\"files\":[\"relative\"]}"),
            400,
            "bad_request",
        ),
        case(post.clone(), "/api/agent/nobody/chat/ask", Json("{\"question\":\"x\"}"), 404, "unknown_agent"),
        case(post.clone(), "/api/agent/assistant/chat/ask", Json("{}"), 400, "bad_request"),
        case(
            post.clone(),
            "/api/agent/assistant/chat/ask?wait_s=1801",
            Json("{\"question\":\"x\"}"),
            400,
            "bad_request",
        ),
        case(
            post.clone(),
            "/api/agent/assistant/chat/ask",
            Json("{\"question\":\"x\",\"options\":[]}"),
            400,
            "bad_request",
        ),
        case(
            post.clone(),
            "/api/agent/assistant/chat/ask",
            Json("{\"question\":\"x\",\"input\":{\"type\":\"questions\"}}"),
            400,
            "bad_request",
        ),
        case(
            post.clone(),
            "/api/agent/assistant/chat/ask?wait_s=0",
            Json("{\"message_id\":\"nope\"}"),
            404,
            "unknown_message",
        ),
        case(post.clone(), "/api/agent/assistant/chat/ask/withdraw", Json("{}"), 400, "bad_request"),
        case(
            post.clone(),
            "/api/agent/assistant/chat/ask/withdraw",
            Json("{\"message_id\":\"nope\"}"),
            404,
            "unknown_message",
        ),
        case(post, "/api/agent/assistant/chat/history", Json("{\"limit\":0}"), 400, "bad_request"),
    ]
}

async fn send(api: &Api, case: &Case) -> Result<(u16, serde_json::Value)> {
    let request = api.request(case.method.clone(), case.path);
    let request = match &case.body {
        Body::None => request,
        Body::Json(text) => request.header("content-type", "application/json").body(*text),
        Body::Bytes(bytes) => request.header("content-type", "application/json").body(*bytes),
        Body::Typed(kind, text) => request.header("content-type", *kind).body(*text),
    };
    let response = request.send().await?;
    let status = response.status().as_u16();
    let text = response.text().await?;
    let body = serde_json::from_str(&text).with_context(|| format!("{} {text:.200}", case.path))?;
    Ok((status, body))
}

#[tokio::test]
async fn every_route_says_what_is_wrong() -> Result<()> {
    let leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let before = api.thread("assistant").await?.len();
    let mut wrong = Vec::new();
    for case in cases() {
        let (status, body) = send(&api, &case).await?;
        let good = status == case.status
            && body["ok"] == false
            && body["code"] == case.code
            && body["error"].as_str().is_some_and(|e| !e.is_empty());
        if !good {
            wrong.push(format!(
                "{} {}: {status} {body}, expected {} {}",
                case.method, case.path, case.status, case.code
            ));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(api.thread("assistant").await?.len() == before, "bad input stores nothing");
    Ok(())
}

#[tokio::test]
async fn errors_say_where() -> Result<()> {
    let leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let path = "/api/v1/chat/assistant/messages";
    let answer = api.ask(Method::POST, path, Some(json!({ "text": 5 }))).await?;
    ensure!(answer.body["error"].as_str().is_some_and(|e| e.contains("$.text")), "{answer:?}");
    let bad = json!({ "answers": { "q1": { "values": [true] } } });
    let answer = api.ask(Method::POST, &format!("{path}/nope/answer"), Some(bad)).await?;
    let says = "at $.answers.q1.values[0]: invalid type";
    ensure!(answer.body["error"].as_str().is_some_and(|e| e.starts_with(says)), "{answer:?}");
    let bad = json!({ "question": "x", "input": { "type": "buttons", "options": ["a", "a"] } });
    let answer = api.ask(Method::POST, "/api/agent/assistant/chat/ask", Some(bad)).await?;
    ensure!(answer.body["error"].as_str().is_some_and(|e| e.contains("$.input.options[1]")), "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn who_may_not() -> Result<()> {
    let leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    for token in ["", "0000", &"f".repeat(64)] {
        let stranger = Api::new(api.base.clone(), token)?;
        for path in ["/api/v1/chat/threads", "/api/v1/state", "/api/v1/events", "/api/v1/agents"] {
            let answer = stranger.ask(Method::GET, path, None).await?;
            ensure!(
                answer.status == 401 && answer.code() == "unauthorized",
                "{path} with {token:?}: {answer:?}"
            );
        }
        let health = stranger.get("/health").await?;
        ensure!(health["workers"].is_null() && health["version"].is_string(), "{health}");
    }
    let cases = [
        ("host", "evil.example", 403, "forbidden_host"),
        ("host", "127.0.0.1.evil.example:80", 403, "forbidden_host"),
        ("origin", "http://evil.example", 403, "forbidden_origin"),
        ("origin", "http://127.0.0.1:1", 403, "forbidden_origin"),
        ("origin", "null", 403, "forbidden_origin"),
    ];
    for (header, value, status, code) in cases {
        let response = api.request(Method::GET, "/api/v1/chat/threads").header(header, value).send().await?;
        let (found, body) = (response.status().as_u16(), response.json::<serde_json::Value>().await?);
        ensure!(found == status && body["code"] == code, "{header}: {value}: {found} {body}");
    }
    let own = api.base.clone();
    let response = api.request(Method::GET, "/api/v1/chat/threads").header("origin", own).send().await?;
    ensure!(response.status() == 200, "its own origin is welcome");
    Ok(())
}

#[tokio::test]
async fn bodies_are_bounded() -> Result<()> {
    let leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    for bytes in [11 * 1024 * 1024, 40 * 1024 * 1024] {
        let text = "x".repeat(bytes);
        let answer =
            api.ask(Method::POST, "/api/v1/chat/assistant/messages", Some(json!({ "text": text }))).await;
        // The server may close before it was sent everything; an answer, when there is one, says why.
        if let Ok(answer) = answer {
            ensure!(answer.status == 413 && answer.code() == "too_large", "{answer:?}");
        }
    }
    ensure!(api.get("/health").await?["ready"] == true, "and goes on");
    Ok(())
}
