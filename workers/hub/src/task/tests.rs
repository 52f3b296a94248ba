//! Tasks as their callers see them: requests against a real database.

use crate::tests::{Bed, a, bed, code, stop, submit};
use leo_ipc::{
    AgentName, CallKey, Fault, MessageId, TaskName, Time,
    agent::{AuthAgent, Desired, SetDesired},
    ask::{AnswerAsk, AnswerBody, ClosedReason, OpenAsk, Run, WaitAsk},
    chat::{AgentPost, ListMessages, Message, MessageKind, MessageState, SendMessage},
    config::{Config, TaskConfig, TaskRuntime},
    event::ListEvents,
    id::token_hash,
    task::*,
};
use serde_json::json;

fn assistant() -> AgentName {
    "assistant".parse().unwrap()
}

fn task(name: &str) -> TaskName {
    name.parse().unwrap()
}

/// Agents `a` (in `/w`) and `assistant`, and the tasks of the tests.
async fn tasks() -> Bed {
    let mut bed = bed().await;
    bed.put("assistant").await;
    let plain = TaskConfig { prompt: Some("hi".into()), notify_on_fail: true, ..TaskConfig::default() };
    let persistent = |owner: Option<&str>| TaskConfig {
        runtime: TaskRuntime::Persistent,
        agent: Some("a".into()),
        owner: owner.map(str::to_owned),
        ..plain.clone()
    };
    let config = Config {
        tasks: [
            (task("news"), plain.clone()),
            (task("quiet"), TaskConfig { notify_on_fail: false, ..plain.clone() }),
            (task("orphan"), TaskConfig { owner: Some("ghost".into()), ..plain.clone() }),
            (task("own"), persistent(None)),
            (task("foreign"), persistent(Some("assistant"))),
        ]
        .into(),
        ..Config::default()
    };
    bed.hub.config = tokio::sync::watch::Sender::new(config).subscribe();
    bed
}

impl Bed {
    async fn claim(&self, name: &str, run_id: &str, due: Option<i64>) -> TaskRun {
        self.ask(ClaimRun {
            task: task(name),
            run_id: run_id.into(),
            trigger: if due.is_some() { Trigger::Schedule } else { Trigger::Manual },
            due_at: due.map(Time::from_millis),
            skipped: None,
        })
        .await
        .unwrap()
    }

    async fn begin_run(&self, run_id: &str, prompt: Option<&str>) -> Result<Begun, Fault> {
        self.ask(BeginRun {
            run_id: run_id.into(),
            token_hash: token_hash(run_id),
            log_path: Some(format!("/l/{run_id}.log")),
            prompt: prompt.map(str::to_owned),
        })
        .await
    }

    async fn end_run(&self, run_id: &str, state: RunState, error: Option<&str>) -> TaskRun {
        let (run_id, error) = (run_id.to_owned(), error.map(str::to_owned));
        self.ask(EndRun { run_id, state, exit_code: None, error }).await.unwrap()
    }

    /// A run from its claim to its end.
    async fn whole_run(&self, name: &str, run_id: &str, state: RunState, error: Option<&str>) {
        self.claim(name, run_id, None).await;
        self.begin_run(run_id, None).await.unwrap();
        self.end_run(run_id, state, error).await;
    }

    async fn of(&self, agent: &AgentName) -> Vec<Message> {
        let page = ListMessages { agent: agent.clone(), before: None, after: None, limit: 200 };
        self.ask(page).await.unwrap().messages
    }

    async fn post_as(&self, agent: &AgentName, key: &str, run: Option<Run>) -> Result<MessageId, Fault> {
        let post = AgentPost {
            agent: agent.clone(),
            launch: None,
            call_key: key.into(),
            text: format!("post {key}"),
            files: vec![],
            reply_to: None,
            run,
        };
        Ok(self.ask(post).await?.message_id)
    }

    async fn ask_as(&self, agent: &AgentName, key: &str, run: Option<Run>) -> Message {
        self.ask(OpenAsk {
            agent: agent.clone(),
            launch: None,
            call_key: key.into(),
            question: "Ship it?".into(),
            input: None,
            options: Some(json!(["yes", "no"])),
            timeout_s: None,
            run,
        })
        .await
        .unwrap()
    }

