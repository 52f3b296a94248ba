//! The hand-over of a message as a pure transition function: the paste here, the routes that hand it over
//! as data in `structured.rs`. The task looks, asks, sends and presses; this decides.
//!
//! Invariants: at most one message is under way, on one route; a paste follows only a recorded hand-over and a look
//! that shows an idle session with an empty composer; Enter follows only a look that shows an idle
//! session whose composer holds our text and nothing else.

use super::{
    order::Choice,
    structured::{self, Sent},
};
use crate::{
    bridge::{Ack, AckOutcome},
    harness::{Gate, Holding, transcript::Found},
};
use leo_ipc::{
    LaunchId,
    chat::{FailedReason, Route, WaitingFor},
    delivery::{Delivery, Outcome, refusal_note},
};
use std::time::{Duration, Instant};

/// A harness may take an Enter that follows a paste at once for a part of it.
const BEFORE_ENTER: Duration = Duration::from_millis(150);

/// While the composer still holds our text this long after Enter, it was not taken (Claude asks for a
/// second one after removing characters it balks at).
const ENTER_AGAIN: Duration = Duration::from_millis(1500);

/// Presses of Enter for one hand-over.
const MAX_ENTERS: u32 = 3;

/// A harness that has a prompt shows it within 150 ms. After this long without evidence there will be
/// none.
pub(super) const NO_EVIDENCE: Duration = Duration::from_secs(10);

/// Pause between looks into the transcript, which may have megabytes.
pub(super) const SEARCH_EVERY: Duration = Duration::from_secs(2);

/// How long our text may lie in the composer, Enter not pressed, behind a dialog or turn that came
/// up in between.
const BLOCKED: Duration = Duration::from_secs(600);

/// Presses that clear our text: one a line, and an empty line takes one more.
const MAX_CLEARS: u32 = 40;

/// Hand-overs of one message that were proven not to have happened, before it fails.
pub(crate) const MAX_ATTEMPTS: u32 = 5;

/// Pause before asking again after the hub refused a hand-over.
const AFTER_REFUSAL: Duration = Duration::from_millis(500);

/// A message under way.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    /// The delivery.
    pub(crate) delivery: Delivery,
    /// When it was handed over.
    pub(crate) handed: Instant,
    /// When the hand-over came to its last step.
    pub(crate) since: Instant,
    /// Enters pressed by this worker.
    pub(crate) enters: u32,
    /// Presses that cleared it.
    pub(crate) clears: u32,
    /// Looks into the transcript since the last Enter.
    pub(crate) searches: u32,
}

/// What is under way.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum State {
    /// No message waits, as far as is known.
    Quiet,
    /// One waits for the gate.
    Held(Delivery),
    /// The hub is asked to record the hand-over.
    Beginning(Delivery),
    /// Recorded as a paste; one more look before it.
    Begun(Job),
    /// Recorded, and given to the harness as data, or about to be.
    Sent(Sent),
    /// The text was pasted, Enter not pressed.
    Pasted(Job),
    /// Enter was pressed, or may have been.
    Entered(Job),
    /// Our text is being taken out of the composer.
    Clearing(Job),
    /// The transcript is read before an outcome without evidence is reported.
    Deciding(Job, Verdict),
    /// The hub refused; ask again after a pause.
    Refused {
        /// When.
        until: Instant,
    },
}

/// What will be reported if the transcript shows nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Proven not applied.
    NotApplied,
    /// May have been applied.
    Unproven(&'static str),
}

