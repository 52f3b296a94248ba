//! An agent's life as a pure transition function: launched, adopted, restarted after a crash within
//! bounds, stopped. No clock, no tmux, no hub.
//!
//! Rules that hold in every path: a launch is recorded before tmux is touched; an adopted agent is
//! never restarted; a session that is not ours is never touched; a launch that was begun is ended.

use leo_ipc::LaunchId;
use std::time::{Duration, Instant};

/// First pause before starting a crashed agent again; doubled with each crash up to [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// So many crashes within [`CRASH_WINDOW`] and the agent stays stopped: something is wrong that
/// starting does not cure, and each start costs money and log lines.
pub(crate) const MAX_CRASHES: usize = 5;
const CRASH_WINDOW: Duration = Duration::from_secs(300);

/// A process that ends by itself with status 0 this soon and without a turn has not done its job: it
/// found no session, no terminal, or somebody's "No, exit".
const EARLY: Duration = Duration::from_secs(10);

/// A polite exit takes well under this; then the session is ended under it.
const POLITE: Duration = Duration::from_secs(4);

/// What is put to rest has no hurry, and what it still does at its exit is not to be cut off.
const POLITE_REST: Duration = Duration::from_secs(15);

/// After SIGHUP a harness saves its session. Then it is killed.
const HANGUP: Duration = Duration::from_secs(4);

/// After SIGKILL there is nothing left to wait for but tmux.
const KILLED: Duration = Duration::from_secs(3);

/// Without being ready or showing a known dialog for so long, a person is told to look.
const SLOW_START: Duration = Duration::from_secs(60);

/// Beside a message that waited for a launch that could not be made; the thread says why.
const NOT_STARTED: &str = "The agent could not be started, so the message could not be handed over.";

/// How an agent's process stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Phase {
    /// Nothing has been looked at yet.
    Looking,
    /// Not there, and not wanted or about to be launched.
    Stopped,
    /// Not there, and not to be started until a person or a new message asks.
    GaveUp,
    /// Not there; started again at this time.
    Backoff {
        /// When.
        until: Instant,
    },
    /// A launch is being made.
    Launching {
        /// Whether it follows a crash.
        crash: bool,
    },
    /// In its pane, not ready.
    Starting {
        /// The launch.
        launch: LaunchId,
        /// Since when.
        since: Instant,
        /// Whether a person was told that it takes long.
        told: bool,
    },
    /// Ready.
    Running {
        /// The launch.
        launch: LaunchId,
        /// Since when it has been in its pane.
        since: Instant,
    },
    /// Being stopped.
    Stopping {
        /// The launch.
        launch: LaunchId,
        /// What is waited for.
        stage: Stage,
        /// Until when.
        until: Instant,
        /// What comes after.
        then: Then,
    },
    /// Removed; nothing more happens.
    Gone,
}

/// A stage of stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It was asked to exit.
    Polite,
    /// Its session was ended.
    Hangup,
    /// It was killed.
    Killed,
}

/// What follows a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It stays stopped.
    Stay,
    /// It is started again.
    Start,
    /// It rests until a message or a person starts it.
    Rest,
    /// It was put to rest, and a message came meanwhile.
    Wake,
    /// It is forgotten.
    Remove,
}

/// The whole state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// Where it stands.
    pub(crate) phase: Phase,
    /// Whether a person wants it to run.
    pub(crate) wanted: bool,
    /// Whether an earlier worker was about to put it to rest.
    pub(crate) resting: bool,
    /// Whether the current launch has had a turn.
    pub(crate) had_turn: bool,
    /// Recent crashes.
    pub(crate) crashes: Vec<Instant>,
    /// Whether the next launch must not resume (the last one that did ended at once).
    pub(crate) fresh: bool,
}

impl State {
    /// The state before anything was looked at.
    pub(crate) fn new() -> State {
        State {
            phase: Phase::Looking,
            wanted: false,
            resting: false,
            had_turn: false,
            crashes: Vec::new(),
            fresh: false,
        }
    }

    /// The launch that is in a pane.
    #[cfg(test)]
    pub(crate) fn launch(&self) -> Option<&LaunchId> {
        match &self.phase {
            Phase::Starting { launch, .. }
            | Phase::Running { launch, .. }
            | Phase::Stopping { launch, .. } => Some(launch),
            _ => None,
        }
    }

    /// When the next [`Event::Tick`] is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Backoff { until } | Phase::Stopping { until, .. } => Some(*until),
            Phase::Starting { since, told: false, .. } => Some(*since + SLOW_START),
            _ => None,
        }
    }
}

/// What tmux says about a recorded launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// No launch was recorded.
    Nothing,
    /// A launch was recorded and its pane is alive.
    Alive(LaunchId),
    /// A launch was recorded and its pane is dead.
    Dead(LaunchId, Death),
    /// A launch was recorded and no pane of it is there.
    Absent(LaunchId),
}