    async fn say_yes(&self, thread: &AgentName, id: &MessageId) {
        let answer = AnswerBody { values: vec!["yes".into()], ..AnswerBody::default() };
        let (agent, message_id) = (thread.clone(), id.clone());
        self.ask(AnswerAsk { agent, message_id, answer, by: "operator".into(), key: "k".into() })
            .await
            .unwrap();
    }

    /// The running turn of `a` belongs to a run of a persistent task.
    async fn in_turn(&self, name: &str, run_id: &str) {
        self.claim(name, run_id, None).await;
        self.begin_run(run_id, Some("do it")).await.unwrap();
        let delivery = self.hand_over().await;
        self.hook("t1", submit(run_id, &delivery.prompt)).await.unwrap();
    }

    async fn kinds(&self) -> Vec<String> {
        self.ask(ListEvents { after: 0, limit: 500 })
            .await
            .unwrap()
            .events
            .into_iter()
            .map(|e| e.kind)
            .collect()
    }
}

fn run_of(name: &str, run_id: &str) -> Option<Run> {
    Some(Run { task: name.into(), run_id: run_id.into() })
}

#[tokio::test]
async fn a_due_time_is_one_run_whoever_claims_it() {
    let bed = tasks().await;
    let sync = || SyncTasks {
        tasks: vec![Followed { name: task("news"), schedule: "x|UTC".into(), next_at: None }],
    };
    let first = bed.ask(sync()).await.unwrap();
    let cursor = first.tasks[0].cursor.millis();
    let run = bed.claim("news", "r1", Some(cursor + 1000)).await;
    assert_eq!(bed.claim("news", "r2", Some(cursor + 1000)).await.id, run.id);
    assert_eq!(bed.claim("news", "r1", Some(cursor + 1000)).await, run);
    let seen = bed.ask(sync()).await.unwrap();
    assert_eq!(seen.tasks[0].cursor.millis(), cursor + 1000, "the claim moves the schedule on");
    assert_eq!(seen.open, [run]);
    let changed =
        SyncTasks { tasks: vec![Followed { name: task("news"), schedule: "y|UTC".into(), next_at: None }] };
    let later = bed.ask(changed).await.unwrap().tasks[0].cursor;
    assert!(later.millis() < cursor + 60_000, "another schedule counts from now on");
}

#[tokio::test]
async fn a_run_begins_and_ends_once_and_its_token_with_it() {
    let bed = tasks().await;
    bed.claim("news", "r1", None).await;
    let auth = || AuthAgent { token_hash: token_hash("r1") };
    assert_eq!(code(bed.ask(auth()).await), "unauthorized");
    let begun = bed.begin_run("r1", None).await.unwrap();
    assert_eq!(begun, bed.begin_run("r1", None).await.unwrap(), "the same request again");
    assert_eq!((begun.agent, begun.run.attempts), (assistant(), 1));
    let other = BeginRun { run_id: "r1".into(), token_hash: "x".into(), log_path: None, prompt: None };
    assert_eq!(code(bed.ask(other).await), "not_queued");
    let who = bed.ask(auth()).await.unwrap();
    assert_eq!((who.name, who.run), (assistant(), run_of("news", "r1")));
    bed.end_run("r1", RunState::Succeeded, None).await;
    assert_eq!(code(bed.ask(auth()).await), "unauthorized", "a token ends with its run");
    assert_eq!(bed.end_run("r1", RunState::Failed, Some("x")).await.state, RunState::Succeeded);
    let kinds = bed.kinds().await;
    let of_runs: Vec<&String> = kinds.iter().filter(|k| k.starts_with("task_run")).collect();
    assert_eq!(of_runs, ["task_run_started", "task_run_succeeded"]);
}