/// A look at the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// Whether its process is there.
    pub(crate) live: bool,
    /// Whether its session is idle.
    pub(crate) idle: bool,
    /// The launch that runs.
    pub(crate) launch: Option<LaunchId>,
    /// Whether its mod is connected.
    pub(crate) linked: bool,
    /// The route that the next message takes.
    pub(crate) route: Choice,
    /// Whether a prompt may be handed over on that route.
    pub(crate) gate: Gate,
    /// What the composer holds of the text under way.
    pub(crate) holding: Holding,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// Something about the agent's messages may have changed.
    Wake,
    /// The hub's answer: the oldest pending message, and the one in doubt.
    Next {
        /// The oldest pending.
        pending: Option<Delivery>,
        /// In doubt, with the time since its hand-over.
        in_doubt: Option<Delivery>,
    },
    /// The agent was looked at.
    Seen(View),
    /// The hub recorded the hand-over; the delivery as it stands there.
    Begun(Delivery),
    /// The hub refused the hand-over.
    BeginRefused,
    /// The message cannot be pasted at all; why.
    Unpastable(String),
    /// The prompt was proven not to have reached the harness.
    SendFailed,
    /// The mod has greeted: it knows the ids of what it had, and what is under way is its to do.
    Linked,
    /// The mod says what became of a prompt.
    Acked(Ack),
    /// The paste was made, or may have been.
    Pasted,
    /// The paste was proven not to have happened.
    PasteFailed,
    /// Enter was pressed, or may have been.
    EnterPressed,
    /// Enter was proven not to have happened.
    EnterFailed,
    /// The transcript was read.
    Searched(Option<Found>),
    /// Give up on all that waits; a sentence.
    FailPending(String),
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Ask the hub for the next message.
    Ask,
    /// Show what pending messages wait for.
    Waiting(Option<WaitingFor>),
    /// Start the agent.
    WakeAgent,
    /// Ask the hub to record the hand-over on a route.
    Begin(Delivery, Route),
    /// Give the prompt to the harness by its route: for the first time, or again under the same id.
    Send(Giving),
    /// Look now.
    Look,
    /// Paste the text.
    Paste,
    /// Press Enter.
    Enter,
    /// Press the key that clears a line.
    Clear,
    /// Read the transcript.
    Search,
    /// Report an outcome.
    Report(Delivery, Outcome),
}

/// Whether a prompt was given before. What was may have been taken, whatever comes of giving it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Giving {
    /// Not yet.
    First,
    /// Perhaps.
    Again,
}

impl State {
    /// The message under way.
    pub(crate) fn job(&self) -> Option<&Job> {
        match self {
            State::Begun(job)
            | State::Pasted(job)
            | State::Entered(job)
            | State::Clearing(job)
            | State::Deciding(job, _) => Some(job),
            State::Sent(sent) => Some(&sent.job),
            _ => None,
        }
    }

    /// The message that waits or is under way.
    pub(crate) fn delivery(&self) -> Option<&Delivery> {
        match self {
            State::Held(delivery) | State::Beginning(delivery) => Some(delivery),
            state => state.job().map(|job| &job.delivery),
        }
    }

    /// Whether the prompt under way was given more than once, or may have been.
    pub(crate) fn was_given_again(&self) -> bool {
        matches!(self, State::Sent(sent) if sent.again)
    }

    /// How long until the next look, when there is something to watch.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        const QUICK: Duration = Duration::from_millis(30);
        const SLOW: Duration = Duration::from_millis(300);
        const HELD: Duration = Duration::from_secs(1);
        match self {
            State::Quiet | State::Beginning(_) | State::Deciding(..) => None,
            State::Held(_) => Some(HELD),
            State::Refused { until } => Some(until.saturating_duration_since(now)),
            State::Begun(_) | State::Clearing(_) => Some(QUICK),
            // Its evidence comes by mail.
            State::Sent(_) => Some(SLOW),
            State::Pasted(job) | State::Entered(job) => {
                let young = now.saturating_duration_since(job.since) < Duration::from_secs(2);
                Some(if young { QUICK } else { SLOW })
            }
        }
    }
}

