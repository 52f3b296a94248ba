//! The hub as its callers see it: requests against a real database in a temporary home.

use crate::serve::Hub;
use leo_ipc::{
    AgentName, CallKey, Fault, LaunchId, MessageId, Time,
    agent::*,
    chat::*,
    codec,
    config::{AgentConfig, Harness},
    delivery::*,
    event::ListEvents,
    hello::Role,
    hook::{HookEvent, ReportHook, Source as Reporter},
    hub::HubRequest,
    paths::Home,
    server::{Answer, Handler, Peer},
};
use serde::de::DeserializeOwned;
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

pub(crate) struct Bed {
    pub(crate) hub: Hub,
    /// Milliseconds that the hub's clock is away from the machine's.
    pub(crate) clock: Arc<AtomicI64>,
    _dir: tempfile::TempDir,
}

fn open(home: Home, shift: &Arc<AtomicI64>) -> Hub {
    let shift = shift.clone();
    let clock = move || Time::from_millis(Time::now().millis() + shift.load(Ordering::Relaxed));
    crate::open(home, tokio::sync::watch::Sender::default().subscribe(), Arc::new(clock)).unwrap()
}

/// A home with one agent `a` that runs as launch `l1`, whose token is `t1`.
pub(crate) async fn bed() -> Bed {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path().join("home")).unwrap();
    std::fs::create_dir_all(home.state()).unwrap();
    let clock = Arc::default();
    let hub = open(home, &clock);
    let bed = Bed { hub, clock, _dir: dir };
    bed.put("a").await;
    bed.launch("l1", "t1").await;
    bed
}

pub(crate) fn a() -> AgentName {
    "a".parse().unwrap()
}

impl Bed {
    /// The same database in a new hub.
    pub(crate) fn restarted(self) -> Bed {
        let Bed { hub, clock, _dir } = self;
        let home = hub.home.clone();
        drop(hub);
        Bed { hub: open(home, &clock), clock, _dir }
    }

    pub(crate) async fn ask<C>(&self, call: C) -> Result<C::Reply, Fault>
    where
        C: leo_ipc::Call<Request = HubRequest>,
        C::Reply: DeserializeOwned,
    {
        let peer = Peer { role: Role::Worker, generation: leo_ipc::Generation(0), version: 1 };
        match self.hub.handle(peer, call.into_request()).await {
            Answer::Reply(bytes) => Ok(codec::decode(&bytes).unwrap()),
            Answer::Fault(fault) => Err(fault),
            Answer::Stream(_) => panic!("a stream"),
        }
    }

    pub(crate) async fn put(&self, name: &str) {
        let config = AgentConfig { harness: Harness::Demo, workspace: "/w".into(), ..AgentConfig::default() };
        let put = PutAgent {
            name: name.parse().unwrap(),
            config,
            source: Source::Api,
            must_be_new: true,
            key: None,
        };
        self.ask(put).await.unwrap();
    }

    pub(crate) async fn launch(&self, launch: &str, token: &str) {
        let begin = BeginLaunch {
            name: a(),
            launch: launch.into(),
            token_hash: leo_ipc::id::token_hash(token),
            tmux_session: "a".into(),
            crash_restart: false,
        };
        self.ask(begin).await.unwrap();
    }

    pub(crate) async fn send(&self, text: &str, id: Option<&str>) -> Result<Accepted, Fault> {
        self.ask(SendMessage {
            steer: false,
            agent: a(),
            text: text.into(),
            reply_to: None,
            attachments: Vec::new(),
            client_msg_id: id.map(Into::into),
            key: CallKey::fresh(),
        })
        .await
    }

    pub(crate) async fn next(&self) -> Next {
        self.ask(NextDelivery { agent: a() }).await.unwrap()
    }

    pub(crate) async fn begin(&self, delivery: &Delivery) -> Result<Delivery, Fault> {
        self.begin_in("l1", delivery).await
    }

    pub(crate) async fn begin_in(&self, launch: &str, delivery: &Delivery) -> Result<Delivery, Fault> {
        self.ask(BeginHandover {
            agent: a(),
            message_id: delivery.message_id.clone(),
            attempt: delivery.attempt,
            launch: launch.into(),
            route: Route::Paste,
            handed_prompt: None,
            steer: false,
        })
        .await
    }

