//! Dying with the parent: a thread that waits for the end of a pipe whose other end only the
//! supervisor holds (DESIGN.md, invariant 10). A thread of its own, because a worker whose event loop
//! hangs must die too.

use leo_ipc::ExitCode;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::{getpgrp, getpid},
};
use std::{fs::File, io::Read};

/// Ends this process, and its process group if it leads one, when `pipe` ends.
pub(crate) fn watch(mut pipe: File) {
    let spawned =
        std::thread::Builder::new().name("lifeline".to_owned()).stack_size(64 * 1024).spawn(move || {
            let mut byte = [0u8; 1];
            loop {
                match pipe.read(&mut byte) {
                    Ok(0) => break,
                    Err(e) if e.kind() != std::io::ErrorKind::Interrupted => break,
                    // Nothing is ever written; a stray byte changes nothing.
                    Ok(_) | Err(_) => {}
                }
            }
            // Children of ours are in our group: they must not outlive the supervisor either.
            if getpgrp() == getpid() {
                let _ = killpg(getpgrp(), Signal::SIGKILL);
            }
            #[expect(clippy::exit, reason = "nothing is left to work for, and start is recovery")]
            std::process::exit(ExitCode::Ok as i32);
        });
    if let Err(e) = spawned {
        tracing::error!(error = %e, "no thread for the lifeline; this worker may outlive its supervisor");
    }
}
