//! Noticing that a person has edited `leo.yaml`: some of it takes effect without being told. Asking for
//! the file's time every few seconds works on every file system; a watch of the system does not, and
//! editors replace files instead of writing them.

use crate::daemon::Shared;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// How soon an edit is noticed.
const EVERY: Duration = Duration::from_secs(2);

/// What changes with an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    inode: u64,
    bytes: u64,
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = fs::metadata(path).ok()?;
    Some(Stamp { modified: meta.modified().ok(), inode: meta.ino(), bytes: meta.len() })
}

/// Watches for ever.
pub(crate) async fn run(shared: Arc<Shared>) {
    let path = shared.home.config();
    let mut known = stamp(&path);
    loop {
        tokio::time::sleep(EVERY).await;
        let now = stamp(&path);
        if now != known {
            known = now;
            shared.reload_chat();
        }
    }
}
