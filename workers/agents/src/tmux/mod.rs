//! The only place that runs tmux: one private server per home (`tmux -L`), never the person's own.
//!
//! Every call has a deadline, never reads our standard input, and never carries a payload in its
//! arguments. Nothing here knows what runs in a pane.

mod locale;
mod paste;
mod sanitise;
mod session;

pub(crate) use paste::Key;
pub(crate) use sanitise::{clean_words, for_paste};
pub(crate) use session::{NewSession, PaneInfo};

use std::{collections::BTreeMap, path::PathBuf, process::Stdio, time::Duration};
use tmux_interface::TmuxCommand;
use tokio::{io::AsyncWriteExt, process::Command};

/// tmux answers within milliseconds. One that hangs is given up on, and what it was asked for may or
/// may not have happened.
const DEADLINE: Duration = Duration::from_secs(5);

/// Most bytes of tmux's error text that are kept.
const MAX_STDERR: usize = 400;

/// Why tmux did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TmuxError {
    /// No `tmux` on PATH.
    #[error(
        "tmux is not installed (looked in PATH): install it, for example with `brew install tmux` or `apt install tmux`"
    )]
    NotInstalled,
    /// The program could not be started or talked to.
    #[error("tmux {command} could not be run")]
    Run {
        /// Its command.
        command: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It did not end in time. What it was asked for may have happened.
    #[error("tmux {command} did not end within {ms} ms")]
    Deadline {
        /// Its command.
        command: String,
        /// The deadline in milliseconds.
        ms: u128,
    },
    /// It refused.
    #[error("tmux {command} failed: {stderr}")]
    Failed {
        /// Its command.
        command: String,
        /// What it said.
        stderr: String,
    },
    /// Its output was not what was asked for.
    #[error("tmux {command} answered something else: {found:?}")]
    Output {
        /// Its command.
        command: String,
        /// The beginning of the answer.
        found: String,
    },
}

impl TmuxError {
    /// Whether the command may have been carried out all the same.
    pub(crate) fn may_have_applied(&self) -> bool {
        matches!(self, TmuxError::Deadline { .. } | TmuxError::Output { .. })
    }

    /// Whether the server ended while it was asked, which it does with its last session.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self, TmuxError::Failed { stderr, .. }
            if stderr.is_empty() || stderr.contains("server exited") || stderr.contains("lost server"))
    }

    /// Whether the server, session or pane is not there (which for a question is an answer).
    pub(crate) fn is_absent(&self) -> bool {
        self.is_ending() || self.says_absent()
    }

    fn says_absent(&self) -> bool {
        matches!(self, TmuxError::Failed { stderr, .. } if
            ["no server running", "error connecting to", "can't find", "no current target",  "no sessions"]
                .iter().any(|sign| stderr.contains(sign)))
    }

    /// Whether a session of that name exists already.
    pub(crate) fn is_duplicate(&self) -> bool {
        matches!(self, TmuxError::Failed { stderr, .. } if stderr.contains("duplicate session"))
    }
}

/// One tmux server.
#[derive(Debug, Clone)]
pub(crate) struct Tmux {
    program: Option<PathBuf>,
    server: String,
    env: BTreeMap<String, String>,
}

impl Tmux {
    /// The server of this name. `base` is the environment to take HOME, PATH and the like from; the
    /// server itself is started with no more than that, so that nothing else leaks into its panes.
    pub(crate) fn new(server: impl Into<String>, base: &BTreeMap<String, String>) -> Tmux {
        let mut env: BTreeMap<String, String> = ["HOME", "PATH", "USER", "LOGNAME", "SHELL", "TMPDIR"]
            .into_iter()
            .filter_map(|key| base.get(key).map(|value| (key.to_owned(), value.clone())))
            .collect();
        // A server that was started without a UTF-8 locale shows every other character as `_`.
        env.insert("LC_ALL".to_owned(), locale::utf8(base));
        env.insert("TERM".to_owned(), "xterm-256color".to_owned());
        let program = leo_launch::find_program("tmux", base);
        Tmux { program, server: server.into(), env }
    }

    /// The server's name.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The command that attaches a terminal to a session.
    pub(crate) fn attach_argv(&self, session: &str) -> Vec<String> {
        let program = self.program.as_ref().map_or("tmux".to_owned(), |p| p.display().to_string());
        [&program, "-L", &self.server, "-f", "/dev/null", "-u", "attach", "-t", &format!("={session}")]
            .map(str::to_owned)
            .to_vec()
    }

    /// Runs commands in one invocation, which the server carries out without letting others in
    /// between.
    async fn run(&self, commands: &[TmuxCommand<'_>], stdin: Option<&[u8]>) -> Result<String, TmuxError> {
        let program = self.program.as_ref().ok_or(TmuxError::NotInstalled)?;
        let name = commands.first().and_then(|c| c.name.as_deref()).unwrap_or_default().to_owned();
        let io = |source| TmuxError::Run { command: name.clone(), source };
        let mut command = Command::new(program);
        command
            .args(["-L", &self.server, "-f", "/dev/null", "-u"])
            .args(argv(commands))
            .env_clear()
            .envs(&self.env)
            .current_dir("/")
            .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let done = async {
            let mut child = command.spawn().map_err(io)?;
            if let (Some(bytes), Some(mut pipe)) = (stdin, child.stdin.take()) {
                pipe.write_all(bytes).await.map_err(io)?;
                drop(pipe);
            }
            child.wait_with_output().await.map_err(io)
        };
        let output = tokio::time::timeout(DEADLINE, done)
            .await
            .map_err(|_| TmuxError::Deadline { command: name.clone(), ms: DEADLINE.as_millis() })??;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let stderr: String = text.trim().chars().take(MAX_STDERR).collect();
            return Err(TmuxError::Failed { command: name, stderr });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The arguments of one invocation, commands separated by `;`.
fn argv(commands: &[TmuxCommand<'_>]) -> Vec<String> {
    let mut out = Vec::new();
    for command in commands {
        if !out.is_empty() {
            out.push(";".to_owned());
        }
        out.extend(command.to_vec().into_iter().map(|arg| escape(&arg)));
    }
    out
}

/// tmux takes an argument that ends in `;` for the end of a command, unless it ends in `\;`.
fn escape(arg: &str) -> String {
    match arg.strip_suffix(';') {
        Some(rest) => format!("{rest}\\;"),
        None => arg.to_owned(),
    }
}

#[cfg(test)]
mod tests;
