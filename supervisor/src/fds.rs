//! Descriptors that this process inherited or that its children's fixed numbers need. The crate's only
//! `unsafe`: a number that the system listed is borrowed for one call.

use leo_ipc::control::FIRST_LISTENER_FD;
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::resource::{Resource, getrlimit, setrlimit},
};
use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

/// Highest number that a worker's fixed descriptors use: the http worker has two listeners.
const LAST_FIXED: i32 = FIRST_LISTENER_FD + 1;

/// Open files that the supervisor and its workers may have. macOS starts with 256, which a hundred
/// event streams would exhaust; 10240 is the most that it accepts.
const OPEN_FILES: u64 = 10_240;

/// Marks everything that whoever started us left open, so that it does not leak into workers and from
/// there into tmux, which would hold it for weeks. Call before anything is opened that a child should
/// get.
pub(crate) fn close_inherited_on_exec() {
    // A folder on every system that we run on; where it is missing there is nothing to list.
    let Ok(entries) = std::fs::read_dir("/dev/fd") else { return };
    let numbers: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|n| *n > 2) {
        // SAFETY: the borrow lives for this call, in which nothing closes the descriptor: there is no
        // other thread yet but the console's, which opens and closes none. The number of the listing
        // itself is closed by now, and `fcntl` answers EBADF for it, which changes nothing.
        #[expect(unsafe_code, reason = "inherited descriptors are known only as numbers")]
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    }
}

/// Fills the numbers that workers get their fixed descriptors at, for as long as the result is kept.
/// std reports a failed exec through a pipe of its own; if that got one of these numbers, placing the
/// worker's descriptors in the child would close it, and a failed start would look like a good one.
///
/// # Errors
/// When `/dev/null` cannot be opened.
pub(crate) fn reserve_fixed_numbers() -> io::Result<Vec<File>> {
    let mut held = Vec::new();
    loop {
        let file = File::open("/dev/null")?;
        if file.as_raw_fd() > LAST_FIXED {
            return Ok(held);
        }
        held.push(file);
    }
}

/// Lets this process and its children open more files, as far as the system allows.
pub(crate) fn raise_open_files() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let wanted = OPEN_FILES.min(hard);
    if soft < wanted
        && let Err(e) = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)
    {
        tracing::warn!(soft, wanted, error = %e, "the limit of open files stays low");
    }
}
