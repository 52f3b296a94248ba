//! macOS gives orphans to launchd; what stayed in the run's process group is ended with it.

/// There is nothing to ask for here.
pub(crate) fn adopt_orphans() {}

/// Orphans are not ours to see here.
pub(crate) fn end_descendants() {}
