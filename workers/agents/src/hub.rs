//! The hub as this worker calls it: a call is made until it is answered, since nothing can be decided
//! without the hub, and a hub that is being replaced is back within milliseconds.

use leo_ipc::{Call, Fault, IpcError, client::Client, hub::HubRequest};
use std::time::Duration;

/// One try. The client itself reconnects within it.
const TRY: Duration = Duration::from_secs(5);

/// One try of a wait for a person. The hub itself ends each wait; this is above the longest.
const LONGEST_WAIT: Duration = Duration::from_secs(25 * 60 * 60);

/// Pause between tries.
const PAUSE: Duration = Duration::from_millis(200);

/// The hub.
#[derive(Clone)]
pub(crate) struct Hub {
    client: Client<HubRequest>,
}

impl Hub {
    /// A hub behind this client.
    pub(crate) fn new(client: Client<HubRequest>) -> Hub {
        Hub { client }
    }

    /// Asks until there is an answer. Every request is idempotent, so asking again is harmless.
    ///
    /// # Errors
    /// The hub's refusal.
    pub(crate) async fn ask<C: Call<Request = HubRequest> + Clone>(
        &self,
        call: C,
    ) -> Result<C::Reply, Fault> {
        let mut silent = true;
        loop {
            match self.client.call(call.clone(), TRY).await {
                Ok(reply) => return Ok(reply),
                Err(IpcError::Fault(fault)) if fault.code != "unavailable" => return Err(fault),
                Err(e @ (IpcError::TooLarge { .. } | IpcError::Undecodable { .. })) => {
                    return Err(e.into_fault());
                }
                Err(e) => {
                    if std::mem::take(&mut silent) {
                        tracing::warn!(error = %e, "the hub does not answer; asking again");
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Asks for something that a person decides, which may take as long as it takes.
    ///
    /// # Errors
    /// The hub's refusal.
    pub(crate) async fn wait<C: Call<Request = HubRequest> + Clone>(
        &self,
        call: C,
    ) -> Result<C::Reply, Fault> {
        loop {
            match self.client.call(call.clone(), LONGEST_WAIT).await {
                Ok(reply) => return Ok(reply),
                Err(IpcError::Fault(fault)) if fault.code != "unavailable" => return Err(fault),
                Err(e @ (IpcError::TooLarge { .. } | IpcError::Undecodable { .. })) => {
                    return Err(e.into_fault());
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Asks for something whose refusal changes nothing here, and logs the refusal.
    pub(crate) async fn tell<C: Call<Request = HubRequest> + Clone>(&self, what: &'static str, call: C) {
        if let Err(fault) = self.ask(call).await {
            tracing::warn!(what, code = fault.code, error = fault.message, "the hub refused");
        }
    }
}