    pub(crate) async fn end(&self, delivery: &Delivery, outcome: Outcome) -> Result<Message, Fault> {
        let (message_id, attempt) = (delivery.message_id.clone(), delivery.attempt);
        self.ask(ReportOutcome { agent: a(), message_id, attempt, outcome }).await
    }

    pub(crate) async fn hook(&self, token: &str, event: HookEvent) -> Result<(), Fault> {
        self.reported(token, event, Reporter::Hook).await
    }

    pub(crate) async fn reported(
        &self,
        token: &str,
        event: HookEvent,
        source: Reporter,
    ) -> Result<(), Fault> {
        let report = ReportHook { hook_key: CallKey::fresh(), token: token.into(), at_ms: 0, event, source };
        self.ask(report).await.map(|_| ())
    }

    pub(crate) async fn thread(&self) -> Vec<Message> {
        let page = ListMessages { agent: a(), before: None, after: None, limit: 200 };
        self.ask(page).await.unwrap().messages
    }

    pub(crate) async fn message(&self, id: &MessageId) -> Message {
        self.ask(GetMessage { agent: a(), id: id.clone() }).await.unwrap()
    }

    /// Hands the oldest message over, as the agents worker does.
    pub(crate) async fn hand_over(&self) -> Delivery {
        let delivery = self.next().await.delivery.unwrap();
        self.begin(&delivery).await.unwrap()
    }
}

pub(crate) fn submit(prompt_id: &str, prompt: &str) -> HookEvent {
    HookEvent {
        name: "UserPromptSubmit".into(),
        prompt_id: Some(prompt_id.into()),
        prompt: Some(prompt.into()),
        session_id: Some("s1".into()),
        transcript_path: Some("/t.jsonl".into()),
        ..HookEvent::default()
    }
}

pub(crate) fn stop(prompt_id: &str, text: &str) -> HookEvent {
    HookEvent {
        name: "Stop".into(),
        prompt_id: Some(prompt_id.into()),
        last_assistant_message: Some(text.into()),
        ..HookEvent::default()
    }
}

pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, Fault>) -> String {
    result.unwrap_err().code
}

#[tokio::test]
async fn message_turn_reply() {
    let bed = bed().await;
    let sent = bed.send("hello", Some("c1")).await.unwrap().message;
    assert_eq!(sent.state, MessageState::Pending);
    let delivery = bed.hand_over().await;
    assert_eq!(delivery.prompt, "[Leo Chat] hello");
    bed.hook("t1", submit("p1", "[Leo Chat] hello")).await.unwrap();
    assert_eq!(bed.message(&sent.id).await.state, MessageState::Delivered);
    let record = bed.ask(GetAgent { name: a() }).await.unwrap();
    assert_eq!(record.agent.activity, Activity::Working);
    assert_eq!(record.transcript_path.as_deref(), Some("/t.jsonl"));
    bed.hook("t1", stop("p1", "hi")).await.unwrap();
    let thread = bed.thread().await;
    assert_eq!(thread.len(), 2);
    assert_eq!((thread[1].text.as_str(), thread[1].reply_to.as_ref()), ("hi", Some(&sent.id)));
    assert_eq!(bed.ask(GetAgent { name: a() }).await.unwrap().agent.unread, 1);
}

#[tokio::test]
async fn the_same_id_is_the_same_message() {
    let bed = bed().await;
    let first = bed.send("x", Some("c1")).await.unwrap();
    let again = bed.send("x", Some("c1")).await.unwrap();
    assert!(first.created && !again.created);
    assert_eq!(first.message.id, again.message.id);
    let put = |key: &str| PutAgent {
        name: "new".parse().unwrap(),
        config: AgentConfig::default(),
        source: Source::Api,
        must_be_new: true,
        key: Some(key.into()),
    };
    bed.ask(put("k")).await.unwrap();
    bed.ask(put("k")).await.unwrap();
    assert_eq!(code(bed.ask(put("another")).await), "agent_exists");
    assert_eq!(code(bed.send("y", Some("c1")).await), "idempotency_conflict");
    assert_eq!(bed.thread().await.len(), 1);
}

