//! One worker's life as a pure transition function: `step(event, now, chance) -> actions`. It knows no
//! process, no clock and no chance of its own; the keeper performs the actions and feeds the events.

use crate::{
    health::{Health, JUMP, Rung},
    policy::{Blame, Death, HEALTHY, History, Moment, Verdict},
};
use leo_ipc::{ExitCode, Generation, control::WorkerState};
use std::{fmt, time::Duration};

/// Time between SIGABRT and SIGKILL, for a backtrace or a core.
const ABORT_GRACE: Duration = Duration::from_secs(2);
/// How much longer than its drain a worker may take before it gets SIGKILL.
const DRAIN_SLACK: Duration = Duration::from_millis(500);
/// SIGKILL is sent again this often while the process is still there (it may be stuck in the kernel).
const KILL_AGAIN: Duration = Duration::from_secs(5);
/// A worker may extend its start to this long in all; beyond it, it hangs.
const LONGEST_START: Duration = Duration::from_secs(30 * 60);

/// How long a worker kind may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// From spawn to ready, unless it asks for more.
    pub(crate) start: Duration,
    /// From the request to drain to its end.
    pub(crate) drain: Duration,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Code(code) => write!(f, "exited with code {code}"),
            Ended::Signal(signal) => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(name) => write!(f, "was killed by {name}"),
                Err(_) => write!(f, "was killed by signal {signal}"),
            },
        }
    }
}

/// What happens to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// It should run.
    Want,
    /// It should not run any more.
    Unwant,
    /// A person replaces its process.
    Restart,
    /// The configuration changed: what failed deserves a new chance.
    ConfigChanged,
    /// Its process could not be started.
    SpawnFailed(String),
    /// It wrote its readiness byte.
    Ready,
    /// It asks for more time to start.
    ExtendStart(Duration),
    /// Its working loop came round.
    Heartbeat,
    /// It sent what no worker sends.
    Misbehaved(String),
    /// It says why it is about to exit.
    Fatal(String),
    /// Its process is gone.
    Exited(Ended),
    /// The time of [`Machine::next_wake`] has come.
    Tick,
    /// Do not wait for a drain any longer.
    KillNow,
}

/// What the keeper has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start a process of this generation.
    Spawn(Generation),
    /// Ask it to finish within this time.
    Drain(Duration),
    /// SIGTERM to the group.
    Terminate,
    /// SIGABRT to the process, for a backtrace.
    Abort,
    /// SIGKILL to the group.
    Kill,
    /// Answer for it on its listeners, or stop answering.
    StandIn(bool),
    /// Its heartbeat is late; log it.
    SayLate,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Stopped,
    Starting {
        since: Moment,
        deadline: Moment,
    },
    Running {
        since: Moment,
        health: Health,
    },
    /// Asked to end.
    Stopping {
        kill_at: Moment,
    },
    /// Sent a signal because of the reason; the death that follows is its own fault.
    Killing {
        ready_for: Option<Duration>,
        kill_at: Moment,
    },
    Backoff {
        until: Moment,
    },
    Failed,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    limits: Limits,
    phase: Phase,
    wanted: bool,
    generation: Generation,
    starts: u64,
    history: History,
    /// Why it is in backoff, degraded or failed, or why it is being killed.
    reason: Option<String>,
    /// What it said before it exited.
    last_words: Option<String>,
}

impl Machine {
    /// A worker that has not been started.
    pub(crate) fn new(limits: Limits) -> Machine {
        Machine {
            limits,
            phase: Phase::Stopped,
            wanted: false,
            generation: Generation(0),
            starts: 0,
            history: History::default(),
            reason: None,
            last_words: None,
        }
    }

    /// The state that people see.
    pub(crate) fn state(&self) -> WorkerState {
        match &self.phase {
            Phase::Stopped => WorkerState::Stopped,
            Phase::Starting { .. } | Phase::Backoff { .. } if self.history.degraded() => {
                WorkerState::Degraded
            }
            Phase::Starting { .. } => WorkerState::Starting,
            Phase::Running { .. } => WorkerState::Running,
            Phase::Stopping { .. } | Phase::Killing { .. } => WorkerState::Stopping,
            Phase::Backoff { .. } => WorkerState::Backoff,
            Phase::Failed => WorkerState::Failed,
        }
    }

    /// Starts after the first.
    pub(crate) fn restarts(&self) -> u64 {
        self.starts.saturating_sub(1)
    }

    /// Generation of the newest process.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// Why it is not simply running.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Whether there is nothing left to wait for: it is down and not wanted.
    pub(crate) fn is_over(&self) -> bool {
        !self.wanted && self.phase == Phase::Stopped
    }

    /// When [`Event::Tick`] is due.
    pub(crate) fn next_wake(&self) -> Option<Moment> {
        match &self.phase {
            Phase::Stopped | Phase::Failed => None,
            Phase::Starting { deadline, .. } => Some(*deadline),
            Phase::Running { since, health } => {
                let look = health.next_look();
                let forgiven = self.history.is_clean() && self.reason.is_none();
                Some(if forgiven { look } else { look.min(*since + HEALTHY) })
            }
            Phase::Stopping { kill_at } | Phase::Killing { kill_at, .. } => Some(*kill_at),
            Phase::Backoff { until } => Some(*until),
        }
    }

