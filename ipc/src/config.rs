//! The resolved configuration, as the supervisor hands it to workers. Reading `leo.yaml`, defaults and
//! error texts belong to the supervisor; workers only see this.

use crate::AgentName;
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
}

impl Default for Chat {
    fn default() -> Self {
        Chat { enabled: true, permission_timeout_s: 120, question_timeout_s: 3600 }
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

/// A coding agent's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Harness {
    /// Claude Code.
    Claude,
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
            Harness::Demo => "demo",
            Harness::Unknown => "unknown",
        })
    }
}
