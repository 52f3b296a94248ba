//! Work of once a day: what has been kept long enough goes. Each job is one request to the hub that may
//! be made as often as one likes, so nothing has to be remembered over a restart.

use crate::attachments;
use leo_ipc::{Call, IpcError, client::Client, hub::HubRequest, paths::Home, reminder::PruneReminders};
use std::time::Duration;

/// How long after a start the first round comes: a start has more urgent things to do.
const FIRST: Duration = Duration::from_secs(60);

/// Pause between two rounds. It may stretch by the time that the machine sleeps, which is as good.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long one job may take, over restarts of the hub.
const WITHIN: Duration = Duration::from_secs(60);

/// Does the work for ever.
pub(crate) async fn run(home: Home, hub: Client<HubRequest>) {
    tokio::time::sleep(FIRST).await;
    loop {
        job("settled reminders", &hub, PruneReminders {}).await;
        match attachments::prune(&home, &hub).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "files that are no longer kept were removed"),
            Err(error) => tracing::warn!(%error, "old files were not removed; it is tried again tomorrow"),
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn job<C: Call<Request = HubRequest>>(what: &str, hub: &Client<HubRequest>, call: C) {
    let done: Result<_, IpcError> = hub.call(call, WITHIN).await;
    if let Err(error) = done {
        tracing::warn!(%error, what, "the daily work was not done; it is tried again tomorrow");
    }
}
