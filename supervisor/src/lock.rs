//! One supervisor per home: an advisory lock on a file that stays open for the supervisor's life. The
//! pid in the file is for people; whether a supervisor runs is only what the lock says.

use leo_ipc::paths::Home;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

/// Longest content that is looked at for a pid.
const MAX_PID_TEXT: u64 = 32;

/// Why the lock was not got.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    /// Another supervisor runs.
    #[error("another supervisor runs for {}{}: stop it first, or use another LEO_HOME", home.display(), by_pid(*pid))]
    Held {
        /// The home folder.
        home: PathBuf,
        /// Its pid, as far as the file says.
        pid: Option<u32>,
    },
    /// The lock file cannot be used.
    #[error("the lock file {} cannot be used: {source}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn by_pid(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

/// The lock; released when dropped or when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Takes the lock of a home whose `run` folder exists.
///
/// # Errors
/// [`LockError::Held`] when another process has it.
pub(crate) fn take(home: &Home) -> Result<Lock, LockError> {
    let path = home.lock();
    let unusable = |source| LockError::Unusable { path: path.clone(), source };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(LockError::Held { home: home.root().to_owned(), pid: read_pid(&mut file) });
        }
        Err(TryLockError::Error(source)) => return Err(unusable(source)),
    }
    write_pid(&mut file).map_err(unusable)?;
    Ok(Lock { _file: file })
}

/// The pid in the file; `None` for anything that is not one.
fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(MAX_PID_TEXT).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(dir: &tempfile::TempDir) -> Home {
        let home = Home::at(dir.path().to_owned()).unwrap();
        std::fs::create_dir_all(home.run()).unwrap();
        home
    }

    /// Whatever an old pid file says, it neither keeps us out nor lets two in.
    #[test]
    fn the_content_of_the_file_does_not_matter() {
        let foreign = format!("{}\n", std::os::unix::process::parent_id());
        for content in ["", "garbage", "0\n", "-1", "999999999999999999", "4\u{fffd}\n", &foreign] {
            let dir = tempfile::tempdir().unwrap();
            let home = home(&dir);
            std::fs::write(home.lock(), content).unwrap();
            let lock = take(&home).unwrap();
            let text = std::fs::read_to_string(home.lock()).unwrap();
            assert_eq!(text, format!("{}\n", std::process::id()));

            let second = take(&home).unwrap_err().to_string();
            assert!(second.contains(&format!("(pid {})", std::process::id())), "{second}");
            drop(lock);
            take(&home).unwrap();
        }
    }

    #[test]
    fn a_held_lock_without_a_pid_is_still_held() {
        let dir = tempfile::tempdir().unwrap();
        let home = home(&dir);
        let _lock = take(&home).unwrap();
        for content in [&b""[..], b"garbage", b"\xff\xfe"] {
            std::fs::write(home.lock(), content).unwrap();
            assert!(matches!(take(&home), Err(LockError::Held { pid: None, .. })));
        }
    }

    #[test]
    fn a_folder_in_its_place_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let home = home(&dir);
        std::fs::create_dir(home.lock()).unwrap();
        assert!(matches!(take(&home), Err(LockError::Unusable { .. })));
    }
}
