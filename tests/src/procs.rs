//! Processes of the system under test, seen from outside.

use anyhow::{Context, Result};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::process::Command;

/// One row of `ps`.
#[derive(Debug, Clone)]
pub struct Proc {
    /// Its id.
    pub pid: i32,
    /// Its parent.
    pub parent: i32,
    /// Its state letters; `Z` is a zombie.
    pub state: String,
    /// Its command line.
    pub command: String,
}

/// All processes of this user, as `ps` shows them.
///
/// # Errors
/// When `ps` cannot be run.
pub fn list() -> Result<Vec<Proc>> {
    let out =
        Command::new("ps").args(["-A", "-ww", "-o", "pid=,ppid=,stat=,args="]).output().context("run ps")?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    Ok(text.lines().filter_map(row).collect())
}

fn row(line: &str) -> Option<Proc> {
    let mut words = line.split_whitespace();
    let pid = words.next()?.parse().ok()?;
    let parent = words.next()?.parse().ok()?;
    let state = words.next()?.to_owned();
    Some(Proc { pid, parent, state, command: words.collect::<Vec<_>>().join(" ") })
}

/// Whether a process is there and not a zombie.
pub fn alive(pid: i32) -> bool {
    list().is_ok_and(|all| all.iter().any(|p| p.pid == pid && !p.state.starts_with('Z')))
}

/// Sends a signal to a child that has not been waited for.
pub fn signal_child(child: &std::process::Child, signal_: Signal) {
    if let Ok(pid) = i32::try_from(child.id()) {
        signal(pid, signal_);
    }
}

/// Sends a signal to a process that the test knows by its pid.
pub fn signal(pid: i32, signal: Signal) {
    // The process may have ended by itself, which is what the caller wanted.
    let _ = kill(Pid::from_raw(pid), signal);
}
