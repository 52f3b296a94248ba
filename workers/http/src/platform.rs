//! What the operating system has to be asked for.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors that two full listeners and the worker's own files need. macOS starts processes with 256
/// and refuses limits above 10240.
const DESCRIPTORS: u64 = 8192 + 256;

/// Raises the limit of open descriptors as far as it may and needs to go.
pub(crate) fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        let wanted = DESCRIPTORS.min(hard);
        if soft >= wanted { Ok(()) } else { setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) }
    });
    if let Err(e) = raised {
        tracing::warn!(error = %e, "cannot raise the limit of open files; many connections may be refused");
    }
}
