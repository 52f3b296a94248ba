//! Files that hold secrets.

use std::{io::Write, os::unix::fs::OpenOptionsExt, path::Path};

/// Replaces a file by one that only this user can read, in one step.
///
/// # Errors
/// When it cannot be written.
pub fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    // Left over from a crash, it might have another owner's mode.
    match std::fs::remove_file(&partial) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
    file.write_all(bytes)?;
    drop(file);
    std::fs::rename(&partial, path)
}
