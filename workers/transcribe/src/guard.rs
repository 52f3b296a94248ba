//! Running a program that may hang, fork or outlive us. It runs under a guard: this binary again, which
//! leads a process group of its own and holds the end of a pipe. When the pipe ends, however its other
//! side ended, the guard kills the whole group. So neither a deadline nor the SIGKILL of the worker leaves
//! anything behind, on any platform.

use nix::{
    sys::signal::{Signal, killpg},
    unistd::{Pid, getpgrp, getpid},
};
use std::{
    ffi::OsString,
    io::{self, Read, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How the guard says that it could not start the program, as shells do.
const NOT_STARTED: u8 = 127;

/// How much of a program's complaints is kept: the end, where the reason stands.
const MAX_SAID: usize = 16 * 1024;

/// How long a killed group may take to be gone.
const BURIAL: Duration = Duration::from_secs(5);

/// Why a program did not come to a good end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// It could not be started.
    #[error("it cannot be started: {0}")]
    Start(#[source] io::Error),
    /// It took too long and was killed.
    #[error("it took longer than {} s", .0.as_secs())]
    Late(Duration),
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Its exit code; 128 and more is a signal.
    pub(crate) code: i32,
    /// The end of what it said on standard error.
    pub(crate) said: String,
}

impl Ended {
    /// What it complained about: its last line that says so, else its last line.
    pub(crate) fn complaint(&self) -> Option<&str> {
        let lines = || self.said.lines().map(str::trim).filter(|line| !line.is_empty());
        let says = |line: &&str| line.to_ascii_lowercase().contains("error");
        lines().rfind(says).or_else(|| lines().next_back())
    }
}

/// A program to be run under a guard.
pub(crate) struct Run<'a> {
    /// This binary.
    pub(crate) leo: &'a Path,
    /// The program.
    pub(crate) program: &'a Path,
    /// Its arguments.
    pub(crate) args: Vec<OsString>,
    /// Where it works.
    pub(crate) folder: &'a Path,
    /// How long it may take.
    pub(crate) within: Duration,
}

/// Kills a guard's group when it is dropped: a caller that stops waiting stops the program.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may be gone already.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

impl Run<'_> {
    /// Runs it to its end.
    ///
    /// # Errors
    /// When it could not be started or took too long.
    pub(crate) async fn end(self) -> Result<Ended, RunError> {
        let mut command = tokio::process::Command::new(self.leo);
        command
            .arg("guard")
            .arg(self.program)
            .args(self.args)
            .current_dir(self.folder)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(RunError::Start)?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        let mut group = Group(pid);
        // Held until the end: its closing is the guard's signal.
        let lifeline = child.stdin.take();
        let complaints = child.stderr.take();
        let work = async {
            let (status, said) = tokio::join!(child.wait(), tail(complaints));
            (status, said)
        };
        let ended = tokio::time::timeout(self.within, work).await;
        let Ok((status, said)) = ended else {
            drop(group);
            drop(lifeline);
            // Reaped, so that no zombie stays; what was killed does not take long.
            let _ = tokio::time::timeout(BURIAL, child.wait()).await;
            return Err(RunError::Late(self.within));
        };
        drop(lifeline);
        // The guard is gone; whatever the program left behind in its group is not.
        if let Some(pid) = group.0.take() {
            let _ = killpg(pid, Signal::SIGKILL);
        }
        let status = status.map_err(RunError::Start)?;
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        if code == i32::from(NOT_STARTED) {
            return Err(RunError::Start(io::Error::other(said.trim().to_owned())));
        }
        Ok(Ended { code, said })
    }
}

/// The end of what comes, as text.
async fn tail(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut kept = Vec::new();
    if let Some(mut from) = from {
        let mut chunk = [0; 4096];
        while let Ok(read) = from.read(&mut chunk).await {
            if read == 0 {
                break;
            }
            kept.extend_from_slice(&chunk[..read]);
            if kept.len() > 2 * MAX_SAID {
                kept.drain(..kept.len() - MAX_SAID);
            }
        }
    }
    let start = kept.len().saturating_sub(MAX_SAID);
    String::from_utf8_lossy(&kept[start..]).into_owned()
}

/// The guard's process: `leo guard PROGRAM ARGS…`.
pub fn guard() -> std::process::ExitCode {
    let mut args = std::env::args_os().skip(2);
    let Some(program) = args.next().map(PathBuf::from) else {
        return complain("no program was named");
    };
    let spawned = std::process::Command::new(&program).args(args).stdin(Stdio::null()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(e) => return complain(&format!("{}: {e}", program.display())),
    };
    let watching = std::thread::Builder::new().spawn(|| {
        let mut byte = [0; 1];
        // Nothing is ever written: whatever ends the read ends the group, this process included.
        while matches!(io::stdin().read(&mut byte), Ok(1..)) {}
        if getpgrp() == getpid() {
            let _ = killpg(getpgrp(), Signal::SIGKILL);
        }
    });
    if let Err(e) = watching {
        let _ = child.kill();
        return complain(&format!("no thread to watch over it: {e}"));
    }
    match child.wait() {
        Ok(status) => {
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            u8::try_from(code).unwrap_or(1).into()
        }
        Err(e) => complain(&format!("waiting failed: {e}")),
    }
}

fn complain(what: &str) -> std::process::ExitCode {
    // The worker reads it; when it is gone, nobody needs it.
    let _ = writeln!(io::stderr(), "{what}");
    NOT_STARTED.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complaint_is_the_line_that_matters() {
        let ended = |said: &str| Ended { code: 1, said: said.into() };
        for (said, complaint) in [
            ("", None),
            ("loading\nerror: failed to open\nusage: x\n", Some("error: failed to open")),
            ("one\n\ntwo\n\n", Some("two")),
            ("[mov] moov atom not found\nx.m4a: Invalid data found\n", Some("x.m4a: Invalid data found")),
        ] {
            assert_eq!(ended(said).complaint(), complaint);
        }
    }

    /// Runs a script under a guard that is only a shell: the group, the deadline and the reading are ours.
    async fn script(text: &str, within: Duration) -> Result<Ended, RunError> {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            use std::os::unix::fs::PermissionsExt;
            let path = dir.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let (leo, program) = (write("leo", "shift\nexec \"$@\"\n"), write("program", text));
        Run { leo: &leo, program: &program, args: vec!["a b".into()], folder: dir.path(), within }.end().await
    }

    #[tokio::test]
    async fn programs_end_as_they_do_and_no_later_than_they_may() {
        let within = Duration::from_secs(30);
        assert_eq!(
            script("echo \"$1\" >&2; exit 3", within).await.unwrap(),
            Ended { code: 3, said: "a b\n".into() }
        );
        assert_eq!(script("kill -SEGV $$", within).await.unwrap().code, 139);
        assert!(matches!(script("exit 127", within).await, Err(RunError::Start(_))));
        // A grandchild that keeps standard error open must not keep us.
        let late = script("sleep 1000 & sleep 1000", Duration::from_millis(300)).await;
        assert!(matches!(late, Err(RunError::Late(_))), "{late:?}");
    }

    #[tokio::test]
    async fn only_the_end_of_long_complaints_is_kept() {
        let long = "x".repeat(100_000) + "the end";
        let kept = tail(Some(long.as_bytes())).await;
        assert!(kept.len() <= MAX_SAID && kept.ends_with("the end"));
    }
}
