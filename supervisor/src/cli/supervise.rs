//! `leo supervise`

use super::{
    failure::Failure,
    serve::{self, Console, Ground, Hangup},
};
use leo_ipc::{ExitCode, paths::Home};

/// Runs the supervisor for a service manager.
pub(crate) fn run(home: Home) -> Result<ExitCode, Failure> {
    let ground = Ground::prepare(home, Console::Stderr)?;
    let runtime = super::runtime()?;
    let code = runtime.block_on(async {
        let daemon = ground.daemon()?;
        serve::follow_signals(daemon.shared(), Hangup::Reload)?;
        Ok::<_, Failure>(daemon.run().await)
    })?;
    Ok(serve::finish(runtime, code))
}
