//! Wake-ups for the agents worker. A subscriber that does not keep up is told to look at everything
//! instead, so that nothing depends on having seen each item.

use leo_ipc::agent::Wake;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::sync::Notify;

/// Wake-ups waiting for one subscriber; beyond it they are replaced by [`Wake::All`].
const QUEUE: usize = 256;

/// All subscribers.
#[derive(Default)]
pub(crate) struct Watchers {
    queues: Mutex<Vec<Weak<Queue>>>,
}

#[derive(Default)]
struct Queue {
    items: Mutex<VecDeque<Wake>>,
    changed: Notify,
}

/// One subscriber.
pub(crate) struct Watch {
    queue: Arc<Queue>,
}

impl Watchers {
    /// A new subscriber, which is told to look at everything first.
    pub(crate) fn subscribe(&self) -> Watch {
        let queue = Arc::new(Queue::default());
        queue.push([Wake::All {}]);
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
        Watch { queue }
    }

    /// Wakes everybody.
    pub(crate) fn publish(&self, wakes: &[Wake]) {
        if wakes.is_empty() {
            return;
        }
        for queue in
            self.queues.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade)
        {
            queue.push(wakes.iter().cloned());
        }
    }
}

impl Queue {
    fn push(&self, wakes: impl IntoIterator<Item = Wake>) {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        for wake in wakes {
            // The same wake-up twice in a row says nothing new.
            if items.back() != Some(&wake) {
                items.push_back(wake);
            }
        }
        if items.len() > QUEUE {
            items.clear();
            items.push_back(Wake::All {});
        }
        drop(items);
        self.changed.notify_one();
    }
}

impl Watch {
    /// The next wake-up.
    pub(crate) async fn next(&self) -> Wake {
        loop {
            if let Some(wake) = self.queue.items.lock().unwrap_or_else(PoisonError::into_inner).pop_front() {
                return wake;
            }
            self.queue.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_subscriber_that_falls_behind_looks_at_everything() {
        let watchers = Watchers::default();
        let watch = watchers.subscribe();
        assert_eq!(watch.next().await, Wake::All {});
        for n in 0..QUEUE + 1 {
            watchers.publish(&[Wake::Outbox { name: format!("a{n}").parse().unwrap() }]);
        }
        assert_eq!(watch.next().await, Wake::All {});
    }
}
