//! When a dead worker is started again, and when it is given up: the numbers of DESIGN.md
//! ("Supervision") as one pure function over the worker's history. It must not read a clock, draw a
//! random number or know what a process is.
//!
//! What counts as evidence against a worker is decided here, too. A worker that ends by itself (an
//! exit code, a signal that its own fault raised, or our watchdog's) has shown that it is broken, and
//! enough of that in a window gives it up. A kill from outside (the kernel's memory killer, a person, a
//! benchmark; the machine tells them by the signal) says nothing about the worker once it had become
//! ready, so it restarts at once and is never counted: two hundred such kills in a row leave it running. Two limits keep that from becoming
//! a hot loop: a worker killed before it became ready waits like any other, and counts from the second
//! time in a row (once is chance, twice is a worker that cannot start); and after [`OUTSIDE_BUDGET`]
//! kills within [`FAIL_WINDOW`] even ready ones wait.

use std::{collections::VecDeque, time::Duration};

/// Time since the supervisor started, by a clock that stands still while the machine sleeps.
pub(crate) type Moment = Duration;

/// A worker that was ready this long before it died restarts at once: whatever killed it is rare.
pub(crate) const PROVEN: Duration = Duration::from_secs(10);
/// A worker that has been ready this long has its past forgiven.
pub(crate) const HEALTHY: Duration = Duration::from_secs(60);
/// First pause of the backoff, doubled each time.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause of the backoff.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Largest share of a pause that chance adds or takes, so that workers that died together do not
/// start together.
pub(crate) const JITTER: f64 = 0.25;
/// More deaths than this within [`DEGRADED_WINDOW`] make a worker degraded.
pub(crate) const DEGRADED_DEATHS: usize = 5;
/// See [`DEGRADED_DEATHS`].
pub(crate) const DEGRADED_WINDOW: Duration = Duration::from_secs(30);
/// Shortest pause of a degraded worker: it had its quick chances.
pub(crate) const DEGRADED_PAUSE: Duration = Duration::from_secs(1);
/// More deaths than this within [`FAIL_WINDOW`] make a worker failed.
pub(crate) const FAIL_DEATHS: usize = 10;
/// See [`FAIL_DEATHS`].
pub(crate) const FAIL_WINDOW: Duration = Duration::from_secs(300);
/// Kills from outside within [`FAIL_WINDOW`] that restart a ready worker at once: above any test or
/// benchmark of ours, far below what would keep a machine busy.
pub(crate) const OUTSIDE_BUDGET: usize = 300;

/// Why a worker's process is gone, as far as the policy cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// It ended with an exit code that says that a restart cannot cure it.
    Permanent,
    /// It ended by itself, could not be started, or our watchdog ended it.
    Worker,
    /// Somebody else ended it.
    Outside,
}

/// One death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Death {
    /// Whose fault it looks like.
    pub(crate) blame: Blame,
    /// How long it had been ready; `None` when it never was.
    pub(crate) ready_for: Option<Duration>,
}

/// What to do about a death.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Start it again after a pause, which may be zero.
    Restart(Duration),
    /// Leave it down until the configuration changes or a person asks.
    GiveUp(String),
}

/// What is remembered of a worker's deaths. Bounded by [`FAIL_DEATHS`] and [`OUTSIDE_BUDGET`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// Deaths that count against the worker.
    counted: VecDeque<Moment>,
    /// Kills from outside.
    outside: VecDeque<Moment>,
    /// Pauses since the last forgiveness: the exponent of the backoff.
    pauses: u32,
    /// Generations in a row that were killed from outside before they became ready.
    unready_kills: u32,
    degraded: bool,
}

impl History {
    /// Whether the worker dies often.
    pub(crate) fn degraded(&self) -> bool {
        self.degraded
    }

    /// Whether anything is held against the worker.
    pub(crate) fn is_clean(&self) -> bool {
        *self == History::default()
    }

    /// Forgets everything: it has been healthy, or a person or a new configuration gives it a fresh
    /// chance.
    pub(crate) fn forgive(&mut self) {
        *self = History::default();
    }

    /// Records that the worker became ready.
    pub(crate) fn became_ready(&mut self) {
        self.unready_kills = 0;
    }

