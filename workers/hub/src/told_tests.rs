use crate::tests::{Bed, a, bed, stop, submit};
use leo_ipc::{
    agent::EndLaunch,
    chat::{Direction, MessageState},
    delivery::{Outcome, ReportOutcome},
    hook::{ReportHook, Source as Reporter},
};

/// The mod and the hooks both tell of a turn; the app must see one reply, whoever comes first.
#[tokio::test]
async fn an_event_told_by_hook_and_bridge_counts_once() {
    for first in [Reporter::Hook, Reporter::Bridge] {
        let second = if first == Reporter::Hook { Reporter::Bridge } else { Reporter::Hook };
        let bed = bed().await;
        bed.send("one", None).await.unwrap();
        bed.hand_over().await;
        for reporter in [first, second] {
            bed.reported("t1", submit("p1", "[Leo Chat] one"), reporter).await.unwrap();
        }
        // The turn goes on after a first Stop and says the same once more: two replies, not four.
        for reporter in [first, first, second, second] {
            bed.reported("t1", stop("p1", "the answer"), reporter).await.unwrap();
        }
        // Whoever was away for a while leaves nothing out.
        bed.reported("t1", stop("p1", "another"), second).await.unwrap();
        let answers: Vec<String> = bed
            .thread()
            .await
            .into_iter()
            .filter(|m| m.direction == Direction::Out)
            .map(|m| m.text)
            .collect();
        assert_eq!(answers, ["the answer", "the answer", "another"], "{first:?} first");
    }
}

/// A hook of a process that was killed comes late: the message has been handed to the next launch, and
/// only that one's evidence counts.
#[tokio::test]
async fn evidence_is_of_the_launch_that_a_message_was_handed_to() {
    let bed = bed().await;
    bed.send("one", None).await.unwrap();
    let delivery = bed.next().await.delivery.unwrap();
    bed.begin(&delivery).await.unwrap();
    bed.ask(EndLaunch { name: a(), launch: "l1".into(), resumable: true, needs_person: None }).await.unwrap();
    bed.launch("l2", "t2").await;
    bed.end(&delivery, Outcome::NotApplied {}).await.unwrap();
    let again = bed.next().await.delivery.unwrap();
    bed.begin_in("l2", &again).await.unwrap();
    bed.hook("t1", submit("p1", "[Leo Chat] one")).await.unwrap();
    assert_eq!(bed.thread().await[0].state, MessageState::Pending);
    bed.hook("t2", submit("p2", "[Leo Chat] one")).await.unwrap();
    assert_eq!(bed.thread().await[0].state, MessageState::Delivered);
}

/// Leaves the beginning of a turn as a hook does that cannot reach the hub; the folder.
fn spool_submit(bed: &Bed, prompt: &str) -> std::path::PathBuf {
    let dir = bed.hub.home.spool();
    std::fs::create_dir_all(&dir).unwrap();
    let event = submit("p1", prompt);
    let source = Reporter::Hook;
    let report = ReportHook { hook_key: "k1".into(), token: "t1".into(), at_ms: 5, event, source };
    std::fs::write(dir.join("5-k1.json"), serde_json::to_string(&report).unwrap()).unwrap();
    dir
}

/// An agent that died looks as if it had read nothing, while its last hook lies in the spool.
#[tokio::test]
async fn spooled_hooks_are_read_before_an_outcome_is_believed() {
    let bed = bed().await;
    let sent = bed.send("one", None).await.unwrap().message.id;
    let delivery = bed.hand_over().await;
    spool_submit(&bed, "[Leo Chat] one");
    let report = ReportOutcome {
        agent: a(),
        message_id: sent.clone(),
        attempt: delivery.attempt,
        outcome: Outcome::NotApplied {},
    };
    bed.ask(report).await.unwrap();
    assert_eq!(bed.message(&sent).await.state, MessageState::Delivered);
    assert!(bed.next().await.delivery.is_none(), "it is not handed over again");
}

#[tokio::test]
async fn spooled_hooks_are_read_before_anything_newer() {
    let bed = bed().await;
    bed.send("one", None).await.unwrap();
    bed.hand_over().await;
    let dir = spool_submit(&bed, "[Leo Chat] one");
    std::fs::write(dir.join("6-k2.json"), "{broken").unwrap();
    bed.hook("t1", stop("p1", "the answer")).await.unwrap();
    assert_eq!(bed.thread().await.last().unwrap().text, "the answer");
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
}
