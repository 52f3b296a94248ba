//! `leo reload`

use super::{failure::Failure, out, rpc};
use leo_ipc::{ExitCode, control::Reload, paths::Home};

/// Has the configuration read again.
pub(crate) async fn run(home: &Home) -> Result<ExitCode, Failure> {
    let done = rpc::ask(home, Reload {}, rpc::QUICK).await?;
    out::line(&format!("{} was read.", super::text::path(&home.config().display().to_string())));
    if !done.needs_restart.is_empty() {
        out::line(&format!(
            "Takes effect when the supervisor is started again: {}",
            done.needs_restart.join(", ")
        ));
    }
    Ok(ExitCode::Ok)
}
