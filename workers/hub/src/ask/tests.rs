//! Asks as their callers see them: requests against a real database, with a clock that the test walks.

use crate::{
    ask::{clock, permission},
    tests::{Bed, a, bed, code, stop, submit},
};
use leo_ipc::{
    CallKey, Fault, MessageId,
    agent::{Activity, AgentPatch, Desired, ReportAgent, SetDesired},
    ask::{
        AnswerAsk, AnswerBody, AskPermission, AskResult, ClosedReason, Decision, DismissAsk, OpenAsk,
        PermissionGone, Run, StopWaiting, WaitAsk, WithdrawAsk,
    },
    chat::{Message, MessageState},
    hook::HookEvent,
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::task::JoinHandle;

impl Bed {
    async fn open_ask(&self, key: &str, timeout_s: Option<u64>) -> Message {
        self.ask(OpenAsk {
            agent: a(),
            launch: None,
            call_key: key.into(),
            question: "Ship it?".into(),
            input: None,
            options: Some(json!([{"value": "y", "label": "Yes"}, {"value": "n", "label": "No"}])),
            timeout_s,
            run: None,
        })
        .await
        .unwrap()
    }

    async fn answer(&self, id: &MessageId, body: Value, key: &str) -> Result<Message, Fault> {
        let answer: AnswerBody = serde_json::from_value(body).unwrap();
        self.ask(AnswerAsk {
            agent: a(),
            message_id: id.clone(),
            answer,
            by: "operator".into(),
            key: key.into(),
        })
        .await
    }

    async fn tick(&self) {
        self.hub.writer.run(clock::tick).await.unwrap();
    }

    fn walk(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1000, Ordering::Relaxed);
    }
}

/// A call in a task of its own, as the mcp worker's and the hook's are.
fn wait(bed: &Arc<Bed>, id: &MessageId, key: &str) -> JoinHandle<Result<AskResult, Fault>> {
    let (bed, id, key) = (bed.clone(), id.clone(), CallKey::from(key));
    tokio::spawn(async move { bed.ask(WaitAsk { agent: a(), message_id: id, call_key: key }).await })
}

fn prompt(bed: &Arc<Bed>, key: &str, tool: &str, input: Value) -> JoinHandle<Result<Decision, Fault>> {
    let request = AskPermission {
        hook_key: key.into(),
        token: "t1".into(),
        at_ms: leo_ipc::Time::now().millis(),
        tool_name: tool.into(),
        tool_input: input,
        prompt_id: Some("p1".into()),
        session_id: None,
        agent_id: None,
        agent_type: None,
        permission_mode: Some("default".into()),
    };
    let bed = bed.clone();
    tokio::spawn(async move { bed.ask(request).await })
}

/// Waits until the thread has so many cards and returns the newest.
async fn card(bed: &Bed, count: usize) -> Message {
    loop {
        let mut cards: Vec<_> = bed.thread().await.into_iter().filter(|m| m.input.is_some()).collect();
        if cards.len() >= count {
            return cards.pop().unwrap();
        }
        tokio::task::yield_now().await;
    }
}

