//! `worker_state_changed` events from the supervisor's snapshots of its workers.

use leo_ipc::control::WorkerStatus;
use serde_json::{Map, Value};

/// The events for what differs between two snapshots. A worker's pid alone is no news.
pub(crate) fn changes(before: &[WorkerStatus], after: &[WorkerStatus]) -> Vec<Map<String, Value>> {
    let differs = |now: &&WorkerStatus| {
        let old = before.iter().find(|w| w.name == now.name);
        old.is_none_or(|old| (old.state, old.restarts, &old.reason) != (now.state, now.restarts, &now.reason))
    };
    after.iter().filter(differs).map(payload).collect()
}

fn payload(worker: &WorkerStatus) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("worker".to_owned(), worker.name.as_str().into());
    map.insert("state".to_owned(), serde_json::to_value(worker.state).unwrap_or(Value::Null));
    map.insert("restarts".to_owned(), worker.restarts.into());
    if let Some(reason) = &worker.reason {
        map.insert("reason".to_owned(), reason.as_str().into());
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use leo_ipc::control::WorkerState;

    #[test]
    fn only_what_changed_is_news() {
        let worker = |name: &str, state, restarts| WorkerStatus {
            name: name.into(),
            pid: Some(1),
            state,
            restarts,
            since: None,
            reason: None,
            rss_bytes: None,
            cpu_percent: None,
        };
        let before = [worker("http", WorkerState::Running, 0), worker("agents", WorkerState::Running, 0)];
        let after = [worker("http", WorkerState::Running, 1), worker("agents", WorkerState::Running, 0)];
        let news = changes(&before, &after);
        assert_eq!(news.len(), 1);
        assert_eq!(news[0]["worker"], "http");
        assert_eq!(changes(&[], &after).len(), 2);
        assert!(changes(&after, &after).is_empty());
    }
}
