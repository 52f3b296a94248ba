//! The agents' terminals, seen from outside.

use anyhow::{Context, Result, ensure};
use std::process::{Command, Output};

/// A tmux server by its socket name.
#[derive(Debug, Clone)]
pub struct Tmux {
    /// `tmux -L` name.
    pub socket: String,
}

impl Tmux {
    /// Runs a tmux command.
    ///
    /// # Errors
    /// When tmux cannot be run.
    pub fn run(&self, args: &[&str]) -> Result<Output> {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket, "-f", "/dev/null", "-u"]).args(args);
        command.env_remove("TMUX").env_remove("TMUX_TMPDIR").env("LC_ALL", "C.UTF-8");
        command.output().context("run tmux")
    }

    /// Standard output of a tmux command that must succeed.
    ///
    /// # Errors
    /// When it fails.
    pub fn text(&self, args: &[&str]) -> Result<String> {
        let out = self.run(args)?;
        ensure!(out.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// The visible text of a pane.
    ///
    /// # Errors
    /// When there is no such pane.
    pub fn screen(&self, target: &str) -> Result<String> {
        self.text(&["capture-pane", "-p", "-t", target])
    }

    /// Types literal text.
    ///
    /// # Errors
    /// When there is no such pane.
    pub fn type_text(&self, target: &str, text: &str) -> Result<()> {
        self.text(&["send-keys", "-t", target, "-l", text]).map(|_| ())
    }

    /// Presses named keys.
    ///
    /// # Errors
    /// When there is no such pane.
    pub fn keys(&self, target: &str, keys: &[&str]) -> Result<()> {
        let args: Vec<&str> = ["send-keys", "-t", target].into_iter().chain(keys.iter().copied()).collect();
        self.text(&args).map(|_| ())
    }

    /// The process in a pane.
    ///
    /// # Errors
    /// When there is no such pane.
    pub fn pane_pid(&self, target: &str) -> Result<i32> {
        Ok(self.text(&["display-message", "-p", "-t", target, "#{pane_pid}"])?.trim().parse()?)
    }

    /// Names of all sessions; none when no server runs.
    ///
    /// # Errors
    /// When tmux cannot be run.
    pub fn sessions(&self) -> Result<Vec<String>> {
        let out = self.run(&["list-sessions", "-F", "#{session_name}"])?;
        Ok(String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect())
    }

    /// Ends the server and everything in it.
    pub fn kill_server(&self) {
        // None may be running.
        let _ = self.run(&["kill-server"]);
        // tmux leaves its socket behind; thousands of tests would fill its folder.
        let folder = format!("/tmp/tmux-{}", nix::unistd::getuid());
        let _ = std::fs::remove_file(std::path::Path::new(&folder).join(&self.socket));
    }
}