/// The transition function.
pub(crate) fn step(state: State, event: Event, now: Instant) -> (State, Vec<Action>) {
    let mut actions = Vec::new();
    let state = match (state, event) {
        (state, Event::Wake) => {
            actions.push(Action::Ask);
            state
        }
        (state, Event::Next { pending, in_doubt }) => next(&mut actions, state, pending, in_doubt, now),
        (State::Held(delivery), Event::FailPending(note)) => {
            let reason = FailedReason::AgentUnreachable;
            report(&mut actions, &delivery, Outcome::Failed { reason, note });
            State::Quiet
        }
        (State::Refused { until }, Event::Seen(_)) if now >= until => {
            actions.push(Action::Ask);
            State::Quiet
        }
        (State::Held(delivery), Event::Seen(view)) => held(&mut actions, delivery, &view),
        (State::Beginning(_), Event::Begun(delivery)) => {
            let job = Job { delivery, handed: now, since: now, enters: 0, clears: 0, searches: 0 };
            if is_data(job.delivery.route) {
                actions.push(Action::Send(Giving::First));
                State::Sent(Sent::new(job))
            } else {
                actions.push(Action::Look);
                State::Begun(job)
            }
        }
        (State::Sent(sent), Event::SendFailed) => not_applied(&mut actions, &sent.job),
        (State::Sent(sent), Event::Seen(view)) => structured::seen(&mut actions, sent, &view, now),
        (State::Sent(sent), Event::Linked) if sent.job.delivery.route == Some(Route::Bridge) => {
            actions.push(Action::Send(Giving::Again));
            State::Sent(sent)
        }
        (State::Sent(sent), Event::Acked(ack)) => acked(&mut actions, sent, ack),
        (State::Beginning(_), Event::BeginRefused) => State::Refused { until: now + AFTER_REFUSAL },
        (State::Beginning(delivery), Event::Unpastable(note)) => {
            report(&mut actions, &delivery, Outcome::Failed { reason: FailedReason::Transport, note });
            State::Quiet
        }
        (State::Begun(job), Event::Seen(view)) => {
            // The mod may have come meanwhile; the recorded route stays.
            if view.live && view.gate == Gate::Open {
                actions.push(Action::Paste);
                State::Begun(job)
            } else {
                // Nothing has touched the pane yet.
                not_applied(&mut actions, &job)
            }
        }
        (State::Begun(job), Event::Pasted) => State::Pasted(Job { since: now, ..job }),
        (State::Begun(job), Event::PasteFailed) => not_applied(&mut actions, &job),
        (State::Pasted(job), Event::Seen(view)) => pasted(&mut actions, job, &view, now),
        (State::Pasted(job) | State::Entered(job), Event::EnterPressed) => {
            State::Entered(Job { since: now, enters: job.enters + 1, searches: 0, ..job })
        }
        (State::Pasted(job), Event::EnterFailed) => State::Pasted(job),
        (State::Entered(job), Event::EnterFailed) => State::Entered(job),
        (State::Entered(job), Event::Seen(view)) => entered(&mut actions, job, &view, now),
        (State::Clearing(job), Event::Seen(view)) => clearing(&mut actions, job, &view),
        (state, Event::Searched(found)) => searched(&mut actions, state, found),
        (state, _) => state,
    };
    (state, actions)
}

fn next(
    actions: &mut Vec<Action>,
    state: State,
    pending: Option<Delivery>,
    in_doubt: Option<Delivery>,
    now: Instant,
) -> State {
    let same = |job: &Job, other: &Delivery| {
        job.delivery.message_id == other.message_id && job.delivery.attempt == other.attempt
    };
    match (state, in_doubt) {
        // Still without an outcome.
        (state, Some(doubt)) if state.job().is_some_and(|job| same(job, &doubt)) => state,
        // A hand-over that was just recorded here is not news.
        (State::Beginning(delivery), Some(_)) => State::Beginning(delivery),
        // Handed over by an earlier worker, or by this one before it lost track: evidence first.
        (_, Some(delivery)) => {
            let age = Duration::from_millis(u64::try_from(delivery.handed_ms_ago.unwrap_or(0)).unwrap_or(0));
            let handed = now.checked_sub(age).unwrap_or(now);
            actions.extend([Action::Search, Action::Look]);
            let job = Job { delivery, handed, since: now, enters: 0, clears: 0, searches: 0 };
            if is_data(job.delivery.route) {
                // The same launch knows its id; another one is not given it.
                if job.delivery.route == Some(Route::Bridge) || age < structured::SAME_MESSAGE {
                    actions.push(Action::Send(Giving::Again));
                }
                State::Sent(Sent { again: true, ..Sent::new(job) })
            } else {
                State::Entered(job)
            }
        }
        // The hub has its outcome (a hook brought it) or gave it one.
        (State::Beginning(delivery), None) => State::Beginning(delivery),
        (state, None) => match (state, pending) {
            (State::Refused { until }, Some(_)) if now < until => State::Refused { until },
            (_, Some(delivery)) => {
                actions.push(Action::Look);
                State::Held(delivery)
            }
            (_, None) => {
                actions.push(Action::Waiting(None));
                State::Quiet
            }
        },
    }
}

