//! An agent's routes: whether the mod of its launch is there, which route the next message takes, and
//! giving a message to it.

use super::task::{Agent, Live};
use crate::{
    bridge::{Ack, AckOutcome, Command, News, Op},
    delivery::{
        order::{self, Bridge, Choice, Inbox, Means},
        route::{Event, Giving, State},
    },
    harness::{Gate, Harness, Session},
    inbox::{AFTER_TOO_MANY, Inboxes, Receipt, SAME_TEXT},
};
use leo_ipc::{
    LaunchId,
    agent::{AgentPatch, ReportAgent},
    chat::Route,
    delivery::Delivery,
};
use std::time::{Duration, Instant};

/// A mod that does not connect within this time of its session being ready will not (issue: a Claude that
/// runs no mods, or one that could not load it).
const CONNECTS_WITHIN: Duration = Duration::from_secs(20);

/// The same for one that was connected before, or whose session was running when this worker started. A
/// mod asks again within a second.
const RECONNECTS_WITHIN: Duration = Duration::from_secs(5);

/// What is known of a launch's mod, besides whether it is connected.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    /// It should come.
    brought: bool,
    /// Until when it is waited for, once that is known.
    until: Option<Instant>,
}

impl Line {
    /// The launch brings the mod; it connects when the session is up.
    pub(super) fn launched() -> Line {
        Line { brought: true, until: None }
    }

    /// The launch was there before this worker.
    pub(super) fn adopted(now: Instant) -> Line {
        Line { brought: true, until: Some(now + RECONNECTS_WITHIN) }
    }

    /// The session is ready.
    fn ready(&mut self, now: Instant) {
        if self.brought {
            self.until.get_or_insert(now + CONNECTS_WITHIN);
        }
    }

    fn lost(&mut self, now: Instant) {
        self.until = Some(now + RECONNECTS_WITHIN);
    }

    fn is_expected(&self, now: Instant) -> bool {
        self.brought && self.until.is_none_or(|until| now < until)
    }
}

/// A harness that lists our tools does so within a second of being ready. One that has not after this
/// time works without them.
const LISTS_WITHIN: Duration = Duration::from_secs(5);

/// Whether a launch's harness has our tools. Claude takes prompts before its MCP servers are connected
/// (measured), and the turn of such a prompt has none of their tools: no post, no question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tools {
    /// They were listed, or nobody is to wait for that.
    Listed,
    /// They will be.
    Awaited {
        /// Until when they are waited for, once the session is ready.
        until: Option<Instant>,
    },
}

impl Tools {
    fn ready(&mut self, now: Instant) {
        if let Tools::Awaited { until } = self {
            until.get_or_insert(now + LISTS_WITHIN);
        }
    }

    fn are_awaited(self, now: Instant) -> bool {
        matches!(self, Tools::Awaited { until } if until.is_none_or(|until| now < until))
    }
}

impl Agent {
    /// `chat.routes`.
    pub(super) fn routes(&self) -> Vec<Route> {
        self.shared.config.borrow().chat.routes.clone()
    }

    /// Whether a launch made now brings the mod.
    pub(super) fn brings_mod(&self) -> bool {
        self.harness().is_some_and(|harness| harness.brings_mod(&self.routes()))
    }

    /// The route that a message takes now.
    pub(super) fn choice(&mut self, session: &Session, gate: &Gate) -> Choice {
        let Some(harness) = self.harness() else { return Choice::Nothing };
        let Some(live) = &mut self.live else { return Choice::Wait };
        let now = Instant::now();
        if !matches!(gate, Gate::Starting | Gate::Person(_)) {
            live.line.ready(now);
            live.tools.ready(now);
        }
        if live.tools.are_awaited(now) {
            return Choice::Wait;
        }
        let bridge = if self.shared.links.is_up(&live.launch) {
            Bridge::Up
        } else if harness.runs_mods(session) && live.line.is_expected(now) {
            Bridge::Expected
        } else {
            Bridge::Absent
        };
        if !harness.has_data_routes() {
            return Choice::Use(Route::Paste);
        }
        let waits = self.route.delivery();
        // Claude would take the same text for the same message, and drop it.
        let again = |text: &str| {
            live.in_inbox.as_ref().is_some_and(|(last, at)| last == text && at.elapsed() < SAME_TEXT)
        };
        let too_many = live.inbox_again.is_some_and(|at| now < at);
        let inbox = match (&session.inbox, waits.map(|delivery| as_data(&delivery.prompt))) {
            (None, _) => Inbox::Absent,
            (Some(_), Some(text)) if !Inboxes::takes(&text) => Inbox::Absent,
            (Some(_), Some(text)) if too_many || again(&text) => Inbox::Later,
            (Some(_), _) => Inbox::Ready,
        };
        let means = Means { bridge, inbox };
        let refused: &[Route] = match &self.refused {
            Some((message, routes)) if waits.is_some_and(|d| d.message_id == *message) => routes,
            _ => &[],
        };
        order::choose(&self.shared.config.borrow().chat.routes, means, refused)
    }

    /// Whether a mod is not there yet that will be.
    pub(super) fn awaits_mod(&self, harness: &dyn Harness, live: &Live) -> bool {
        let runs = harness.runs_mods(&harness.session(&live.place));
        runs && !self.shared.links.is_up(&live.launch) && live.line.is_expected(Instant::now())
    }

