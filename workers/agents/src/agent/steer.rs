//! Messages for the turn that runs. They pass by the queue: the same hand-over is made a second time
//! beside the queue's, by the peer inbox, which Claude reads at the turn's next tool call. Without a
//! running turn, or where a harness has no such way, they are messages of the queue like any other.

use super::task::Agent;
use crate::{
    delivery::route::{Event, State},
    harness::{Gate, Session, Status},
};
use leo_ipc::{chat::Route, delivery::Next};

impl Agent {
    /// Feeds the hand-over beside the queue.
    pub(super) async fn steer(&mut self, event: Event) {
        self.change_lanes();
        self.deliver(event).await;
        self.change_lanes();
    }

    /// The look of the hand-over beside the queue, which has a gate of its own.
    pub(super) async fn steer_on(&mut self) {
        if self.steering == State::Quiet {
            return;
        }
        self.change_lanes();
        let view = self.look().await;
        self.deliver(Event::Seen(view)).await;
        self.change_lanes();
    }

    fn change_lanes(&mut self) {
        std::mem::swap(&mut self.route, &mut self.steering);
        std::mem::swap(&mut self.under_way, &mut self.steered);
        self.in_steering = !self.in_steering;
    }

    /// What the hub's answer means beside the queue.
    pub(super) fn next_to_steer(&self, next: Next) -> Event {
        let session = self.live.as_ref().and_then(|live| Some(self.harness()?.session(&live.place)));
        let can = session.is_some_and(|session| session.inbox.is_some() && runs_a_turn(&session))
            && self.routes().contains(&Route::Inbox);
        Event::Next { pending: next.steer.filter(|_| can), in_doubt: next.steer_in_doubt }
    }

    /// Whether there is anything to do beside the queue.
    pub(super) fn has_to_steer(&self) -> bool {
        !self.in_steering && (self.steer_waits || self.steering != State::Quiet)
    }
}

/// Whether a message may go to the turn that runs: while there is one.
pub(super) fn gate(session: &Session) -> Gate {
    if runs_a_turn(session) { Gate::Open } else { Gate::Starting }
}

/// A turn that waits in a dialog runs.
fn runs_a_turn(session: &Session) -> bool {
    matches!(session.status, Status::Busy | Status::Waiting(_))
}
