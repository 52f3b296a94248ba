//! macOS: the parent is looked for, since it may be a process that we may not watch.

use std::time::Duration;

/// Rare enough to cost nothing, often enough to be gone within the promised 5 s.
const PAUSE: Duration = Duration::from_secs(2);

/// Blocks until the process that started this one is gone.
pub(crate) fn wait_for_parent_end() {
    super::wait_by_looking(PAUSE);
}
