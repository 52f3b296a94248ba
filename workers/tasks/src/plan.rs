//! What to do about tasks now: which runs to make, to start, to give up. Pure: what the hub has said, what
//! this process holds and the time go in, actions come out, and the same input again gives the same
//! actions, so that whatever was lost with a process is decided again.

use crate::schedule::Schedule;
use leo_ipc::{
    TaskName, Time,
    task::{Followup, RunState, Schedules, TaskRun, Trigger},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Most runs at once: each is a coding agent with hundreds of megabytes. More wait their turn.
pub(crate) const MAX_RUNS: usize = 4;

/// Longest sleep: a clock that jumps, or a machine that slept, is noticed within this time. Timers do
/// not count while a machine sleeps.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Shortest sleep, so that a due time in the past cannot spin.
const MIN_PAUSE: Duration = Duration::from_millis(50);

/// A run that a person made and has not begun is given this long, since its holder is just starting.
const MANUAL_START_MS: i64 = 60_000;

/// A task as this process follows it.
#[derive(Debug, Clone)]
pub(crate) struct Tracked {
    /// When it is due; `None` for one that only a person runs.
    pub(crate) schedule: Option<Schedule>,
    /// Whether the configuration follows it; a person's word may differ, which the hub knows.
    pub(crate) enabled: bool,
    /// How late it may run.
    pub(crate) catch_up_ms: i64,
    /// How long a run of a persistent task may take.
    pub(crate) timeout_ms: i64,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make a run of what is due, or record that it does not run.
    Claim {
        /// The task.
        task: TaskName,
        /// When it was due.
        due: Time,
        /// Why it does not run.
        skipped: Option<String>,
    },
    /// Start a run that was made.
    Start(TaskRun),
    /// Whoever held this run is gone, if its task's lock is free.
    CheckHolder(TaskRun),
    /// A run is over without having been started or finished.
    Give {
        /// The run.
        run: TaskRun,
        /// How it ends.
        state: RunState,
        /// Why.
        why: String,
    },
}

/// What a schedule says at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing yet.
    Nothing,
    /// It was due then, and should run.
    Run(Time),
    /// It was due then, and it is too late.
    TooLate(Time),
}

/// What is due. Of several times that passed unseen only the last counts.
pub(crate) fn due(schedule: &Schedule, cursor: Time, now: Time, catch_up_ms: i64) -> Due {
    match schedule.last_until(now).filter(|last| *last > cursor) {
        None => Due::Nothing,
        // Whoever allows no lateness still wants the run that is due at this moment.
        Some(last) if now.millis() - last.millis() <= catch_up_ms.max(PROMPT_MS) => Due::Run(last),
        Some(last) => Due::TooLate(last),
    }
}

/// A run that starts this late is on time: the sleep before it and a busy machine count.
const PROMPT_MS: i64 = 60_000;

/// Decides. `held` are the runs that this process has started.
pub(crate) fn decide(
    tasks: &BTreeMap<TaskName, Tracked>,
    seen: &Schedules,
    held: &BTreeSet<String>,
    now: Time,
) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut starting = held.len();
    for run in seen.open.iter().filter(|run| !held.contains(&run.id)) {
        let tracked = tasks.get(&run.task);
        match (run.state, run.trigger) {
            (RunState::Queued, Trigger::Schedule) => match waiting(run, tracked, now) {
                Some((state, why)) => actions.push(Action::Give { run: run.clone(), state, why }),
                None if starting < MAX_RUNS => {
                    starting += 1;
                    actions.push(Action::Start(run.clone()));
                }
                None => {}
            },
            (RunState::Running, _) if run.message_id.is_some() => {
                let since = run.started_at.map_or(0, |at| now.millis() - at.millis());
                if let Some(most) = tracked.map(|t| t.timeout_ms).filter(|most| since > *most) {
                    let why = format!("its turn had not ended after {}", words(most));
                    actions.push(Action::Give { run: run.clone(), state: RunState::Failed, why });
                }
            }
            (RunState::Running, _) => actions.push(Action::CheckHolder(run.clone())),
            (RunState::Queued, _)
                if made_ms(run).is_none_or(|made| now.millis() - made > MANUAL_START_MS) =>
            {
                actions.push(Action::CheckHolder(run.clone()));
            }
            _ => {}
        }
    }
    for Followup { name, cursor, enabled } in &seen.tasks {
        let Some((tracked, schedule)) = tasks.get(name).and_then(|t| Some((t, t.schedule.as_ref()?))) else {
            continue;
        };
        if !enabled {
            continue;
        }
        let claim = |due, skipped| Action::Claim { task: name.clone(), due, skipped };
        match due(schedule, *cursor, now, tracked.catch_up_ms) {
            Due::Nothing => {}
            Due::TooLate(at) => {
                let late = words(now.millis() - at.millis());
                actions.push(claim(
                    at,
                    Some(format!("Leo could not run it when it was due, and noticed {late} later")),
                ));
            }
            Due::Run(at) if seen.open.iter().any(|run| run.task == *name) => {
                actions.push(claim(at, Some("the run before it had not ended".to_owned())));
            }
            Due::Run(at) => actions.push(claim(at, None)),
        }
    }
    actions
}

/// Why a run that waits to be started should not be any more.
fn waiting(run: &TaskRun, tracked: Option<&Tracked>, now: Time) -> Option<(RunState, String)> {
    let Some(tracked) = tracked else {
        return Some((RunState::Skipped, "its task is no longer in the configuration".to_owned()));
    };
    let late = run.due_at.map_or(0, |due| now.millis() - due.millis());
    // Runs that wait for others to end are not late by anybody's absence; a day is enough for them.
    let most = tracked.catch_up_ms.max(PROMPT_MS).max(24 * 3_600_000);
    (late > most).then(|| (RunState::Skipped, format!("it could not be started for {}", words(late))))
}

/// When a run was made, by its id.
fn made_ms(run: &TaskRun) -> Option<i64> {
    let hex = run.id.get(..12)?;
    i64::from_str_radix(hex, 16).ok()
}

/// When to decide again, if nothing else happens.
pub(crate) fn pause(tasks: &BTreeMap<TaskName, Tracked>, seen: &Schedules, now: Time) -> Duration {
    let next = seen.tasks.iter().filter(|followed| followed.enabled).filter_map(|followed| {
        tasks.get(&followed.name)?.schedule.as_ref()?.next_after(followed.cursor.max(now))
    });
    let wait = next.min().map_or(MAX_PAUSE, |next| {
        Duration::from_millis(u64::try_from(next.millis() - now.millis()).unwrap_or(0))
    });
    wait.clamp(MIN_PAUSE, MAX_PAUSE)
}

fn words(ms: i64) -> String {
    let minutes = ms / 60_000;
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{} s", ms / 1000),
        (0, m) => format!("{m} min"),
        (h, 0) => format!("{h} h"),
        (h, m) => format!("{h} h {m} min"),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
