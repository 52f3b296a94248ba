//! When an agent has had nothing to do for so long that it may rest. Pure; what the hub knows and who
//! looks at the terminal is asked when the time has come.

use std::time::{Duration, Instant};

/// Pause before asking again when something unseen kept the agent awake: long enough to cost nothing,
/// short beside what people set as `idle_suspend_after`.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// Since when an agent has had nothing to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Idle {
    since: Option<Instant>,
    not_before: Option<Instant>,
}

impl Idle {
    /// A look showed whether it has nothing to do.
    pub(crate) fn seen(&mut self, quiet: bool, now: Instant) {
        if quiet {
            self.since.get_or_insert(now);
        } else {
            *self = Idle::default();
        }
    }

    /// Something that no look shows keeps it awake.
    pub(crate) fn kept_awake(&mut self, after: Duration, now: Instant) {
        self.not_before = Some(now + after.min(ASK_AGAIN));
    }

    /// Somebody uses its terminal: its time starts again.
    pub(crate) fn in_use(&mut self, now: Instant) {
        *self = Idle { since: Some(now), not_before: None };
    }

    /// When it may rest, if it goes on having nothing to do.
    pub(crate) fn due(&self, after: Option<Duration>) -> Option<Instant> {
        let due = self.since? + after?;
        Some(self.not_before.map_or(due, |not_before| due.max(not_before)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unbroken_time_without_work_counts() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let after = Some(Duration::from_secs(100));
        let mut idle = Idle::default();
        assert_eq!(idle.due(after), None);
        idle.seen(true, at(0));
        idle.seen(true, at(50));
        assert_eq!(idle.due(after), Some(at(100)));
        assert_eq!(idle.due(None), None, "it never rests unless told to");
        idle.seen(false, at(60));
        assert_eq!(idle.due(after), None);
        idle.seen(true, at(70));
        assert_eq!(idle.due(after), Some(at(170)));
        idle.kept_awake(Duration::from_secs(100), at(170));
        assert_eq!(idle.due(after), Some(at(230)));
        idle.kept_awake(Duration::from_secs(5), at(230));
        assert_eq!(idle.due(after), Some(at(235)), "not later than a short time was meant to be");
        idle.in_use(at(235));
        assert_eq!(idle.due(after), Some(at(335)));
    }
}
