//! One attempt: a guard with the harness below it, its output into the log, until it ends, its time is
//! over, or somebody stops it.

use super::{
    launch::Plan,
    log::{SharedLog, Stream},
};
use crate::guard::{GRACE, NOT_STARTED, group_file};
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use std::{
    path::Path,
    process::{ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    sync::mpsc,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Pieces of output waiting to be written; beyond them the run waits, as at any full pipe.
const OUTPUT_QUEUE: usize = 32;

/// How much longer than its own grace a guard may take to end.
const GUARD_MARGIN: Duration = Duration::from_secs(3);

/// How long output may still come after the run has ended: a descendant may hold the pipe open, which is
/// its own affair.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself, with this code; a signal is 128 and its number.
    Exited(i32),
    /// It could not be started.
    NotStarted(String),
    /// It took longer than it may.
    TimedOut,
    /// Somebody stopped it.
    Stopped,
}

/// Where output goes besides the log.
pub type Live = mpsc::Sender<(Stream, Vec<u8>)>;

/// What every attempt of a run has in common.
pub(crate) struct Place<'a> {
    /// Absolute path of `leo`.
    pub(crate) leo: &'a str,
    /// The guard's lock.
    pub(crate) lock: &'a Path,
    /// The file with the prompt.
    pub(crate) input: &'a Path,
    /// The folder to work in.
    pub(crate) workspace: &'a Path,
    /// How long an attempt may take.
    pub(crate) timeout: Duration,
}

/// Makes an attempt.
pub(crate) async fn attempt(
    place: &Place<'_>,
    plan: &Plan,
    log: &SharedLog,
    live: Option<&Live>,
    stop: &CancellationToken,
) -> Ending {
    let mut child = match start(place, plan) {
        Ok(child) => child,
        Err(e) => return Ending::NotStarted(format!("its process cannot be started: {e}")),
    };
    let (tell, told) = mpsc::channel(OUTPUT_QUEUE);
    if let Some(out) = child.stdout.take() {
        tokio::spawn(follow(out, Stream::Out, tell.clone()));
    }
    if let Some(err) = child.stderr.take() {
        tokio::spawn(follow(err, Stream::Err, tell.clone()));
    }
    drop(tell);
    // A terminal that does not read holds the output back, not the clock and not a wish to stop.
    let showing = Arc::new(AtomicBool::new(false));
    let mut writing = tokio::spawn(write(told, log.clone(), live.cloned(), showing.clone()));
    // Held until the end: its end is the guard's signal that we are gone.
    let _lifeline = child.stdin.take();
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
    let deadline = Instant::now() + place.timeout;
    let mut ended: Option<Ending> = None;
    let mut kill_at: Option<Instant> = None;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            () = stop.cancelled(), if ended.is_none() => {
                ended = Some(Ending::Stopped);
                kill_at = Some(end(pid, Signal::SIGTERM));
            }
            () = tokio::time::sleep_until(deadline), if ended.is_none() => {
                ended = Some(Ending::TimedOut);
                kill_at = Some(end(pid, Signal::SIGTERM));
            }
            () = tokio::time::sleep_until(kill_at.unwrap_or(deadline)), if kill_at.is_some() => {
                kill_at = Some(end(pid, Signal::SIGKILL));
            }
        }
    };
    while tokio::time::timeout(LAST_OUTPUT, &mut writing).await.is_err() {
        // Whoever reads slowly gets everything, unless they want no more of it.
        if !showing.load(Ordering::Relaxed) || stop.is_cancelled() {
            writing.abort();
            break;
        }
    }
    if status.as_ref().is_ok_and(|status| status.code().is_none()) {
        end_group(place.input);
    }
    ended.unwrap_or_else(|| by_itself(status, log))
}

fn start(place: &Place<'_>, plan: &Plan) -> std::io::Result<Child> {
    Command::new(place.leo)
        .arg("task-guard")
        .arg(place.lock)
        .arg(place.input)
        .args(&plan.argv)
        .env_clear()
        .envs(&plan.env)
        .current_dir(place.workspace)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(false)
        .spawn()
}

/// Sends a signal to the guard, and says when to send a harder one.
fn end(guard: Option<Pid>, signal: Signal) -> Instant {
    if let Some(guard) = guard {
        // It may have ended by itself.
        let _ = kill(guard, signal);
    }
    Instant::now() + GRACE + GUARD_MARGIN
}

async fn follow(mut stream: impl AsyncRead + Unpin, which: Stream, tell: mpsc::Sender<(Stream, Vec<u8>)>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(n) = stream.read(&mut buffer).await {
        if n == 0 || tell.send((which, buffer[..n].to_vec())).await.is_err() {
            return;
        }
    }
}

async fn write(
    mut told: mpsc::Receiver<(Stream, Vec<u8>)>,
    log: SharedLog,
    live: Option<Live>,
    showing: Arc<AtomicBool>,
) {
    while let Some((stream, bytes)) = told.recv().await {
        log.with(|log| log.write(stream, &bytes));
        if let Some(live) = &live {
            // A terminal that is gone costs the output, not the run.
            showing.store(true, Ordering::Relaxed);
            let _ = live.send((stream, bytes)).await;
            showing.store(false, Ordering::Relaxed);
        }
    }
}

/// Ends what a guard watched over that was killed itself.
fn end_group(input: &Path) {
    let text = std::fs::read_to_string(group_file(input)).unwrap_or_default();
    if let Some(group) = text.trim().parse().ok().filter(|group| *group > 1) {
        // It may have ended with its guard.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
}

fn by_itself(status: std::io::Result<ExitStatus>, log: &SharedLog) -> Ending {
    use std::os::unix::process::ExitStatusExt;
    match status {
        Err(e) => Ending::NotStarted(format!("its process cannot be waited for: {e}")),
        Ok(status) => match status.code() {
            Some(code) if code == i32::from(NOT_STARTED) => {
                let words = log.with(|log| log.last_words(super::LAST_WORDS));
                let words = words.strip_prefix("[leo] ").unwrap_or(&words);
                Ending::NotStarted(if words.is_empty() {
                    "it could not be started".to_owned()
                } else {
                    words.to_owned()
                })
            }
            Some(code) => Ending::Exited(code),
            None => Ending::Exited(128 + status.signal().unwrap_or(0)),
        },
    }
}
