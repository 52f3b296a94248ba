//! The two routes that hand a prompt to Claude as data: the mod and the peer inbox. Both may hold it for
//! a while. The mod knows it by its id and the inbox, for a while, by its text, so giving it again to the
//! same launch is harmless.
//!
//! A prompt that runs is told by the harness before the model reads it: Claude waits for its
//! `UserPromptSubmit` hooks. So a launch that is over, or idle for a while, without that evidence and
//! without the prompt in its transcript, has never run it, and it may be handed over again.

use super::route::{Action, Giving, Job, NO_EVIDENCE, SEARCH_EVERY, SILENT, State, Verdict, View, decide};
use leo_ipc::chat::Route;
use std::time::{Duration, Instant};

/// A hook of a process that was killed may still be on its way to the hub: it bounds itself to a second.
/// What it then left behind as a file the hub reads before it believes that nothing was applied.
const LAST_HOOKS: Duration = Duration::from_secs(3);

/// A message is given to the peer inbox again only this long: later Claude no longer takes the same text
/// for the same message.
pub(super) const SAME_MESSAGE: Duration = Duration::from_secs(20);

/// A prompt that was given to a harness.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sent {
    pub(crate) job: Job,
    /// Since when its launch is no longer there.
    pub(crate) away: Option<Instant>,
    /// Since when nothing speaks for its being held: the session is idle, and no mod has it in hand.
    pub(crate) quiet: Option<Instant>,
    /// It was given a second time after a silence.
    pub(crate) again: bool,
    /// The mod does not know what became of it.
    pub(crate) unsure: bool,
}

impl Sent {
    pub(crate) fn new(job: Job) -> Sent {
        Sent { job, away: None, quiet: None, again: false, unsure: false }
    }
}

/// Decides from a look.
pub(crate) fn seen(actions: &mut Vec<Action>, mut sent: Sent, view: &View, now: Instant) -> State {
    let delivery = &sent.job.delivery;
    let here = view.live && view.launch.is_some() && view.launch == delivery.launch;
    if !here {
        let since = *sent.away.get_or_insert(now);
        if now.saturating_duration_since(since) >= LAST_HOOKS {
            return decide(actions, sent.job, Verdict::NotApplied);
        }
        return State::Sent(sent);
    }
    sent.away = None;
    let by_mod = delivery.route == Some(Route::Bridge);
    let in_hand = by_mod && view.linked && !sent.unsure;
    if in_hand || !view.idle {
        // It waits behind a turn or a dialog for as long as these take.
        sent.quiet = None;
        return State::Sent(sent);
    }
    let since = *sent.quiet.get_or_insert(now);
    let silent = now.saturating_duration_since(since);
    if silent < NO_EVIDENCE {
        if silent >= SEARCH_EVERY.saturating_mul(sent.job.searches + 1) {
            actions.push(Action::Search);
            sent.job.searches += 1;
        }
        return State::Sent(sent);
    }
    if by_mod {
        return decide(actions, sent.job, Verdict::NotApplied);
    }
    if sent.again || now.saturating_duration_since(sent.job.handed) >= SAME_MESSAGE {
        return decide(actions, sent.job, Verdict::Unproven(SILENT));
    }
    actions.push(Action::Send(Giving::Again));
    sent.job.searches = 0;
    State::Sent(Sent { again: true, quiet: None, ..sent })
}