/// Twenty failures in a row are one card whose count says so, and the next success one line.
#[tokio::test]
async fn a_run_of_failures_is_one_card_with_a_count() {
    let bed = tasks().await;
    for n in 1..=20 {
        let run_id = format!("r{n:02}");
        bed.claim("news", &run_id, None).await;
        if n % 2 == 0 {
            bed.begin_run(&run_id, None).await.unwrap();
        }
        // Every other one could not even be started, which counts as well.
        bed.end_run(&run_id, RunState::Failed, Some("no such program")).await;
    }
    bed.whole_run("news", "r21", RunState::Interrupted, Some("stopped")).await;
    let thread = bed.of(&assistant()).await;
    assert_eq!(thread.len(), 1, "{thread:#?}");
    let card = &thread[0];
    assert_eq!(
        (card.kind, card.task.as_deref(), card.run_id.as_deref()),
        (MessageKind::Task, Some("news"), Some("r20"))
    );
    assert!(card.text.starts_with("**Task failed: news**\nRun `r20` · 1 attempt(s)\n"), "{}", card.text);
    assert!(card.text.contains("Failed 20 times in a row since "), "{}", card.text);
    let kinds = bed.kinds().await;
    assert_eq!(kinds.iter().filter(|k| *k == "chat.message").count(), 1, "one card");
    assert_eq!(kinds.iter().filter(|k| *k == "chat.updated").count(), 19, "brought up to date");

    bed.whole_run("news", "r22", RunState::Succeeded, None).await;
    bed.whole_run("news", "r23", RunState::Succeeded, None).await;
    let thread = bed.of(&assistant()).await;
    assert_eq!(thread.len(), 2, "one line on recovery");
    assert_eq!(thread[1].text, "Task news succeeded again after 20 failures.");

    bed.whole_run("news", "r24", RunState::Failed, Some("again")).await;
    let thread = bed.of(&assistant()).await;
    assert_eq!(thread.len(), 3, "a new run of failures is a new card");
    assert!(!thread[2].text.contains("in a row"), "{}", thread[2].text);
}

#[tokio::test]
async fn only_who_wants_it_gets_a_card() {
    let bed = tasks().await;
    bed.whole_run("quiet", "r1", RunState::Failed, Some("x")).await;
    assert!(bed.of(&assistant()).await.is_empty());
    bed.whole_run("orphan", "r2", RunState::Failed, Some("x")).await;
    bed.whole_run("orphan", "r3", RunState::Succeeded, None).await;
    let thread = bed.of(&assistant()).await;
    let kinds: Vec<MessageKind> = thread.iter().map(|m| m.kind).collect();
    assert_eq!(kinds, [MessageKind::System, MessageKind::Task, MessageKind::Task]);
    assert!(thread[0].text.contains("owned by `ghost`, which is no agent"), "{}", thread[0].text);
    assert_eq!(thread[2].text, "Task orphan succeeded again after 1 failure.");
}

#[tokio::test]
async fn a_failure_that_is_reported_is_counted_once() {
    let bed = tasks().await;
    let report = |run_id: &str| ReportTaskFailure {
        task: task("news"),
        run_id: run_id.into(),
        attempts: 3,
        error: "away".into(),
        log_path: "/l".into(),
    };
    let card = bed.ask(report("x1")).await.unwrap();
    assert_eq!(bed.ask(report("x1")).await.unwrap(), card);
    assert_eq!(bed.ask(report("x2")).await.unwrap(), card);
    let text = bed.of(&assistant()).await[0].text.clone();
    assert!(text.contains("Run `x2` · 3 attempt(s)") && text.contains("Failed 2 times"), "{text}");
    let runs = bed.ask(ListRuns { task: task("news"), limit: 10 }).await.unwrap().runs;
    assert_eq!(runs.len(), 2);
}

#[tokio::test]
async fn posts_and_asks_of_a_headless_run() {
    let bed = tasks().await;
    bed.claim("news", "r1", None).await;
    bed.begin_run("r1", None).await.unwrap();
    let id = bed.post_as(&assistant(), "k1", run_of("news", "r1")).await.unwrap();
    assert_eq!(bed.post_as(&assistant(), "k1", run_of("news", "r1")).await.unwrap(), id);
    let ask = bed.ask_as(&assistant(), "k2", run_of("news", "r1")).await;
    let wait = ask.deadline.unwrap().millis() - ask.ts.millis();
    assert_eq!(wait, 300_000, "an ask of a headless run has 300 s");
    // Stopping its owner's own process says nothing of the run.
    bed.ask(SetDesired { name: assistant(), desired: Desired::Stopped, by_person: true }).await.unwrap();
    let thread = bed.of(&assistant()).await;
    for message in &thread {
        assert_eq!((message.task.as_deref(), message.run_id.as_deref()), (Some("news"), Some("r1")));
    }
    assert_eq!((thread[0].kind, thread[1].state), (MessageKind::Task, MessageState::Open));
    bed.end_run("r1", RunState::Succeeded, None).await;
    let thread = bed.of(&assistant()).await;
    assert_eq!(thread[1].closed_reason, Some(ClosedReason::Timeout), "nobody waits for it any more");
    let late = bed.post_as(&assistant(), "k3", run_of("news", "r1")).await.unwrap();
    let thread = bed.of(&assistant()).await;
    assert_eq!(thread.last().map(|m| (&m.id, m.kind)), Some((&late, MessageKind::Text)), "the run is over");
}