fn held(actions: &mut Vec<Action>, delivery: Delivery, view: &View) -> State {
    if !view.live {
        actions.extend([Action::Waiting(Some(WaitingFor::Start)), Action::WakeAgent]);
        return State::Held(delivery);
    }
    let reason = match (&view.gate, view.route) {
        (Gate::Open, Choice::Use(route)) => {
            actions.push(Action::Begin(delivery.clone(), route));
            return State::Beginning(delivery);
        }
        (Gate::Open, Choice::Nothing) => {
            let (reason, note) = (FailedReason::Transport, NO_ROUTE.to_owned());
            report(actions, &delivery, Outcome::Failed { reason, note });
            return State::Quiet;
        }
        (Gate::Open, Choice::Wait) => WaitingFor::Start,
        (Gate::Starting, _) => WaitingFor::Start,
        (Gate::Turn, _) => WaitingFor::Turn,
        (Gate::Dialog(_), _) => WaitingFor::Dialog,
        (Gate::Draft, _) => WaitingFor::Draft,
        (Gate::Person(_), _) => WaitingFor::Person,
    };
    actions.push(Action::Waiting(Some(reason)));
    State::Held(delivery)
}

fn pasted(actions: &mut Vec<Action>, job: Job, view: &View, now: Instant) -> State {
    if !view.live {
        // It died with our text in its composer at most.
        return not_applied(actions, &job);
    }
    let waited = now.saturating_duration_since(job.since);
    match (view.idle, view.holding) {
        (true, Holding::Ours) => {
            if waited >= BEFORE_ENTER {
                actions.push(Action::Enter);
            }
            State::Pasted(job)
        }
        // A dialog or a turn came up in between, or somebody looks at another screen. Enter would
        // answer the dialog; our text waits below it.
        (false, _) | (true, Holding::Unseen) => {
            if let Gate::Dialog(_) = view.gate {
                actions.push(Action::Waiting(Some(WaitingFor::Dialog)));
            }
            if waited < BLOCKED {
                State::Pasted(job)
            } else {
                decide(actions, job, Verdict::Unproven(BEHIND_DIALOG))
            }
        }
        // A person sent it, changed it, or took it out, or Escape wiped it. Evidence tells which.
        (true, Holding::Nothing | Holding::Mixed | Holding::Other) => {
            if waited < NO_EVIDENCE {
                State::Pasted(job)
            } else if view.holding == Holding::Nothing {
                // Nobody sent it, or the harness would have shown it by now: it is nowhere.
                decide(actions, job, Verdict::NotApplied)
            } else {
                decide(actions, job, Verdict::Unproven(TOUCHED))
            }
        }
    }
}

fn entered(actions: &mut Vec<Action>, job: Job, view: &View, now: Instant) -> State {
    if !view.live {
        return decide(actions, job, Verdict::Unproven(DIED));
    }
    let ours = view.idle && view.holding == Holding::Ours;
    let since_enter = now.saturating_duration_since(job.since);
    if ours && since_enter >= ENTER_AGAIN {
        if job.enters > 0 && job.enters < MAX_ENTERS {
            actions.push(Action::Enter);
            return State::Entered(job);
        }
        // Not submitted, by whoever handed it over: taking it out proves that it never will be.
        actions.push(Action::Clear);
        return State::Clearing(Job { clears: 1, since: now, ..job });
    }
    let silent = match job.enters {
        // An earlier worker may have pressed it right after the hand-over.
        0 => now.saturating_duration_since(job.handed) >= NO_EVIDENCE && since_enter >= ENTER_AGAIN,
        _ => since_enter >= NO_EVIDENCE,
    };
    if silent {
        return decide(actions, job, Verdict::Unproven(SILENT));
    }
    // Hooks are quicker; this is for when they do not come through.
    if since_enter >= SEARCH_EVERY.saturating_mul(job.searches + 1) {
        actions.push(Action::Search);
        return State::Entered(Job { searches: job.searches + 1, ..job });
    }
    State::Entered(job)
}