#[tokio::test]
async fn a_hundred_senders_of_one_id_make_one_message() {
    let bed = Arc::new(bed().await);
    let tasks: Vec<_> = (0..100)
        .map(|n| {
            let bed = bed.clone();
            tokio::spawn(
                async move { bed.send("x", Some(&format!("c{}", n % 10))).await.unwrap().message.id },
            )
        })
        .collect();
    let mut ids = std::collections::BTreeSet::new();
    for task in tasks {
        ids.insert(task.await.unwrap());
    }
    assert_eq!(ids.len(), 10);
    let events = bed.ask(ListEvents { after: 0, limit: 500 }).await.unwrap().events;
    let seqs: Vec<u64> = events.iter().map(|e| e.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "the journal has no holes");
    assert_eq!(events.iter().filter(|e| e.kind == "chat.message").count(), 10);
}

#[tokio::test]
async fn refusals() {
    let bed = bed().await;
    assert_eq!(code(bed.send(" \n", None).await), "bad_request");
    assert_eq!(code(bed.send(&"x".repeat(MAX_TEXT + 1), None).await), "too_large");
    assert_eq!(code(bed.send(&"\u{1}".repeat(200_000), None).await), "too_large");
    assert_eq!(code(bed.send("x", Some("")).await), "bad_request");
    let nobody: AgentName = "nobody".parse().unwrap();
    let page = ListMessages { agent: nobody, before: None, after: None, limit: 50 };
    assert_eq!(code(bed.ask(page).await), "unknown_agent");
    let page = ListMessages { agent: a(), before: Some("no-such".into()), after: None, limit: 50 };
    assert_eq!(code(bed.ask(page).await), "unknown_message");
    assert_eq!(code(bed.hook("forged", stop("p", "x")).await), "unauthorized");
    assert_eq!(code(bed.ask(CancelMessage { agent: a(), id: "no-such".into() }).await), "unknown_message");
    let events = bed.ask(ListEvents { after: 0, limit: 500 }).await.unwrap();
    assert!(!events.events.iter().any(|e| e.kind == "chat.message"), "a refusal leaves nothing");
}

#[tokio::test]
async fn outbox_full() {
    let bed = bed().await;
    for n in 0..crate::chat::MAX_OUTBOX {
        bed.send(&format!("m{n}"), None).await.unwrap();
    }
    assert_eq!(code(bed.send("one more", None).await), "outbox_full");
    let first = bed.next().await.delivery.unwrap();
    bed.ask(CancelMessage { agent: a(), id: first.message_id }).await.unwrap();
    bed.send("one more", None).await.unwrap();
}

#[tokio::test]
async fn one_handover_at_a_time_and_each_attempt_once() {
    let bed = bed().await;
    let first = bed.send("one", None).await.unwrap().message;
    let second = bed.send("two", None).await.unwrap().message;
    assert_eq!(bed.message(&second.id).await.delivery.unwrap().waiting_for, Some(WaitingFor::Queue));
    let delivery = bed.hand_over().await;
    assert_eq!(bed.begin(&delivery).await.unwrap().message_id, first.id, "asking again is harmless");
    let next = bed.next().await;
    assert_eq!(next.in_doubt.unwrap().message_id, first.id);
    assert_eq!(code(bed.begin(&next.delivery.unwrap()).await), "in_doubt");
    assert_eq!(code(bed.ask(CancelMessage { agent: a(), id: first.id.clone() }).await), "already_handed");

    bed.end(&delivery, Outcome::NotApplied {}).await.unwrap();
    let again = bed.next().await.delivery.unwrap();
    assert_eq!((again.message_id.clone(), again.attempt), (first.id.clone(), 2));
    assert_eq!(code(bed.begin(&delivery).await), "not_pending", "the first attempt is over");
    let again = bed.begin(&again).await.unwrap();
    bed.end(&again, Outcome::Unproven { note: "It may have been applied.".into() }).await.unwrap();
    let failed = bed.message(&first.id).await;
    assert_eq!((failed.state, failed.failed_reason), (MessageState::Failed, Some(FailedReason::Unproven)));
    // A late claim of delivery changes nothing: the person has been told.
    bed.end(&again, Outcome::Delivered { prompt_id: None }).await.unwrap();
    assert_eq!(bed.message(&first.id).await.state, MessageState::Failed);
    let notes: Vec<_> = bed.thread().await.into_iter().filter(|m| m.kind == MessageKind::System).collect();
    assert_eq!(notes.len(), 1);
    assert_eq!(bed.next().await.delivery.unwrap().message_id, second.id);
}