    /// Takes one event. `chance` in 0..=1 is drawn by the caller and only used for a pause's jitter.
    pub(crate) fn step(mut self, event: Event, now: Moment, chance: f64) -> (Machine, Vec<Action>) {
        let actions = self.apply(event, now, chance);
        (self, actions)
    }

    fn apply(&mut self, event: Event, now: Moment, chance: f64) -> Vec<Action> {
        match event {
            Event::Want => self.want(now),
            Event::Unwant => self.unwant(now),
            Event::Restart => self.restart(now),
            Event::ConfigChanged => match self.phase {
                Phase::Failed | Phase::Backoff { .. } if self.wanted => self.fresh_start(now),
                _ => Vec::new(),
            },
            Event::SpawnFailed(why) => match self.phase {
                Phase::Starting { .. } => {
                    self.died(&why, Death { blame: Blame::Worker, ready_for: None }, now, chance)
                }
                _ => Vec::new(),
            },
            Event::Ready => {
                if let Phase::Starting { .. } = self.phase {
                    self.phase = Phase::Running { since: now, health: Health::new(now) };
                    self.history.became_ready();
                    if !self.history.degraded() {
                        self.reason = None;
                    }
                }
                Vec::new()
            }
            Event::ExtendStart(by) => {
                if let Phase::Starting { since, deadline } = &mut self.phase {
                    *deadline = (*deadline).max(now.saturating_add(by)).min(*since + LONGEST_START);
                }
                Vec::new()
            }
            Event::Heartbeat => {
                if let Phase::Running { health, .. } = &mut self.phase {
                    health.beat(now);
                }
                Vec::new()
            }
            Event::Misbehaved(what) => self.condemn(what, Action::Kill, now),
            Event::Fatal(reason) => {
                self.last_words = Some(reason);
                Vec::new()
            }
            Event::Exited(how) => self.exited(how, now, chance),
            Event::Tick => self.tick(now),
            Event::KillNow => match &mut self.phase {
                Phase::Stopping { kill_at } | Phase::Killing { kill_at, .. } => {
                    *kill_at = now + KILL_AGAIN;
                    vec![Action::Kill]
                }
                _ => Vec::new(),
            },
        }
    }

    fn want(&mut self, now: Moment) -> Vec<Action> {
        self.wanted = true;
        match self.phase {
            Phase::Stopped => self.spawn(now),
            // A stopping one starts again when its process is gone.
            _ => Vec::new(),
        }
    }

    fn unwant(&mut self, now: Moment) -> Vec<Action> {
        self.wanted = false;
        match self.phase {
            Phase::Running { .. } => self.drain(now),
            // It may not listen to us yet; start is recovery, so the signal does no harm.
            Phase::Starting { .. } => {
                self.phase = Phase::Stopping { kill_at: now + self.limits.drain + DRAIN_SLACK };
                vec![Action::Terminate]
            }
            Phase::Backoff { .. } | Phase::Failed => {
                self.phase = Phase::Stopped;
                vec![Action::StandIn(false)]
            }
            Phase::Stopped | Phase::Stopping { .. } | Phase::Killing { .. } => Vec::new(),
        }
    }

    fn restart(&mut self, now: Moment) -> Vec<Action> {
        match self.phase {
            _ if !self.wanted => Vec::new(),
            Phase::Running { .. } => {
                self.history.forgive();
                self.drain(now)
            }
            // It is on its way up or down already; a fresh process is what was asked for.
            Phase::Starting { .. } | Phase::Stopping { .. } | Phase::Killing { .. } => {
                self.history.forgive();
                Vec::new()
            }
            Phase::Backoff { .. } | Phase::Failed | Phase::Stopped => self.fresh_start(now),
        }
    }

    fn fresh_start(&mut self, now: Moment) -> Vec<Action> {
        self.history.forgive();
        self.reason = None;
        self.spawn(now)
    }

    fn spawn(&mut self, now: Moment) -> Vec<Action> {
        let stood_in = matches!(self.phase, Phase::Failed | Phase::Backoff { .. });
        self.generation = Generation(self.generation.0 + 1);
        self.starts += 1;
        self.last_words = None;
        self.phase = Phase::Starting { since: now, deadline: now + self.limits.start };
        let mut actions = Vec::with_capacity(2);
        if stood_in {
            actions.push(Action::StandIn(false));
        }
        actions.push(Action::Spawn(self.generation));
        actions
    }

    fn drain(&mut self, now: Moment) -> Vec<Action> {
        self.phase = Phase::Stopping { kill_at: now + self.limits.drain + DRAIN_SLACK };
        vec![Action::Drain(self.limits.drain)]
    }

