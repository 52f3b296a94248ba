//! Linux: a pidfd tells at once, and costs nothing until then.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::{
    os::{fd::AsFd, unix::process::parent_id},
    time::Duration,
};

/// Where a pidfd cannot be had (before Linux 5.3, or in a sandbox), the parent is looked for this often.
const PAUSE: Duration = Duration::from_millis(500);

/// Blocks until the process that started this one is gone.
pub(crate) fn wait_for_parent_end() {
    let parent = parent_id();
    let pidfd = i32::try_from(parent)
        .ok()
        .and_then(Pid::from_raw)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let Some(pidfd) = pidfd else { return super::wait_by_looking(PAUSE) };
    // Had it ended before the pidfd was opened, its number could be another process's by now.
    while parent_id() == parent {
        let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
        if matches!(poll(&mut fds, PollTimeout::NONE), Ok(n) if n > 0) {
            return;
        }
    }
}
