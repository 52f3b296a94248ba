//! `leo task-guard`: the parent of a run's process. It lives as long as its own holder: when the pipe on
//! its standard input ends, however the holder ended, it ends the run, so that no run outlives whoever
//! watches over it. It must not know what it runs.

use crate::platform;
use leo_ipc::ExitCode;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    ffi::OsString,
    fs::File,
    io::Read,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    time::Duration,
};

/// How long a run that is told to end may take: a harness ends its own children and writes its session.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// The same when nobody is left to wait for it.
const ORPHAN_GRACE: Duration = Duration::from_secs(2);

/// How long to wait for the guard of the run before, which ends with its own holder.
const PREDECESSOR: Duration = Duration::from_secs(15);

/// Exit code when the program could not be started, as shells have it.
pub(crate) const NOT_STARTED: u8 = 127;

/// What a guard is told.
struct Orders {
    lock: PathBuf,
    input: PathBuf,
    argv: Vec<OsString>,
}

enum Event {
    /// The run is to end within this time.
    End(Duration),
    /// It has ended.
    Ended(std::io::Result<std::process::ExitStatus>),
}

/// Runs `leo task-guard LOCK INPUT PROGRAM [ARGUMENT…]`. The environment and the folder are the run's.
pub fn guard() -> std::process::ExitCode {
    let mut args = std::env::args_os().skip(2);
    let orders = match (args.next(), args.next(), args.collect::<Vec<_>>()) {
        (Some(lock), Some(input), argv) if !argv.is_empty() => {
            Orders { lock: lock.into(), input: input.into(), argv }
        }
        _ => return complain("this program is started by Leo for a run of a task", ExitCode::Usage as u8),
    };
    match run(&orders) {
        Ok(code) => std::process::ExitCode::from(code),
        Err(e) => complain(&e.to_string(), NOT_STARTED),
    }
}

#[expect(clippy::print_stderr, reason = "standard error is the run's log")]
fn complain(what: &str, code: u8) -> std::process::ExitCode {
    eprintln!("[leo] {what}");
    std::process::ExitCode::from(code)
}

fn run(orders: &Orders) -> std::io::Result<u8> {
    let (tell, told) = sync_channel(8);
    // Before the run is started: nothing may end it behind our back.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    platform::adopt_orphans();
    let _lock = wait_for_predecessor(&orders.lock)?;
    let mut child = start(orders)?;
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(0));
    // Should this guard be killed itself, its holder knows what to end.
    let _ = leo_launch::write_private(&group_file(&orders.input), group.to_string().as_bytes());
    let of_signals = tell.clone();
    spawn("signals", move || {
        for _ in &mut signals {
            if of_signals.send(Event::End(GRACE)).is_err() {
                return;
            }
        }
    })?;
    let of_holder = tell.clone();
    spawn("holder", move || {
        wait_for_holder_end();
        let _ = of_holder.send(Event::End(ORPHAN_GRACE));
    })?;
    spawn("child", move || wait(&mut child, &tell))?;
    let mut deadline: Option<Duration> = None;
    let status = loop {
        let event = match deadline {
            None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(grace) => told.recv_timeout(grace),
        };
        match event {
            Ok(Event::Ended(status)) => break status?,
            Ok(Event::End(grace)) => {
                // Whoever asks twice, or is gone by now, gets the shorter time.
                deadline = Some(deadline.map_or(grace, |known| known.min(grace)));
                signal(group, Signal::SIGTERM);
            }
            Err(_) => {
                signal(group, Signal::SIGKILL);
                deadline = Some(GRACE);
            }
        }
    };
    // What it left behind has nobody to watch over it.
    signal(group, Signal::SIGKILL);
    platform::end_descendants();
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(u8::try_from(code & 0xff).unwrap_or(1))
}

/// Where a guard says which process group it watches over.
pub(crate) fn group_file(input: &Path) -> PathBuf {
    input.with_extension("group")
}

/// The guard of the run before may be ending it still; two of one task must not meet.
fn wait_for_predecessor(lock: &Path) -> std::io::Result<File> {
    let file = crate::run::open_lock(lock)?;
    let began = std::time::Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::Error(e)) => return Err(e),
            Err(std::fs::TryLockError::WouldBlock) if began.elapsed() > PREDECESSOR => {
                return Err(std::io::Error::other("the run before this one does not end"));
            }
            Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn start(orders: &Orders) -> std::io::Result<Child> {
    let program = &orders.argv[0];
    let input = File::open(&orders.input)?;
    Command::new(program)
        .args(&orders.argv[1..])
        .stdin(Stdio::from(input))
        .process_group(0)
        .spawn()
        .map_err(|e| std::io::Error::other(format!("{} cannot be started: {e}", program.to_string_lossy())))
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(128 * 1024).spawn(body).map(drop)
}

fn wait_for_holder_end() {
    let mut byte = [0u8; 1];
    loop {
        match std::io::stdin().read(&mut byte) {
            Ok(0) => return,
            Err(e) if e.kind() != std::io::ErrorKind::Interrupted => return,
            // Nothing is ever written; a stray byte changes nothing.
            Ok(_) | Err(_) => {}
        }
    }
}

fn wait(child: &mut Child, tell: &SyncSender<Event>) {
    let _ = tell.send(Event::Ended(child.wait()));
}

fn signal(group: Pid, signal: Signal) {
    // It may have ended by itself.
    let _ = killpg(group, signal);
}
