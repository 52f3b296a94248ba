//! Tables for the rules, and random lives of a session for the promise about answers.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const S: fn(u64) -> Duration = Duration::from_secs;

fn tools(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "name": name })).collect()
}

/// A session whose client has said `initialize`.
fn session() -> State {
    let mut state = State::new("launch-shim".into(), tools(&["static"]));
    let init =
        json!({"protocolVersion": "2026-07-28", "capabilities": {}, "clientInfo": {"name": "claude-code"}});
    let out = state.step(Event::Client(message::request(&json!(0), "initialize", &init)), S(0));
    let [answer] = &lines(&out)[..] else { panic!("{out:?}") };
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(answer["result"]["capabilities"]["tools"]["listChanged"], true);
    state
}

fn lines(actions: &[Action]) -> Vec<Value> {
    let to_client = |action: &Action| match action {
        Action::ToClient(json) => Some(serde_json::from_str(json).unwrap()),
        _ => None,
    };
    actions.iter().filter_map(to_client).collect()
}

fn sent(actions: &[Action]) -> Vec<(Value, Option<String>)> {
    let to_worker = |action: &Action| match action {
        Action::ToWorker { json, call_key, .. } => {
            Some((serde_json::from_str(json).unwrap(), call_key.clone()))
        }
        _ => None,
    };
    actions.iter().filter_map(to_worker).collect()
}

fn call(id: i64) -> Event {
    Event::Client(message::request(
        &json!(id),
        "tools/call",
        &json!({"name": "t", "_meta": {"progressToken": id}}),
    ))
}

fn list(id: i64) -> Event {
    Event::Client(message::request(&json!(id), "tools/list", &Value::Null))
}

fn answer(id: &Value, result: &Value) -> Event {
    Event::Worker(message::result(id, result))
}

/// A worker comes and answers our `initialize`; returns what it is sent after that.
fn connect(state: &mut State, now: Duration) -> Vec<(Value, Option<String>)> {
    let out = state.step(Event::LinkUp, now);
    let [(init, None)] = &sent(&out)[..] else { panic!("{out:?}") };
    assert_eq!(init["method"], "initialize");
    assert_eq!(init["params"]["protocolVersion"], "2025-11-25");
    let out = state.step(answer(&init["id"], &json!({})), now);
    assert!(lines(&out).is_empty(), "{out:?}");
    let mut sent = sent(&out);
    assert_eq!(sent.remove(0).0["method"], "notifications/initialized");
    sent
}

#[test]
fn a_call_that_a_worker_died_of_is_sent_to_the_next_with_its_key() {
    let mut state = session();
    assert!(connect(&mut state, S(1)).is_empty());
    let first = sent(&state.step(call(1), S(1)));
    assert_eq!(first[0].1.as_deref(), Some("launch-shim:0"));
    assert!(state.step(Event::LinkDown, S(5)).is_empty());
    assert_eq!(connect(&mut state, S(40)), first);
    let out = state.step(answer(&json!(1), &json!({"content": []})), S(900));
    assert_eq!(lines(&out).iter().filter(|line| line["id"] == 1).count(), 1);
    assert!(!state.is_waiting());
    // A second answer finds nobody.
    assert!(state.step(answer(&json!(1), &json!({})), S(900)).is_empty());
}