/// How a process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Death {
    /// Its exit status.
    pub(crate) status: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// The last lines of its pane.
    pub(crate) words: String,
    /// Whether it was asking a person something when it was last looked at.
    pub(crate) at_dialog: bool,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// tmux was asked, at the start of this worker.
    Looked(Seen),
    /// What a person wants changed in the hub.
    Wanted(bool),
    /// A message waits and the agent may be woken.
    Message,
    /// A person starts it.
    Start,
    /// A person stops it.
    Stop,
    /// A person restarts it.
    Restart,
    /// It has nothing to do, and the hub has agreed that it may rest.
    Rest,
    /// It was to be put to rest, but somebody has begun to use its terminal.
    StayAwake,
    /// It is to be forgotten.
    Remove,
    /// A launch was made.
    Launched(LaunchId),
    /// A launch could not be made; the launch, if it was recorded, and why.
    LaunchFailed {
        /// The recorded launch.
        launch: Option<LaunchId>,
        /// A sentence for a person.
        why: String,
    },
    /// The harness is ready for a prompt, or runs a turn.
    Ready,
    /// A turn began.
    Turn,
    /// The pane's process ended, or its pane is gone.
    Died(Death),
    /// Time passed.
    Tick,
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Make a launch.
    Launch {
        /// It follows a crash.
        crash: bool,
        /// A message asked for it.
        wake: bool,
        /// Whether to go on with the last session.
        resume: bool,
    },
    /// Take over a running launch.
    Adopt(LaunchId),
    /// Say that a launch is over.
    End {
        /// Which.
        launch: LaunchId,
        /// Whether its session may be resumed.
        resumable: bool,
        /// What a person has to do before it can run again.
        needs_person: Option<String>,
    },
    /// Remove what is left of the launch's session in tmux.
    Clear(LaunchId),
    /// Ask the process to exit, if its composer is empty, else end its session.
    AskToExit(LaunchId),
    /// Ask the process to exit so that it may rest; [`Event::StayAwake`] when its terminal is in use.
    AskToRest(LaunchId),
    /// End the launch's session.
    EndSession(LaunchId),
    /// Kill the process.
    Kill(LaunchId),
    /// Say in the thread that the process ended.
    NoteDeath {
        /// Which launch.
        launch: LaunchId,
        /// How.
        death: Death,
        /// What happens now.
        next: Next,
    },
    /// Say in the thread why a launch could not be made.
    NoteFailure {
        /// Which launch.
        launch: LaunchId,
        /// Why.
        why: String,
    },
    /// Show that a launch takes long and a person should look.
    ShowSlow(LaunchId),
    /// Fail the messages that wait.
    FailPending(String),
    /// Record what a person wants.
    SetDesired(bool),
    /// Forget the agent.
    Forget,
}

/// What follows a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is started again after this pause.
    Restart(Duration),
    /// It stays stopped.
    GiveUp,
    /// It was ended on purpose in its terminal.
    Ended,
    /// A person said no to what it asked at its start; asking again and again would not change that.
    Declined,
}

