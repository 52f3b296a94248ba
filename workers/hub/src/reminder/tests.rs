use super::*;
use crate::tests::{Bed, a, bed};
use jiff::Timestamp;
use leo_ipc::{
    agent::RemoveAgent,
    chat::ListMessages,
    event::ListEvents,
    reminder::{FireReminders, PruneReminders},
};
use std::sync::atomic::Ordering;

const MINUTE: i64 = 60_000;

impl Bed {
    /// Sets the hub's clock. It runs on from there, so what is looked at lies minutes apart.
    fn set(&self, at: i64) {
        self.clock.store(at - Time::now().millis(), Ordering::Relaxed);
    }

    fn now(&self) -> i64 {
        Time::now().millis() + self.clock.load(Ordering::Relaxed)
    }

    async fn leave(&self, key: &str, text: &str, at: &str) -> Result<Reminder, Fault> {
        self.ask(ScheduleReminder {
            agent: a(),
            launch: None,
            call_key: key.into(),
            text: text.into(),
            at: at.into(),
            run: None,
        })
        .await
    }

    async fn leave_in(&self, key: &str, ms: i64) -> Reminder {
        let at = Time::from_millis(self.now() + ms).to_string();
        self.leave(key, key, &at).await.unwrap()
    }

    async fn fire_in(&self, zone: &str) -> Fired {
        let zone = TimeZone::get(zone).unwrap();
        self.hub.writer.run(move |tx| fire(tx, &zone)).await.unwrap()
    }

    async fn fire(&self) -> u32 {
        self.ask(FireReminders {}).await.unwrap().fired
    }

    async fn cancel(&self, thread: &AgentName, id: &MessageId, key: &str) -> Result<(), String> {
        let cancel = CancelReminder {
            agent: thread.clone(),
            by_agent: false,
            run: None,
            id: id.clone(),
            key: key.into(),
        };
        self.ask(cancel).await.map(|done| assert!(done.cancelled)).map_err(|fault| fault.code)
    }

    async fn open(&self) -> Vec<Reminder> {
        self.ask(of(&a())).await.unwrap().reminders
    }

    /// `kind` of each event, with the state of reminders.
    async fn told(&self) -> Vec<String> {
        let page = self.ask(ListEvents { after: 0, limit: 1000 }).await.unwrap();
        let kinds =
            page.events.into_iter().filter(|e| e.kind == "reminder.changed" || e.kind == "chat.message");
        kinds
            .map(|e| {
                let data: serde_json::Value = serde_json::from_str(&e.data).unwrap();
                data["state"].as_str().unwrap_or(&e.kind).to_owned()
            })
            .collect()
    }
}

/// A thread's reminders, as a person asks for them.
fn of(agent: &AgentName) -> ListReminders {
    ListReminders { agent: agent.clone(), by_agent: false, run: None }
}

