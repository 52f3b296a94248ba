//! A task runs once at a time, whoever holds the run: a lock on a file in the home, which ends with its
//! holder. The guard of a run has a lock of its own, since it may live a moment longer than its holder.

use leo_ipc::{TaskName, paths::Home};
use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The lock; released when dropped or when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why a run cannot be held.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The task runs already.
    #[error("a run of `{0}` is in progress")]
    Busy(TaskName),
    /// The lock file cannot be used.
    #[error("{} cannot be used: {source}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// How long a lock may look busy that nobody holds a run with: whoever looks whether it is free has it for
/// an instant.
const GLIMPSE: Duration = Duration::from_millis(300);

/// Pause between two tries within that time.
const AGAIN: Duration = Duration::from_millis(20);

impl Lock {
    /// Takes the lock of a task, to hold a run of it.
    ///
    /// # Errors
    /// [`LockError::Busy`] when somebody else holds a run of it.
    pub async fn take(home: &Home, task: &TaskName) -> Result<Lock, LockError> {
        let began = Instant::now();
        loop {
            match Lock::try_take(home, task) {
                Err(LockError::Busy(_)) if began.elapsed() < GLIMPSE => tokio::time::sleep(AGAIN).await,
                other => return other,
            }
        }
    }

    /// Whether nobody holds a run of a task at this moment.
    pub(crate) fn is_free(home: &Home, task: &TaskName) -> bool {
        Lock::try_take(home, task).is_ok()
    }

    fn try_take(home: &Home, task: &TaskName) -> Result<Lock, LockError> {
        let folder = home.task_dir(task);
        let path = folder.join("lock");
        let unusable = |source| LockError::Unusable { path: path.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(unusable)?;
        let file = open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Busy(task.clone())),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }
}

/// Opens a lock file, which is never deleted: two processes must not lock two files of one name.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home")).unwrap();
        let task = "a".parse().unwrap();
        let held = Lock::take(&home, &task).await.unwrap();
        assert!(!Lock::is_free(&home, &task));
        assert!(matches!(Lock::take(&home, &task).await, Err(LockError::Busy(_))));
        assert!(Lock::take(&home, &"b".parse().unwrap()).await.is_ok());
        drop(held);
        assert!(Lock::is_free(&home, &task));
        assert!(Lock::take(&home, &task).await.is_ok());
    }
}