/// The transition function.
pub(crate) fn step(mut state: State, event: Event, now: Instant) -> (State, Vec<Action>) {
    let mut actions = Vec::new();
    let phase = std::mem::replace(&mut state.phase, Phase::Gone);
    let next = match (phase, event) {
        (Phase::Gone, _) => Phase::Gone,
        (phase, Event::Wanted(wanted)) => {
            state.wanted = wanted;
            match phase {
                Phase::Stopped | Phase::Backoff { .. } if !wanted => Phase::Stopped,
                Phase::Stopped => launch(&mut state, &mut actions, false, false),
                other => other,
            }
        }
        (Phase::Looking, Event::Looked(seen)) => looked(&mut state, &mut actions, seen, now),
        // Everything else waits until tmux was looked at; the task asks again then.
        (Phase::Looking, Event::Start | Event::Restart) => {
            want(&mut state, &mut actions, true);
            Phase::Looking
        }
        (Phase::Looking, Event::Stop) => {
            want(&mut state, &mut actions, false);
            Phase::Looking
        }
        (phase @ (Phase::Stopped | Phase::GaveUp | Phase::Backoff { .. }), Event::Start | Event::Restart) => {
            drop(phase);
            state.crashes.clear();
            want(&mut state, &mut actions, true);
            launch(&mut state, &mut actions, false, false)
        }
        (Phase::Stopped | Phase::GaveUp, Event::Message) => {
            state.crashes.clear();
            want(&mut state, &mut actions, true);
            launch(&mut state, &mut actions, false, true)
        }
        (Phase::Backoff { until }, Event::Tick) if now >= until => {
            launch(&mut state, &mut actions, true, false)
        }
        (Phase::Stopped | Phase::GaveUp | Phase::Backoff { .. }, Event::Stop) => {
            want(&mut state, &mut actions, false);
            Phase::Stopped
        }
        (Phase::Stopped | Phase::GaveUp | Phase::Backoff { .. }, Event::Remove) => {
            actions.push(Action::Forget);
            Phase::Gone
        }
        (Phase::Launching { .. }, Event::Launched(launch)) => {
            state.had_turn = false;
            Phase::Starting { launch, since: now, told: false }
        }
        (Phase::Launching { .. }, Event::LaunchFailed { launch, why }) => {
            actions.push(Action::FailPending(NOT_STARTED.to_owned()));
            if let Some(launch) = launch {
                actions.push(Action::NoteFailure { launch: launch.clone(), why: why.clone() });
                actions.push(Action::End { launch, resumable: true, needs_person: Some(why) });
            }
            Phase::GaveUp
        }
        (phase @ (Phase::Starting { .. } | Phase::Running { .. }), Event::Start) => {
            want(&mut state, &mut actions, true);
            phase
        }
        (Phase::Starting { launch, since, .. }, Event::Ready) => Phase::Running { launch, since },
        (Phase::Starting { launch, since, told: false }, Event::Tick) if now >= since + SLOW_START => {
            actions.push(Action::ShowSlow(launch.clone()));
            Phase::Starting { launch, since, told: true }
        }
        (phase @ (Phase::Starting { .. } | Phase::Running { .. }), Event::Turn) => {
            state.had_turn = true;
            phase
        }
        (Phase::Starting { launch, since, .. }, Event::Died(death)) => {
            died(&mut state, &mut actions, launch, death, now.saturating_duration_since(since), now)
        }
        (Phase::Running { launch, since }, Event::Died(death)) => {
            died(&mut state, &mut actions, launch, death, now.saturating_duration_since(since), now)
        }
        (Phase::Starting { launch, .. } | Phase::Running { launch, .. }, Event::Stop) => {
            want(&mut state, &mut actions, false);
            stop(&mut actions, launch, Then::Stay, now)
        }
        (Phase::Starting { launch, .. } | Phase::Running { launch, .. }, Event::Restart) => {
            want(&mut state, &mut actions, true);
            state.crashes.clear();
            stop(&mut actions, launch, Then::Start, now)
        }
        (Phase::Starting { launch, .. } | Phase::Running { launch, .. }, Event::Remove) => {
            stop(&mut actions, launch, Then::Remove, now)
        }
        (Phase::Running { launch, .. }, Event::Rest) => {
            state.wanted = false;
            // It has lived for long: should it stay awake, its end will be no failed start.
            state.had_turn = true;
            actions.push(Action::AskToRest(launch.clone()));
            Phase::Stopping { launch, stage: Stage::Polite, until: now + POLITE_REST, then: Then::Rest }
        }
        (
            Phase::Stopping { launch, stage: Stage::Polite, then: Then::Rest | Then::Wake, .. },
            Event::StayAwake,
        ) => {
            want(&mut state, &mut actions, true);
            Phase::Running { launch, since: now }
        }
        (Phase::Stopping { launch, stage, until, then }, event) => {
            stopping(&mut state, &mut actions, (launch, stage, until, then), &event, now)
        }
        // What is asked of a launch in the making is asked again by the task when it is made.
        (phase, _) => phase,
    };
    state.phase = next;
    (state, actions)
}

fn want(state: &mut State, actions: &mut Vec<Action>, wanted: bool) {
    state.wanted = wanted;
    actions.push(Action::SetDesired(wanted));
}

fn launch(state: &mut State, actions: &mut Vec<Action>, crash: bool, wake: bool) -> Phase {
    let resume = !std::mem::take(&mut state.fresh);
    actions.push(Action::Launch { crash, wake, resume });
    Phase::Launching { crash }
}

fn looked(state: &mut State, actions: &mut Vec<Action>, seen: Seen, now: Instant) -> Phase {
    match seen {
        Seen::Alive(launch) => {
            actions.push(Action::Adopt(launch.clone()));
            // It may have been running for days: its early end is no failed start.
            state.had_turn = true;
            // It was to rest, and nothing says that it still has nothing to do.
            if std::mem::take(&mut state.resting) {
                want(state, actions, true);
            }
            Phase::Starting { launch, since: now, told: false }
        }
        Seen::Dead(launch, death) if state.wanted => died(state, actions, launch, death, EARLY, now),
        Seen::Dead(launch, _) | Seen::Absent(launch) => {
            actions.push(Action::Clear(launch.clone()));
            actions.push(Action::End { launch, resumable: true, needs_person: None });
            rest(state, actions)
        }
        Seen::Nothing => rest(state, actions),
    }
}

