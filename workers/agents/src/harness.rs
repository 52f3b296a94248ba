//! What the rest of the worker knows of a harness: how it is started, and what it shows about itself.
//! The adapters differ; nothing outside them may ask which harness it is.

pub(crate) mod claude;
pub(crate) mod demo;
mod launch;
pub(crate) mod observe;
pub(crate) mod transcript;

pub(crate) use launch::{LaunchPlan, PlanError, write_plan};
pub(crate) use leo_launch::write_private;
pub(crate) use observe::{Composer, Dialog, Gate, Holding, Screen, Session, Status};

use leo_ipc::{
    chat::Route,
    config::{AgentConfig, Harness as Kind},
};
use leo_launch::{Env, Ties};
use std::path::{Path, PathBuf};

/// What a launch is planned from.
#[derive(Debug, Clone)]
pub(crate) struct LaunchContext<'a> {
    /// What ties the process to us.
    pub(crate) ties: &'a Ties,
    /// The agent's configuration.
    pub(crate) config: &'a AgentConfig,
    /// Our own environment.
    pub(crate) base: &'a Env,
    /// `chat.routes`.
    pub(crate) routes: &'a [Route],
    /// The session to go on with.
    pub(crate) resume: Option<&'a Resume>,
}

/// A session of an earlier launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resume {
    /// Its id.
    pub(crate) session: String,
    /// Its transcript, as the harness named it.
    pub(crate) transcript: Option<PathBuf>,
}

/// Where a running agent shows its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The process in its pane.
    pub(crate) pid: u32,
    /// Folder of the agent (`Home::agent_dir`).
    pub(crate) agent_dir: PathBuf,
    /// The harness's own folder, as the agent's environment names it.
    pub(crate) harness_dir: PathBuf,
}

/// What clears and compacts a harness's context when it is typed; nothing where it cannot do that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextCommands {
    /// Begins a new session.
    pub(crate) clear: Option<&'static str>,
    /// Summarises; what the summary is to keep may follow.
    pub(crate) compact: Option<&'static str>,
}

/// One harness.
pub(crate) trait Harness: Send + Sync {
    /// Its name for people.
    fn title(&self) -> &'static str;

    /// How to start it.
    ///
    /// # Errors
    /// When it cannot be started as configured; the message is for a person.
    fn plan(&self, context: &LaunchContext<'_>) -> Result<LaunchPlan, PlanError>;

    /// The harness's own folder in an environment.
    fn harness_dir(&self, env: &Env) -> PathBuf;

    /// What its session file says now.
    fn session(&self, place: &Place) -> Session;

    /// Whether the composer can be told from the session file alone.
    fn needs_screen(&self) -> bool;

    /// What a captured pane (text with SGR sequences) shows.
    fn screen(&self, capture: &str) -> Screen;

    /// Whether prompts can be handed to it as data, not only pasted.
    fn has_data_routes(&self) -> bool {
        false
    }

    /// Whether it takes prompts before it has listed our tools.
    fn lists_tools_late(&self) -> bool {
        false
    }

    /// Whether a launch of this configuration brings our mod, which then connects by itself.
    fn brings_mod(&self, routes: &[Route]) -> bool {
        let _ = routes;
        false
    }

    /// Whether a session of this version can run our mod.
    fn runs_mods(&self, session: &Session) -> bool {
        let _ = session;
        false
    }

    /// Commands that clear and compact its context when typed into an empty composer.
    fn context_commands(&self) -> ContextCommands;

    /// A command that ends it when typed into an empty composer.
    fn exit_command(&self) -> Option<&'static str>;
}

/// The adapter of a harness; `None` for one that this build cannot run.
pub(crate) fn adapter(kind: Kind) -> Option<&'static dyn Harness> {
    match kind {
        Kind::Claude => Some(&claude::Claude),
        Kind::Demo => Some(&demo::Demo),
        Kind::Codex | Kind::Opencode | Kind::Unknown => None,
    }
}

/// Folder of the files written for a launch, below the agent's folder.
pub(crate) fn launch_dir(agent_dir: &Path) -> PathBuf {
    agent_dir.join("launch")
}
