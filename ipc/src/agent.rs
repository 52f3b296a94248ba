//! Agents: what they are configured to be, what they are doing, and the hub's requests about them.

use crate::{
    AgentName, LaunchId, Time,
    chat::{Route, WaitingFor},
    config::{AgentConfig, Harness},
};
use serde::{Deserialize, Serialize};

/// Whether an agent's process is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Launched, not ready for a prompt yet.
    Starting,
    /// Ready.
    Running,
    /// Not there.
    Stopped,
    /// A status of a newer build.
    #[serde(other)]
    Unknown,
}

/// What a running agent is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// A turn runs.
    Working,
    /// It waits for a prompt.
    Idle,
    /// It waits for a person: a dialog is open, or it cannot start without them.
    NeedsInput,
    /// Not known (no process, or no evidence).
    #[serde(other)]
    Unknown,
}

/// What a person wants an agent to be; kept over restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Desired {
    /// It should run.
    Running,
    /// It should not run, until a message or a person starts it.
    Stopped,
    /// It was idle for long and rests, until a message or a person starts it. Unlike a stop it closes
    /// nothing that the agent has asked.
    Suspended,
    /// A wish of a newer build.
    #[serde(other)]
    Unknown,
}

/// Who defined an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `leo.yaml`.
    Config,
    /// A command or the API.
    Api,
    /// A newer build's source.
    #[serde(other)]
    Unknown,
}

/// An agent as apps see it (WIRE.md §6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Agent {
    /// Its name, which is its thread's.
    pub name: AgentName,
    /// Its program.
    pub harness: Harness,
    /// The folder it works in.
    pub workspace: String,
    /// Its model, when set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether its process is there.
    pub status: Status,
    /// Whether a message starts it when it is stopped.
    pub wake_on_message: bool,
    /// Whether it is stopped because it was idle for `idle_suspend_after`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// What it is doing.
    pub activity: Activity,
    /// With `needs_input`: what a person has to do, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// The harness's own session id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// tmux server (`tmux -L`).
    pub tmux_socket: String,
    /// Its pane, such as `%3`; empty while stopped.
    pub tmux_pane: String,
    /// Restarts after a crash since it was last started by a person or a message.
    pub restarts: u32,
    /// When its process was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it last did something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_activity_at: Option<Time>,
    /// The delivery route in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// Unread messages of its thread.
    pub unread: u64,
}

/// What the agents worker needs to know of an agent besides [`Agent`]: the durable record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRecord {
    /// What apps see.
    pub agent: Agent,
    /// Its configuration.
    pub config: AgentConfig,
    /// Who defined it.
    pub source: Source,
    /// What a person wants it to be.
    pub desired: Desired,
    /// The current launch, if one was begun and not ended.
    #[serde(default)]
    pub launch: Option<Launch>,
    /// Transcript of the current session, as the harness named it.
    #[serde(default)]
    pub transcript_path: Option<String>,
    /// The last launch is asked to resume this session.
    #[serde(default)]
    pub resume_session: Option<String>,
}

/// One start of an agent, recorded before it is made so that a crash in between can be repaired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Its id.
    pub id: LaunchId,
    /// tmux session name.
    pub tmux_session: String,
    /// Pane id, once known.
    #[serde(default)]
    pub pane: Option<String>,
    /// Process id in the pane, once known. Information, never identity.
    #[serde(default)]
    pub pid: Option<u32>,
    /// When it was begun.
    pub at: Time,
}

/// Defines an agent or changes its configuration. Asking again is harmless.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PutAgent {
    /// Its name.
    pub name: AgentName,
    /// Its configuration.
    pub config: AgentConfig,
    /// Who defines it.
    pub source: Source,
    /// Refuse with `agent_exists` when there is one of this name.
    #[serde(default)]
    pub must_be_new: bool,
    /// With `must_be_new`: the same key asks for the same new agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<crate::CallKey>,
}

/// Asks for all agents.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListAgents {}

/// Answer to [`ListAgents`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRecords {
    /// The agents, by name.
    pub agents: Vec<AgentRecord>,
}

/// Asks for one agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAgent {
    /// Its name.
    pub name: AgentName,
}

/// Forgets an agent; its thread stays readable. The agents worker has ended its process before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveAgent {
    /// Its name.
    pub name: AgentName,
}

/// Records what a person wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetDesired {
    /// The agent.
    pub name: AgentName,
    /// What it should be.
    pub desired: Desired,
    /// Whether a person says so: only then does stopping an agent close its open asks.
    #[serde(default)]
    pub by_person: bool,
}

