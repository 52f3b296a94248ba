//! Every route's refusals and the guards in front of them.

use super::{Bed, fake::MESSAGE};
use leo_ipc::{hub::HubRequest, id::token_hash};

#[tokio::test]
async fn bad_input_is_the_callers_fault() {
    let bed = Bed::new().await;
    let unknown_id = "/api/v1/chat/assistant/messages/019ad2f0-0000-7000-8000-00000000ffff";
    let table: &[(&str, &[u8], u16, &str)] = &[
        ("GET /nothing", b"", 404, "not_found"),
        ("GET /api/v1/chat/threads/", b"", 404, "not_found"),
        ("PUT /api/v1/chat/threads", b"", 405, "method_not_allowed"),
        ("DELETE /health", b"", 405, "method_not_allowed"),
        ("GET /api/v1/chat/nobody/messages", b"", 404, "unknown_agent"),
        ("GET /api/v1/chat/NOBODY/messages", b"", 404, "unknown_agent"),
        ("GET /api/v1/chat/%ff/messages", b"", 404, "not_found"),
        ("GET /api/v1/chat/assistant/messages?limit=0", b"", 400, "bad_request"),
        ("GET /api/v1/chat/assistant/messages?limit=201", b"", 400, "bad_request"),
        ("GET /api/v1/chat/assistant/messages?limit=x", b"", 400, "bad_request"),
        ("GET /api/v1/chat/assistant/messages?limit=-1", b"", 400, "bad_request"),
        ("GET /api/v1/chat/assistant/messages?before=a&after=b", b"", 400, "bad_request"),
        ("GET /api/v1/chat/assistant/messages?before=%ff", b"", 400, "bad_request"),
        ("GET /api/v1/chat/assistant/messages?before=", b"", 400, "bad_request"),
        (&format!("GET {unknown_id}"), b"", 404, "unknown_message"),
        ("GET /api/v1/chat/assistant/messages/a%20b", b"", 404, "unknown_message"),
        (&format!("POST {unknown_id}/retry"), b"", 404, "unknown_message"),
        (&format!("POST {unknown_id}/cancel"), b"", 404, "unknown_message"),
        ("POST /api/v1/chat/assistant/messages", b"{}", 400, "bad_request"),
        ("POST /api/v1/chat/assistant/messages", b"[]", 400, "bad_request"),
        ("POST /api/v1/chat/assistant/messages", b"{\"text\":7}", 400, "bad_request"),
        ("POST /api/v1/chat/assistant/messages", b"{\"text\":\"\"}", 400, "bad_request"),
        ("POST /api/v1/chat/assistant/messages", b"{\"text\":\"\xff\"}", 400, "bad_request"),
        ("POST /api/v1/chat/assistant/messages", b"{\"text\":\"a\"", 400, "bad_request"),
        (
            "POST /api/v1/chat/assistant/messages",
            b"{\"text\":\"a\",\"client_msg_id\":\"a b\"}",
            400,
            "bad_request",
        ),
        ("POST /api/v1/chat/assistant/messages", b"{\"text\":\"a\",\"reply_to\":\"\"}", 400, "bad_request"),
        (
            "POST /api/v1/chat/assistant/messages",
            b"{\"text\":\"a\",\"attachments\":[\"file\"]}",
            400,
            "attachment_in_use",
        ),
        (
            "POST /api/v1/chat/assistant/messages",
            b"{\"text\":\"a\",\"attachments\":[\"x\"]}",
            404,
            "unknown_attachment",
        ),
        ("POST /api/v1/chat/assistant/messages", b"", 415, "unsupported_media_type"),
        ("POST /api/v1/chat/nobody/messages", b"{\"text\":\"a\"}", 404, "unknown_agent"),
        ("POST /api/v1/chat/assistant/read", b"{\"message_id\":\"\"}", 400, "bad_request"),
        ("GET /api/v1/chat/attachments/x", b"", 404, "unknown_attachment"),
        ("GET /api/v1/chat/attachments/..%2f..%2fapi.token", b"", 404, "unknown_attachment"),
        ("GET /api/v1/chat/attachments/pruned", b"", 410, "attachment_pruned"),
        ("GET /api/v1/chat/attachments/lost", b"", 410, "attachment_pruned"),
        ("POST /api/v1/chat/uploads?agent=No%20Name", b"x", 404, "unknown_agent"),
        ("GET /api/v1/events?since=x", b"", 400, "bad_request"),
        ("POST /api/v1/agents", b"{\"name\":\"A\"}", 400, "bad_request"),
        (
            "POST /api/v1/agents",
            b"{\"name\":\"a\",\"harness\":\"vi\",\"workspace\":\"/\"}",
            400,
            "bad_request",
        ),
        (
            "POST /api/v1/agents",
            b"{\"name\":\"a\",\"harness\":\"demo\",\"workspace\":\"x\"}",
            400,
            "bad_request",
        ),
        (
            "POST /api/v1/agents",
            b"{\"name\":\"a\",\"harness\":\"demo\",\"workspace\":\"/\"}",
            409,
            "agent_exists",
        ),
        ("GET /api/v1/agents/nobody", b"", 404, "unknown_agent"),
        ("GET /api/v1/agents/a/logs?lines=0", b"", 400, "bad_request"),
        ("GET /api/v1/agents/a/logs?lines=5001", b"", 400, "bad_request"),
        ("POST /api/agent/assistant/chat/post", b"{}", 400, "bad_request"),
        ("POST /api/agent/assistant/chat/post", b"{\"files\":[\"a\"]}", 400, "bad_request"),
        ("POST /api/agent/assistant/chat/history", b"{\"limit\":101}", 400, "bad_request"),
    ];
    for (request, body, status, code) in table {
        let reply = bed.operator(request, body).await;
        assert_eq!(
            reply.refusal(),
            (*status, (*code).to_owned()),
            "{request} {}",
            String::from_utf8_lossy(body)
        );
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{request}");
    }
    let wrong_type = bed.operator("POST /api/v1/chat/assistant/messages", b"{\"text\":7}").await;
    let error = wrong_type.json()["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("at $.text: invalid type: integer"), "{error}");
}

#[tokio::test]
async fn large_bodies_are_refused_and_the_refusal_is_read() {
    let bed = Bed::new().await;
    let huge = format!("{{\"text\":\"{}\"}}", "x".repeat(11 * 1024 * 1024));
    for request in
        ["POST /api/v1/chat/assistant/messages", "POST /api/v1/chat/assistant/read", "POST /api/v1/agents"]
    {
        let reply = bed.operator(request, huge.as_bytes()).await;
        assert_eq!(reply.refusal(), (413, "too_large".into()), "{request}");
    }
    let reply = bed.operator("POST /nothing", huge.as_bytes()).await;
    assert_eq!(reply.refusal().0, 404);
    let reply = bed.tcp("POST /api/v1/agents", "", huge.as_bytes()).await;
    assert_eq!(reply.refusal().0, 401);
    let long = format!("{{\"text\":\"{}\"}}", "x".repeat(300 * 1024));
    let reply = bed.operator("POST /api/v1/chat/assistant/messages", long.as_bytes()).await;
    assert_eq!(reply.refusal(), (413, "too_large".into()));
}

#[tokio::test]
async fn hosts_and_origins() {
    let bed = Bed::new().await;
    let auth = format!("authorization: Bearer {}\r\n", bed.token);
    let ask = |headers: String| {
        let (bed, auth) = (&bed, &auth);
        async move { bed.tcp("GET /api/v1/chat/threads", &format!("{auth}{headers}"), b"").await }
    };
    assert_eq!(ask("host: evil.example\r\n".into()).await.refusal(), (403, "forbidden_host".into()));
    assert_eq!(
        ask("origin: http://evil.example\r\n".into()).await.refusal(),
        (403, "forbidden_origin".into())
    );
    assert_eq!(ask("origin: null\r\n".into()).await.refusal(), (403, "forbidden_origin".into()));
    assert_eq!(ask(format!("origin: http://{}\r\n", bed.tcp)).await.status, 200);
    bed.config.send_modify(|c| c.web.allowed_hosts.push("mac.tail.net".into()));
    assert_eq!(ask("host: mac.tail.net\r\norigin: https://mac.tail.net\r\n".into()).await.status, 200);
}

#[tokio::test]
async fn tokens() {
    let bed = Bed::new().await;
    let agent_token = leo_ipc::id::fresh_token();
    *bed.hub.agent_token_hash.lock().unwrap() = token_hash(&agent_token);
    let agent = format!("authorization: Bearer {agent_token}\r\n");
    let stranger = format!("authorization: Bearer {}\r\n", leo_ipc::id::fresh_token());

    for route in ["/api/v1/chat/threads", "/api/v1/state", "/api/v1/events", "/api/v1/agents"] {
        let without = bed.tcp(&format!("GET {route}"), "", b"").await;
        assert_eq!(without.refusal(), (401, "unauthorized".into()), "{route}");
        assert!(without.header("www-authenticate").starts_with("Bearer"));
        let with_agents = bed.tcp(&format!("GET {route}"), &agent, b"").await;
        assert_eq!(with_agents.refusal(), (403, "forbidden".into()), "{route}");
        let with_strangers = bed.tcp(&format!("GET {route}"), &stranger, b"").await;
        assert_eq!(with_strangers.refusal(), (401, "unauthorized".into()), "{route}");
    }
    let broken = bed.tcp("GET /api/v1/agents", "authorization: Basic eDp5\r\n", b"").await;
    assert_eq!(broken.refusal().0, 401);

    let own = bed
        .tcp(
            "POST /api/agent/assistant/chat/post",
            &format!("{agent}idempotency-key: k1\r\n"),
            b"{\"text\":\"hi\"}",
        )
        .await;
    assert_eq!(own.data()["message_id"], MESSAGE);
    let posted = bed.hub.asked.lock().unwrap().iter().find_map(|asked| match asked {
        HubRequest::AgentPost(post) => Some(post.clone()),
        _ => None,
    });
    let posted = posted.unwrap();
    assert_eq!(posted.call_key.as_str(), "http:k1");
    assert_eq!(posted.launch.unwrap().as_str(), "l1");
    let others = bed.tcp("POST /api/agent/other/chat/post", &agent, b"{\"text\":\"hi\"}").await;
    assert_eq!(others.refusal(), (403, "wrong_agent".into()));
    let history = bed.tcp("POST /api/agent/assistant/chat/history", &agent, b"{}").await;
    assert_eq!(history.data()["messages"][0]["id"], MESSAGE);
}

#[tokio::test]
async fn the_socket_needs_no_token_and_has_short_forms() {
    let bed = Bed::new().await;
    for path in ["/api/v1/chat/threads", "/state", "/health", "/version", "/api/v1/agents"] {
        assert_eq!(bed.socket(&format!("GET {path}"), b"").await.status, 200, "{path}");
    }
    for path in ["/state", "/events"] {
        assert_eq!(bed.operator(&format!("GET {path}"), b"").await.refusal().0, 404, "{path}");
    }
    let health = bed.socket("GET /health", b"").await.data();
    assert_eq!((health["pid"].as_u64(), health["boot_id"].as_str()), (Some(1), Some("boot")));
    let little = bed.tcp("GET /health", "", b"").await.data();
    assert_eq!(little.as_object().unwrap().len(), 2, "{little}");
    assert!(bed.operator("GET /health", b"").await.data()["workers"].is_array());
}

#[tokio::test]
async fn messages_are_sent_once() {
    let bed = Bed::new().await;
    let send = "POST /api/v1/chat/assistant/messages";
    let first = bed.operator(send, b"{\"text\":\"a\",\"client_msg_id\":\"c1\",\"future\":1}").await;
    assert_eq!((first.status, first.data()["state"].as_str()), (202, Some("pending")));
    let again = bed.operator(send, b"{\"text\":\"a\",\"client_msg_id\":\"again\"}").await;
    assert_eq!(again.status, 200);
    let short = bed.operator("POST /api/v1/agents/assistant/message", b"{\"text\":\"b\"}").await;
    assert_eq!((short.status, short.data()["text"].as_str()), (202, Some("b")));
    let retried = bed.operator(&format!("POST /api/v1/chat/assistant/messages/{MESSAGE}/retry"), b"").await;
    assert_eq!(retried.status, 202);
}

#[tokio::test]
async fn a_browser_logs_in_and_out() {
    let bed = Bed::new().await;
    let refused = bed.tcp("GET /login?token=wrong", "", b"").await;
    assert_eq!(refused.refusal().0, 401);
    let login = bed.tcp(&format!("GET /login?token={}", bed.token), "", b"").await;
    assert_eq!((login.status, login.header("location")), (303, "/"));
    let cookie = login.header("set-cookie").to_owned();
    assert!(
        cookie.contains("HttpOnly")
            && cookie.contains("SameSite=Strict")
            && cookie.contains("Max-Age=604800")
    );
    let pair = format!("cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert_eq!(bed.tcp("GET /api/v1/state", &pair, b"").await.status, 200);
    let out = bed.tcp("POST /logout", &pair, b"").await;
    assert!(out.header("set-cookie").contains("Max-Age=0"));

    let page = bed.tcp("GET /", "", b"").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").contains("script-src 'self'"));
    let cached = bed.tcp("GET /", &format!("if-none-match: {}\r\n", page.header("etag")), b"").await;
    assert_eq!((cached.status, cached.body.len()), (304, 0));
}

#[tokio::test]
async fn attachments_come_boxed_in_and_in_ranges() {
    let bed = Bed::new().await;
    std::fs::write(bed.home.state().join("file"), "0123456789").unwrap();
    let auth = format!("authorization: Bearer {}\r\n", bed.token);
    let whole = bed.tcp("GET /api/v1/chat/attachments/file", &auth, b"").await;
    assert_eq!((whole.status, whole.body.as_slice()), (200, &b"0123456789"[..]));
    assert!(whole.header("content-security-policy").starts_with("sandbox"));
    assert!(whole.header("content-disposition").contains("filename*=UTF-8''p%C3%A4ge.html"));
    assert_eq!(whole.header("content-type"), "text/html");
    let part =
        bed.tcp("GET /api/v1/chat/attachments/file", &format!("{auth}range: bytes=2-4\r\n"), b"").await;
    assert_eq!((part.status, part.body.as_slice()), (206, &b"234"[..]));
    let beyond =
        bed.tcp("GET /api/v1/chat/attachments/file", &format!("{auth}range: bytes=90-\r\n"), b"").await;
    assert_eq!(beyond.refusal(), (416, "range_not_satisfiable".into()));
}

#[tokio::test]
async fn chat_can_be_off() {
    let bed = Bed::new().await;
    bed.config.send_modify(|c| c.chat.enabled = false);
    assert_eq!(bed.operator("GET /api/v1/chat/threads", b"").await.refusal(), (404, "chat_disabled".into()));
    assert_eq!(bed.operator("GET /api/v1/agents", b"").await.status, 200);
}

#[tokio::test]
async fn uploads_are_raw_bodies_or_forms() {
    let bed = Bed::new().await;
    let form = "content-type: multipart/form-data; boundary=XX\r\n";
    let part = |name: &str, file: &str, body: &str| {
        format!(
            "--XX\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\ncontent-type: image/png\r\n\r\n{body}\r\n"
        )
    };
    let complete = format!("{}{}--XX--\r\n", part("other", "x", "no"), part("file", "b ü.png", "bytes"));
    let cut = part("file", "b.png", "bytes");
    let twice = format!("{}{}--XX--\r\n", part("file", "a", "1"), part("file", "b", "2"));
    let none = format!("{}--XX--\r\n", part("other", "a", "1"));
    let typed = "content-type: audio/webm; codecs=opus\r\n";
    let long = format!("?filename={}", "x".repeat(1025));
    for (query, headers, body, status, answer) in [
        ("?filename=a%20b.txt", "", "hello", 201, "a b.txt"),
        ("?filename=..%2f..%2fx&agent=assistant", typed, "hello", 201, "../../x"),
        ("", typed, "hello", 201, "voice note"),
        ("", form, complete.as_str(), 201, "b ü.png"),
        ("?filename=mine.png", form, &complete, 201, "mine.png"),
        ("", form, &cut, 400, "bad_request"),
        ("", form, &twice, 400, "bad_request"),
        ("", form, &none, 400, "bad_request"),
        ("", "content-type: multipart/form-data\r\n", "x", 400, "bad_request"),
        (&long, "", "x", 400, "bad_request"),
        ("?filename=%ff", "", "x", 201, "\u{fffd}"),
        ("?filename=x", "idempotency-key: full\r\n", "x", 429, "uploads_full"),
        ("?filename=x", "expect: 100-continue\r\n", "", 201, "x"),
    ] {
        let auth = format!("authorization: Bearer {}\r\n{headers}", bed.token);
        let reply = bed.tcp(&format!("POST /api/v1/chat/uploads{query}"), &auth, body.as_bytes()).await;
        let json = reply.json();
        assert_eq!(reply.status, status, "{query} {headers}: {json}");
        let found = if status == 201 { &json["data"]["filename"] } else { &json["code"] };
        assert_eq!(found, answer, "{query} {headers}: {json}");
        // The hub that would move the file is not there, so nothing may be left.
        assert_eq!(std::fs::read_dir(bed.home.uploads()).map_or(0, |d| d.count()), 0);
    }
}
