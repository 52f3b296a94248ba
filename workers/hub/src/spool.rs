//! Hook events that could not be handed over while the system was down, kept as files by `leo hook`.
//! They are read in order before anything else is said about an agent.

use leo_ipc::hook::ReportHook;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Files read in one go; the rest follows in the next round.
const BATCH: usize = 256;

/// Largest spooled event that is read; `leo hook` writes none as large.
const MAX_BYTES: u64 = 2 * 1024 * 1024;

/// A spooled event.
pub(crate) struct Spooled {
    /// Its file, to be deleted once the event is stored.
    pub(crate) path: PathBuf,
    /// The event; `None` when the file cannot be read as one.
    pub(crate) report: Option<ReportHook>,
}

/// The oldest spooled events, in the order in which their hooks ran.
pub(crate) fn read(dir: &Path) -> Vec<Spooled> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        // A name without the ending is still being written.
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    paths.sort_by_cached_key(|path| order(path));
    paths.truncate(BATCH);
    paths.into_iter().map(|path| Spooled { report: load(&path), path }).collect()
}

/// `<at_ms>-<hook_key>.json`: by time, then by key, which rises with time too.
fn order(path: &Path) -> (u64, String) {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let at = name.split_once('-').and_then(|(at, _)| at.parse().ok()).unwrap_or(u64::MAX);
    (at, name)
}

fn load(path: &Path) -> Option<ReportHook> {
    if fs::metadata(path).ok()?.len() > MAX_BYTES {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_hooks_and_broken_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let report = |key: &str| {
            serde_json::json!({"hook_key": key, "token": "t", "at_ms": 1, "event": {"name": "Stop"}})
                .to_string()
        };
        write("200-b.json", &report("b"));
        write("99-a.json", &report("a"));
        write("300-c.json", "{broken");
        write("400-d.tmp", &report("d"));
        let found = read(dir.path());
        let keys: Vec<_> =
            found.iter().map(|s| s.report.as_ref().map(|r| r.hook_key.as_str().to_owned())).collect();
        assert_eq!(keys, [Some("a".to_owned()), Some("b".to_owned()), None]);
    }
}