/// Waits until a call waits for the ask, so that its answer is not late.
async fn waited_for(bed: &Bed, id: &MessageId) {
    loop {
        let id = id.clone();
        let waiter =
            bed.hub.readers.read(move |db| Ok(super::store::find(db, &id)?.and_then(|ask| ask.waiter))).await;
        if waiter.unwrap().is_some() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

fn tool(name: &str, id: &str, input: &Value) -> HookEvent {
    HookEvent {
        name: name.into(),
        tool_name: Some("Bash".into()),
        tool_use_id: Some(id.into()),
        input_hash: Some(leo_ipc::ask::input_hash(input)),
        prompt_id: Some("p1".into()),
        ..HookEvent::default()
    }
}

#[tokio::test]
async fn a_blocked_call_gets_the_answer_and_nothing_is_delivered() {
    let bed = Arc::new(bed().await);
    let ask = bed.open_ask("k1", None).await;
    assert_eq!(bed.open_ask("k1", None).await.id, ask.id, "the same call again is the same ask");
    let call = wait(&bed, &ask.id, "k1");
    waited_for(&bed, &ask.id).await;
    let answered = bed.answer(&ask.id, json!({"values": ["y"]}), "a1").await.unwrap();
    assert_eq!((answered.state, answered.answered_by.as_deref()), (MessageState::Answered, Some("operator")));
    let result = call.await.unwrap().unwrap();
    assert_eq!((result.values, result.labels), (vec!["y".to_owned()], vec!["Yes".to_owned()]));
    bed.walk(3600);
    bed.tick().await;
    assert!(bed.next().await.delivery.is_none(), "the call took the answer with it");
    // A resume with the message id still returns the stored answer.
    assert_eq!(wait(&bed, &ask.id, "k2").await.unwrap().unwrap().labels, ["Yes"]);
}

#[tokio::test]
async fn an_answer_that_nobody_waits_for_is_a_message_of_three_lines() {
    let bed = bed().await;
    let ask = bed.open_ask("k1", None).await;
    bed.answer(&ask.id, json!({"values": ["y"]}), "a1").await.unwrap();
    bed.tick().await;
    bed.tick().await;
    let delivery = bed.next().await.delivery.unwrap();
    let expected = format!(
        "[Leo Chat] Yes\nIn reply to your leo_chat_ask {id} ({ts}): Ship it?\nAnswer: {{\"message_id\":\"{id}\",\"values\":[\"y\"],\"labels\":[\"Yes\"],\"text\":\"\"}}",
        id = ask.id,
        ts = ask.ts
    );
    assert_eq!(delivery.prompt, expected);
    let messages = bed.thread().await;
    assert_eq!(messages.len(), 2, "once");
    assert_eq!(messages[1].reply_to.as_ref(), Some(&ask.id));
}

#[tokio::test]
async fn a_call_that_stopped_waiting_makes_the_answer_late() {
    let bed = Arc::new(bed().await);
    let ask = bed.open_ask("k1", None).await;
    let call = wait(&bed, &ask.id, "k1");
    waited_for(&bed, &ask.id).await;
    call.abort();
    let gone = StopWaiting { agent: a(), message_id: ask.id.clone(), call_key: "k1".into() };
    bed.ask(gone).await.unwrap();
    bed.answer(&ask.id, json!({"values": ["n"]}), "a1").await.unwrap();
    bed.tick().await;
    assert!(bed.next().await.delivery.unwrap().prompt.starts_with("[Leo Chat] No\n"));
}

#[tokio::test]
async fn a_call_whose_worker_died_has_a_while_to_come_back() {
    let bed = Arc::new(bed().await);
    let ask = bed.open_ask("k1", None).await;
    let call = wait(&bed, &ask.id, "k1");
    waited_for(&bed, &ask.id).await;
    call.abort();
    let _ = call.await;
    bed.answer(&ask.id, json!({"values": ["y"]}), "a1").await.unwrap();
    bed.walk(5);
    bed.tick().await;
    assert!(bed.next().await.delivery.is_none(), "not yet");
    bed.walk(20);
    bed.tick().await;
    assert!(bed.next().await.delivery.is_some(), "it did not come back");
}

#[tokio::test]
async fn stale_yes() {
    let bed = bed().await;
    bed.send("yes", None).await.unwrap();
    let ask = bed.open_ask("k1", None).await;
    bed.tick().await;
    assert_eq!(bed.message(&ask.id).await.state, MessageState::Open);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_race() {
    let bed = Arc::new(bed().await);
    let ask = bed.open_ask("k1", None).await;
    let bodies = [json!({"values": ["y"]}), json!({"values": ["n"]}), json!({"values": ["z"]}), json!({})];
    let tasks: Vec<_> = (0..64)
        .map(|n| {
            let (bed, id, body) = (bed.clone(), ask.id.clone(), bodies[n % 4].clone());
            tokio::spawn(async move { bed.answer(&id, body, &format!("a{n}")).await })
        })
        .collect();
    let (mut won, mut late) = (Vec::new(), Vec::new());
    for task in tasks {
        match task.await.unwrap() {
            Ok(message) => won.push(message),
            Err(fault) if fault.code == "already_settled" => late.push(fault),
            Err(fault) => assert_eq!(fault.code, "bad_answer"),
        }
    }
    assert_eq!(won.len(), 1, "one answer wins");
    for fault in late {
        assert_eq!(
            fault.data.unwrap()["answer"],
            serde_json::to_value(&won[0].answer).unwrap(),
            "the rest see it"
        );
    }
}

#[tokio::test]
async fn validation_comes_before_consumption_and_the_same_key_is_the_same_answer() {
    let bed = bed().await;
    let ask = bed.open_ask("k1", None).await;
    assert_eq!(code(bed.answer(&ask.id, json!({"values": ["z"]}), "a1").await), "bad_answer");
    assert_eq!(bed.message(&ask.id).await.state, MessageState::Open);
    bed.answer(&ask.id, json!({"values": ["y"]}), "a2").await.unwrap();
    bed.answer(&ask.id, json!({"values": ["y"]}), "a2").await.unwrap();
    assert_eq!(code(bed.answer(&ask.id, json!({"values": ["y"]}), "a3").await), "already_settled");
}

#[tokio::test]
async fn withdraw_dismiss_and_agent_gone() {
    let bed = bed().await;
    let closed = async |id: &MessageId| bed.message(id).await.closed_reason;
    let withdraw = |id: &MessageId| WithdrawAsk { agent: a(), message_id: id.clone() };
    let first = bed.open_ask("k1", None).await;
    bed.ask(withdraw(&first.id)).await.unwrap();
    assert_eq!(closed(&first.id).await, Some(ClosedReason::Withdrawn));
    assert_eq!(code(bed.ask(withdraw(&first.id)).await), "not_open");

    let second = bed.open_ask("k2", None).await;
    bed.put("b").await;
    let foreign = WithdrawAsk { agent: "b".parse().unwrap(), message_id: second.id.clone() };
    assert_eq!(code(bed.ask(foreign).await), "not_your_ask");
    let dismiss = DismissAsk { agent: a(), message_id: second.id.clone() };
    assert_eq!(code(bed.ask(dismiss).await), "not_a_questions_card");

    let stopped = |by_person| SetDesired { name: a(), desired: Desired::Stopped, by_person };
    bed.ask(stopped(false)).await.unwrap();
    assert_eq!(closed(&second.id).await, None, "a suspension, a crash or a restart closes nothing");
    bed.ask(stopped(true)).await.unwrap();
    assert_eq!(closed(&second.id).await, Some(ClosedReason::AgentGone));
}

#[tokio::test]
async fn clock_walk() {
    let bed = bed().await;
    let hour = bed.open_ask("k1", Some(3600)).await;
    let forever = bed.open_ask("k2", None).await;
    bed.walk(-3600);
    bed.tick().await;
    assert_eq!(bed.message(&hour.id).await.state, MessageState::Open, "an hour back expires nothing");
    // The hub is down while the deadline passes: eight hours of sleep.
    let bed = bed.restarted();
    bed.walk(8 * 3600);
    bed.tick().await;
    let expired = bed.message(&hour.id).await;
    assert_eq!((expired.state, expired.closed_reason), (MessageState::Expired, Some(ClosedReason::Timeout)));
    assert_eq!(bed.message(&forever.id).await.state, MessageState::Open, "no deadline, no end");
    let result = bed.ask(WaitAsk { agent: a(), message_id: hour.id, call_key: "k1".into() }).await.unwrap();
    assert!(result.timed_out && result.values.is_empty());
    bed.tick().await;
    assert!(bed.next().await.delivery.is_none(), "what expired is not delivered");
}

#[tokio::test]
async fn an_ask_of_a_headless_run_keeps_a_300_second_deadline_and_is_not_delivered() {
    let bed = bed().await;
    let open = |key: &str, timeout_s| OpenAsk {
        agent: a(),
        launch: None,
        call_key: key.into(),
        question: "Go on?".into(),
        input: Some(json!({"type": "text"})),
        options: None,
        timeout_s,
        run: Some(Run { task: "news".into(), run_id: "r1".into() }),
    };
    let ask = bed.ask(open("k1", None)).await.unwrap();
    assert_eq!((ask.task.as_deref(), ask.run_id.as_deref()), (Some("news"), Some("r1")));
    assert_eq!(ask.deadline.unwrap().millis() - ask.ts.millis(), 300_000);
    let longer = bed.ask(open("k2", Some(600))).await.unwrap();
    assert_eq!(longer.deadline.unwrap().millis() - longer.ts.millis(), 600_000);
    bed.answer(&ask.id, json!({"text": "yes"}), "a").await.unwrap();
    bed.walk(60);
    bed.tick().await;
    assert!(bed.next().await.delivery.is_none());
    let resumed = bed.ask(WaitAsk { agent: a(), message_id: ask.id, call_key: "k1".into() }).await.unwrap();
    assert_eq!(resumed.text, "yes", "resuming returns it");
}

#[tokio::test]
async fn a_permission_answered_in_the_chat() {
    let bed = Arc::new(bed().await);
    let hook = prompt(&bed, "h1", "Bash", json!({"command": "rm -rf /\u{202e}"}));
    let shown = card(&bed, 1).await;
    assert_eq!(shown.permission.as_ref().unwrap().summary, "rm -rf /\\u{202e}");
    assert!(shown.deadline.is_some());
    bed.answer(&shown.id, json!({"values": ["deny"], "text": "not on my disk"}), "a").await.unwrap();
    assert_eq!(hook.await.unwrap().unwrap(), Decision::Deny { message: Some("not on my disk".into()) });
    let hook = prompt(&bed, "h2", "Bash", json!({"command": "ls"}));
    let shown = card(&bed, 2).await;
    bed.answer(&shown.id, json!({"values": ["allow"]}), "b").await.unwrap();
    assert_eq!(hook.await.unwrap().unwrap(), Decision::Allow { updated_input: None });
}

#[tokio::test]
async fn what_the_harness_does_next_settles_its_prompt() {
    let input = json!({"command": "touch x"});
    let batch = HookEvent { tool_use_ids: vec!["u1".into()], ..tool("PostToolBatch", "", &input) };
    let batch = HookEvent { tool_use_id: None, ..batch };
    let later = |event: HookEvent| HookEvent { prompt_id: Some("p1".into()), ..event };
    let cases = [
        ("a Yes: the tool has run", tool("PostToolUse", "u1", &input)),
        ("a Yes: the tool has failed", tool("PostToolUseFailure", "u1", &input)),
        ("a No with a comment: only the batch tells", batch),
        ("the turn is over", later(stop("p1", "done"))),
        ("another prompt", later(submit("p2", "next"))),
        ("the session is over", HookEvent { name: "SessionEnd".into(), ..HookEvent::default() }),
    ];
    for (what, event) in cases {
        let bed = Arc::new(bed().await);
        bed.hook("t1", tool("PreToolUse", "u1", &input)).await.unwrap();
        let hook = prompt(&bed, "h1", "Bash", input.clone());
        let shown = card(&bed, 1).await;
        bed.later_hook(event).await;
        assert_eq!(hook.await.unwrap().unwrap(), Decision::Nothing {}, "{what}: the hook prints nothing");
        let settled = bed.message(&shown.id).await;
        assert_eq!(settled.answer.unwrap().values, ["terminal"], "{what}");
        assert_eq!(settled.answered_by.as_deref(), Some("terminal"), "{what}");
    }
}

impl Bed {
    /// A hook whose process started a second from now: after everything that is open.
    async fn later_hook(&self, event: HookEvent) {
        let at_ms = leo_ipc::Time::now().millis() + 1000;
        let report = leo_ipc::hook::ReportHook {
            hook_key: CallKey::fresh(),
            token: "t1".into(),
            at_ms,
            event,
            source: leo_ipc::hook::Source::Hook,
        };
        self.ask(report).await.unwrap();
        self.hub.writer.flush().await;
    }
}

#[tokio::test]
async fn another_tools_end_and_an_older_event_settle_nothing() {
    let bed = Arc::new(bed().await);
    let input = json!({"command": "touch x"});
    bed.hook("t1", tool("PreToolUse", "u1", &input)).await.unwrap();
    let hook = prompt(&bed, "h1", "Bash", input.clone());
    let shown = card(&bed, 1).await;
    bed.later_hook(tool("PostToolUse", "u9", &json!({"command": "other"}))).await;
    // A spooled event from before the prompt opened.
    let mut old = stop("p0", "x");
    old.prompt_id = Some("p0".into());
    bed.hook("t1", old).await.unwrap();
    assert_eq!(bed.message(&shown.id).await.state, MessageState::Open);
    bed.answer(&shown.id, json!({"values": ["allow"]}), "a").await.unwrap();
    hook.await.unwrap().unwrap();
}

#[tokio::test]
async fn two_identical_calls_are_told_apart_by_their_order() {
    let bed = Arc::new(bed().await);
    let input = json!({"command": "date"});
    for id in ["u1", "u2"] {
        bed.hook("t1", tool("PreToolUse", id, &input)).await.unwrap();
    }
    let first = prompt(&bed, "h1", "Bash", input.clone());
    let one = card(&bed, 1).await;
    let second = prompt(&bed, "h2", "Bash", input.clone());
    let two = card(&bed, 2).await;
    bed.later_hook(tool("PostToolUse", "u1", &input)).await;
    assert_eq!(first.await.unwrap().unwrap(), Decision::Nothing {});
    assert_eq!(bed.message(&one.id).await.state, MessageState::Answered);
    assert_eq!(bed.message(&two.id).await.state, MessageState::Open);
    bed.answer(&two.id, json!({"values": ["deny"]}), "a").await.unwrap();
    assert_eq!(second.await.unwrap().unwrap(), Decision::Deny { message: None });
}

#[tokio::test]
async fn a_dialog_that_was_left_settles_what_had_opened_before() {
    let bed = Arc::new(bed().await);
    let hook = prompt(&bed, "h1", "Bash", json!({"command": "a"}));
    let shown = card(&bed, 1).await;
    let report = |at_ms| ReportAgent {
        name: a(),
        launch: "l1".into(),
        patch: AgentPatch {
            activity: Some(Activity::Idle),
            status_at_ms: Some(at_ms),
            ..AgentPatch::default()
        },
    };
    let now = leo_ipc::Time::now().millis();
    bed.ask(report(now - 60_000)).await.unwrap();
    assert_eq!(bed.message(&shown.id).await.state, MessageState::Open, "it opened after that");
    bed.ask(report(now + 60_000)).await.unwrap();
    assert_eq!(hook.await.unwrap().unwrap(), Decision::Nothing {});
    assert_eq!(bed.message(&shown.id).await.answered_by.as_deref(), Some("terminal"));
}

#[tokio::test]
async fn a_card_says_what_really_ran_when_both_surfaces_answered_at_once() {
    let bed = Arc::new(bed().await);
    let input = json!({"command": "touch x"});
    bed.hook("t1", tool("PreToolUse", "u1", &input)).await.unwrap();
    let hook = prompt(&bed, "h1", "Bash", input.clone());
    let shown = card(&bed, 1).await;
    bed.answer(&shown.id, json!({"values": ["deny"]}), "a").await.unwrap();
    hook.await.unwrap().unwrap();
    bed.later_hook(tool("PostToolUse", "u1", &input)).await;
    assert_eq!(bed.message(&shown.id).await.answered_by.as_deref(), Some("terminal"), "it ran");

    let hook = prompt(&bed, "h2", "Bash", json!({"command": "touch y"}));
    let shown = card(&bed, 2).await;
    bed.answer(&shown.id, json!({"values": ["allow"]}), "b").await.unwrap();
    hook.await.unwrap().unwrap();
    bed.ask(PermissionGone { hook_key: "h2".into(), token: "t1".into() }).await.unwrap();
    assert_eq!(
        bed.message(&shown.id).await.answered_by.as_deref(),
        Some("terminal"),
        "Claude ended the hook"
    );

    let hook = prompt(&bed, "h3", "Bash", json!({"command": "touch z"}));
    let shown = card(&bed, 3).await;
    bed.answer(&shown.id, json!({"values": ["allow"]}), "c").await.unwrap();
    hook.await.unwrap().unwrap();
    bed.later_hook(tool("PostToolUse", "u3", &json!({"command": "touch z"}))).await;
    assert_eq!(bed.message(&shown.id).await.answered_by.as_deref(), Some("operator"), "allowed and ran");
}

#[tokio::test]
async fn a_hook_that_claude_ended_was_answered_in_the_terminal() {
    let bed = Arc::new(bed().await);
    let hook = prompt(&bed, "h1", "Bash", json!({"command": "a"}));
    let shown = card(&bed, 1).await;
    bed.ask(PermissionGone { hook_key: "h1".into(), token: "t1".into() }).await.unwrap();
    hook.await.unwrap().unwrap();
    assert_eq!(bed.message(&shown.id).await.answered_by.as_deref(), Some("terminal"));
}

#[tokio::test]
async fn a_prompt_whose_end_was_heard_first_opens_no_card() {
    let bed = Arc::new(bed().await);
    bed.ask(PermissionGone { hook_key: "h1".into(), token: "t1".into() }).await.unwrap();
    let hook = prompt(&bed, "h1", "Bash", json!({"command": "a"}));
    assert_eq!(hook.await.unwrap().unwrap(), Decision::Nothing {});
    assert!(bed.thread().await.is_empty());
}

#[tokio::test]
async fn a_prompt_survives_a_restart_when_its_hook_comes_back() {
    let bed = Arc::new(bed().await);
    let hook = prompt(&bed, "h1", "Bash", json!({"command": "a"}));
    let shown = card(&bed, 1).await;
    hook.abort();
    let _ = hook.await;
    let bed = Arc::new(Arc::try_unwrap(bed).ok().unwrap().restarted());
    bed.hub.writer.run(permission::all_detached).await.unwrap();
    bed.walk(10);
    bed.tick().await;
    assert_eq!(bed.message(&shown.id).await.state, MessageState::Open, "it has 15 s");
    let again = prompt(&bed, "h1", "Bash", json!({"command": "a"}));
    loop {
        let id = shown.id.clone();
        let back = bed.hub.readers.read(move |db| {
            Ok(db.query_row(
                "SELECT detached_at IS NULL FROM asks WHERE message_id = ?1",
                [id.as_str()],
                |r| r.get(0),
            )?)
        });
        if back.await.unwrap() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bed.walk(60);
    bed.tick().await;
    bed.answer(&shown.id, json!({"values": ["allow"]}), "a").await.unwrap();
    assert_eq!(again.await.unwrap().unwrap(), Decision::Allow { updated_input: None });
    assert_eq!(bed.thread().await.len(), 1, "one card");
}

#[tokio::test]
async fn a_prompt_whose_hook_is_lost_expires_without_a_reason() {
    let bed = Arc::new(bed().await);
    let hook = prompt(&bed, "h1", "Bash", json!({"command": "a"}));
    let shown = card(&bed, 1).await;
    hook.abort();
    let _ = hook.await;
    bed.hub.writer.run(permission::all_detached).await.unwrap();
    bed.walk(16);
    bed.tick().await;
    let expired = bed.message(&shown.id).await;
    assert_eq!((expired.state, expired.closed_reason), (MessageState::Expired, None));
    assert_eq!(code(bed.answer(&shown.id, json!({"values": ["allow"]}), "a").await), "already_settled");
}

#[tokio::test]
async fn a_questions_card_is_answered_dismissed_and_timed_out() {
    let bed = Arc::new(bed().await);
    let input = json!({"questions": [{"question": "Which size?", "header": "Size", "multiSelect": false,
        "options": [{"label": "L", "description": "large"}, {"label": "M", "description": ""}]}]});
    let hook = prompt(&bed, "h1", "AskUserQuestion", input.clone());
    let shown = card(&bed, 1).await;
    assert!(shown.permission.is_none());
    assert_eq!(
        serde_json::to_value(&shown.input).unwrap(),
        json!({"type": "questions", "questions": [{"id": "q1", "header": "Size", "question": "Which size?",
            "multi": false, "allow_text": true,
            "options": [{"value": "L", "label": "L", "description": "large"}, {"value": "M", "label": "M"}]}]})
    );
    let answered = bed.answer(&shown.id, json!({"answers": {"q1": {"values": ["L"]}}}), "a").await.unwrap();
    assert_eq!(
        serde_json::to_value(&answered.answer).unwrap(),
        json!({"values": [], "text": "", "answers": {"q1": {"values": ["L"], "text": ""}}})
    );
    let Decision::Allow { updated_input: Some(updated) } = hook.await.unwrap().unwrap() else {
        panic!("allow")
    };
    assert_eq!(updated, json!({"questions": input["questions"], "answers": {"Which size?": "L"}}));

    let hook = prompt(&bed, "h2", "AskUserQuestion", input.clone());
    let shown = card(&bed, 2).await;
    let dismiss = DismissAsk { agent: a(), message_id: shown.id.clone() };
    assert_eq!(bed.ask(dismiss.clone()).await.unwrap().closed_reason, Some(ClosedReason::Dismissed));
    assert_eq!(hook.await.unwrap().unwrap(), Decision::Nothing {}, "nothing is ever denied");
    assert_eq!(code(bed.ask(dismiss).await), "already_settled");

    let hook = prompt(&bed, "h3", "AskUserQuestion", input);
    let shown = card(&bed, 3).await;
    bed.walk(3601);
    bed.tick().await;
    assert_eq!(hook.await.unwrap().unwrap(), Decision::Nothing {});
    assert_eq!(bed.message(&shown.id).await.closed_reason, Some(ClosedReason::Timeout));
}

#[tokio::test]
async fn agents_with_bypass_permissions_never_ask() {
    let bed = bed().await;
    let request = AskPermission {
        hook_key: "h".into(),
        token: "t1".into(),
        at_ms: 0,
        tool_name: "Bash".into(),
        tool_input: json!({}),
        prompt_id: None,
        session_id: None,
        agent_id: None,
        agent_type: None,
        permission_mode: Some("bypassPermissions".into()),
    };
    assert_eq!(bed.ask(request).await.unwrap(), Decision::Nothing {});
    assert!(bed.thread().await.is_empty());
}