fn millis(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

/// Each line: a zone, and times of its clock on the wall around both changes of the year, as an agent
/// writes them, in the order in which they come.
const CHANGES: [(&str, &[&str]); 3] = [
    (
        "America/New_York",
        &[
            // The hour that is there twice.
            "2026-11-01T00:30:00-04:00",
            "2026-11-01T01:30:00-04:00",
            "2026-11-01T01:30:00-05:00",
            "2026-11-01T02:30:00-05:00",
            // The hour that is not there: the offset says when it would have been.
            "2027-03-14T01:30:00-05:00",
            "2027-03-14T02:30:00-05:00",
            "2027-03-14T03:45:00-04:00",
        ],
    ),
    (
        "Europe/Berlin",
        &[
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:30:00+01:00",
            "2027-03-28T01:59:00+01:00",
            "2027-03-28T02:30:00+01:00",
            "2027-03-28T03:31:00+02:00",
        ],
    ),
    (
        // Half an hour, and the other way round.
        "Australia/Lord_Howe",
        &[
            "2026-10-04T01:59:00+10:30",
            "2026-10-04T02:15:00+10:30",
            "2026-10-04T02:46:00+11:00",
            "2027-04-04T01:45:00+11:00",
            "2027-04-04T01:45:00+10:30",
            "2027-04-04T02:30:00+10:30",
        ],
    ),
];

#[tokio::test]
async fn clock_walk() {
    // Both changes of the clock in three zones: each fires once, at its instant, none early.
    for (zone, times) in CHANGES {
        let bed = bed().await;
        bed.set(millis(times[0]) - 3_600_000);
        for at in times {
            bed.leave(at, at, at).await.unwrap();
        }
        for (fired, at) in times.iter().enumerate() {
            let due = millis(at);
            bed.set(due - 2 * MINUTE);
            assert_eq!(bed.fire_in(zone).await.fired, 0, "{zone}: {at} is not due yet");
            bed.set(due);
            let done = bed.fire_in(zone).await;
            assert_eq!(done.fired, 1, "{zone}: {at}");
            assert_eq!(done.next.map(Time::millis), times.get(fired + 1).map(|next| millis(next)));
            assert_eq!(bed.fire_in(zone).await.fired, 0, "{zone}: {at} fires once");
            let said = bed.thread().await.pop().unwrap();
            assert_eq!(said.text, *at, "on time, so nothing is said about lateness");
        }
    }

    // Eight hours of sleep: what came due meanwhile fires at wake, once each, and says when it was meant.
    let bed = bed().await;
    bed.set(millis("2026-10-14T08:00:00-04:00"));
    bed.leave("k1", "Stand-up", "2026-10-14T09:00:00-04:00").await.unwrap();
    bed.leave("k2", "Lunch", "2026-10-14T12:00:00-04:00").await.unwrap();
    bed.leave("k3", "Home", "2026-10-14T17:00:00-04:00").await.unwrap();
    bed.set(millis("2026-10-14T16:00:00-04:00"));
    assert_eq!(bed.fire_in("America/New_York").await.fired, 2);
    let texts: Vec<String> = bed.thread().await.into_iter().map(|m| m.text).collect();
    assert_eq!(
        texts,
        [
            "Stand-up\n\n_(late — scheduled for Wed 14 Oct 2026 09:00 EDT)_",
            "Lunch\n\n_(late — scheduled for Wed 14 Oct 2026 12:00 EDT)_"
        ]
    );
    // An hour back, before the third: nothing early, nothing again.
    bed.set(millis("2026-10-14T15:00:00-04:00"));
    assert_eq!(bed.fire().await, 0);
    bed.set(millis("2026-10-14T17:00:00-04:00"));
    assert_eq!(bed.fire().await, 1);
    bed.set(millis("2026-10-14T16:00:00-04:00"));
    assert_eq!(bed.fire().await, 0, "the hour that comes again fires nothing again");

    // 364 days, and a restart after the time.
    bed.set(millis("2026-10-14T09:00:00Z"));
    let far = bed.leave("k4", "Renew", "2027-10-13T09:00:00Z").await.unwrap();
    bed.set(millis("2027-10-13T08:58:00Z"));
    let bed = bed.restarted();
    assert_eq!(bed.fire().await, 0);
    assert_eq!(bed.open().await, [far]);
    let bed = bed.restarted();
    bed.set(millis("2027-10-20T00:00:00Z"));
    assert_eq!(bed.fire_in("UTC").await.fired, 1);
    let last = bed.thread().await.pop().unwrap();
    assert_eq!(last.text, "Renew\n\n_(late — scheduled for Wed 13 Oct 2027 09:00 UTC)_");
    assert_eq!(bed.restarted().fire().await, 0);
}

#[tokio::test]
async fn what_fails_between_claim_and_post_leaves_the_reminder_open() {
    let bed = bed().await;
    bed.leave_in("k1", MINUTE).await;
    bed.set(bed.now() + 2 * MINUTE);
    let told = bed.told().await;
    // The journal is the last of what firing writes.
    let sabotage = "CREATE TRIGGER no BEFORE INSERT ON events BEGIN SELECT raise(ABORT, 'no'); END";
    bed.hub.writer.run(move |tx| Ok(tx.db.execute_batch(sabotage)?)).await.unwrap();
    assert_eq!(bed.ask(FireReminders {}).await.unwrap_err().code, "internal");
    assert!(bed.thread().await.is_empty());
    assert_eq!(bed.open().await.len(), 1);
    bed.hub.writer.run(|tx| Ok(tx.db.execute_batch("DROP TRIGGER no")?)).await.unwrap();
    assert_eq!(bed.told().await, told, "an event that was not kept was not told");
    assert_eq!((bed.fire().await, bed.fire().await), (1, 0));
    assert_eq!(bed.thread().await.len(), 1);
    assert_eq!(bed.told().await, ["scheduled", "chat.message", "fired"]);
}

#[tokio::test]
async fn the_same_key_schedules_once_whatever_became_of_it() {
    let bed = bed().await;
    let first = bed.leave_in("k1", MINUTE).await;
    assert_eq!(bed.leave("k1", "another", "nonsense").await.unwrap(), first);
    bed.set(bed.now() + 2 * MINUTE);
    assert_eq!(bed.fire().await, 1);
    assert_eq!(bed.leave("k1", "x", "nonsense").await.unwrap().id, first.id);
    assert!(bed.open().await.is_empty());
}

#[tokio::test]
async fn each_way_in_which_cancelling_is_impossible_has_its_own_code() {
    let bed = bed().await;
    bed.put("b").await;
    let b: AgentName = "b".parse().unwrap();
    let (one, two) = (bed.leave_in("k1", MINUTE).await.id, bed.leave_in("k2", MINUTE).await.id);
    assert_eq!(bed.cancel(&a(), &"nothing".into(), "c").await.unwrap_err(), "unknown_reminder");
    assert_eq!(bed.cancel(&b, &one, "c").await.unwrap_err(), "not_your_reminder");
    assert!(bed.ask(of(&b)).await.unwrap().reminders.is_empty());
    bed.cancel(&a(), &one, "c1").await.unwrap();
    bed.cancel(&a(), &one, "c1").await.unwrap();
    assert_eq!(bed.cancel(&a(), &one, "c2").await.unwrap_err(), "reminder_cancelled");
    bed.set(bed.now() + 2 * MINUTE);
    assert_eq!(bed.fire().await, 1, "what was cancelled does not fire");
    assert_eq!(bed.cancel(&a(), &two, "c3").await.unwrap_err(), "reminder_fired");
    assert_eq!(bed.told().await, ["scheduled", "scheduled", "cancelled", "chat.message", "fired"]);
}

/// A run of task `news` that is running, and whose thread is `b`'s; `runs_in` names the agent whose turn
/// it is, if it is one.
async fn begin_run(bed: &Bed, runs_in: Option<&'static str>) {
    bed.put("b").await;
    let made = bed.hub.writer.run(move |tx| {
        tx.db.execute(
            "INSERT INTO runs (id, task, trigger, state, agent, runs_in, message_id)
             VALUES ('r1', 'news', 'manual', 'running', 'b', ?1, ?2)",
            [runs_in, runs_in.map(|_| "m1")],
        )?;
        if let Some(agent) = runs_in {
            tx.db.execute(
                "INSERT INTO turns (agent, prompt_id, message_id, state, started_at) VALUES (?1, 'p', 'm1', 'running', 1)",
                [agent],
            )?;
        }
        Ok(())
    });
    made.await.unwrap();
}

#[tokio::test]
async fn a_reminder_of_a_run_fires_as_its_card_in_its_owners_thread() {
    let run = Run { task: "news".into(), run_id: "r1".into() };
    // A headless run speaks as its owner, by its token; a persistent one in its own agent's turn.
    for (agent, by_token, runs_in) in [("b", Some(run), None), ("a", None, Some("a"))] {
        let bed = bed().await;
        begin_run(&bed, runs_in).await;
        let (agent, b): (AgentName, AgentName) = (agent.parse().unwrap(), "b".parse().unwrap());
        let leave = |key: &str, ms: i64| ScheduleReminder {
            agent: agent.clone(),
            launch: None,
            call_key: key.into(),
            text: "Look again".into(),
            at: Time::from_millis(bed.now() + ms).to_string(),
            run: by_token.clone(),
        };
        let left = bed.ask(leave("k1", MINUTE)).await.unwrap();
        let taken = bed.ask(leave("k2", MINUTE)).await.unwrap();
        assert_eq!((left.agent.as_str(), left.run_id.as_deref()), ("b", Some("r1")));
        let mine = ListReminders { agent: agent.clone(), by_agent: true, run: by_token.clone() };
        assert_eq!(bed.ask(mine).await.unwrap().reminders, [left.clone(), taken.clone()]);
        let cancel = CancelReminder {
            agent: agent.clone(),
            by_agent: true,
            run: by_token.clone(),
            id: taken.id,
            key: "c".into(),
        };
        assert!(bed.ask(cancel).await.unwrap().cancelled);
        // The run is over by the time that its call is made again, and when the reminder is due.
        let over = "UPDATE runs SET state = 'succeeded'; UPDATE turns SET state = 'completed'";
        bed.hub.writer.run(move |tx| Ok(tx.db.execute_batch(over)?)).await.unwrap();
        assert_eq!(bed.ask(leave("k1", MINUTE)).await.unwrap(), left);
        bed.set(bed.now() + MINUTE + 1000);
        assert_eq!(bed.fire().await, 1);
        let page = ListMessages { agent: b.clone(), before: None, after: None, limit: 10 };
        let card = bed.ask(page).await.unwrap().messages.pop().unwrap();
        assert_eq!(
            (card.kind, card.direction, card.state),
            (MessageKind::Task, Direction::Out, MessageState::None)
        );
        assert_eq!((card.task.as_deref(), card.run_id.as_deref()), (Some("news"), Some("r1")));
        assert!(bed.thread().await.is_empty(), "nothing in the other thread");
        let db = Connection::open(bed.hub.home.database()).unwrap();
        assert_eq!(message::unread(&db, &b).unwrap(), 1);
    }
}

#[tokio::test]
async fn a_removed_agents_reminders_still_fire_into_its_thread() {
    let bed = bed().await;
    let kept = bed.leave_in("k1", MINUTE).await;
    let other = bed.leave_in("k2", MINUTE).await;
    bed.ask(RemoveAgent { name: a() }).await.unwrap();
    assert_eq!(bed.open().await.len(), 2, "a person still sees them");
    bed.cancel(&a(), &other.id, "c").await.unwrap();
    assert!(bed.leave("k3", "x", "2100-01-01T00:00:00Z").await.is_err(), "nobody is there to leave more");
    bed.set(bed.now() + MINUTE + 1000);
    assert_eq!(bed.fire().await, 1);
    let page = ListMessages { agent: a(), before: None, after: None, limit: 10 };
    assert_eq!(bed.ask(page).await.unwrap().messages[0].text, kept.text);
}

#[tokio::test]
async fn bad_and_too_many_reminders_are_refused() {
    let bed = bed().await;
    let at = Time::from_millis(bed.now() + 3_600_000).to_string();
    let code = |result: Result<Reminder, Fault>| result.unwrap_err().code;
    assert_eq!(code(bed.leave("k", " \n", &at).await), "bad_request");
    assert_eq!(code(bed.leave("k", &"x".repeat(MAX_POST_TEXT + 1), &at).await), "too_large");
    assert_eq!(code(bed.leave("k", "x", "2026-10-14T09:00:00").await), "bad_time");
    for i in 0..MAX_OPEN {
        bed.leave(&format!("k{i}"), "x", &at).await.unwrap();
    }
    assert_eq!(code(bed.leave("one more", "x", &at).await), "too_many_reminders");
    bed.put("b").await;
    // Long ones: their list must fit into one frame.
    let bed = self::bed().await;
    let long = "x".repeat(MAX_POST_TEXT);
    let most = usize::try_from(MAX_OPEN_BYTES).unwrap() / MAX_POST_TEXT;
    for i in 0..most {
        bed.leave(&format!("k{i}"), &long, &at).await.unwrap();
    }
    assert_eq!(code(bed.leave("one more", "x", &at).await), "too_many_reminders");
    assert_eq!(bed.open().await.len(), most);
}

#[tokio::test]
async fn settled_reminders_are_forgotten_after_their_time() {
    let bed = bed().await;
    let (open, gone) = (bed.leave_in("k1", 200 * 86_400_000).await, bed.leave_in("k2", MINUTE).await);
    bed.cancel(&a(), &gone.id, "c").await.unwrap();
    bed.ask(PruneReminders {}).await.unwrap();
    assert_eq!(bed.cancel(&a(), &gone.id, "d").await.unwrap_err(), "reminder_cancelled");
    bed.set(bed.now() + (KEEP_DAYS + 1) * 86_400_000);
    bed.ask(PruneReminders {}).await.unwrap();
    assert_eq!(bed.cancel(&a(), &gone.id, "d").await.unwrap_err(), "unknown_reminder");
    assert_eq!(bed.open().await[0].id, open.id);
}

#[tokio::test]
async fn a_watcher_hears_of_each_change() {
    use crate::serve::Hub;
    use futures_util::StreamExt;
    use leo_ipc::{
        Streaming, codec,
        hello::Role,
        reminder::{NextReminder, WatchReminders},
        server::{Answer, Handler, Peer},
    };
    async fn watch(hub: &Hub) -> impl futures_util::Stream<Item = Option<i64>> + Unpin {
        let peer = Peer { role: Role::Worker, generation: leo_ipc::Generation(0), version: 1 };
        let Answer::Stream(items) = hub.handle(peer, WatchReminders {}.into_request()).await else {
            panic!("no stream")
        };
        Box::pin(
            items.map(|item| codec::decode::<NextReminder>(&item.unwrap()).unwrap().next.map(Time::millis)),
        )
    }
    let bed = bed().await;
    let mut heard = watch(&bed.hub).await;
    assert_eq!(heard.next().await, Some(None), "at once: nothing is open");
    let later = bed.leave_in("k1", 2 * MINUTE).await;
    let due = |r: &Reminder| Some(Some(millis(&r.at)));
    assert_eq!(heard.next().await, due(&later));
    let sooner = bed.leave_in("k2", MINUTE).await;
    assert_eq!(heard.next().await, due(&sooner));
    bed.cancel(&a(), &sooner.id, "c").await.unwrap();
    assert_eq!(heard.next().await, due(&later));
    assert_eq!(watch(&bed.hub).await.next().await, due(&later), "whoever comes later hears it at once");
}
