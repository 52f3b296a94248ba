//! What may end the wait besides the hub: the harness's signal, and the harness's own end. Both are
//! waited for without looking again and again.

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use signal_hook::{consts::SIGTERM, iterator::Signals};
use std::{io, os::fd::AsFd};

/// Keeps SIGTERM from ending the process, until it is waited for.
///
/// # Errors
/// When the system says no.
pub(super) fn hold_termination() -> io::Result<Signals> {
    Signals::new([SIGTERM])
}

/// Waits for the signal; false when it cannot be waited for.
pub(super) fn wait_for_termination(mut signals: Signals) -> bool {
    signals.forever().next().is_some()
}

/// Waits until nobody reads `output` any more, which is how the end of a harness shows on every system;
/// false when that cannot be seen, as with a file.
pub(super) fn wait_for_reader_end(output: &impl AsFd) -> bool {
    loop {
        // Nothing is asked for: what has ended is reported all the same.
        let mut fds = [PollFd::new(output.as_fd(), PollFlags::empty())];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => {
                let ended = PollFlags::POLLERR | PollFlags::POLLHUP;
                return fds[0].revents().is_some_and(|seen| seen.intersects(ended));
            }
            Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}
