//! The only place that forks. One lock covers the making of pipes and the fork: macOS marks a pipe
//! close-on-exec in a second step, and a child forked in between would hold somebody else's lifeline or
//! readiness pipe open, so that its end would never be seen.

use crate::fds;
use command_fds::{CommandFdExt, FdMapping};
use leo_ipc::{
    Generation,
    control::{CONTROL_FD, FIRST_LISTENER_FD, LIFELINE_FD, READY_FD},
};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, PipeReader, PipeWriter},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};
use tokio::{
    net::{UnixStream, unix::pipe},
    process::{Child, ChildStderr},
};

static FORK: Mutex<()> = Mutex::new(());

/// Runs `fork_something` while nobody else in this process makes pipes or forks.
pub(crate) fn alone<T>(fork_something: impl FnOnce() -> T) -> T {
    let _guard = FORK.lock().unwrap_or_else(PoisonError::into_inner);
    fork_something()
}

/// The write end of the lifeline. Nothing is ever written; its end, however this process ends, is the
/// workers' signal to end, too.
#[derive(Debug)]
pub(crate) struct Lifeline {
    _writer: PipeWriter,
}

/// Starts workers.
#[derive(Debug)]
pub(crate) struct Spawner {
    program: PathBuf,
    folder: PathBuf,
    lifeline: PipeReader,
    _reserved: Vec<File>,
}

/// A process that was started, with our ends of what it got.
#[derive(Debug)]
pub(crate) struct Spawned {
    /// The process, in a group of its own.
    pub(crate) child: Child,
    /// Our end of its control socket.
    pub(crate) control: UnixStream,
    /// Its readiness pipe.
    pub(crate) ready: pipe::Receiver,
    /// What it says on standard error.
    pub(crate) stderr: ChildStderr,
}

impl Spawner {
    /// A spawner of `program`, whose processes work in `folder`.
    ///
    /// # Errors
    /// When no pipe can be made.
    pub(crate) fn new(program: PathBuf, folder: PathBuf) -> io::Result<(Spawner, Lifeline)> {
        let reserved = fds::reserve_fixed_numbers()?;
        let (lifeline, writer) = alone(io::pipe)?;
        Ok((Spawner { program, folder, lifeline, _reserved: reserved }, Lifeline { _writer: writer }))
    }

    /// Absolute path of the program.
    pub(crate) fn program(&self) -> &PathBuf {
        &self.program
    }

    /// Starts a process of `generation` with these listeners. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When a descriptor cannot be made, or the program cannot be executed.
    pub(crate) fn spawn(
        &self,
        args: &[OsString],
        generation: Generation,
        listeners: Vec<OwnedFd>,
    ) -> io::Result<Spawned> {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .env("LEO_GENERATION", generation.0.to_string())
            .current_dir(&self.folder)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        alone(|| {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
            let (ready, ready_theirs) = io::pipe()?;
            let lifeline = self.lifeline.as_fd().try_clone_to_owned()?;
            let fixed = [(OwnedFd::from(theirs), CONTROL_FD), (lifeline, LIFELINE_FD)];
            let mappings = fixed
                .into_iter()
                .chain([(OwnedFd::from(ready_theirs), READY_FD)])
                .chain(listeners.into_iter().zip(FIRST_LISTENER_FD..))
                .map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd })
                .collect();
            command.fd_mappings(mappings).map_err(io::Error::other)?;
            let mut command = tokio::process::Command::from(command);
            // The keeper decides when a process ends; a dropped handle is no reason.
            let mut child = command.kill_on_drop(false).spawn()?;
            // Their ends live in the command; ours would never see an end while it does.
            drop(command);
            ours.set_nonblocking(true)?;
            let stderr = child.stderr.take().ok_or_else(|| io::Error::other("no pipe for standard error"))?;
            let ready = pipe::Receiver::from_owned_fd(OwnedFd::from(ready))?;
            Ok(Spawned { child, control: UnixStream::from_std(ours)?, ready, stderr })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    async fn run(spawner: &Spawner, script: &str, listeners: usize) -> (String, Spawned) {
        let listeners = (0..listeners).map(|_| File::open("/dev/null").unwrap().into()).collect();
        let args = ["-c".into(), script.into()];
        let mut spawned = spawner.spawn(&args, Generation(7), listeners).unwrap();
        let mut text = String::new();
        spawned.stderr.read_to_string(&mut text).await.unwrap();
        (text, spawned)
    }

    fn shell() -> (Spawner, Lifeline) {
        Spawner::new("/bin/sh".into(), "/".into()).unwrap()
    }

    /// After many starts, a child's open descriptors are exactly the agreed ones: nothing of an earlier
    /// or a neighbouring start leaks into it.
    #[tokio::test]
    async fn a_child_has_exactly_the_agreed_descriptors() {
        // What the test runner left open is not ours to pass on.
        fds::close_inherited_on_exec();
        let (spawner, _lifeline) = shell();
        let list = "exec >&2; i=0; while [ $i -lt 200 ]; do [ -e /dev/fd/$i ] && echo $i; i=$((i+1)); done";
        let mut kept = Vec::new();
        for round in 0..50 {
            let (_, spawned) = run(&spawner, "exit 0", round % 3).await;
            // Our ends stay open, as those of living workers do.
            kept.push(spawned);
        }
        let (text, mut spawned) = run(&spawner, list, 2).await;
        let open: Vec<&str> = text.lines().collect();
        assert_eq!(open, ["0", "1", "2", "3", "4", "5", "6", "7"]);
        assert!(spawned.child.wait().await.unwrap().success());
    }

    #[tokio::test]
    async fn a_child_knows_its_generation_and_leads_its_group() {
        let (spawner, _lifeline) = shell();
        let (text, spawned) = run(&spawner, "echo $LEO_GENERATION $$ $(ps -o pgid= -p $$) >&2", 0).await;
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words[0], "7");
        assert_eq!(words[1], words[2], "{text}");
        assert_eq!(Some(words[1].parse().unwrap()), spawned.child.id());
    }

    #[tokio::test]
    async fn the_end_of_the_lifeline_reaches_the_child() {
        let (spawner, lifeline) = shell();
        let args = ["-c".into(), "read x <&4; echo over >&2".into()];
        let mut spawned = spawner.spawn(&args, Generation(1), Vec::new()).unwrap();
        drop(lifeline);
        let mut text = String::new();
        spawned.stderr.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "over\n");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_an_error() {
        let (spawner, _lifeline) = Spawner::new("/no/such/program".into(), "/".into()).unwrap();
        let listeners = vec![File::open("/dev/null").unwrap().into()];
        let error = spawner.spawn(&[], Generation(1), listeners).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