#[tokio::test]
async fn an_answer_to_a_headless_run_is_no_message() {
    let bed = tasks().await;
    bed.claim("news", "r1", None).await;
    bed.begin_run("r1", None).await.unwrap();
    let ask = bed.ask_as(&assistant(), "k1", run_of("news", "r1")).await;
    bed.say_yes(&assistant(), &ask.id).await;
    bed.hub.writer.run(crate::ask::clock::tick).await.unwrap();
    assert_eq!(bed.of(&assistant()).await.len(), 1);
    let wait = WaitAsk { agent: assistant(), message_id: ask.id, call_key: "k2".into() };
    assert_eq!(bed.ask(wait).await.unwrap().values, ["yes"], "resuming returns it");
}

#[tokio::test]
async fn a_persistent_task_is_a_turn_of_its_agent() {
    let bed = tasks().await;
    bed.claim("own", "r1", None).await;
    bed.begin_run("r1", Some("do it")).await.unwrap();
    let delivery = bed.hand_over().await;
    assert_eq!(delivery.prompt, "[Leo Chat] Task own is due (run r1):\ndo it");
    bed.hook("t1", submit("p1", &delivery.prompt)).await.unwrap();
    bed.post_as(&a(), "k1", None).await.unwrap();
    let ask = bed.ask_as(&a(), "k2", None).await;
    assert_eq!(ask.deadline, None, "its own agent can be given a late answer");
    bed.hook("t1", stop("p1", "all done")).await.unwrap();
    let runs = bed.ask(ListRuns { task: task("own"), limit: 1 }).await.unwrap().runs;
    assert_eq!(runs[0].state, RunState::Succeeded);
    let thread = bed.thread().await;
    let filed: Vec<_> = thread.iter().map(|m| (m.kind, m.run_id.as_deref())).collect();
    assert_eq!(
        filed,
        [(MessageKind::Task, Some("r1")), (MessageKind::Task, Some("r1")), (MessageKind::Ask, Some("r1")),],
        "its last words are no post"
    );
    bed.say_yes(&a(), &ask.id).await;
    bed.hub.writer.run(crate::ask::clock::tick).await.unwrap();
    let thread = bed.thread().await;
    assert_eq!(thread[3].reply_to.as_ref(), Some(&ask.id), "the late answer is a message");
    // Outside of the run's turn, a post is a plain one again.
    bed.post_as(&a(), "k3", None).await.unwrap();
    assert_eq!(bed.thread().await.last().map(|m| m.kind), Some(MessageKind::Text));
}

#[tokio::test]
async fn a_persistent_task_of_another_owner() {
    let bed = tasks().await;
    bed.in_turn("foreign", "r1").await;
    let post = bed.post_as(&a(), "k1", None).await.unwrap();
    let ask = bed.ask_as(&a(), "k2", None).await;
    assert_eq!(ask.agent, assistant(), "its asks are in its owner's thread");
    assert_eq!(ask.deadline.unwrap().millis() - ask.ts.millis(), 300_000);
    assert_eq!(
        bed.of(&assistant()).await.iter().map(|m| m.id.clone()).collect::<Vec<_>>(),
        [post.clone(), ask.id.clone()]
    );
    bed.say_yes(&assistant(), &ask.id).await;
    bed.hub.writer.run(crate::ask::clock::tick).await.unwrap();
    assert_eq!(bed.thread().await.len(), 1, "no late answer is delivered");
    let wait = WaitAsk { agent: a(), message_id: ask.id.clone(), call_key: "k3".into() };
    assert_eq!(bed.ask(wait).await.unwrap().values, ["yes"], "whoever asked resumes it");
    let wait = WaitAsk { agent: assistant(), message_id: ask.id, call_key: "k4".into() };
    assert_eq!(code(bed.ask(wait).await), "not_your_ask");
    bed.hook("t1", stop("r1", "")).await.unwrap();
    assert_eq!(
        bed.post_as(&a(), "k1", None).await.unwrap(),
        post,
        "a call that is made again after the turn"
    );
}