/// Not there: start it or let it be.
fn rest(state: &mut State, actions: &mut Vec<Action>) -> Phase {
    if state.wanted { launch(state, actions, false, false) } else { Phase::Stopped }
}

fn died(
    state: &mut State,
    actions: &mut Vec<Action>,
    launch: LaunchId,
    death: Death,
    age: Duration,
    now: Instant,
) -> Phase {
    let declined = death.at_dialog && !state.had_turn;
    let early = age < EARLY && !state.had_turn && !declined;
    let on_purpose = death.status == Some(0) && !early && !declined;
    // Its session may be what it cannot start with.
    state.fresh = early;
    state.crashes.retain(|at| now.saturating_duration_since(*at) < CRASH_WINDOW);
    if !on_purpose && !declined {
        state.crashes.push(now);
    }
    let next = if declined {
        Next::Declined
    } else if on_purpose {
        Next::Ended
    } else if state.crashes.len() >= MAX_CRASHES {
        Next::GiveUp
    } else {
        let doublings = u32::try_from(state.crashes.len().saturating_sub(1)).unwrap_or(u32::MAX);
        Next::Restart(MIN_BACKOFF.saturating_mul(2u32.saturating_pow(doublings)).min(MAX_BACKOFF))
    };
    actions.push(Action::NoteDeath { launch: launch.clone(), death, next });
    let (needs_person, failed) = match next {
        Next::Restart(_) | Next::Ended => (None, None),
        Next::GiveUp => (
            Some(format!(
                "It ended {MAX_CRASHES} times within five minutes. Start it again when the reason is gone."
            )),
            Some("The agent's process keeps ending, so the message could not be handed over."),
        ),
        Next::Declined => (
            Some(
                "It was ended at the question that it asks at its start. Start it again to answer it."
                    .to_owned(),
            ),
            Some(
                "The agent was ended at the question that it asks at its start, so the message could not be handed over.",
            ),
        ),
    };
    // First what waits is known to fail, then the launch ends: nothing may start it again in between.
    actions.extend(failed.map(|why| Action::FailPending(why.to_owned())));
    actions.push(Action::Clear(launch.clone()));
    actions.push(Action::End { launch, resumable: !early, needs_person });
    match next {
        Next::Restart(pause) if state.wanted => Phase::Backoff { until: now + pause },
        Next::Restart(_) => Phase::Stopped,
        Next::Ended => {
            want(state, actions, false);
            Phase::Stopped
        }
        Next::GiveUp | Next::Declined => Phase::GaveUp,
    }
}

fn stop(actions: &mut Vec<Action>, launch: LaunchId, then: Then, now: Instant) -> Phase {
    actions.push(Action::AskToExit(launch.clone()));
    Phase::Stopping { launch, stage: Stage::Polite, until: now + POLITE, then }
}

fn stopping(
    state: &mut State,
    actions: &mut Vec<Action>,
    (launch, stage, until, then): (LaunchId, Stage, Instant, Then),
    event: &Event,
    now: Instant,
) -> Phase {
    let (stage, until, then) = match event {
        // The last wish counts.
        Event::Stop => {
            want(state, actions, false);
            (stage, until, if then == Then::Remove { then } else { Then::Stay })
        }
        Event::Start | Event::Restart => {
            want(state, actions, true);
            (stage, until, if then == Then::Remove { then } else { Then::Start })
        }
        Event::Remove => (stage, until, Then::Remove),
        Event::Message if then == Then::Rest => {
            want(state, actions, true);
            (stage, until, Then::Wake)
        }
        Event::Died(_) => return stopped(state, actions, launch, then),
        Event::Tick if now >= until => match stage {
            Stage::Polite => {
                actions.push(Action::EndSession(launch.clone()));
                (Stage::Hangup, now + HANGUP, then)
            }
            Stage::Hangup => {
                actions.push(Action::Kill(launch.clone()));
                (Stage::Killed, now + KILLED, then)
            }
            // Nothing more can be done; what is left of it is not ours to wait for.
            Stage::Killed => return stopped(state, actions, launch, then),
        },
        _ => (stage, until, then),
    };
    Phase::Stopping { launch, stage, until, then }
}

fn stopped(state: &mut State, actions: &mut Vec<Action>, ended: LaunchId, then: Then) -> Phase {
    actions.push(Action::Clear(ended.clone()));
    actions.push(Action::End { launch: ended, resumable: true, needs_person: None });
    match then {
        Then::Start => launch(state, actions, false, false),
        Then::Wake => launch(state, actions, false, true),
        Then::Stay | Then::Rest => Phase::Stopped,
        Then::Remove => {
            actions.push(Action::Forget);
            Phase::Gone
        }
    }
}

#[cfg(test)]
#[path = "life_tests.rs"]
mod tests;
