//! Claude Code: started with settings and MCP servers of ours on its command line, never by writing
//! the person's own files; its state is read from its session file and its pane.

mod screen;
mod session;
mod settings;
mod version;

use super::{
    ContextCommands, Harness, LaunchContext, LaunchPlan, Place, PlanError, Resume, Screen, Session, launch,
    launch_dir,
};
use leo_ipc::chat::Route;
use leo_launch::{Env, find_program, for_agent};
use std::path::{Path, PathBuf};

/// The first Claude whose peer inbox we know (the option that places it is measured with 2.1.332; the
/// inbox itself is documented since 2.1.224).
const FIRST_INBOX: [u32; 3] = [2, 1, 332];

/// The adapter.
#[derive(Debug)]
pub(crate) struct Claude;

impl Harness for Claude {
    fn title(&self) -> &'static str {
        "Claude"
    }

    fn plan(&self, context: &LaunchContext<'_>) -> Result<LaunchPlan, PlanError> {
        let config = context.config;
        let folder = launch::workspace(&config.workspace)?;
        let mut env = for_agent(context.base, &config.env);
        let program = find_program("claude", &env).ok_or(PlanError::NoProgram {
            program: "claude",
            advice: "install Claude Code (npm install -g @anthropic-ai/claude-code), or choose the harness demo",
        })?;
        let ties = context.ties;
        env.extend(ties.vars());
        // A call that waits for a person must stay the call it is: Claude moves calls of more than two
        // minutes to the background, and their answer becomes a turn of its own.
        env.insert("CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS".to_owned(), "0".to_owned());

        let files = launch_dir(&ties.home.agent_dir(&ties.agent));
        let path = |name: &str| files.join(name).display().to_string();
        let mode = config.permission_mode.as_deref().unwrap_or("default");
        let mut argv = vec![program.display().to_string()];
        argv.extend(["--settings".to_owned(), path("settings.json")]);
        argv.extend(["--mcp-config".to_owned(), path("mcp.json")]);
        argv.extend(["--permission-mode".to_owned(), mode.to_owned()]);
        if let Some(model) = &config.model {
            argv.extend(["--model".to_owned(), model.clone()]);
        }
        if let Some(resume) = context.resume.filter(|r| transcript_of(&self.harness_dir(&env), r).is_some()) {
            argv.extend(["--resume".to_owned(), resume.session.clone()]);
        }
        let version = version::of(&program, &env);
        let inbox = context.routes.contains(&Route::Inbox);
        if inbox && version.is_some_and(|version| version >= FIRST_INBOX) {
            let inbox = ties.home.inbox_socket(&ties.agent);
            // Left by a launch that was killed; nobody listens there.
            let _ = std::fs::remove_file(&inbox);
            argv.extend(["--messaging-socket-path".to_owned(), inbox.display().to_string()]);
        }
        if self.brings_mod(context.routes) && version.is_none_or(|version| version >= leo_hooks::FIRST_CLAUDE)
        {
            let mods = ties.home.mods();
            let folder =
                leo_hooks::write_mod(&mods).map_err(|source| PlanError::Write { path: mods, source })?;
            argv.extend(["--plugin-dir".to_owned(), folder.display().to_string()]);
        }
        argv.extend(config.args.iter().cloned());
        let files = vec![
            ("settings.json", settings::settings(&ties.program, mode, inbox).to_string()),
            ("mcp.json", leo_launch::claude_mcp(ties).to_string()),
        ];
        Ok(LaunchPlan { argv, env, folder, files })
    }

    fn harness_dir(&self, env: &Env) -> PathBuf {
        match env.get("CLAUDE_CONFIG_DIR").filter(|d| !d.is_empty()) {
            Some(folder) => PathBuf::from(folder),
            None => PathBuf::from(env.get("HOME").map_or("/", String::as_str)).join(".claude"),
        }
    }

    fn session(&self, place: &Place) -> Session {
        session::read(&place.harness_dir.join("sessions").join(format!("{}.json", place.pid)), place.pid)
    }

    fn needs_screen(&self) -> bool {
        true
    }

    fn screen(&self, capture: &str) -> Screen {
        screen::parse(capture)
    }

    fn has_data_routes(&self) -> bool {
        true
    }

    fn lists_tools_late(&self) -> bool {
        true
    }

    fn brings_mod(&self, routes: &[Route]) -> bool {
        routes.contains(&Route::Bridge)
    }

    fn runs_mods(&self, session: &Session) -> bool {
        session.version.is_none_or(|version| version >= leo_hooks::FIRST_CLAUDE)
    }

    fn context_commands(&self) -> ContextCommands {
        ContextCommands { clear: Some("/clear"), compact: Some("/compact") }
    }

    fn exit_command(&self) -> Option<&'static str> {
        Some("/exit")
    }
}

/// The transcript of a session, if it is there. Claude ends at once when asked to resume a session
/// that it does not have. The folder's name is Claude's business, so it is looked for, not computed.
fn transcript_of(config_dir: &Path, resume: &Resume) -> Option<PathBuf> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if resume.session.is_empty() || !resume.session.chars().all(plain) {
        return None;
    }
    let name = format!("{}.jsonl", resume.session);
    let named = resume
        .transcript
        .clone()
        .filter(|p| p.file_name().is_some_and(|n| n == name.as_str()) && p.is_file());
    named.or_else(|| {
        let projects = std::fs::read_dir(config_dir.join("projects")).ok()?;
        projects.filter_map(|entry| Some(entry.ok()?.path().join(&name))).find(|path| path.is_file())
    })
}

#[cfg(test)]
mod tests;