    /// Records a death and decides. `chance` in 0..=1 is the jitter, drawn by the caller.
    pub(crate) fn judge(&mut self, death: Death, now: Moment, chance: f64) -> Verdict {
        if death.blame == Blame::Permanent {
            return Verdict::GiveUp("it says that a restart cannot help".to_owned());
        }
        if death.ready_for.is_some_and(|t| t >= HEALTHY) {
            self.forgive();
        }
        let outside = death.blame == Blame::Outside;
        if outside {
            remember(&mut self.outside, now, OUTSIDE_BUDGET + 1);
            if death.ready_for.is_none() {
                self.unready_kills = self.unready_kills.saturating_add(1);
            }
        }
        let counts = !outside || self.unready_kills >= 2;
        let first = within(&self.counted, now, DEGRADED_WINDOW) == 0;
        if counts {
            remember(&mut self.counted, now, FAIL_DEATHS + 1);
        }
        if within(&self.counted, now, FAIL_WINDOW) > FAIL_DEATHS {
            return Verdict::GiveUp(format!(
                "it died more than {FAIL_DEATHS} times within {} minutes",
                FAIL_WINDOW.as_secs() / 60
            ));
        }
        self.degraded |= within(&self.counted, now, DEGRADED_WINDOW) > DEGRADED_DEATHS;
        let at_once = match death.ready_for {
            None => false,
            Some(_) if outside => within(&self.outside, now, FAIL_WINDOW) <= OUTSIDE_BUDGET,
            Some(ready) => ready >= PROVEN || first,
        };
        Verdict::Restart(if at_once { Duration::ZERO } else { self.next_pause(chance) })
    }

    fn next_pause(&mut self, chance: f64) -> Duration {
        let doubled = FIRST_PAUSE.saturating_mul(1u32.checked_shl(self.pauses).unwrap_or(u32::MAX));
        self.pauses = self.pauses.saturating_add(1);
        let floor = if self.degraded { DEGRADED_PAUSE } else { FIRST_PAUSE };
        let chance = if chance.is_finite() { chance.clamp(0.0, 1.0) } else { 0.5 };
        let jitter = 1.0 + JITTER * (2.0 * chance - 1.0);
        doubled.clamp(floor, LONGEST_PAUSE).mul_f64(jitter).min(LONGEST_PAUSE)
    }
}

fn remember(deaths: &mut VecDeque<Moment>, now: Moment, most: usize) {
    deaths.push_back(now);
    while deaths.len() > most {
        deaths.pop_front();
    }
}