#[tokio::test]
async fn retry_and_cancel() {
    let bed = bed().await;
    let sent = bed.send("one", None).await.unwrap().message;
    let delivery = bed.next().await.delivery.unwrap();
    let unreachable =
        Outcome::Failed { reason: FailedReason::AgentUnreachable, note: "It does not start.".into() };
    bed.end(&delivery, unreachable).await.unwrap();
    let retry = |key: &str| RetryMessage { agent: a(), id: sent.id.clone(), key: key.into(), as_file: false };
    assert_eq!(bed.ask(retry("k1")).await.unwrap().state, MessageState::Pending);
    assert_eq!(bed.ask(retry("k1")).await.unwrap().state, MessageState::Pending, "the same key again");
    assert_eq!(code(bed.ask(retry("k2")).await), "not_failed");
    assert_eq!(bed.next().await.delivery.unwrap().attempt, 2);
    let cancel = CancelMessage { agent: a(), id: sent.id.clone() };
    assert_eq!(bed.ask(cancel.clone()).await.unwrap().failed_reason, Some(FailedReason::Cancelled));
    assert_eq!(bed.ask(cancel).await.unwrap().failed_reason, Some(FailedReason::Cancelled));
    assert!(bed.next().await.delivery.is_none());
}

#[tokio::test]
async fn a_stale_launch_is_refused_for_good() {
    let bed = bed().await;
    bed.send("one", None).await.unwrap();
    let delivery = bed.next().await.delivery.unwrap();
    bed.launch("l2", "t2").await;
    assert_eq!(code(bed.begin(&delivery).await), "stale_launch");
    let report = ReportAgent { name: a(), launch: "l1".into(), patch: AgentPatch::default() };
    assert_eq!(code(bed.ask(report).await), "stale_launch");
    let auth = |token: &str| AuthAgent { token_hash: leo_ipc::id::token_hash(token) };
    assert_eq!(code(bed.ask(auth("t1")).await), "unauthorized");
    assert_eq!(bed.ask(auth("t2")).await.unwrap().launch, LaunchId::from("l2"));
    let end = EndLaunch { name: a(), launch: "l1".into(), resumable: true, needs_person: None };
    assert_eq!(
        bed.ask(end).await.unwrap().agent.status,
        Status::Starting,
        "the old end says nothing of the new"
    );
}

#[tokio::test]
async fn a_late_hook_of_an_old_launch_still_gives_the_reply() {
    let bed = bed().await;
    let sent = bed.send("one", None).await.unwrap().message;
    bed.hand_over().await;
    bed.hook("t1", submit("p1", "[Leo Chat] one")).await.unwrap();
    bed.launch("l2", "t2").await;
    bed.hook("t1", stop("p1", "the answer")).await.unwrap();
    let thread = bed.thread().await;
    let reply = thread.iter().find(|m| m.text == "the answer").unwrap();
    assert_eq!(reply.reply_to.as_ref(), Some(&sent.id));
}

#[tokio::test]
async fn a_repeated_hook_key_counts_once() {
    let bed = bed().await;
    bed.send("one", None).await.unwrap();
    bed.hand_over().await;
    bed.hook("t1", submit("p1", "[Leo Chat] one")).await.unwrap();
    let report = ReportHook {
        hook_key: "same".into(),
        token: "t1".into(),
        at_ms: 0,
        event: stop("p1", "the answer"),
        source: Reporter::Hook,
    };
    for _ in 0..3 {
        bed.ask(report.clone()).await.unwrap();
    }
    assert_eq!(bed.thread().await.iter().filter(|m| m.text == "the answer").count(), 1);
}