/// Records a launch before it is made. The same launch id again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginLaunch {
    /// The agent.
    pub name: AgentName,
    /// The launch.
    pub launch: LaunchId,
    /// SHA-256 of the launch's token, which binds its holder to the agent's name.
    pub token_hash: String,
    /// tmux session that will be made.
    pub tmux_session: String,
    /// Whether this is a restart after a crash.
    pub crash_restart: bool,
}

/// Records that an idle agent may be stopped until something is asked of it. Refused with `not_idle`
/// when something is going on that the hub knows of: a turn, a waiting message, a call that waits for a
/// person; with `stale_launch` when the launch is not the current one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendAgent {
    /// The agent.
    pub name: AgentName,
    /// The launch that is to end.
    pub launch: LaunchId,
}

/// Says that an agent's harness has listed our tools: from now on its prompts can use them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsListed {
    /// The agent.
    pub name: AgentName,
    /// The launch whose harness it is.
    pub launch: LaunchId,
}

/// Asks for the newest sessions of an agent's harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSessions {
    /// The agent.
    pub name: AgentName,
}

/// Answer to [`ListSessions`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// The sessions, the current one first.
    pub sessions: Vec<Session>,
}

/// One session of an agent's harness. An agent has many: `/clear` begins another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The harness's id of it.
    pub session_id: String,
    /// Its transcript, as the harness named it; never computed.
    pub transcript_path: String,
    /// The launch that it was last seen in.
    pub launch: LaunchId,
    /// When it became the agent's session, again if it was resumed.
    pub since: Time,
}

/// What the agents worker saw of a launch. Absent fields stay as they are.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentPatch {
    /// Whether its process is there.
    pub status: Option<Status>,
    /// What it is doing.
    pub activity: Option<Activity>,
    /// What a person has to do; an empty text clears it.
    pub waiting_for: Option<String>,
    /// Its pane.
    pub pane: Option<String>,
    /// The process in the pane.
    pub pid: Option<u32>,
    /// The harness's session.
    pub session_id: Option<String>,
    /// The delivery route in use.
    pub route: Option<Route>,
    /// When the harness's status changed to what is reported, in milliseconds since 1970: permission
    /// prompts that opened before a change away from a dialog are settled.
    pub status_at_ms: Option<i64>,
}

/// Reports what was seen; refused with `stale_launch` when the launch is not the current one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportAgent {
    /// The agent.
    pub name: AgentName,
    /// The launch that was looked at.
    pub launch: LaunchId,
    /// What changed.
    pub patch: AgentPatch,
}

/// Records that a launch is over. Its turn, if one ran, ends as interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndLaunch {
    /// The agent.
    pub name: AgentName,
    /// The launch.
    pub launch: LaunchId,
    /// Whether the session should be resumed at the next start (a crash, or a stop by a person).
    pub resumable: bool,
    /// What a person has to do before it can run, in a sentence: the agent is then shown as stopped and
    /// in need of input, until it is started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_person: Option<String>,
}

/// Subscribes to what the agents worker has to act on. The first item is [`Wake::All`]; after a
/// reconnect the subscriber looks at everything again, so a lost item costs nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WatchAgents {}

/// Something the agents worker has to look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Wake {
    /// Look at everything.
    All {},
    /// An agent was defined, changed, removed, or is wanted otherwise.
    Agent {
        /// Which.
        name: AgentName,
    },
    /// A message waits for an agent, or a waiting one was taken back.
    Outbox {
        /// Which.
        name: AgentName,
    },
    /// A hook of the agent's harness reported something; the hub has already recorded it.
    Hook {
        /// Which.
        name: AgentName,
        /// The launch it came from.
        launch: LaunchId,
        /// The event, without long texts.
        event: Box<crate::hook::HookEvent>,
    },
    /// The agent's harness has listed our tools.
    Tools {
        /// Which.
        name: AgentName,
        /// The launch whose harness it is.
        launch: LaunchId,
    },
    /// A wake-up of a newer build; look at everything.
    #[serde(other)]
    Unknown,
}

/// Reason shown beside a pending message, kept with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetWaiting {
    /// The thread.
    pub agent: AgentName,
    /// What its pending messages wait for; `None` clears it.
    pub waiting_for: Option<WaitingFor>,
}

/// Which agent a token belongs to; `unauthorized` when none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthAgent {
    /// SHA-256 of the token, so that tokens do not travel further than they must.
    pub token_hash: String,
}

/// Answer to [`AuthAgent`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentIdentity {
    /// The agent.
    pub name: AgentName,
    /// The launch the token was made for; a headless run's id where it is one's.
    pub launch: LaunchId,
    /// The headless run that the token was made for, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<crate::ask::Run>,
}
