//! The resolved configuration, as the supervisor hands it to workers. Reading `leo.yaml`, defaults and
//! error texts belong to the supervisor; workers only see this.

use crate::{AgentName, ClientName, TaskName, api_client::Permissions, chat::Route};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that `leo.yaml` decides, with defaults filled in (WIRE.md §7).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The HTTP listener and its guards.
    pub web: Web,
    /// Chat behaviour.
    pub chat: Chat,
    /// Agents named in the file; others may be added at run time.
    pub agents: BTreeMap<AgentName, AgentConfig>,
    /// API clients and what they may do; their tokens are not in the file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub api_clients: BTreeMap<ClientName, Permissions>,
    /// Tasks.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<TaskName, TaskConfig>,
}

/// `web.*`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Web {
    /// Whether to listen on TCP at all.
    pub enabled: bool,
    /// Address to bind.
    pub bind: String,
    /// Port; 0 lets the system choose.
    pub port: u16,
    /// Host names besides loopback that a request may name.
    pub allowed_hosts: Vec<String>,
}

impl Default for Web {
    fn default() -> Self {
        Web { enabled: true, bind: "127.0.0.1".to_owned(), port: 8370, allowed_hosts: Vec::new() }
    }
}

/// `chat.routes` where the file says nothing.
pub const DEFAULT_ROUTES: [Route; 3] = [Route::Bridge, Route::Inbox, Route::Paste];

/// `chat.*`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chat {
    /// Whether there are threads at all.
    pub enabled: bool,
    /// Seconds that a permission prompt waits for an answer from an app.
    pub permission_timeout_s: u64,
    /// Seconds that a questions card waits; at most an hour.
    pub question_timeout_s: u64,
    /// The ways on which a message may reach an agent, best first. A harness passes over those that it
    /// does not have.
    pub routes: Vec<Route>,
    /// Absolute path of the Whisper model that transcribes voice notes; none are transcribed without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whisper_model: Option<String>,
    /// Language of voice notes as Whisper knows it (`en`, `de`, …), or `auto`, which listens first.
    pub whisper_language: String,
}

impl Default for Chat {
    fn default() -> Self {
        Chat {
            enabled: true,
            permission_timeout_s: 120,
            question_timeout_s: 3600,
            routes: DEFAULT_ROUTES.to_vec(),
            whisper_model: None,
            whisper_language: "auto".to_owned(),
        }
    }
}

/// `agents.<name>.*`, after `defaults.*` were applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct AgentConfig {
    /// Which program the agent is.
    pub harness: Harness,
    /// Absolute path of the folder it works in.
    pub workspace: String,
    /// Model name for the harness; its own default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Environment variables added to the launch.
    pub env: BTreeMap<String, String>,
    /// Arguments added to the harness's command line.
    pub args: Vec<String>,
    /// Whether to start it with the supervisor.
    pub autostart: bool,
    /// Seconds without anything to do after which the agent is stopped until a message comes; never when
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_suspend_after_s: Option<u64>,
    /// Claude's permission mode flag; `default` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
}

impl Default for AgentConfig {
    fn default() -> Self {
        AgentConfig {
            harness: Harness::Demo,
            workspace: String::new(),
            model: None,
            env: BTreeMap::new(),
            args: Vec::new(),
            autostart: true,
            idle_suspend_after_s: None,
            permission_mode: None,
        }
    }
}

/// Whether a task is a program of its own or a prompt of its agent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskRuntime {
    /// A harness without a terminal, started for each run.
    #[default]
    Oneshot,
    /// A prompt delivered to an agent; the run is the turn that it starts.
    Persistent,
    /// A runtime of a newer build.
    #[serde(other)]
    Unknown,
}

/// `tasks.<name>.*`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskConfig {
    /// The agent whose thread gets what it posts, as written; it may name no agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The agent in which a persistent task runs; else the one that is named like the task, else its
    /// owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A cron pattern; without one it runs only by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// IANA name of the pattern's zone; this machine's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The prompt itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Absolute path of a file that holds the prompt, read at each run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_file: Option<String>,
    /// Which program.
    pub harness: Harness,
    /// Model name for the harness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Absolute path of the folder it works in; its owner's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Environment variables added to the run.
    pub env: BTreeMap<String, String>,
    /// Arguments added to the harness's command line.
    pub args: Vec<String>,
    /// Claude's permission mode flag; `default` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// A program of its own, or a prompt of an agent's.
    pub runtime: TaskRuntime,
    /// Seconds that one attempt may take.
    pub timeout_s: u64,
    /// Attempts after a failed first one.
    pub retries: u32,
    /// Whether a failed run posts a card.
    pub notify_on_fail: bool,
    /// Whether its schedule is followed.
    pub enabled: bool,
    /// Seconds that a run may be late, because nothing ran when it was due; later ones are skipped.
    pub catch_up_s: u64,
}

impl Default for TaskConfig {
    fn default() -> Self {
        TaskConfig {
            owner: None,
            agent: None,
            schedule: None,
            timezone: None,
            prompt: None,
            prompt_file: None,
            harness: Harness::Claude,
            model: None,
            workspace: None,
            env: BTreeMap::new(),
            args: Vec::new(),
            permission_mode: None,
            runtime: TaskRuntime::Oneshot,
            timeout_s: 30 * 60,
            retries: 0,
            notify_on_fail: false,
            enabled: true,
            catch_up_s: 60 * 60,
        }
    }
}

/// A coding agent's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Harness {
    /// Claude Code.
    Claude,
    /// OpenAI's codex; only for tasks.
    Codex,
    /// opencode; only for tasks.
    Opencode,
    /// The scripted agent inside the `leo` binary, which needs no account.
    Demo,
    /// A harness that this build cannot run.
    #[serde(other)]
    Unknown,
}

impl std::fmt::Display for Harness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Harness::Claude => "claude",
            Harness::Codex => "codex",
            Harness::Opencode => "opencode",
            Harness::Demo => "demo",
            Harness::Unknown => "unknown",
        })
    }
}