    /// Ends a process that has done something wrong.
    fn condemn(&mut self, reason: String, by: Action, now: Moment) -> Vec<Action> {
        let ready_for = match &self.phase {
            Phase::Starting { .. } => None,
            Phase::Running { since, .. } => Some(now.saturating_sub(*since)),
            // It is on its way out; its misdeeds change nothing.
            _ => return Vec::new(),
        };
        self.reason = Some(reason);
        let grace = if by == Action::Kill { KILL_AGAIN } else { ABORT_GRACE };
        self.phase = Phase::Killing { ready_for, kill_at: now + grace };
        vec![by]
    }

    fn exited(&mut self, how: Ended, now: Moment, chance: f64) -> Vec<Action> {
        let ready_for = match &self.phase {
            Phase::Starting { .. } => None,
            Phase::Running { since, .. } => Some(now.saturating_sub(*since)),
            Phase::Stopping { .. } => {
                self.phase = Phase::Stopped;
                self.reason = None;
                return if self.wanted { self.spawn(now) } else { Vec::new() };
            }
            Phase::Killing { ready_for, .. } => {
                let death = Death { blame: Blame::Worker, ready_for: *ready_for };
                let why = self.reason.take().unwrap_or_else(|| how.to_string());
                return self.died(&why, death, now, chance);
            }
            Phase::Stopped | Phase::Backoff { .. } | Phase::Failed => return Vec::new(),
        };
        let blame = blame(how, ready_for);
        let why = match self.last_words.take() {
            Some(words) => format!("it {how}: {words}"),
            None => format!("it {how}"),
        };
        self.died(&why, Death { blame, ready_for }, now, chance)
    }

    fn died(&mut self, why: &str, death: Death, now: Moment, chance: f64) -> Vec<Action> {
        if !self.wanted {
            self.phase = Phase::Stopped;
            return Vec::new();
        }
        match self.history.judge(death, now, chance) {
            Verdict::Restart(Duration::ZERO) => {
                self.reason = Some(why.to_owned());
                self.spawn(now)
            }
            Verdict::Restart(pause) => {
                self.reason = Some(why.to_owned());
                self.phase = Phase::Backoff { until: now + pause };
                if pause >= PATIENCE { vec![Action::StandIn(true)] } else { Vec::new() }
            }
            Verdict::GiveUp(because) => {
                self.reason = Some(format!("{why} ({because})"));
                self.phase = Phase::Failed;
                vec![Action::StandIn(true)]
            }
        }
    }

    fn tick(&mut self, now: Moment) -> Vec<Action> {
        let Some(due) = self.next_wake() else { return Vec::new() };
        if now < due {
            return Vec::new();
        }
        // We did not run for a while, so nobody's silence in that time means anything.
        let jumped = now.saturating_sub(due) > JUMP;
        match &mut self.phase {
            Phase::Starting { deadline, .. } if jumped => {
                *deadline = now + self.limits.start;
                Vec::new()
            }
            Phase::Starting { since, .. } => {
                let took = now.saturating_sub(*since).as_secs();
                self.condemn(format!("it was not ready within {took} s"), Action::Abort, now)
            }
            Phase::Running { health, .. } if jumped => {
                health.beat(now);
                Vec::new()
            }
            Phase::Running { since, health } => {
                if now.saturating_sub(*since) >= HEALTHY {
                    self.history.forgive();
                    self.reason = None;
                }
                match health.look(now) {
                    Rung::Fine => Vec::new(),
                    Rung::Late => vec![Action::SayLate],
                    Rung::Missed => {
                        let silence = crate::health::MISSED.as_secs();
                        self.condemn(
                            format!("its working loop was silent for {silence} s"),
                            Action::Abort,
                            now,
                        )
                    }
                }
            }
            Phase::Stopping { kill_at } | Phase::Killing { kill_at, .. } => {
                *kill_at = now + KILL_AGAIN;
                vec![Action::Kill]
            }
            Phase::Backoff { .. } => self.spawn(now),
            Phase::Stopped | Phase::Failed => Vec::new(),
        }
    }
}

/// Whose fault an end looks like that nobody here asked for.
fn blame(how: Ended, ready_for: Option<Duration>) -> Blame {
    use nix::sys::signal::Signal::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
    match how {
        Ended::Code(code) if ExitCode::is_permanent(code) => Blame::Permanent,
        // An orderly end after some service: somebody sent it SIGTERM, and it drained.
        Ended::Code(0) if ready_for.is_some_and(|t| t >= SERVED) => Blame::Outside,
        // No fault of a program raises these.
        Ended::Signal(n) if [SIGKILL, SIGTERM, SIGINT, SIGHUP].iter().any(|s| *s as i32 == n) => {
            Blame::Outside
        }
        Ended::Code(_) | Ended::Signal(_) => Blame::Worker,
    }
}

/// A worker that ends in order sooner than this after it was ready has a fault of its own.
const SERVED: Duration = Duration::from_secs(1);

/// A pause this long is longer than most callers wait, so somebody answers for the worker meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