fn clearing(actions: &mut Vec<Action>, job: Job, view: &View) -> State {
    match (view.live, view.idle, view.holding) {
        (true, true, Holding::Ours) if job.clears < MAX_CLEARS => {
            actions.push(Action::Clear);
            State::Clearing(Job { clears: job.clears + 1, ..job })
        }
        // Gone from an idle composer; the transcript has the last word.
        (true, true, Holding::Nothing) => decide(actions, job, Verdict::NotApplied),
        (false, ..) => decide(actions, job, Verdict::Unproven(DIED)),
        // It was submitted after all, or a person types.
        _ => decide(actions, job, Verdict::Unproven(SILENT)),
    }
}

fn acked(actions: &mut Vec<Action>, sent: Sent, ack: Ack) -> State {
    if ack.id != sent.job.delivery.id() {
        return State::Sent(sent);
    }
    match ack.outcome {
        AckOutcome::Started => {
            report(actions, &sent.job.delivery, Outcome::Delivered { prompt_id: ack.prompt_id });
            State::Quiet
        }
        AckOutcome::Refused => not_applied(actions, &sent.job),
        AckOutcome::Unsure => State::Sent(Sent { unsure: true, ..sent }),
    }
}

/// Whether a route hands the prompt over as data.
fn is_data(route: Option<Route>) -> bool {
    matches!(route, Some(Route::Bridge | Route::Inbox))
}

fn searched(actions: &mut Vec<Action>, state: State, found: Option<Found>) -> State {
    match (state, found) {
        (
            State::Entered(job)
            | State::Pasted(job)
            | State::Clearing(job)
            | State::Deciding(job, _)
            | State::Sent(Sent { job, .. }),
            Some(found),
        ) => {
            let outcome = match found {
                Found::Turn { prompt_id } => Outcome::Delivered { prompt_id },
                Found::Absorbed => Outcome::Delivered { prompt_id: None },
                Found::Refused { why } => {
                    Outcome::Failed { reason: FailedReason::Transport, note: refusal_note(&why) }
                }
            };
            report(actions, &job.delivery, outcome);
            State::Quiet
        }
        (State::Deciding(job, Verdict::NotApplied), None) => not_applied(actions, &job),
        (State::Deciding(job, Verdict::Unproven(note)), None) => {
            report(actions, &job.delivery, Outcome::Unproven { note: note.to_owned() });
            State::Quiet
        }
        (state, _) => state,
    }
}

pub(super) fn decide(actions: &mut Vec<Action>, job: Job, verdict: Verdict) -> State {
    actions.push(Action::Search);
    State::Deciding(job, verdict)
}

fn not_applied(actions: &mut Vec<Action>, job: &Job) -> State {
    let outcome = if job.delivery.attempt < MAX_ATTEMPTS {
        Outcome::NotApplied {}
    } else {
        let note = format!(
            "The message could not be handed over in {MAX_ATTEMPTS} attempts; nothing reached the agent."
        );
        Outcome::Failed { reason: FailedReason::Transport, note }
    };
    report(actions, &job.delivery, outcome);
    State::Quiet
}

fn report(actions: &mut Vec<Action>, delivery: &Delivery, outcome: Outcome) {
    actions.push(Action::Report(delivery.clone(), outcome));
    actions.push(Action::Ask);
}

const NO_ROUTE: &str =
    "None of the routes in chat.routes reaches this agent: add `paste` to them, or update its harness.";
const BEHIND_DIALOG: &str = "A dialog came up in the terminal just before the message was sent and stayed open, so the message may still lie in the agent's composer.";
const TOUCHED: &str =
    "The message was put into the agent's composer, but it was changed or removed there before it was sent.";
const DIED: &str = "The agent's process ended just after the message was handed over, and nothing shows whether it had read it.";
pub(super) const SILENT: &str = "The message was handed over, but nothing shows that the agent has it.";

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
