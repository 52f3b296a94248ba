//! When to look at the reminders: a pure function of the next due time and two clocks. It decides no
//! reminder; the hub does, by its own clock.
//!
//! The wall clock alone says what is due. A long sleep until then would be wrong on every laptop: a
//! monotonic clock stands still while the machine sleeps, and a wall clock is set forward and back. So
//! while a reminder is open the pauses are short, the wall clock is read after each, and a difference
//! between the two clocks makes it look at once.

use leo_ipc::Time;
use std::time::Duration;

/// Longest pause while a reminder is open: how late a reminder can be after the machine woke up, and how
/// soon a clock that was set is noticed. One wake-up in five seconds is nothing to a battery.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Shortest pause, so that two clocks that disagree by a little cannot spin.
pub(crate) const MIN_PAUSE: Duration = Duration::from_millis(20);

/// Pause after the hub could not be asked.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Milliseconds by which the wall clock must have left the monotonic one to have jumped: far above what
/// time services correct by slewing within one pause.
const JUMP_MS: i64 = 2_000;

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    /// The clock on the wall.
    pub(crate) wall: Time,
    /// Since the worker started; stands still while the machine sleeps, or not: both are fine.
    pub(crate) mono: Duration,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The hub said when the next reminder is due, if there is one.
    Next(Option<Time>),
    /// A pause is over.
    Tick,
    /// The hub could not be asked.
    Failed,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Have the hub post what is due.
    Fire,
    /// Wait so long, or until the hub says something; for good when it is `None`.
    Pause(Option<Duration>),
}

/// What is remembered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock {
    next: Option<Time>,
    seen: Option<Now>,
}

impl Clock {
    /// What an event leads to; and by how many milliseconds the wall clock jumped since the last one,
    /// if it did.
    pub(crate) fn step(&mut self, event: Event, now: Now) -> (Action, Option<i64>) {
        let jumped = self.seen.replace(now).and_then(|before| jump(before, now));
        if let Event::Next(next) = event {
            self.next = next;
        }
        let Some(next) = self.next else { return (Action::Pause(None), jumped) };
        let left = next.millis().saturating_sub(now.wall.millis());
        let action = match event {
            Event::Failed => Action::Pause(Some(RETRY_PAUSE)),
            _ if left <= 0 || jumped.is_some() => Action::Fire,
            _ => {
                let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
                Action::Pause(Some(left.clamp(MIN_PAUSE, MAX_PAUSE)))
            }
        };
        (action, jumped)
    }
}

/// By how much the wall clock moved more, or less, than the monotonic one.
fn jump(before: Now, now: Now) -> Option<i64> {
    let wall = now.wall.millis().saturating_sub(before.wall.millis());
    let mono = i64::try_from(now.mono.saturating_sub(before.mono).as_millis()).unwrap_or(i64::MAX);
    let difference = wall.saturating_sub(mono);
    (difference.saturating_abs() > JUMP_MS).then_some(difference)
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