fn within(deaths: &VecDeque<Moment>, now: Moment, window: Duration) -> usize {
    deaths.iter().filter(|&&at| now.saturating_sub(at) <= window).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MID: f64 = 0.5;

    fn crash(ready_ms: Option<u64>) -> Death {
        Death { blame: Blame::Worker, ready_for: ready_ms.map(Duration::from_millis) }
    }

    fn kill(ready_ms: Option<u64>) -> Death {
        Death { blame: Blame::Outside, ready_for: ready_ms.map(Duration::from_millis) }
    }

    fn ms(verdict: &Verdict) -> Option<u64> {
        match verdict {
            Verdict::Restart(pause) => Some(u64::try_from(pause.as_millis()).unwrap()),
            Verdict::GiveUp(_) => None,
        }
    }

    #[test]
    fn single_deaths() {
        for (death, pause) in [
            (crash(Some(10_000)), Some(0)),
            (crash(Some(1)), Some(0)),
            (crash(None), Some(100)),
            (kill(Some(1)), Some(0)),
            (kill(None), Some(100)),
            (Death { blame: Blame::Permanent, ready_for: None }, None),
            (Death { blame: Blame::Permanent, ready_for: Some(Duration::from_secs(9999)) }, None),
        ] {
            assert_eq!(ms(&History::default().judge(death, Moment::ZERO, MID)), pause, "{death:?}");
        }
    }

    /// A crash loop doubles its pauses, becomes degraded at the sixth death and is given up at the
    /// eleventh.
    #[test]
    fn crash_loop_before_ready() {
        let mut history = History::default();
        let mut now = Moment::ZERO;
        let mut seen = Vec::new();
        loop {
            let verdict = history.judge(crash(None), now, MID);
            let Some(pause) = ms(&verdict) else { break };
            seen.push((pause, history.degraded()));
            now += Duration::from_millis(pause + 5);
        }
        let expected = [
            (100, false),
            (200, false),
            (400, false),
            (800, false),
            (1600, false),
            (3200, true),
            (6400, true),
            (12_800, true),
            (25_600, true),
            (30_000, true),
        ];
        assert_eq!(seen, expected);
    }

    /// The benchmark and the soak test kill a ready worker over and over; it must always come back at
    /// once.
    #[test]
    fn two_hundred_kills_from_outside_change_nothing() {
        let mut history = History::default();
        for i in 0..200u64 {
            let verdict = history.judge(kill(Some(50)), Duration::from_millis(i * 100), MID);
            assert_eq!(ms(&verdict), Some(0), "kill {i}");
        }
        assert!(!history.degraded());
    }

    /// Now and then the kill hits a worker that was still starting: that costs a pause, not the worker.
    #[test]
    fn kills_that_now_and_then_hit_a_start_do_not_give_up() {
        let mut history = History::default();
        for i in 0..200u64 {
            let now = Duration::from_millis(i * 100);
            let unready = i % 3 == 0;
            if !unready {
                history.became_ready();
            }
            let verdict = history.judge(kill((!unready).then_some(20)), now, MID);
            assert!(matches!(verdict, Verdict::Restart(_)), "kill {i}");
        }
        assert!(!history.degraded());
    }

    #[test]
    fn a_worker_that_the_memory_killer_never_lets_start_is_given_up() {
        let mut history = History::default();
        let mut now = Moment::ZERO;
        let mut starts = 0;
        while let Verdict::Restart(pause) = history.judge(kill(None), now, MID) {
            now += pause + Duration::from_millis(200);
            starts += 1;
        }
        assert_eq!(starts, FAIL_DEATHS + 1, "the first one is chance");
    }

    #[test]
    fn endless_kills_from_outside_are_slowed_down_but_never_given_up() {
        let mut history = History::default();
        let mut slowed = 0;
        for i in 0..400u64 {
            match history.judge(kill(Some(10)), Duration::from_millis(i * 50), MID) {
                Verdict::Restart(pause) => slowed += usize::from(!pause.is_zero()),
                Verdict::GiveUp(why) => panic!("{why}"),
            }
        }
        assert_eq!(slowed, 400 - OUTSIDE_BUDGET);
    }

    #[test]
    fn a_healthy_minute_forgives() {
        let mut history = History::default();
        for i in 0..8u64 {
            history.judge(crash(None), Duration::from_secs(i), MID);
        }
        assert!(history.degraded());
        assert_eq!(ms(&history.judge(crash(Some(60_000)), Duration::from_secs(70), MID)), Some(0));
        assert!(!history.degraded());
        assert_eq!(ms(&history.judge(crash(None), Duration::from_secs(71), MID)), Some(100));
    }

    fn deaths() -> impl Strategy<Value = Vec<(u64, Death, f64)>> {
        let blame = prop_oneof![Just(Blame::Worker), Just(Blame::Outside)];
        let ready = proptest::option::of((0u64..100_000).prop_map(Duration::from_millis));
        let death = (blame, ready).prop_map(|(blame, ready_for)| Death { blame, ready_for });
        proptest::collection::vec((0u64..40_000, death, 0.0f64..=1.0), 0..60)
    }

    proptest! {
        #[test]
        fn pauses_and_memory_are_bounded(deaths in deaths()) {
            let mut history = History::default();
            let mut now = Moment::ZERO;
            for (gap, death, chance) in deaths {
                now += Duration::from_millis(gap);
                let before = history.counted.len();
                match history.judge(death, now, chance) {
                    Verdict::Restart(pause) => {
                        prop_assert!(pause <= LONGEST_PAUSE);
                        prop_assert!(pause.is_zero() || pause >= FIRST_PAUSE.mul_f64(1.0 - JITTER));
                        // Never at once when it has not become ready.
                        prop_assert!(death.ready_for.is_some() || !pause.is_zero());
                    }
                    // Only a pile of counted deaths gives a worker up.
                    Verdict::GiveUp(_) => prop_assert!(before >= FAIL_DEATHS),
                }
                prop_assert!(history.counted.len() <= FAIL_DEATHS + 1);
                prop_assert!(history.outside.len() <= OUTSIDE_BUDGET + 1);
            }
        }

        #[test]
        fn kills_of_ready_workers_never_count(gaps in proptest::collection::vec(0u64..500, 0..250)) {
            let mut history = History::default();
            let mut now = Moment::ZERO;
            for gap in gaps {
                now += Duration::from_millis(gap);
                history.became_ready();
                prop_assert_eq!(history.judge(kill(Some(gap)), now, 0.5), Verdict::Restart(Duration::ZERO));
            }
            prop_assert!(!history.degraded());
        }
    }
}
