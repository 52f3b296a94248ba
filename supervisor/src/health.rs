//! The heartbeat ladder of a ready worker, as a pure value: late is logged, missed ends the worker.
//! It must not signal anything itself.
//!
//! All workers are asked at one moment. A worker that kept the time itself would wake several times a
//! beat for its timer alone, and each beat would wake the supervisor.
//!
//! A beat is only as old as the time this process has been running: when the supervisor itself did not
//! run for a while (the machine was suspended, the process was stopped), the beats that it did not
//! read are no fault of the worker, and the ladder starts again from now.

use crate::policy::Moment;
use std::time::Duration;
use tokio::{sync::watch, time::MissedTickBehavior};

/// Seconds between beats.
pub(crate) const EVERY_S: u32 = 5;
/// A beat older than this is worth a log line: one was missed.
pub(crate) const LATE: Duration = Duration::from_secs(11);
/// A beat older than this means that the working loop hangs: three were missed.
pub(crate) const MISSED: Duration = Duration::from_secs(20);
/// A timer that comes this late means that the supervisor did not run.
pub(crate) const JUMP: Duration = Duration::from_secs(2);

/// Asks for a heartbeat from time to time, for ever.
pub(crate) async fn ask(beat: watch::Sender<u64>) {
    let mut every = tokio::time::interval(Duration::from_secs(u64::from(EVERY_S)));
    // After a suspended machine's sleep one beat is enough.
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        beat.send_modify(|turn| *turn += 1);
    }
}

/// What a look at the ladder says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rung {
    /// In time.
    Fine,
    /// Just became late; said once per silence.
    Late,
    /// Missed.
    Missed,
}

/// The ladder of one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Health {
    last: Moment,
    said_late: bool,
}

impl Health {
    /// A worker that became ready now.
    pub(crate) fn new(now: Moment) -> Health {
        Health { last: now, said_late: false }
    }

    /// A beat arrived, or the ladder starts again.
    pub(crate) fn beat(&mut self, now: Moment) {
        *self = Health::new(now);
    }

    /// When to look next.
    pub(crate) fn next_look(&self) -> Moment {
        self.last + if self.said_late { MISSED } else { LATE }
    }

    /// Looks.
    pub(crate) fn look(&mut self, now: Moment) -> Rung {
        let age = now.saturating_sub(self.last);
        if age >= MISSED {
            Rung::Missed
        } else if age >= LATE && !self.said_late {
            self.said_late = true;
            Rung::Late
        } else {
            Rung::Fine
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_is_said_once_and_missed_follows() {
        let at = |s| Duration::from_secs(s);
        let mut health = Health::new(at(100));
        assert_eq!(health.look(at(105)), Rung::Fine);
        assert_eq!(health.next_look(), at(111));
        assert_eq!(health.look(at(111)), Rung::Late);
        assert_eq!(health.look(at(112)), Rung::Fine);
        assert_eq!(health.next_look(), at(120));
        assert_eq!(health.look(at(120)), Rung::Missed);
        health.beat(at(121));
        assert_eq!(health.look(at(130)), Rung::Fine);
    }
}
