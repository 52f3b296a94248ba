//! Asking, answering, dismissing and taking back.

use super::{
    Bed,
    fake::{ASK, CARD, MESSAGE, SETTLED},
};
use leo_ipc::{
    ask::{AskResult, ClosedReason},
    hub::HubRequest,
    id::token_hash,
};
use serde_json::Value;
use std::time::Duration;

const UNKNOWN: &str = "019ad2f0-0000-7000-8000-00000000ffff";
const AGENT_ASK: &str = "POST /api/agent/assistant/chat/ask";
const WITHDRAW: &str = "POST /api/agent/assistant/chat/ask/withdraw";

fn answer(id: &str) -> String {
    format!("POST /api/v1/chat/assistant/messages/{id}/answer")
}

fn dismiss(id: &str) -> String {
    format!("POST /api/v1/chat/assistant/messages/{id}/dismiss")
}

#[tokio::test]
async fn answers_are_passed_on_with_who_and_the_key() {
    let bed = Bed::new().await;
    let body = br#"{"values":["y"],"text":"go","client_msg_id":"c1","future":1}"#;
    let data = bed.operator(&answer(ASK), body).await.data();
    assert_eq!((&data["state"], &data["answered_by"]), (&"answered".into(), &"operator".into()));
    let card = br#"{"answers":{"q1":{"values":["L"]},"q2":{"text":"none"}}}"#;
    let header = format!("authorization: Bearer {}\r\nidempotency-key: k1\r\n", bed.token);
    let data = bed.tcp(&answer(CARD), &header, card).await.data();
    assert_eq!(data["answer"]["answers"]["q2"]["text"], "none");
    assert_eq!(bed.socket(&answer(ASK), br#"{"text":""}"#).await.status, 200);
    let asked = bed.hub.asked.lock().unwrap();
    let keys: Vec<&str> = asked
        .iter()
        .filter_map(|asked| match asked {
            HubRequest::AnswerAsk(r) => Some(r.key.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!((keys[0], keys[1]), ("http:c1", "http:k1"));
}

#[tokio::test]
async fn a_card_is_dismissed_with_or_without_a_body() {
    let bed = Bed::new().await;
    for body in [&b""[..], b"{}", b"{\"future\":1}"] {
        let data = bed.operator(&dismiss(CARD), body).await.data();
        assert_eq!((&data["state"], &data["closed_reason"]), (&"expired".into(), &"dismissed".into()));
    }
}

#[tokio::test]
async fn refusals_keep_their_codes_and_say_where() {
    let bed = Bed::new().await;
    let wait = |s: &str| format!("{AGENT_ASK}?wait_s={s}");
    let id = |id: &str| format!("{{\"message_id\":\"{id}\"}}");
    let table: &[(String, String, u16, &str, &str)] = &[
        (answer(SETTLED), r#"{"values":["y"]}"#.into(), 409, "already_settled", "before"),
        (answer(MESSAGE), r#"{"values":["y"]}"#.into(), 409, "not_open", "nothing"),
        (answer(ASK), r#"{"values":["maybe"]}"#.into(), 400, "bad_answer", "maybe"),
        (answer(UNKNOWN), r#"{"text":"x"}"#.into(), 404, "unknown_message", ""),
        (answer("a%20b"), r#"{"text":"x"}"#.into(), 404, "unknown_message", ""),
        (answer(ASK), "{}".into(), 400, "bad_request", "at $: "),
        (answer(ASK), "[]".into(), 400, "bad_request", "at $"),
        (answer(ASK), r#"{"values":"y"}"#.into(), 400, "bad_request", "at $.values: invalid type"),
        (answer(ASK), r#"{"values":[1]}"#.into(), 400, "bad_request", "at $.values[0]: invalid type"),
        (answer(ASK), r#"{"answers":{"q1":7}}"#.into(), 400, "bad_request", "at $.answers.q1: invalid type"),
        (
            answer(ASK),
            r#"{"answers":{"q1":{"values":[true]}}}"#.into(),
            400,
            "bad_request",
            "at $.answers.q1.values[0]: ",
        ),
        (
            answer(ASK),
            r#"{"text":"x","client_msg_id":"a b"}"#.into(),
            400,
            "bad_request",
            "at $.client_msg_id: ",
        ),
        (answer(ASK), String::new(), 415, "unsupported_media_type", ""),
        (dismiss(ASK), String::new(), 400, "not_a_questions_card", ""),
        (dismiss(SETTLED), String::new(), 409, "already_settled", ""),
        (dismiss(UNKNOWN), String::new(), 404, "unknown_message", ""),
        (dismiss(CARD), "[]".into(), 400, "bad_request", "at $"),
        (dismiss(CARD), "{".into(), 400, "bad_request", "at $"),
        (AGENT_ASK.into(), "{}".into(), 400, "bad_request", "at $.question: "),
        (AGENT_ASK.into(), r#"{"question":" "}"#.into(), 400, "bad_request", "at $.question: "),
        (
            AGENT_ASK.into(),
            r#"{"question":"a","timeout_s":-1}"#.into(),
            400,
            "bad_request",
            "at $.timeout_s: ",
        ),
        (
            AGENT_ASK.into(),
            r#"{"question":"a","message_id":"x"}"#.into(),
            400,
            "bad_request",
            "at $.question: not together",
        ),
        (AGENT_ASK.into(), r#"{"message_id":"a b"}"#.into(), 400, "bad_request", "at $.message_id: "),
        (wait("1801"), r#"{"question":"a"}"#.into(), 400, "bad_request", "wait_s: 0 to 1800, found 1801"),
        (wait("x"), r#"{"question":"a"}"#.into(), 400, "bad_request", "in the query"),
        (wait("0"), id(MESSAGE), 400, "not_your_ask", ""),
        (wait("0"), id(UNKNOWN), 404, "unknown_message", ""),
        (WITHDRAW.into(), "{}".into(), 400, "bad_request", "message_id"),
        (WITHDRAW.into(), id("a b"), 400, "bad_request", "at $.message_id: "),
        (WITHDRAW.into(), id(CARD), 400, "not_your_ask", ""),
        (WITHDRAW.into(), id(SETTLED), 409, "not_open", ""),
        (WITHDRAW.into(), id(UNKNOWN), 404, "unknown_message", ""),
    ];
    for (request, body, status, code, says) in table {
        let reply = bed.operator(request, body.as_bytes()).await;
        assert_eq!(reply.refusal(), (*status, (*code).to_owned()), "{request} {body}");
        let json = reply.json();
        assert!(json["error"].as_str().unwrap().contains(says), "{request} {body}: {json}");
        let settled = *code == "already_settled";
        assert_eq!(json.get("data").is_some(), settled, "{json}");
        assert!(!settled || json["data"]["id"] == SETTLED, "{json}");
    }
}

async fn wait_for(bed: &Bed, wanted: fn(&HubRequest) -> bool) {
    while !bed.hub.asked.lock().unwrap().iter().any(wanted) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn an_agent_waits_until_it_is_answered() {
    let bed = Bed::new().await;
    let ask = async { bed.operator(AGENT_ASK, br#"{"question":"Ship it?","options":["y","n"]}"#).await };
    let person = async {
        wait_for(&bed, |asked| matches!(asked, HubRequest::WaitAsk(_))).await;
        let (values, labels) = (vec!["y".to_owned()], vec!["Yes".to_owned()]);
        let found = AskResult { message_id: ASK.into(), values, labels, ..AskResult::default() };
        bed.hub.outcome.send_replace(Some(found));
    };
    let (reply, ()) = tokio::join!(ask, person);
    let expected = serde_json::json!({"message_id": ASK, "values": ["y"], "labels": ["Yes"], "text": ""});
    assert_eq!(reply.data(), expected);
}

#[tokio::test]
async fn a_wait_that_is_over_is_pending_and_goes_on_by_the_id() {
    let bed = Bed::new().await;
    let pending = |data: &Value| data["pending"] == true && data["message_id"] == ASK;
    for (wait, body) in [(0, r#"{"question":"a"}"#.to_owned()), (1, format!("{{\"message_id\":\"{ASK}\"}}"))]
    {
        let reply = bed.operator(&format!("{AGENT_ASK}?wait_s={wait}"), body.as_bytes()).await;
        assert!(pending(&reply.data()), "{reply:?}");
    }
    let settled = format!("{{\"message_id\":\"{SETTLED}\"}}");
    let data = bed.operator(&format!("{AGENT_ASK}?wait_s=0"), settled.as_bytes()).await.data();
    assert!(data.get("pending").is_none() && data["message_id"] == SETTLED, "{data}");
    let asked = std::mem::take(&mut *bed.hub.asked.lock().unwrap());
    let stopped = asked.iter().filter(|asked| matches!(asked, HubRequest::StopWaiting(_))).count();
    assert_eq!(stopped, 3, "the hub is told each time");

    // A worker that is replaced lets its callers go.
    let drained = async {
        wait_for(&bed, |asked| matches!(asked, HubRequest::WaitAsk(_))).await;
        bed.drain.cancel();
    };
    let (reply, ()) = tokio::join!(bed.operator(AGENT_ASK, br#"{"question":"a"}"#), drained);
    assert!(pending(&reply.data()), "{reply:?}");
}

#[tokio::test]
async fn an_expired_ask_says_why() {
    let bed = Bed::new().await;
    let found = AskResult {
        message_id: ASK.into(),
        timed_out: true,
        closed_reason: Some(ClosedReason::Withdrawn),
        ..AskResult::default()
    };
    bed.hub.outcome.send_replace(Some(found));
    let data = bed.operator(AGENT_ASK, br#"{"question":"a"}"#).await.data();
    assert_eq!((&data["timed_out"], &data["closed_reason"]), (&true.into(), &"withdrawn".into()));
}

#[tokio::test]
async fn who_may_ask_and_who_may_answer() {
    let bed = Bed::new().await;
    let token = leo_ipc::id::fresh_token();
    *bed.hub.agent_token_hash.lock().unwrap() = token_hash(&token);
    let agent = format!("authorization: Bearer {token}\r\n");
    let body = br#"{"question":"a"}"#;
    let key = format!("{agent}idempotency-key: k1\r\n");
    let own = bed.tcp(&format!("{AGENT_ASK}?wait_s=0"), &key, body).await;
    assert_eq!(own.data()["pending"], true);
    let opened = bed.hub.asked.lock().unwrap().iter().find_map(|asked| match asked {
        HubRequest::OpenAsk(open) => Some(open.clone()),
        _ => None,
    });
    let opened = opened.unwrap();
    assert_eq!((opened.call_key.as_str(), opened.launch.unwrap().as_str()), ("http:k1", "l1"));

    let others = bed.tcp("POST /api/agent/other/chat/ask", &agent, body).await;
    assert_eq!(others.refusal(), (403, "wrong_agent".into()));
    for request in [answer(ASK), dismiss(CARD)] {
        let reply = bed.tcp(&request, &agent, br#"{"text":"x"}"#).await;
        assert_eq!(reply.refusal(), (403, "forbidden".into()), "{request}");
    }
    let subagent = format!("{agent}x-leo-dispatch-id: d1\r\n");
    for request in [AGENT_ASK, WITHDRAW, "POST /api/agent/assistant/chat/post"] {
        let reply = bed.tcp(request, &subagent, body).await;
        assert_eq!(reply.refusal(), (403, "forbidden".into()), "{request}");
    }
    let id = format!("{{\"message_id\":\"{ASK}\"}}");
    let withdrawn = bed.tcp(WITHDRAW, &agent, id.as_bytes()).await.data();
    assert_eq!(withdrawn, serde_json::json!({"message_id": ASK, "withdrawn": true}));
}
