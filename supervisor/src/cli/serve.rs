//! What `leo up` and `leo supervise` have in common: the ground for the supervisor, its log, and the
//! signals that a person or a service manager sends.

use super::failure::Failure;
use crate::{
    console::Console,
    daemon::{Daemon, Order, Shared, StartError},
    fds,
    logs::{Logs, OwnLog},
    machine::Event,
    sockets,
};
use leo_ipc::{ExitCode, paths::Home};
use std::{path::PathBuf, sync::Arc};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};
use tracing_subscriber::{EnvFilter, fmt, prelude::*};

/// What a hang-up means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangup {
    /// Read the configuration again, as services do.
    Reload,
    /// The terminal in which everything runs is gone.
    Stop,
}

/// The ground on which a supervisor is built. Made before the runtime, while there is one thread.
pub(crate) struct Ground {
    home: Home,
    logs: Logs,
    program: PathBuf,
}

impl Ground {
    /// Makes folders and starts logging, to the log file and to `console` where there is one.
    ///
    /// # Errors
    /// When the home cannot be used.
    pub(crate) fn prepare(home: Home, console: Option<Console>) -> Result<Ground, Failure> {
        fds::close_inherited_on_exec();
        let system = |doing| move |source| Failure::from(StartError::System { doing, source });
        let program = std::env::current_exe().map_err(system("finding the own program"))?;
        sockets::prepare_folders(&home).map_err(StartError::from)?;
        let logs = Logs::start(home.logs()).map_err(system("starting the log thread"))?;
        let own = OwnLog::new(logs.clone());
        let filter = EnvFilter::try_from_env("LEO_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
        let stderr = console.map(|console| {
            fmt::layer()
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_writer(move || console.clone())
        });
        // Fails only when logging was started before, which then goes on.
        let _ = tracing_subscriber::registry()
            .with(filter)
            .with(
                fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_current_span(false)
                    .with_writer(move || own.clone()),
            )
            .with(stderr)
            .try_init();
        Ok(Ground { home, logs, program })
    }

    /// Takes the lock and binds the sockets. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// As [`StartError`] says.
    pub(crate) fn daemon(self) -> Result<Daemon, Failure> {
        Ok(Daemon::prepare(self.home, self.logs, self.program)?)
    }
}

/// Follows signals for as long as the supervisor runs.
///
/// # Errors
/// When a signal cannot be listened to.
pub(crate) fn follow_signals(shared: Arc<Shared>, hangup: Hangup) -> Result<(), Failure> {
    let listen = |kind| {
        signal(kind)
            .map_err(|source| Failure::from(StartError::System { doing: "listening to signals", source }))
    };
    let signals = Signals {
        interrupt: listen(SignalKind::interrupt())?,
        terminate: listen(SignalKind::terminate())?,
        hangup: listen(SignalKind::hangup())?,
    };
    tokio::spawn(signals.follow(shared, hangup));
    Ok(())
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    async fn follow(mut self, shared: Arc<Shared>, hangup: Hangup) {
        loop {
            let stop = tokio::select! {
                Some(()) = self.interrupt.recv() => true,
                Some(()) = self.terminate.recv() => true,
                Some(()) = self.hangup.recv() => hangup == Hangup::Stop,
                else => return,
            };
            if !stop {
                // What is wrong is in the log and in the status.
                let _ = shared.reload().await;
            } else if shared.stop.is_cancelled() {
                // Asked twice: the person does not want to wait.
                let (told, _) = oneshot::channel();
                let _ = shared.orders.send(Order::Tell { who: None, event: Event::KillNow, told }).await;
            } else {
                shared.stop.cancel();
            }
        }
    }
}

/// Ends a command's process with everything that still runs in it.
pub(crate) fn finish(runtime: tokio::runtime::Runtime, code: ExitCode) -> ExitCode {
    // A thread that waits for a key, or a measurement, must not hold the end up.
    runtime.shutdown_background();
    code
}