#[test]
fn without_a_worker_a_call_is_answered_in_time_and_says_whether_it_may_have_happened() {
    let mut state = session();
    assert!(lines(&state.step(call(1), S(1))).is_empty());
    assert_eq!(state.deadline(), Some(S(11)));
    let [error] = &lines(&state.step(Event::Tick, S(11)))[..] else { panic!("no answer") };
    assert_eq!((&error["id"], &error["result"]["isError"]), (&json!(1), &json!(true)));
    let text = error["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("unavailable: ") && text.contains("was not carried out"), "{text}");

    connect(&mut state, S(20));
    state.step(call(2), S(20));
    state.step(Event::LinkDown, S(30));
    let out = state.step(Event::Tick, S(90));
    let error = lines(&out).into_iter().find(|line| line["id"] == 2).unwrap();
    let text = error["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("may or may not"), "{text}");
}

#[test]
fn what_needs_no_worker_is_answered_at_once() {
    let mut state = session();
    for (method, field) in [("ping", "result"), ("server/discover", "error"), ("resources/list", "error")] {
        let out =
            lines(&state.step(Event::Client(message::request(&json!("x"), method, &Value::Null)), S(1)));
        assert!(out.len() == 1 && out[0]["id"] == "x" && out[0].get(field).is_some(), "{method}: {out:?}");
    }
    let mut fresh = State::new("k".into(), tools(&[]));
    let probe = message::request(&json!("server-discover-probe-1"), "server/discover", &Value::Null);
    assert_eq!(lines(&fresh.step(Event::Client(probe), S(0)))[0]["error"]["code"], message::NO_METHOD);
    assert_eq!(lines(&fresh.step(call(1), S(0)))[0]["error"]["code"], message::INVALID);
}

#[test]
fn the_list_comes_from_the_worker_or_from_memory_and_a_change_is_told_once() {
    let mut state = session();
    assert!(lines(&state.step(list(1), S(1))).is_empty());
    let out = lines(&state.step(Event::Tick, S(2)));
    assert_eq!(out[0]["result"]["tools"], tools(&["static"]));

    let asked = connect(&mut state, S(3));
    assert_eq!(asked[0].0["method"], "tools/list");
    let out = lines(&state.step(answer(&asked[0].0["id"], &json!({"tools": tools(&["new"])})), S(3)));
    assert_eq!(out.len(), 1);
    assert_eq!(out[0]["method"], "notifications/tools/list_changed");
    state.step(list(2), S(3));
    let out = lines(&state.step(answer(&json!(2), &json!({"tools": tools(&["new"])})), S(3)));
    assert_eq!(out[0]["result"]["tools"], tools(&["new"]));

    // The next worker has the same tools: nothing to tell. Without a worker, the newest list is given.
    state.step(Event::LinkDown, S(4));
    let asked = connect(&mut state, S(5));
    assert!(state.step(answer(&asked[0].0["id"], &json!({"tools": tools(&["new"])})), S(5)).is_empty());
    state.step(Event::LinkDown, S(6));
    state.step(list(3), S(6));
    assert_eq!(lines(&state.step(Event::Tick, S(7)))[0]["result"]["tools"], tools(&["new"]));
}

#[test]
fn a_cancelled_call_gets_no_answer_and_the_worker_hears_of_it() {
    let mut state = session();
    connect(&mut state, S(1));
    state.step(call(1), S(1));
    let cancel = message::notification("notifications/cancelled", &json!({"requestId": 1}));
    let out = state.step(Event::Client(cancel.clone()), S(2));
    assert_eq!(sent(&out)[0].0["method"], "notifications/cancelled");
    assert!(state.step(answer(&json!(1), &json!({})), S(2)).is_empty());
    // Unknown ids are ignored.
    assert!(state.step(Event::Client(cancel), S(3)).is_empty());
    // A call that no worker has is simply forgotten.
    state.step(Event::LinkDown, S(4));
    state.step(call(1), S(4));
    let cancel = message::notification("notifications/cancelled", &json!({"requestId": 1}));
    assert!(state.step(Event::Client(cancel), S(4)).is_empty());
    assert_eq!(state.deadline(), None);
}

#[test]
fn a_waiting_call_shows_progress_that_grows_over_workers() {
    let mut state = session();
    connect(&mut state, S(0));
    state.step(call(1), S(0));
    let mut seen = Vec::new();
    for second in 1..=60 {
        if second == 20 {
            state.step(Event::LinkDown, S(second));
        }
        if second == 31 {
            connect(&mut state, S(second));
        }
        for line in lines(&state.step(Event::Tick, S(second))) {
            assert_eq!(line["params"]["progressToken"], 1);
            seen.push((second, line["params"]["progress"].as_u64().unwrap()));
        }
    }
    assert_eq!(seen, [(15, 1), (30, 2), (45, 3), (60, 4)]);
}

#[test]
fn a_call_that_kills_every_worker_is_given_up() {
    let mut state = session();
    connect(&mut state, S(0));
    state.step(call(1), S(0));
    for strike in 1..MAX_STRIKES {
        assert!(state.step(Event::LinkDown, S(0)).is_empty(), "{strike}");
        assert_eq!(connect(&mut state, S(0)).len(), 1);
    }
    let out = lines(&state.step(Event::LinkDown, S(0)));
    assert!(out[0]["result"]["content"][0]["text"].as_str().unwrap().contains("5 times in a row"), "{out:?}");

    // A call that a worker lived with for a while is not to blame.
    connect(&mut state, S(0));
    state.step(call(2), S(0));
    for turn in 1..20 {
        assert!(lines(&state.step(Event::LinkDown, S(turn * 3))).iter().all(|line| line["id"].is_null()));
        connect(&mut state, S(turn * 3));
    }
}

#[test]
fn a_question_outlives_any_number_of_workers() {
    let mut state = session();
    connect(&mut state, S(0));
    let params = json!({"name": "leo_chat_ask", "arguments": {"question": "Ship it?"}});
    let first = sent(&state.step(Event::Client(message::request(&json!(1), "tools/call", &params)), S(0)));
    let age = |actions: &[Action]| {
        let of_call = |action: &Action| match action {
            Action::ToWorker { call_key: Some(_), age_ms, .. } => Some(*age_ms),
            _ => None,
        };
        actions.iter().find_map(of_call)
    };
    for death in 0..u64::from(MAX_STRIKES) * 3 {
        assert!(state.step(Event::LinkDown, S(death)).is_empty(), "{death}");
        assert_eq!(connect(&mut state, S(death)), first, "{death}");
    }
    // Longer without a worker than any other call may be, and the next one hears how old it is.
    state.step(Event::LinkDown, S(100));
    assert!(state.step(Event::Tick, S(100 + OPEN_CALL_PATIENCE.as_secs() * 10)).is_empty());
    let out = state.step(Event::LinkUp, S(800));
    let out = state.step(answer(&sent(&out)[0].0["id"], &json!({})), S(800));
    assert_eq!(age(&out), Some(800_000));
    // As long as the harness waits, and no longer.
    state.step(Event::LinkDown, S(900));
    assert_eq!(state.deadline(), Some(ASK_PATIENCE));
    let [error] = &lines(&state.step(Event::Tick, ASK_PATIENCE))[..] else { panic!("no answer") };
    assert_eq!((&error["id"], &error["result"]["isError"]), (&json!(1), &json!(true)));
}

#[test]
fn once_denied_calls_are_answered_at_once_with_the_reason() {
    let mut state = session();
    state.step(call(1), S(0));
    let out = lines(&state.step(Event::Denied("gone for good".into()), S(1)));
    assert!(out[0]["result"]["content"][0]["text"].as_str().unwrap().contains("gone for good"));
    let out = lines(&state.step(call(2), S(2)));
    assert_eq!(out[0]["id"], 2);
    let out = lines(&state.step(list(3), S(2)));
    assert_eq!(out[0]["result"]["tools"], tools(&["static"]));
}

#[test]
fn refusals() {
    let mut state = session();
    let code = |out: Vec<Action>| lines(&out)[0]["error"]["code"].as_i64();
    state.step(call(1), S(0));
    assert_eq!(code(state.step(call(1), S(0))), Some(message::INVALID), "an id in use");
    assert_eq!(code(state.step(Event::Client("[]".into()), S(0))), Some(message::INVALID), "a batch");
    assert_eq!(code(state.step(Event::ClientTooLong(Some(json!(9))), S(0))), Some(message::INVALID));
    assert!(state.step(Event::Client("garbage".into()), S(0)).is_empty());
    for id in 2..=MAX_OPEN {
        assert!(state.step(call(i64::try_from(id).unwrap()), S(0)).is_empty());
    }
    assert_eq!(code(state.step(call(-1), S(0))), Some(message::INTERNAL), "too many");
}

#[test]
fn answers_to_a_worker_that_is_gone_do_not_reach_the_next() {
    let mut state = session();
    connect(&mut state, S(0));
    let ask = Event::Worker(message::request(&json!(5), "ping", &Value::Null));
    assert_eq!(lines(&state.step(ask.clone(), S(0))).len(), 1);
    state.step(Event::LinkDown, S(1));
    connect(&mut state, S(1));
    let reply = Event::Client(message::result(&json!(5), &json!({})));
    assert!(sent(&state.step(reply.clone(), S(1))).is_empty());
    state.step(ask, S(2));
    assert_eq!(sent(&state.step(reply, S(2))).len(), 1);
}

#[derive(Debug, Clone)]
enum Op {
    Call,
    List,
    Other,
    Cancel(usize),
    LinkUp,
    LinkDown,
    Denied,
    /// The worker answers one of the lines it was sent.
    Answer(usize),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Call),
        2 => Just(Op::List),
        1 => Just(Op::Other),
        2 => (0..20usize).prop_map(Op::Cancel),
        4 => Just(Op::LinkUp),
        4 => Just(Op::LinkDown),
        8 => (0..8usize).prop_map(Op::Answer),
        3 => (0..90_000u64).prop_map(Op::Wait),
        1 => prop::bool::weighted(0.1).prop_map(|denied| if denied { Op::Denied } else { Op::LinkDown }),
    ]
}

