//! Events that the hub could not be told about, kept as files for it to read later. Bounded: a daemon
//! that is never started again must not fill the disk.

use leo_ipc::hook::ReportHook;
use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Most files in the spool; beyond it an event is dropped. About a day of an agent's work.
const MAX_FILES: usize = 1000;

/// Most bytes in the spool; beyond it an event is dropped.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Writes `report` into the folder `spool` as `<at_ms>-<hook_key>.json` and returns the file, or `None`
/// when the spool is full. The folder is made when it is missing, but not the home around it: an agent
/// that outlives its home leaves nothing behind.
///
/// # Errors
/// When the disk says no.
pub(crate) fn keep(spool: &Path, report: &ReportHook) -> io::Result<Option<PathBuf>> {
    match DirBuilder::new().mode(0o700).create(spool) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let json = serde_json::to_vec(report)?;
    if !has_room(spool, json.len() as u64)? {
        return Ok(None);
    }
    // Written aside and renamed: the hub never sees half an event.
    let temp = spool.join(format!(".{}.tmp", report.hook_key));
    let file = spool.join(format!("{}-{}.json", report.at_ms, report.hook_key));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temp)
        .and_then(|mut out| out.write_all(&json))
        .and_then(|()| fs::rename(&temp, &file));
    match written {
        Ok(()) => Ok(Some(file)),
        Err(e) => {
            let _ = fs::remove_file(&temp);
            Err(e)
        }
    }
}

fn has_room(spool: &Path, size: u64) -> io::Result<bool> {
    let (mut files, mut bytes) = (1, size);
    for entry in fs::read_dir(spool)? {
        files += 1;
        // A file that the hub has just taken away counts as nothing.
        bytes += entry?.metadata().map_or(0, |m| m.len());
        if files > MAX_FILES || bytes > MAX_BYTES {
            return Ok(false);
        }
    }
    Ok(bytes <= MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leo_ipc::{
        CallKey,
        hook::{HookEvent, Source},
    };
    use std::os::unix::fs::PermissionsExt;

    fn report() -> ReportHook {
        let event = HookEvent { name: "Stop".into(), ..HookEvent::default() };
        ReportHook { hook_key: CallKey::fresh(), token: "t".into(), at_ms: 17, event, source: Source::Hook }
    }

    #[test]
    fn a_kept_event_reads_back_and_only_its_owner_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let spool = dir.path().join("spool");
        let report = report();
        let file = keep(&spool, &report).unwrap().unwrap();
        assert_eq!(file.file_name().unwrap().to_str().unwrap(), format!("17-{}.json", report.hook_key));
        let read: ReportHook = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(read, report);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&spool).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&spool).unwrap().count(), 1);
    }

    #[test]
    fn a_full_spool_drops_the_event() {
        let dir = tempfile::tempdir().unwrap();
        let spool = dir.path().join("spool");
        fs::create_dir(&spool).unwrap();
        for i in 0..MAX_FILES {
            fs::write(spool.join(format!("{i}.json")), b"{}").unwrap();
        }
        assert_eq!(keep(&spool, &report()).unwrap(), None);
        fs::remove_file(spool.join("0.json")).unwrap();
        assert!(keep(&spool, &report()).unwrap().is_some());

        let heavy = dir.path().join("heavy");
        fs::create_dir(&heavy).unwrap();
        fs::File::create(heavy.join("1.json")).unwrap().set_len(MAX_BYTES).unwrap();
        assert_eq!(keep(&heavy, &report()).unwrap(), None);
    }

    #[test]
    fn a_missing_home_is_not_made_again() {
        let dir = tempfile::tempdir().unwrap();
        assert!(keep(&dir.path().join("state").join("spool"), &report()).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
