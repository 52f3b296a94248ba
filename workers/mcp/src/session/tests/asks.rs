//! Questions: opened once, waited for over everything, and never left waiting for nobody.

use super::*;
use leo_ipc::{
    ask::{AskResult, ClosedReason, OpenAsk, StopWaiting, WaitAsk, WithdrawAsk},
    chat::{Direction, Message, MessageKind, MessageState},
};
use tokio::sync::watch;

/// A call that is this old has almost nothing left of its 30 minutes.
const NEARLY_OVER_MS: u64 = 30 * 60 * 1000 - 300;

/// What the hub was asked, and what it answers.
#[derive(Default)]
pub(super) struct Asks {
    opened: Mutex<Vec<OpenAsk>>,
    waited: Mutex<Vec<WaitAsk>>,
    waiting: AtomicUsize,
    stopped: Mutex<Vec<StopWaiting>>,
    withdrawn: Mutex<Vec<WithdrawAsk>>,
    result: watch::Sender<Option<Result<AskResult, Fault>>>,
}

impl Asks {
    pub(super) async fn handle(&self, request: HubRequest) -> Answer {
        match request {
            HubRequest::OpenAsk(open) if open.question == "bad" => {
                Answer::of::<Message>(Err(Fault::new("bad_request", "at $.input: no")))
            }
            HubRequest::OpenAsk(open) => {
                self.opened.lock().unwrap().push(open);
                Answer::of(Ok(message()))
            }
            HubRequest::WaitAsk(wait) => {
                self.waited.lock().unwrap().push(wait);
                let _waiting = Counted::new(&self.waiting);
                let mut results = self.result.subscribe();
                let result = results.wait_for(Option::is_some).await.unwrap().clone();
                Answer::of(result.unwrap())
            }
            HubRequest::StopWaiting(stop) => {
                self.stopped.lock().unwrap().push(stop);
                Answer::of(Ok(leo_ipc::Done {}))
            }
            HubRequest::WithdrawAsk(withdraw) if withdraw.message_id.as_str() == "closed" => {
                Answer::of::<Message>(Err(Fault::new("not_open", "it is no longer open")))
            }
            HubRequest::WithdrawAsk(withdraw) => {
                self.withdrawn.lock().unwrap().push(withdraw);
                Answer::of(Ok(message()))
            }
            _ => Answer::unknown_request(),
        }
    }

    fn settle(&self, result: AskResult) {
        self.result.send_replace(Some(Ok(result)));
    }

    async fn is_waiting(&self, count: usize) {
        wait_until(|| self.waiting.load(Ordering::SeqCst) == count).await;
    }
}

fn message() -> Message {
    Message {
        kind: MessageKind::Ask,
        text: "Ship it?".into(),
        state: MessageState::Open,
        ..Message::bare("q1".into(), "a".parse().unwrap(), Direction::Out)
    }
}

fn answered() -> AskResult {
    AskResult {
        message_id: "q1".into(),
        values: vec!["y".into()],
        labels: vec!["Yes".into()],
        text: "now".into(),
        ..AskResult::default()
    }
}