#[tokio::test]
async fn stopping_the_agent_closes_what_it_asked_for_another_owner() {
    let bed = tasks().await;
    bed.in_turn("foreign", "r1").await;
    let ask = bed.ask_as(&a(), "k1", None).await;
    bed.ask(SetDesired { name: a(), desired: Desired::Stopped, by_person: true }).await.unwrap();
    let closed = bed.of(&assistant()).await.into_iter().find(|m| m.id == ask.id).unwrap();
    assert_eq!(closed.closed_reason, Some(ClosedReason::AgentGone));
}

#[tokio::test]
async fn a_prompt_that_never_reaches_its_agent_ends_its_run() {
    let bed = tasks().await;
    bed.claim("own", "r1", None).await;
    let begun = bed.begin_run("r1", Some("do it")).await.unwrap();
    let message = begun.run.message_id.unwrap();
    bed.end_run("r1", RunState::Failed, Some("too long")).await;
    assert_eq!(bed.message(&message).await.state, MessageState::Failed, "it is not handed over any more");
    assert!(bed.next().await.delivery.is_none());

    bed.claim("own", "r2", None).await;
    let id = bed.begin_run("r2", Some("do it")).await.unwrap().run.message_id.unwrap();
    bed.ask(leo_ipc::chat::CancelMessage { agent: a(), id }).await.unwrap();
    let runs = bed.ask(ListRuns { task: task("own"), limit: 1 }).await.unwrap().runs;
    assert_eq!(runs[0].state, RunState::Interrupted);
}

#[tokio::test]
async fn a_reply_to_a_card_says_what_it_is_about() {
    let bed = tasks().await;
    bed.in_turn("own", "r1").await;
    let long = "x".repeat(2000);
    let post = AgentPost {
        agent: a(),
        launch: None,
        call_key: "k1".into(),
        text: long.clone(),
        files: vec![],
        reply_to: None,
        run: None,
    };
    let card = bed.ask(post).await.unwrap().message_id;
    bed.hook("t1", stop("r1", "")).await.unwrap();
    let reply = SendMessage {
        steer: false,
        agent: a(),
        text: "tell me more".into(),
        reply_to: Some(card.clone()),
        attachments: vec![],
        client_msg_id: None,
        key: CallKey::fresh(),
    };
    bed.ask(reply).await.unwrap();
    let at = bed.message(&card).await.ts;
    let prompt = bed.next().await.delivery.unwrap().prompt;
    assert_eq!(
        prompt,
        format!("[Leo Chat] tell me more\nIn reply to task own run r1 ({at}): {}", &long[..1500])
    );
}

#[tokio::test]
async fn switching_a_task_off_and_on() {
    let bed = tasks().await;
    let list = || async { bed.ask(ListTasks {}).await.unwrap().tasks };
    assert!(list().await.iter().all(|t| t.enabled));
    let off = bed.ask(EnableTask { task: task("news"), enabled: false }).await.unwrap();
    assert!(!off.enabled && off.next_at.is_none());
    assert!(bed.ask(EnableTask { task: task("news"), enabled: true }).await.unwrap().enabled);
    assert_eq!(code(bed.ask(EnableTask { task: task("nope"), enabled: true }).await), "unknown_task");
    assert_eq!(code(bed.ask(ListRuns { task: task("nope"), limit: 1 }).await), "unknown_task");
}

#[tokio::test]
async fn a_restart_knows_what_runs() {
    let bed = tasks().await;
    bed.claim("news", "r1", None).await;
    bed.begin_run("r1", None).await.unwrap();
    let bed = bed.restarted();
    let open = bed.ask(SyncTasks { tasks: vec![] }).await.unwrap().open;
    assert_eq!(
        open.iter().map(|r| (r.id.as_str(), r.state)).collect::<Vec<_>>(),
        [("r1", RunState::Running)]
    );
    assert!(bed.ask(AuthAgent { token_hash: token_hash("r1") }).await.is_ok(), "its token is good still");
}
