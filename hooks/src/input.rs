//! The hook's standard input, read with a bound in bytes and in time: a harness that writes too much,
//! or never closes its end, must not hold the hook.

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::read,
};
use std::{os::fd::AsFd, time::Instant};

/// Most bytes kept. A hook's input holds a whole tool result, which may be large; what we use of it is
/// a few texts.
pub(crate) const MAX_INPUT: usize = 32 * 1024 * 1024;

/// Bytes asked for at once: a pipe holds this much by default.
const CHUNK: usize = 64 * 1024;

/// Reads to the end of `input` or until `deadline`, keeps the first [`MAX_INPUT`] bytes, and drains the
/// rest so that the writer does not meet a closed pipe.
pub(crate) fn read_bounded(input: &impl AsFd, deadline: Instant) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut chunk = vec![0u8; CHUNK];
    while wait_readable(input, deadline) {
        match read(input, &mut chunk) {
            Ok(0) => break,
            Ok(n) => {
                let room = MAX_INPUT - kept.len();
                kept.extend_from_slice(&chunk[..n.min(room)]);
            }
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => break,
        }
    }
    kept
}

fn wait_readable(input: &impl AsFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        // Rounded up, so that the last millisecond does not become a busy loop.
        let timeout = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
        let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(timeout)) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, os::unix::net::UnixStream, time::Duration};

    #[test]
    fn keeps_what_fits_and_drains_the_rest() {
        let (reader, mut writer) = UnixStream::pair().unwrap();
        let writing = std::thread::spawn(move || {
            let block = vec![b'x'; 1024 * 1024];
            (0..34).try_for_each(|_| writer.write_all(&block))
        });
        let kept = read_bounded(&reader, Instant::now() + Duration::from_secs(60));
        assert_eq!(kept.len(), MAX_INPUT);
        writing.join().unwrap().unwrap();
    }

    #[test]
    fn an_input_that_never_ends_does_not_hold_the_hook() {
        let (reader, mut writer) = UnixStream::pair().unwrap();
        writer.write_all(b"{}").unwrap();
        let kept = read_bounded(&reader, Instant::now() + Duration::from_millis(30));
        assert_eq!(kept, b"{}");
    }
}