#[tokio::test]
async fn nothing_is_captured_when_the_agent_posted_in_that_turn() {
    let bed = bed().await;
    bed.send("one", None).await.unwrap();
    bed.hand_over().await;
    bed.hook("t1", submit("p1", "[Leo Chat] one")).await.unwrap();
    let post = AgentPost {
        agent: a(),
        launch: None,
        call_key: "l1:1".into(),
        text: "my own words".into(),
        files: vec![],
        reply_to: None,
        run: None,
    };
    let first = bed.ask(post.clone()).await.unwrap();
    assert_eq!(bed.ask(post).await.unwrap(), first, "the same call again is the same post");
    bed.hook("t1", stop("p1", "posted")).await.unwrap();
    let texts: Vec<_> = bed.thread().await.into_iter().map(|m| m.text).collect();
    assert_eq!(texts, ["one", "my own words"]);
}

#[tokio::test]
async fn a_prompt_queued_by_the_terminal_finds_its_turn_later() {
    let bed = bed().await;
    bed.hook("t1", submit("p0", "a person's prompt")).await.unwrap();
    let sent = bed.send("one", None).await.unwrap().message;
    bed.hand_over().await;
    bed.hook("t1", submit("p0", "[Leo Chat] one")).await.unwrap();
    assert_eq!(bed.message(&sent.id).await.state, MessageState::Delivered);
    let turns = bed.ask(OpenTurns { agent: a() }).await.unwrap();
    assert_eq!(turns.unbound.len(), 1);
    bed.hook("t1", stop("p0", "for the person")).await.unwrap();
    bed.hook("t1", stop("p9", "for the message")).await.unwrap();
    assert_eq!(bed.thread().await.len(), 1, "nobody knows yet whose answers these are");
    let bind = BindTurn { agent: a(), message_id: sent.id.clone(), prompt_id: Some("p9".into()) };
    bed.ask(bind).await.unwrap();
    let thread = bed.thread().await;
    assert_eq!(thread.last().unwrap().text, "for the message");
    assert!(bed.ask(OpenTurns { agent: a() }).await.unwrap().unbound.is_empty());
}

#[tokio::test]
async fn an_interrupted_turn_ends_and_its_late_stop_still_counts() {
    let bed = bed().await;
    bed.send("one", None).await.unwrap();
    bed.hand_over().await;
    bed.hook("t1", submit("p1", "[Leo Chat] one")).await.unwrap();
    let end = TurnInterrupted { agent: a(), launch: "l1".into(), prompt_id: "p1".into() };
    bed.ask(end).await.unwrap();
    assert_eq!(bed.ask(OpenTurns { agent: a() }).await.unwrap().running, None);
    assert_eq!(bed.ask(GetAgent { name: a() }).await.unwrap().agent.activity, Activity::Idle);
    bed.hook("t1", stop("p1", "late")).await.unwrap();
    assert_eq!(bed.thread().await.last().unwrap().text, "late");
}

#[tokio::test]
async fn threads_read_marks_and_removed_agents() {
    let bed = bed().await;
    bed.put("assistant").await;
    bed.put("b").await;
    bed.send("x", None).await.unwrap();
    let note = PostNote { agent: a(), key: "n".into(), text: "a note".into() };
    assert_eq!(bed.ask(note.clone()).await.unwrap(), bed.ask(note).await.unwrap());
    let names =
        |threads: Threads| threads.threads.into_iter().map(|t| t.agent.to_string()).collect::<Vec<_>>();
    assert_eq!(names(bed.ask(ListThreads {}).await.unwrap()), ["assistant", "a", "b"]);

    let post = AgentPost {
        agent: a(),
        launch: None,
        call_key: "k".into(),
        text: "p".into(),
        files: vec![],
        reply_to: None,
        run: None,
    };
    let posted = bed.ask(post).await.unwrap().message_id;
    let first = bed.thread().await[0].id.clone();
    let read = |id: &MessageId| MarkRead { agent: a(), message_id: id.clone() };
    assert_eq!(bed.ask(read(&first)).await.unwrap().unread, 1, "notes are not unread");
    assert_eq!(bed.ask(read(&posted)).await.unwrap().unread, 0);
    assert_eq!(bed.ask(read(&first)).await.unwrap().last_read, Some(posted), "the mark never moves back");

    bed.ask(RemoveAgent { name: a() }).await.unwrap();
    assert_eq!(code(bed.send("x", None).await), "unknown_agent");
    let thread = bed.thread().await;
    assert_eq!(thread[0].state, MessageState::Failed, "what waited for it has failed, and says why");
    assert_eq!(names(bed.ask(ListThreads {}).await.unwrap()), ["assistant", "a", "b"], "the thread stays");
    bed.put("a").await;
    assert_eq!(bed.send("back", None).await.unwrap().message.state, MessageState::Pending);
}