fn call(id: u64, arguments: &Value) -> Value {
    let params = json!({"name": "leo_chat_ask", "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[tokio::test]
async fn a_question_is_opened_with_the_calls_key_and_its_answer_is_the_result() {
    let scene = Scene::new(Hub::default());
    let shim = scene.session().await;
    let input = json!({"type": "radio", "options": ["y", {"value": "n", "label": "No"}]});
    shim.say(call(1, &json!({"question": "Ship it?", "input": input, "timeout_s": 60}))).await;
    let asks = &scene.hub.asks;
    asks.is_waiting(1).await;
    asks.settle(answered());
    let answer = shim.hear().await;
    let expected = json!({"message_id": "q1", "values": ["y"], "labels": ["Yes"], "text": "now"});
    assert_eq!(answer["result"]["structuredContent"], expected);
    assert_eq!(serde_json::from_str::<Value>(text(&answer)).unwrap(), expected);
    let open = OpenAsk {
        agent: "a".parse().unwrap(),
        launch: Some("l1".into()),
        call_key: "key-1".into(),
        question: "Ship it?".into(),
        input: Some(input),
        options: None,
        timeout_s: Some(60),
        run: None,
    };
    assert_eq!(asks.opened.lock().unwrap()[..], [open]);
    let wait = WaitAsk { agent: "a".parse().unwrap(), message_id: "q1".into(), call_key: "key-1".into() };
    assert_eq!(asks.waited.lock().unwrap()[..], [wait]);
    assert!(asks.stopped.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_question_that_closed_without_an_answer_says_why() {
    let scene = Scene::new(Hub::default());
    let shim = scene.session().await;
    scene.hub.asks.settle(AskResult {
        message_id: "q7".into(),
        timed_out: true,
        closed_reason: Some(ClosedReason::AgentGone),
        ..AskResult::default()
    });
    let answer = shim.call(1, "leo_chat_ask", json!({"message_id": "q7", "question": ""})).await;
    let expected = json!({
        "message_id": "q7", "values": [], "labels": [], "text": "", "timed_out": true,
        "closed_reason": "agent_gone"
    });
    assert_eq!(answer["result"]["structuredContent"], expected);
    // Waiting on opens nothing.
    assert!(scene.hub.asks.opened.lock().unwrap().is_empty());
}

#[tokio::test]
async fn when_the_window_is_over_the_question_is_pending() {
    let scene = Scene::new(Hub::default());
    let shim = scene.session().await;
    let json = call(1, &json!({"question": "Ship it?", "options": ["y"]})).to_string();
    let call_key = Some("key-1".to_owned());
    shim.send(&FromShim::Line { json, call_key, age_ms: NEARLY_OVER_MS }).await;
    let answer = shim.hear().await;
    let expected = json!({"message_id": "q1", "values": [], "labels": [], "text": "", "pending": true});
    assert_eq!(answer["result"]["structuredContent"], expected);
    let stopped = scene.hub.asks.stopped.lock().unwrap();
    assert_eq!((stopped.len(), &stopped[0].call_key), (1, &CallKey::from("key-1")));
}

#[tokio::test]
async fn a_cancelled_question_stays_open_and_nobody_waits_for_it() {
    let scene = Scene::new(Hub::default());
    let asks = &scene.hub.asks;
    let shim = scene.session().await;
    shim.say(call(1, &json!({"question": "Ship it?"}))).await;
    asks.is_waiting(1).await;
    let params = json!({"requestId": 1});
    shim.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
    wait_until(|| asks.stopped.lock().unwrap().len() == 1).await;
    asks.is_waiting(0).await;
    assert!(asks.withdrawn.lock().unwrap().is_empty());
    // The next thing heard is the next answer.
    shim.ask(2, "ping", json!({})).await;

    // A connection that is lost says nothing: the call may come again over another.
    shim.say(call(3, &json!({"question": "Ship it?"}))).await;
    asks.is_waiting(1).await;
    drop(shim);
    asks.is_waiting(0).await;
    let shim = scene.session().await;
    shim.say(call(3, &json!({"question": "Ship it?"}))).await;
    asks.is_waiting(1).await;
    asks.settle(answered());
    assert_eq!(shim.hear().await["result"]["structuredContent"]["values"], json!(["y"]));
    assert_eq!(asks.stopped.lock().unwrap().len(), 1);
    let opened = asks.opened.lock().unwrap();
    assert_eq!(opened.iter().filter(|open| open.call_key == CallKey::from("key-3")).count(), 2);
}

#[tokio::test]
async fn a_hub_that_stops_is_waited_for() {
    let scene = Scene::new(Hub::default());
    let asks = &scene.hub.asks;
    let shim = scene.session().await;
    shim.say(call(1, &json!({"question": "Ship it?"}))).await;
    asks.is_waiting(1).await;
    asks.result.send_replace(Some(Err(Fault::unavailable("the hub is stopping"))));
    wait_until(|| asks.waited.lock().unwrap().len() > 2).await;
    asks.settle(answered());
    assert_eq!(shim.hear().await["result"]["structuredContent"]["values"], json!(["y"]));
    let waited = asks.waited.lock().unwrap();
    assert!(waited.iter().all(|wait| wait.call_key == CallKey::from("key-1")));
}

#[tokio::test]
async fn withdrawing_and_what_is_refused() {
    let scene = Scene::new(Hub::default());
    let shim = scene.session().await;
    let answer = shim.call(1, "leo_chat_ask_withdraw", json!({"message_id": "q1"})).await;
    assert_eq!(answer["result"]["structuredContent"], json!({"message_id": "q1", "withdrawn": true}));
    for (name, arguments, says) in [
        ("leo_chat_ask_withdraw", json!({"message_id": "closed"}), "not_open: it is no longer open"),
        ("leo_chat_ask_withdraw", json!({}), "at $.message_id"),
        ("leo_chat_ask", json!({}), "at $.question: expected a question"),
        ("leo_chat_ask", json!({"question": "bad"}), "bad_request: at $.input: no"),
        ("leo_chat_ask", json!({"question": "x", "message_id": "q1"}), "not both"),
        ("leo_chat_ask", json!({"message_id": "q1", "timeout_s": 5}), "at $.timeout_s"),
        ("leo_chat_ask", json!({"question": "x", "timeout_s": 3601}), "from 0 to 3600"),
    ] {
        let answer = shim.call(2, name, arguments.clone()).await;
        assert_eq!(answer["result"]["isError"], true, "{arguments}: {answer}");
        assert!(text(&answer).contains(says), "{arguments}: {answer}");
    }
    assert!(scene.hub.asks.opened.lock().unwrap().is_empty());
}
