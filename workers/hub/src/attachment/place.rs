//! Files on disk: each in a folder of its own, named by its id. Every step leaves a state that a later
//! start or the next pruning can read: what has no row is an orphan, whatever stopped us.

use leo_ipc::{AgentName, paths::Home};
use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File},
    io::{self, Read},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// A folder or an unfinished upload that no row names is removed when it is this old: by then nobody is
/// between writing a file and storing its row.
const ORPHAN_AGE: Duration = Duration::from_secs(24 * 3600);

/// Most orphans of one look.
const MAX_ORPHANS: usize = 200;

/// A file that gets its thread with its first message, and where it lies then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
}

/// Creates a folder for one file, for us alone. The folders above it are synced too, so that the name of
/// a stored file survives a power cut.
pub(crate) fn folder(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    // The id's folder, the thread's, the one of all threads, `chat`.
    dir.ancestors().skip(1).take(3).try_for_each(sync)
}

/// Syncs a folder, which makes its entries durable.
pub(crate) fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Moves a complete upload into place. Asked again, it has been moved already.
pub(crate) fn settle(part: &Path, to: &Path) -> io::Result<()> {
    let dir = to.parent().unwrap_or(to);
    folder(dir)?;
    match fs::rename(part, to) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && to.exists() => {}
        other => other?,
    }
    sync(dir)
}

/// The first bytes of a file.
pub(crate) fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(super::mime::HEAD);
    File::open(path)?.take(super::mime::HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Gives files a second name in their thread's folder, before the message that sends them is stored.
pub(crate) fn link(moves: &[Move]) -> io::Result<()> {
    for Move { from, to } in moves {
        let dir = to.parent().unwrap_or(to);
        folder(dir)?;
        match fs::hard_link(from, to) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            // A file system without hard links.
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                fs::copy(from, to)?;
                File::open(to)?.sync_all()?;
            }
            other => other?,
        }
        sync(dir)?;
    }
    Ok(())
}

/// Takes one of the two names away: the old one once the message is stored, else the new one.
pub(crate) fn unlink(moves: &[Move], stored: bool) {
    for one in moves {
        let gone = if stored { &one.from } else { &one.to };
        if let Some(dir) = gone.parent() {
            // What stays is an orphan, which the next pruning finds.
            let _ = fs::remove_dir_all(dir);
        }
    }
}

/// Folders of files, by id, that are old enough to be orphans; the caller knows which have rows.
pub(crate) fn old_folders(home: &Home, now: SystemTime) -> HashMap<String, PathBuf> {
    let threads = entries(&home.attachments()).filter(|thread| {
        thread.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.parse::<AgentName>().is_ok())
    });
    threads
        .chain([home.uploads()])
        .flat_map(|thread| entries(&thread))
        .filter(|path| is_old(path, now))
        .filter_map(|path| {
            let id = path.file_stem().and_then(|n| n.to_str()).map(str::to_owned)?;
            Some((id, path))
        })
        .take(MAX_ORPHANS * 64)
        .collect()
}

/// Removes what nobody knows.
pub(crate) fn remove_orphans(orphans: &[PathBuf]) {
    for path in orphans.iter().take(MAX_ORPHANS) {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match removed {
            Ok(()) => tracing::info!(path = %path.display(), "a file without a message was removed"),
            Err(e) => tracing::warn!(path = %path.display(), error = %e, "cannot be removed"),
        }
    }
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    // A folder that is not there has no entries.
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn is_old(path: &Path, now: SystemTime) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|meta| meta.modified());
    modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > ORPHAN_AGE))
}