/// The world around the state: a worker's inbox, and what the client has seen.
#[derive(Default)]
struct World {
    up: bool,
    denied: bool,
    inbox: Vec<Value>,
    answers: HashMap<i64, u32>,
    cancelled: HashSet<i64>,
    keys: HashMap<i64, String>,
    now: Duration,
}

impl World {
    fn take_in(&mut self, actions: &[Action]) {
        for line in lines(actions) {
            if let Some(id) = line["id"].as_i64() {
                *self.answers.entry(id).or_default() += 1;
            }
        }
        for (line, key) in sent(actions) {
            assert!(self.up, "sent to nobody: {line}");
            if let Some(id) = line["id"].as_i64() {
                let key = key.expect("a client's request has a key");
                assert_eq!(self.keys.entry(id).or_insert_with(|| key.clone()), &key);
            }
            if line.get("id").is_some() {
                self.inbox.push(line);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_request_gets_exactly_one_answer(ops in prop::collection::vec(op(), 0..120)) {
        let mut state = session();
        let mut world = World::default();
        let mut requests: Vec<i64> = Vec::new();
        for op in ops {
            let id = i64::try_from(requests.len()).unwrap() + 100;
            let event = match op {
                Op::Call => { requests.push(id); call(id) }
                Op::List => { requests.push(id); list(id) }
                Op::Other => {
                    requests.push(id);
                    Event::Client(message::request(&json!(id), "resources/list", &Value::Null))
                }
                Op::Cancel(i) => match requests.get(i) {
                    Some(id) => {
                        if !world.answers.contains_key(id) {
                            world.cancelled.insert(*id);
                        }
                        let params = json!({ "requestId": id });
                        Event::Client(message::notification("notifications/cancelled", &params))
                    }
                    None => Event::Tick,
                },
                Op::LinkUp if !world.up && !world.denied => { world.up = true; Event::LinkUp }
                Op::LinkDown if world.up => { world.up = false; world.inbox.clear(); Event::LinkDown }
                Op::Denied if !world.up && !world.denied => { world.denied = true; Event::Denied("no".into()) }
                Op::Answer(i) if i < world.inbox.len() => {
                    let line = world.inbox.remove(i);
                    answer(&line["id"], &json!({"tools": tools(&["a"]), "content": []}))
                }
                Op::Wait(ms) => { world.now += Duration::from_millis(ms); Event::Tick }
                _ => Event::Tick,
            };
            let actions = state.step(event, world.now);
            world.take_in(&actions);
            for (id, answers) in &world.answers {
                prop_assert!(*answers <= 1, "{id} was answered {answers} times");
            }
        }
        // Then every worker is gone for good.
        if world.up {
            world.up = false;
            let actions = state.step(Event::LinkDown, world.now);
            world.take_in(&actions);
        }
        while let Some(due) = state.deadline() {
            world.now = world.now.max(due);
            let actions = state.step(Event::Tick, world.now);
            world.take_in(&actions);
        }
        prop_assert!(!state.is_waiting());
        for id in &requests {
            let expected = u32::from(!world.cancelled.contains(id));
            prop_assert_eq!(world.answers.get(id).copied().unwrap_or(0), expected, "request {}", id);
        }
        let distinct: HashSet<&String> = world.keys.values().collect();
        prop_assert_eq!(distinct.len(), world.keys.len(), "two requests with one key");
    }
}
