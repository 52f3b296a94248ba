//! Waiting for the end of the parent process, which no two systems do alike.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod macos;

#[cfg(target_os = "linux")]
pub(crate) use linux::wait_for_parent_end;
#[cfg(not(target_os = "linux"))]
pub(crate) use macos::wait_for_parent_end;

use std::{os::unix::process::parent_id, time::Duration};

/// Waits until this process has another parent than at the start, looking every `pause`.
fn wait_by_looking(pause: Duration) {
    let parent = parent_id();
    while parent_id() == parent {
        std::thread::sleep(pause);
    }
}
