//! How often an API client may speak: a script in a loop must not flood a thread. Kept in memory, a
//! bucket a client; a new worker starts with full ones, which is no way round the bound.

use leo_ipc::ClientName;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Messages that a client may send at once: a build with many jobs that end together.
pub(crate) const BURST: u32 = 30;

/// Time after which it may send one more: sixty a minute, more than a person can read.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// Buckets kept; a full one is the same as none.
const MAX_BUCKETS: usize = 256;

/// A client's bucket: when it will be full again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bucket {
    full_at: Instant,
}

impl Bucket {
    /// Takes one out, if there is one.
    fn take(self, now: Instant) -> Option<Bucket> {
        let full_at = self.full_at.max(now) + EVERY;
        (full_at.duration_since(now) <= EVERY * BURST).then_some(Bucket { full_at })
    }
}

/// Everybody's buckets.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    buckets: Mutex<HashMap<ClientName, Bucket>>,
}

impl Rates {
    /// Whether a client may speak now; it has spoken then.
    pub(crate) fn take(&self, client: &ClientName) -> bool {
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS {
            buckets.retain(|_, bucket| bucket.full_at > now);
        }
        let bucket = buckets.get(client).copied().unwrap_or(Bucket { full_at: now });
        match bucket.take(now) {
            Some(left) => {
                buckets.insert(client.clone(), left);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_at_a_time() {
        let start = Instant::now();
        let mut bucket = Bucket { full_at: start };
        for n in 0..BURST {
            bucket = bucket.take(start).unwrap_or_else(|| panic!("{n}"));
        }
        assert_eq!(bucket.take(start), None);
        assert_eq!(bucket.take(start + EVERY / 2), None);
        bucket = bucket.take(start + EVERY).unwrap();
        assert_eq!(bucket.take(start + EVERY), None);
        let much_later = start + EVERY * 1000;
        let mut count = 0;
        while let Some(left) = bucket.take(much_later) {
            bucket = left;
            count += 1;
        }
        assert_eq!(count, BURST, "no more is saved up");
    }
}
