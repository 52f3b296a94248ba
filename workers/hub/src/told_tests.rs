use crate::tests::{a, bed, stop, submit};
use leo_ipc::{
    agent::EndLaunch,
    chat::{Direction, MessageState},
    delivery::Outcome,
    hook::Source as Reporter,
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
