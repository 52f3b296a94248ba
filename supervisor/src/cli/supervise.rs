//! `leo supervise`

use super::{
    failure::Failure,
    serve::{self, Ground, Hangup},
};
use crate::{console::Console, daemon::StartError};
use leo_ipc::{ExitCode, paths::Home};

/// Runs the supervisor for a service manager.
pub(crate) fn run(home: Home) -> Result<ExitCode, Failure> {
    let console = Console::start()
        .map_err(|source| StartError::System { doing: "starting the console's thread", source })?;
    let ground = Ground::prepare(home, Some(console.clone()))?;
    let runtime = super::runtime()?;
    let code = runtime.block_on(async {
        let daemon = ground.daemon()?;
        serve::follow_signals(daemon.shared(), Hangup::Reload)?;
        Ok::<_, Failure>(daemon.run().await)
    })?;
    console.flush_all();
    Ok(serve::finish(runtime, code))
}