/// The number is kept, not counted: it must be what counting gives, whatever came in between.
#[tokio::test]
async fn the_number_of_unread_messages_is_what_counting_gives() {
    let bed = bed().await;
    let mut ids = Vec::new();
    for step in 0..60u32 {
        match step * 7 % 5 {
            0 => ids.push(bed.send(&format!("s{step}"), None).await.unwrap().message.id),
            1 => {
                let (agent, key) = (a(), format!("n{step}").as_str().into());
                ids.push(bed.ask(PostNote { agent, key, text: "n".into() }).await.unwrap().message_id);
            }
            4 if step > 10 => {
                let message_id = ids[ids.len() / 2].clone();
                bed.ask(MarkRead { agent: a(), message_id }).await.unwrap();
            }
            _ => {
                let (agent, call_key) = (a(), format!("p{step}").as_str().into());
                let post = AgentPost {
                    agent,
                    launch: None,
                    call_key,
                    text: "p".into(),
                    files: vec![],
                    reply_to: None,
                    run: None,
                };
                ids.push(bed.ask(post).await.unwrap().message_id);
            }
        }
        let kept = bed.ask(GetAgent { name: a() }).await.unwrap().agent.unread;
        let counted: u64 = bed
            .hub
            .readers
            .read(|db| {
                Ok(db.query_row(
                    "SELECT count(*) FROM messages m, agents a WHERE m.agent = a.name AND m.direction = 'out'
                     AND m.kind <> 'system' AND m.id > coalesce(a.last_read, '')",
                    [],
                    |row| row.get(0),
                )?)
            })
            .await
            .unwrap();
        assert_eq!(kept, counted, "step {step}");
    }
}

#[tokio::test]
async fn pages_are_bounded_by_bytes_and_cursors_work_both_ways() {
    let bed = bed().await;
    let mut ids = Vec::new();
    for n in 0..6 {
        ids.push(bed.send(&format!("{n}{}", "x".repeat(200 * 1024)), None).await.unwrap().message.id);
    }
    let page = |before: Option<&MessageId>, after: Option<&MessageId>| ListMessages {
        agent: a(),
        before: before.cloned(),
        after: after.cloned(),
        limit: 200,
    };
    let newest = bed.ask(page(None, None)).await.unwrap();
    assert!(newest.has_more && newest.messages.len() < 6);
    assert_eq!(newest.messages.last().unwrap().id, ids[5]);
    let mut seen = newest.messages.clone();
    let mut more = newest.has_more;
    while more {
        let older = bed.ask(page(Some(&seen[0].id), None)).await.unwrap();
        more = older.has_more;
        seen = older.messages.into_iter().chain(seen).collect();
    }
    assert_eq!(seen.iter().map(|m| m.id.clone()).collect::<Vec<_>>(), ids);
    let after = bed.ask(page(None, Some(&ids[0]))).await.unwrap();
    assert_eq!(after.messages[0].id, ids[1]);
}

#[tokio::test]
async fn a_restart_goes_on_where_it_stopped() {
    let bed = bed().await;
    let sent = bed.send("one", None).await.unwrap().message;
    bed.hand_over().await;
    let before = bed.ask(ListEvents { after: 0, limit: 500 }).await.unwrap();
    let bed = bed.restarted();
    let next = bed.next().await;
    assert_eq!(
        next.in_doubt.unwrap().message_id,
        sent.id,
        "what was handed over is in doubt, not sent again"
    );
    let later = bed.send("two", None).await.unwrap().message;
    assert!(later.id > sent.id);
    let after = bed.ask(ListEvents { after: before.head, limit: 500 }).await.unwrap();
    assert_eq!((after.epoch, after.events[0].seq), (before.epoch, before.head + 1));
}