    /// The mod of a launch says something.
    pub(super) async fn bridge(&mut self, launch: &LaunchId, news: News) {
        let Some(live) = self.live.as_mut().filter(|live| live.launch == *launch) else { return };
        match news {
            News::Up => self.deliver(Event::Linked).await,
            News::Down => live.line.lost(Instant::now()),
            News::Ack(ack) => {
                if self.context_acked(&ack).await {
                    return;
                }
                if ack.outcome == AckOutcome::Refused {
                    tracing::info!(agent = %self.name, id = ack.id, why = ack.why, "Claude refused a prompt");
                    self.refuse(&ack.id);
                }
                self.deliver(Event::Acked(ack)).await;
            }
        }
        self.look_and_deliver().await;
    }

    /// Remembers that the route in use refused the message under way.
    fn refuse(&mut self, id: &str) {
        let Some(job) = self.route.job().filter(|job| job.delivery.id() == id) else { return };
        let Some(route) = job.delivery.route else { return };
        let message = job.delivery.message_id.clone();
        match &mut self.refused {
            Some((known, routes)) if *known == message => routes.push(route),
            _ => self.refused = Some((message, vec![route])),
        }
    }

    /// Gives the prompt under way to the harness.
    pub(super) async fn send(&mut self, giving: Giving) -> Option<Event> {
        let delivery = self.route.job()?.delivery.clone();
        let live = self.live.as_ref().filter(|live| Some(&live.launch) == delivery.launch.as_ref());
        let given = match (live, &self.under_way, delivery.route) {
            (Some(live), Some(under_way), Some(Route::Bridge)) => {
                let op = Op::Deliver { text: under_way.text.clone() };
                self.shared.links.give(&live.launch, Command { id: delivery.id(), op })
            }
            (Some(live), Some(under_way), Some(Route::Inbox)) => {
                let session = self.harness().map(|h| h.session(&live.place)).unwrap_or_default();
                let (live, text) = (live.clone(), under_way.text.clone());
                self.write_inbox(&live, session, &delivery, &text).await
            }
            _ => false,
        };
        (!given && giving == Giving::First).then_some(Event::SendFailed)
    }

    async fn write_inbox(&mut self, live: &Live, session: Session, delivery: &Delivery, text: &str) -> bool {
        let Some(inbox) = session.inbox else { return false };
        // Where the mod is loaded, it may enter the message as the person's; that would have a turn of its
        // own, which one for the turn that runs must not.
        if !self.in_steering {
            self.shared.links.expect_in_inbox(&live.launch, delivery.id(), text.to_owned());
        }
        let sessions = live.place.harness_dir.join("sessions");
        let message = (delivery.message_id.as_str(), text);
        let written = self.shared.inboxes.write(&self.name, &inbox, &sessions, live.place.pid, message).await;
        if let Some(live) = &mut self.live {
            live.in_inbox = Some((text.to_owned(), Instant::now()));
        }
        match written {
            Ok(()) => true,
            Err(e) => {
                tracing::warn!(agent = %self.name, error = %e, "not given to the inbox");
                self.refuse(&delivery.id());
                false
            }
        }
    }

    /// The peer inbox says what became of a message.
    pub(super) async fn receipt(&mut self, receipt: &Receipt) {
        let is_of = |state: &State| {
            let job = state.job().filter(|job| job.delivery.route == Some(Route::Inbox))?;
            // What was given twice and is dropped once was taken before.
            let ours = job.delivery.message_id.as_str() == receipt.orig_msg_id && !state.was_given_again();
            (ours && receipt.is_final()).then(|| job.delivery.id())
        };
        let ack =
            |id| Ack { id, outcome: AckOutcome::Refused, prompt_id: None, why: Some(receipt.status.clone()) };
        let (queued, steered) = (is_of(&self.route), is_of(&self.steering));
        let ours = queued.is_some() || steered.is_some();
        if let (true, Some(live)) = (ours && receipt.is_too_many(), &mut self.live) {
            live.in_inbox = None;
            live.inbox_again = Some(Instant::now() + AFTER_TOO_MANY);
        }
        if let Some(id) = queued {
            self.refuse(&id);
            self.deliver(Event::Acked(ack(id))).await;
        } else if let Some(id) = steered {
            self.steer(Event::Acked(ack(id))).await;
        }
    }

    /// Says which route is in use, when that has changed.
    pub(super) async fn show_route(&mut self, choice: Choice) {
        let Choice::Use(route) = choice else { return };
        let Some(live) = self.live.as_mut().filter(|live| live.shown != Some(route)) else { return };
        live.shown = Some(route);
        let launch = live.launch.clone();
        let patch = AgentPatch { route: Some(route), ..AgentPatch::default() };
        self.shared
            .hub
            .tell("the route of an agent", ReportAgent { name: self.name.clone(), launch, patch })
            .await;
    }
}

/// What is handed over as data: the prompt without the control characters that a terminal would obey when
/// the harness shows it.
pub(super) fn as_data(prompt: &str) -> String {
    let text = prompt.replace("\r\n", "\n");
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mod_is_waited_for_as_long_as_it_may_take() {
        let now = Instant::now();
        let at = |s| now + Duration::from_secs(s);
        let mut line = Line::default();
        line.ready(now);
        assert!(!line.is_expected(now), "a launch without the mod");
        let mut line = Line::launched();
        assert!(line.is_expected(at(600)), "the session is not up yet");
        line.ready(at(600));
        line.ready(at(610));
        assert!(line.is_expected(at(619)) && !line.is_expected(at(620)));
        line.lost(at(700));
        assert!(line.is_expected(at(704)) && !line.is_expected(at(705)));
        assert!(Line::adopted(now).is_expected(at(4)) && !Line::adopted(now).is_expected(at(5)));
    }

    #[test]
    fn what_is_handed_over_as_data() {
        assert_eq!(as_data("[Leo Chat] a\tb\r\nc\u{1b}[201~\u{7}\u{9b}é👩‍👧"), "[Leo Chat] a\tb\nc[201~é👩‍👧");
    }
}
