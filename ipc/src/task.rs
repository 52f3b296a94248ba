//! Tasks: prompts on a schedule, and their runs (seed 001, "Config", "Task failure cards"; WIRE.md §4,
//! §7). A run is recorded before it starts and after it ends, whoever holds it.

use crate::{AgentName, CallKey, MessageId, Time, config::TaskRuntime};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Longest error kept of a run, in characters; the whole output is in its log.
pub const MAX_ERROR: usize = 4000;

/// Longest error that a failure card shows, in characters (seed 001, "Task failure cards").
pub const MAX_CARD_ERROR: usize = 500;

/// Runs kept of each task.
pub const KEPT_RUNS: u32 = 100;

/// A task's name: as an agent's, since it names files and stands in commands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(value_type = String))]
pub struct TaskName(String);

/// Why a text is not a task's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a task's name: use 1 to 63 of a-z, 0-9 and -, not starting with -")]
pub struct BadTaskName(pub String);

impl TaskName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TaskName {
    type Error = BadTaskName;
    fn try_from(text: String) -> Result<Self, BadTaskName> {
        match AgentName::try_from(text) {
            Ok(name) => Ok(TaskName(name.into())),
            Err(bad) => Err(BadTaskName(bad.0)),
        }
    }
}

impl FromStr for TaskName {
    type Err = BadTaskName;
    fn from_str(text: &str) -> Result<Self, BadTaskName> {
        TaskName::try_from(text.to_owned())
    }
}

impl From<TaskName> for String {
    fn from(name: TaskName) -> String {
        name.0
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What started a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The task's schedule.
    Schedule,
    /// A person, with `leo run`.
    Manual,
    /// Something that a newer build knows.
    #[serde(other)]
    Unknown,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Due, and not started yet.
    Queued,
    /// It runs.
    Running,
    /// It ended well.
    Succeeded,
    /// Every attempt failed, or it could not be started.
    Failed,
    /// Somebody stopped it, or whoever held it died. Says nothing about the task.
    Interrupted,
    /// It was due and did not run: it was too late, or the run before it had not ended.
    Skipped,
    /// A state of a newer build.
    #[serde(other)]
    Unknown,
}

impl RunState {
    /// Whether nothing more happens to it.
    pub fn is_over(self) -> bool {
        !matches!(self, RunState::Queued | RunState::Running)
    }
}

/// One run of a task, as apps see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskRun {
    /// Its id, ordered by time.
    pub id: String,
    /// The task.
    pub task: TaskName,
    /// What started it.
    pub trigger: Trigger,
    /// How it stands.
    pub state: RunState,
    /// The thread that its posts and asks go to, once it has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// When its schedule said, for a scheduled one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Time>,
    /// When it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Attempts begun.
    pub attempts: u32,
    /// Exit code of the last attempt, when it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it failed, was interrupted or did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_path: Option<String>,
    /// The message that its prompt was delivered as, for a persistent task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
}

/// A task, as apps see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskInfo {
    /// Its name.
    pub name: TaskName,
    /// Its cron pattern; a task without one runs only by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The zone of its pattern, when it is not this machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Whether its schedule is followed.
    pub enabled: bool,
    /// Whether it is a program of its own or a prompt of its agent's.
    pub runtime: TaskRuntime,
    /// The thread its cards go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// When it runs next, as the tasks worker last said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
    /// Failures since its last success.
    #[serde(default)]
    pub failures: u32,
    /// Its newest run that was started or skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<TaskRun>,
}

/// Asks for all tasks of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListTasks {}

/// Answer to [`ListTasks`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Tasks {
    /// The tasks, by name.
    pub tasks: Vec<TaskInfo>,
}

/// Asks for the newest runs of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRuns {
    /// The task.
    pub task: TaskName,
    /// At most so many; at most [`KEPT_RUNS`] are kept.
    pub limit: u32,
}

/// Answer to [`ListRuns`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Runs {
    /// The runs, newest first.
    pub runs: Vec<TaskRun>,
}

/// Follows a task's schedule or no longer, whatever the configuration says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnableTask {
    /// The task.
    pub task: TaskName,
    /// Whether to follow it.
    pub enabled: bool,
}

/// What the tasks worker follows, said at its start and when the configuration changes. A schedule that
/// is new or has changed counts from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncTasks {
    /// Every scheduled task of the configuration.
    pub tasks: Vec<Followed>,
}

/// One task that is followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// The task.
    pub name: TaskName,
    /// Pattern and zone in one text: another text is another schedule.
    pub schedule: String,
    /// When it is due next, as far as the worker knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
}

/// Answer to [`SyncTasks`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedules {
    /// The tasks of the question.
    pub tasks: Vec<Followup>,
    /// Runs that are not over, oldest first.
    pub open: Vec<TaskRun>,
}

/// How far a task's schedule was followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followup {
    /// The task.
    pub name: TaskName,
    /// Everything that was due up to here is done with.
    pub cursor: Time,
    /// Whether its schedule is followed.
    pub enabled: bool,
}

/// Waits for changes of tasks and runs: an item says that something changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WatchTasks {}

/// A task or a run has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TasksChanged {}

/// Makes a run. A scheduled one is made once for each time that it is due, whoever asks, and moves the
/// schedule on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRun {
    /// The task.
    pub task: TaskName,
    /// The run's id, chosen by the caller: the same id is the same run.
    pub run_id: String,
    /// What starts it.
    pub trigger: Trigger,
    /// When it was due, for a scheduled one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Time>,
    /// Why it does not run, where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// Says that a run is about to start: from here on it may have done something. Refused with `not_queued`
/// when it was begun before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginRun {
    /// The run.
    pub run_id: String,
    /// SHA-256 of the token that binds its process to its owner's thread until it is over.
    pub token_hash: String,
    /// Its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_path: Option<String>,
    /// What to deliver to the task's agent, for a persistent task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Answer to [`BeginRun`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// The run.
    pub run: TaskRun,
    /// The thread of its posts and asks: its owner's.
    pub agent: AgentName,
    /// The owner's workspace, where the task names none.
    pub workspace: String,
}

/// Says that an attempt begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteAttempt {
    /// The run.
    pub run_id: String,
    /// The attempt, from 1.
    pub attempt: u32,
}

/// Says how a run ended, with what follows from it: its token ends, its open asks expire, a failure gets
/// its card. The first end counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndRun {
    /// The run.
    pub run_id: String,
    /// [`RunState::Succeeded`], [`RunState::Failed`], [`RunState::Interrupted`] or
    /// [`RunState::Skipped`].
    pub state: RunState,
    /// Exit code of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why, unless it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Reports a failed run for a failure card (`POST /chat/task-failure`). The same run again is the same
/// card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReportTaskFailure {
    /// The task.
    pub task: TaskName,
    /// The run.
    pub run_id: String,
    /// Attempts made.
    pub attempts: u32,
    /// Why it failed.
    pub error: String,
    /// Its log.
    pub log_path: String,
}

/// Answer to [`ReportTaskFailure`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskFailureCard {
    /// The card.
    pub id: MessageId,
    /// The thread it is in.
    pub agent: AgentName,
}

/// An id for a run: its order is its time's.
pub fn fresh_run_id() -> String {
    CallKey::fresh().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!("daily-news".parse::<TaskName>().unwrap().as_str(), "daily-news");
        let bad = "Daily".parse::<TaskName>().unwrap_err().to_string();
        assert!(bad.contains("task's name"), "{bad}");
    }
}
