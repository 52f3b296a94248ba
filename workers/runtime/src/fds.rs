//! The inherited descriptors. The only `unsafe` of the workers: a number becomes an owner, once.

use leo_ipc::control::{CONTROL_FD, FIRST_LISTENER_FD, LIFELINE_FD, READY_FD};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::atomic::{AtomicBool, Ordering},
};

/// What the supervisor left in this process besides the standard three.
pub(crate) struct Inherited {
    pub(crate) control: UnixStream,
    pub(crate) lifeline: File,
    pub(crate) ready: File,
}

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes over control, lifeline and readiness descriptors.
///
/// # Errors
/// When one of them is not open: this process was not started by the supervisor.
pub(crate) fn take() -> io::Result<Inherited> {
    // In a process that nobody prepared, these numbers belong to the runtime itself.
    if std::env::var_os("LEO_GENERATION").is_none() {
        return Err(io::Error::other("LEO_GENERATION is not set"));
    }
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Err(io::Error::other("the descriptors were taken before"));
    }
    let control = UnixStream::from(own(CONTROL_FD)?);
    control.set_nonblocking(true)?;
    let ready = own(READY_FD)?;
    // A heartbeat must never wait for the supervisor.
    fcntl(ready.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(Inherited { control, lifeline: File::from(own(LIFELINE_FD)?), ready: File::from(ready) })
}

impl Inherited {
    /// Takes over the listeners, which come after the fixed three. Call once, after [`take`].
    pub(crate) fn listeners(count: usize) -> impl Iterator<Item = io::Result<OwnedFd>> {
        (FIRST_LISTENER_FD..).take(count).map(own)
    }
}

fn own(fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: `TAKEN` lets this run once per process, before the runtime or a library opens anything
    // above the standard descriptors, and each number is asked for once. `fcntl` below refuses a
    // number that is not open; its owner is then forgotten, not closed.
    #[expect(unsafe_code, reason = "descriptors cross an exec as numbers")]
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    // Whatever this worker starts must not hold our lifeline, listeners or control channel open.
    match fcntl(owned.as_fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)) {
        Ok(_) => Ok(owned),
        Err(e) => {
            std::mem::forget(owned);
            Err(io::Error::from(e))
        }
    }
}
