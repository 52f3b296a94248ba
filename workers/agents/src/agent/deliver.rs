//! Carrying out what the hand-over decides.

use super::{
    bridge::as_data,
    life,
    task::{Agent, UnderWay},
};
use crate::{
    delivery::{
        prompt::{Pasted, Unpastable},
        route::{self, Action, Event, State},
    },
    harness::transcript::Found,
    tmux::{Key, TmuxError, for_paste},
};
use leo_ipc::{
    Time,
    agent::SetWaiting,
    chat::{Route, WaitingFor},
    delivery::{BeginHandover, Delivery, NextDelivery, ReportOutcome},
};
use std::{collections::VecDeque, time::Instant};

impl Agent {
    /// Feeds the route and carries out its actions, until it has nothing more to do for now.
    pub(super) async fn deliver(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        let mut asked = false;
        while let Some(event) = events.pop_front() {
            let state = std::mem::replace(&mut self.route, State::Quiet);
            let (state, actions) = route::step(state, event, Instant::now());
            self.route = state;
            for action in actions {
                asked |= action == Action::Ask;
                if let Some(event) = self.act(action).await {
                    events.push_back(event);
                }
            }
        }
        if asked && self.has_to_steer() {
            Box::pin(self.steer(Event::Wake)).await;
        }
    }

