//! Log files under `<home>/state/logs`: one per worker and one of the supervisor, rotated by size,
//! with the last words of generations that died beside them. A thread of its own writes them, so that
//! a slow disk never holds the supervisor up; what it cannot keep up with is dropped and counted.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    time::Duration,
};

/// A file is rotated when it would grow beyond this.
const MAX_FILE: u64 = 4 * 1024 * 1024;
/// Rotated files kept beside the current one (`.1` is the newest).
const KEEP: u32 = 3;
/// Generations whose last words are kept, per worker.
const KEEP_LAST_WORDS: usize = 8;
/// Chunks waiting for the disk. At the stderr reader's 16 KiB a chunk this is 8 MiB at most; beyond it
/// chunks are dropped, since a full disk must not stop a worker.
const QUEUE: usize = 512;

/// Longest wait for the disk at the end.
const FLUSH: Duration = Duration::from_secs(2);

enum Entry {
    Append { log: Arc<str>, bytes: Vec<u8> },
    LastWords { log: Arc<str>, generation: u64, bytes: Vec<u8> },
    Flush(SyncSender<()>),
}

/// Where log lines go. Clones share the thread, which ends with the last of them.
#[derive(Debug, Clone)]
pub(crate) struct Logs {
    queue: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

impl Logs {
    /// Starts the thread that writes below `folder`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(folder: PathBuf) -> io::Result<Logs> {
        let (queue, entries) = sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = dropped.clone();
        std::thread::Builder::new()
            .name("logs".to_owned())
            .spawn(move || write_all(&folder, &entries, &counter))?;
        Ok(Logs { queue, dropped })
    }

    /// Appends to the log of this name.
    pub(crate) fn append(&self, log: &Arc<str>, bytes: Vec<u8>) {
        self.send(Entry::Append { log: log.clone(), bytes });
    }

    /// Keeps what a generation said last.
    pub(crate) fn last_words(&self, log: &Arc<str>, generation: u64, bytes: Vec<u8>) {
        self.send(Entry::LastWords { log: log.clone(), generation, bytes });
    }

    /// Waits until everything said so far is written, or [`FLUSH`] is over: a stuck disk must not keep
    /// the supervisor from ending.
    pub(crate) fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if self.queue.try_send(Entry::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(FLUSH);
        }
    }

    fn send(&self, entry: Entry) {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(entry) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_all(folder: &Path, entries: &Receiver<Entry>, dropped: &AtomicU64) {
    let mut files: HashMap<Arc<str>, Rotated> = HashMap::new();
    while let Ok(entry) = entries.recv() {
        // There is nowhere to report a log that cannot be written; the next entry tries again.
        match entry {
            Entry::Append { log, bytes } => {
                let file = files
                    .entry(log.clone())
                    .or_insert_with(|| Rotated::new(folder.join(format!("{log}.log"))));
                let lost = dropped.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    let line = format!(
                        "{{\"level\":\"WARN\",\"message\":\"the disk was too slow for the logs\",\"chunks_dropped\":{lost}}}\n"
                    );
                    let _ = file.append(line.as_bytes());
                }
                let _ = file.append(&bytes);
            }
            Entry::LastWords { log, generation, bytes } => {
                let _ = keep_last_words(&folder.join("last-words"), &log, generation, &bytes);
            }
            Entry::Flush(done) => {
                let _ = done.send(());
            }
        }
    }
}

struct Rotated {
    path: PathBuf,
    open: Option<(File, u64)>,
}

impl Rotated {
    fn new(path: PathBuf) -> Rotated {
        Rotated { path, open: None }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (mut file, size) = match self.open.take() {
            Some(open) => open,
            None => self.open()?,
        };
        let (file, size) = if size > 0 && size + bytes.len() as u64 > MAX_FILE {
            drop(file);
            self.rotate()?;
            let (mut file, size) = self.open()?;
            file.write_all(bytes)?;
            (file, size)
        } else {
            file.write_all(bytes)?;
            (file, size)
        };
        self.open = Some((file, size + bytes.len() as u64));
        Ok(())
    }

    fn open(&self) -> io::Result<(File, u64)> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    }

    fn rotate(&self) -> io::Result<()> {
        let numbered = |n: u32| self.path.with_extension(format!("log.{n}"));
        for n in (1..KEEP).rev() {
            match fs::rename(numbered(n), numbered(n + 1)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        fs::rename(&self.path, numbered(1))
    }
}

fn keep_last_words(folder: &Path, log: &str, generation: u64, bytes: &[u8]) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let stamp = leo_ipc::Time::now().millis();
    let path = folder.join(format!("{log}.{stamp:015}.g{generation}.log"));
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(bytes)?;
    let prefix = format!("{log}.");
    let mut of_worker: Vec<PathBuf> = fs::read_dir(folder)?
        .flatten()
        .filter(|e| e.file_name().to_str().is_some_and(|n| n.starts_with(&prefix)))
        .map(|e| e.path())
        .collect();
    of_worker.sort();
    let extra = of_worker.len().saturating_sub(KEEP_LAST_WORDS);
    of_worker.iter().take(extra).try_for_each(fs::remove_file)
}

/// The supervisor's own lines, as a writer for `tracing`.
#[derive(Debug, Clone)]
pub(crate) struct OwnLog {
    logs: Logs,
    name: Arc<str>,
}

impl OwnLog {
    /// Lines go to `supervisor.log`.
    pub(crate) fn new(logs: Logs) -> OwnLog {
        OwnLog { logs, name: "supervisor".into() }
    }
}

impl Write for OwnLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.logs.append(&self.name, bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotates_by_size_and_keeps_a_few() {
        let dir = tempfile::tempdir().unwrap();
        let logs = Logs::start(dir.path().to_owned()).unwrap();
        let name: Arc<str> = "http".into();
        for i in 0..6u8 {
            logs.append(&name, vec![b'0' + i; usize::try_from(MAX_FILE).unwrap() - 10]);
            logs.append(&name, b"tail\n".to_vec());
            logs.flush();
        }
        let mut names: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["http.log", "http.log.1", "http.log.2", "http.log.3"]);
        assert!(fs::read(dir.path().join("http.log")).unwrap().starts_with(b"5"));
        assert!(fs::read(dir.path().join("http.log.3")).unwrap().starts_with(b"2"));
    }

    #[test]
    fn keeps_the_last_words_of_the_newest_generations() {
        let dir = tempfile::tempdir().unwrap();
        let logs = Logs::start(dir.path().to_owned()).unwrap();
        let (hub, http): (Arc<str>, Arc<str>) = ("hub".into(), "http".into());
        for generation in 1..=20 {
            logs.last_words(&hub, generation, b"it was the disk".to_vec());
        }
        logs.last_words(&http, 1, b"x".to_vec());
        logs.flush();
        let count = |prefix: &str| {
            fs::read_dir(dir.path().join("last-words"))
                .unwrap()
                .filter(|e| e.as_ref().unwrap().file_name().to_str().unwrap().starts_with(prefix))
                .count()
        };
        assert_eq!((count("hub."), count("http.")), (KEEP_LAST_WORDS, 1));
    }

    #[test]
    fn a_folder_that_cannot_be_written_stops_nobody() {
        let logs = Logs::start("/no/such/folder".into()).unwrap();
        logs.append(&"x".into(), b"lost".to_vec());
        logs.flush();
    }
}
