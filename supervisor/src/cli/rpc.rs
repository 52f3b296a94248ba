//! Questions to the supervisor over its own socket, which answers when every worker is down.

use super::failure::Failure;
use leo_ipc::{Call, Generation, client, client::Client, control::ControlRequest, hello::Role, paths::Home};
use std::time::Duration;

/// For what the supervisor answers from memory, measuring included.
pub(crate) const QUICK: Duration = Duration::from_secs(5);

/// Asks the supervisor of `home`.
///
/// # Errors
/// That none runs, or what it refused.
pub(crate) async fn ask<C>(home: &Home, call: C, within: Duration) -> Result<C::Reply, Failure>
where
    C: Call<Request = ControlRequest>,
{
    // A client asks again until its deadline; whether there is anybody to ask is known at once.
    let socket = home.control_socket();
    let probe = client::connect(&socket, Role::Cli, Generation(0));
    match tokio::time::timeout(within, probe).await {
        Ok(Ok(_)) => {}
        Ok(Err(e)) => return Err(Failure::of_control(home, e)),
        Err(_) => return Err(Failure::of_control(home, leo_ipc::IpcError::Deadline { ms: 0 })),
    }
    let client = Client::new(socket, Role::Cli, Generation(0));
    client.call(call, within).await.map_err(|e| Failure::of_control(home, e))
}