    async fn act(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Ask => self.ask().await,
            // The queue says what its messages wait for, and starts the agent.
            Action::Waiting(_) | Action::WakeAgent if self.in_steering => None,
            Action::Waiting(reason) => {
                self.set_waiting(reason).await;
                None
            }
            Action::WakeAgent => {
                if self.record.agent.wake_on_message && !self.asleep && self.fail_pending.is_none() {
                    self.live_on_boxed(life::Event::Message).await;
                }
                None
            }
            Action::Begin(delivery, route) => Some(self.begin(delivery, route).await),
            Action::Send(giving) => self.send(giving).await,
            Action::Look => Some(Event::Seen(self.look().await)),
            Action::Paste => Some(self.paste().await),
            Action::Enter => Some(self.enter().await),
            Action::Clear => {
                let pane = self.live.as_ref()?.pane.clone();
                if let Err(e) = self.shared.tmux.press(&pane, Key::ClearLine).await {
                    tracing::warn!(agent = %self.name, error = %e, "the composer cannot be cleared");
                }
                None
            }
            Action::Search => {
                let Some(UnderWay { text, handed_ms, .. }) = self.under_way.clone() else {
                    return Some(Event::Searched(None));
                };
                let found = self.search(text.clone(), Some(handed_ms)).await;
                if matches!(found, Some(Found::Refused { .. })) {
                    self.take_out(&text).await;
                }
                Some(Event::Searched(found))
            }
            Action::Report(delivery, outcome) => {
                tracing::info!(agent = %self.name, message = %delivery.message_id, attempt = delivery.attempt, outcome = outcome_name(&outcome), "outcome");
                let report = ReportOutcome {
                    agent: self.name.clone(),
                    message_id: delivery.message_id,
                    attempt: delivery.attempt,
                    outcome,
                };
                self.shared.hub.tell("outcome of a delivery", report).await;
                self.reported = Some(Instant::now());
                None
            }
        }
    }

    async fn ask(&mut self) -> Option<Event> {
        let next = match self.shared.hub.ask(NextDelivery { agent: self.name.clone() }).await {
            Ok(next) => next,
            Err(fault) => {
                tracing::warn!(agent = %self.name, code = fault.code, "no next delivery");
                return None;
            }
        };
        if next.turn_runs {
            // The hook's own mail may be behind the one that led here.
            self.watch.turn_runs();
        }
        self.steer_waits = next.steer.is_some() || next.steer_in_doubt.is_some();
        let in_doubt = if self.in_steering { &next.steer_in_doubt } else { &next.in_doubt };
        if let Some(doubt) = in_doubt {
            let ago = doubt.handed_ms_ago.unwrap_or(0);
            let text = match (&doubt.handed_prompt, doubt.route) {
                (Some(handed), _) => for_paste(handed),
                (None, Some(Route::Bridge | Route::Inbox)) => as_data(&doubt.prompt),
                (None, _) => for_paste(&doubt.prompt),
            };
            self.set_under_way(doubt, text, Time::now().millis().saturating_sub(ago));
        }
        if self.in_steering {
            return Some(self.next_to_steer(next));
        }
        match (&self.fail_pending, &next.delivery, &next.in_doubt) {
            (Some(note), Some(delivery), None) => {
                let note = note.clone();
                // First it becomes the one that is held, then it fails; the next `Ask` brings the next.
                self.route = State::Held(delivery.clone());
                Some(Event::FailPending(note))
            }
            (_, None, None) => {
                self.fail_pending = None;
                Some(Event::Next { pending: None, in_doubt: None })
            }
            _ => Some(Event::Next { pending: next.delivery, in_doubt: next.in_doubt }),
        }
    }

    fn set_under_way(&mut self, delivery: &Delivery, text: String, handed_ms: i64) {
        let key = (delivery.message_id.clone(), delivery.attempt);
        if self.under_way.as_ref().is_none_or(|u| u.key != key) {
            self.under_way = Some(UnderWay { key, text, handed_ms });
        }
    }

    async fn set_waiting(&mut self, reason: Option<WaitingFor>) {
        if self.waiting == Some(reason) {
            return;
        }
        self.waiting = Some(reason);
        let waiting = SetWaiting { agent: self.name.clone(), waiting_for: reason };
        self.shared.hub.tell("what messages wait for", waiting).await;
    }

    async fn begin(&mut self, delivery: Delivery, route: Route) -> Event {
        let Some(launch) = self.live.as_ref().map(|live| live.launch.clone()) else {
            return Event::BeginRefused;
        };
        let (text, handed_prompt) = match self.prepare(&delivery, route) {
            Ok(prepared) => prepared,
            Err(e @ (Unpastable::NotMarked | Unpastable::Write { .. })) => {
                tracing::error!(agent = %self.name, message = %delivery.message_id, error = %e, "cannot be pasted");
                return Event::Unpastable(format!("The message could not be handed over: {e}."));
            }
        };
        let begin = BeginHandover {
            agent: self.name.clone(),
            message_id: delivery.message_id.clone(),
            attempt: delivery.attempt,
            launch,
            route,
            handed_prompt,
            steer: self.in_steering,
        };
        let handed_ms = Time::now().millis();
        match self.shared.hub.ask(begin).await {
            Ok(begun) => {
                self.under_way = None;
                self.set_under_way(&begun, text, handed_ms);
                if !self.in_steering {
                    // It waits for nothing any more.
                    self.set_waiting(None).await;
                }
                Event::Begun(begun)
            }
            Err(fault) => {
                tracing::info!(agent = %self.name, message = %delivery.message_id, code = fault.code, "hand-over refused");
                Event::BeginRefused
            }
        }
    }

    /// What is handed over, and what the hub has to know of it where it is not the prompt itself.
    fn prepare(&self, delivery: &Delivery, route: Route) -> Result<(String, Option<String>), Unpastable> {
        if matches!(route, Route::Bridge | Route::Inbox) {
            return Ok((as_data(&delivery.prompt), None));
        }
        let folder = self.shared.home.agent_dir(&self.name);
        let pasted = Pasted::of(&delivery.prompt, &delivery.message_id, &folder)?;
        pasted.prepare(&delivery.prompt)?;
        Ok((pasted.text().to_owned(), pasted.handed_prompt()))
    }

    async fn paste(&mut self) -> Event {
        let (Some(live), Some(under_way)) = (&self.live, &self.under_way) else { return Event::PasteFailed };
        match self.shared.tmux.paste(&live.pane, &under_way.text).await {
            Ok(()) => Event::Pasted,
            Err(e) => self.tmux_failed("paste", &e, Event::Pasted, Event::PasteFailed),
        }
    }

    async fn enter(&mut self) -> Event {
        let Some(live) = &self.live else { return Event::EnterFailed };
        match self.shared.tmux.press(&live.pane, Key::Enter).await {
            Ok(()) => Event::EnterPressed,
            Err(e) => self.tmux_failed("Enter", &e, Event::EnterPressed, Event::EnterFailed),
        }
    }

    fn tmux_failed(&self, what: &str, error: &TmuxError, maybe: Event, not: Event) -> Event {
        tracing::warn!(agent = %self.name, what, error = %error, "tmux failed");
        if error.may_have_applied() { maybe } else { not }
    }
}

fn outcome_name(outcome: &leo_ipc::delivery::Outcome) -> &'static str {
    use leo_ipc::delivery::Outcome;
    match outcome {
        Outcome::Delivered { .. } => "delivered",
        Outcome::NotApplied {} => "not_applied",
        Outcome::Failed { .. } => "failed",
        Outcome::Unproven { .. } => "unproven",
        Outcome::Unknown => "unknown",
    }
}
