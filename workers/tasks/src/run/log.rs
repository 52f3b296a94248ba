//! The log of a run: everything it prints, up to a bound, and its last words in memory for whoever has
//! to say why it failed.

use leo_ipc::{TaskName, paths::Home, task::KEPT_RUNS};
use std::{
    collections::VecDeque,
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// Most bytes of one log: a run that prints without end must not fill the disk.
pub(crate) const MAX_LOG: u64 = 8 * 1024 * 1024;

/// Bytes of a stream's end that are kept in memory.
const MAX_TAIL: usize = 4 * 1024;

/// Which of a process's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A log being written.
pub(crate) struct Log {
    file: Option<File>,
    written: u64,
    full: bool,
    out: Tail,
    err: Tail,
}

/// A log that whoever reads the output writes, while somebody else watches over the run.
#[derive(Clone)]
pub(crate) struct SharedLog(Arc<Mutex<Log>>);

impl SharedLog {
    /// Shares a log.
    pub(crate) fn new(log: Log) -> SharedLog {
        SharedLog(Arc::new(Mutex::new(log)))
    }

    /// Does something with it; never across an await.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Log) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Default)]
struct Tail(VecDeque<u8>);

impl Log {
    /// Makes the log of a run, and deletes those of runs that are no longer kept.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(crate) fn create(home: &Home, task: &TaskName, run_id: &str) -> io::Result<(Log, PathBuf)> {
        let path = home.task_log(task, run_id);
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            forget_old(folder);
        }
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
        Ok((Log::to(Some(file)), path))
    }

    /// A log that only keeps the last words.
    pub(crate) fn to(file: Option<File>) -> Log {
        Log { file, written: 0, full: false, out: Tail::default(), err: Tail::default() }
    }

    /// Writes what a stream brought.
    pub(crate) fn write(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Out => self.out.push(bytes),
            Stream::Err => self.err.push(bytes),
        }
        self.append(bytes);
    }

    /// Writes a line of ours.
    pub(crate) fn note(&mut self, text: &str) {
        self.append(format!("[leo] {text}\n").as_bytes());
    }

    /// Begins another attempt: the last words of the one before say nothing of it.
    pub(crate) fn begin(&mut self, attempt: u32, attempts: u32) {
        self.out = Tail::default();
        self.err = Tail::default();
        if attempts > 1 {
            self.note(&format!("attempt {attempt} of {attempts}"));
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        if self.full {
            return;
        }
        let room = usize::try_from(MAX_LOG - self.written).unwrap_or(usize::MAX);
        let fits = &bytes[..bytes.len().min(room)];
        let mut written = file.write_all(fits);
        self.written += fits.len() as u64;
        if fits.len() < bytes.len() {
            self.full = true;
            written = written.and_then(|()| {
                file.write_all(format!("\n[leo] output beyond {MAX_LOG} bytes is not kept\n").as_bytes())
            });
        }
        if let Err(e) = written {
            // A full disk must not end the run; its outcome is recorded by the hub.
            tracing::warn!(error = %e, "a run's log cannot be written");
            self.file = None;
        }
    }

    /// The last words: of standard error, or of standard output where there are none.
    pub(crate) fn last_words(&self, most: usize) -> String {
        let err = self.err.text(most);
        if err.is_empty() { self.out.text(most) } else { err }
    }
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        let surplus = self.0.len().saturating_sub(MAX_TAIL);
        self.0.drain(..surplus);
    }

    /// The last characters, from a line's start where there is one, without what acts on a terminal.
    fn text(&self, most: usize) -> String {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        let text = plain(&String::from_utf8_lossy(&bytes));
        let text = text.trim();
        let skip = text.chars().count().saturating_sub(most);
        let cut: String = text.chars().skip(skip).collect();
        match cut.split_once('\n') {
            Some((_, rest)) if skip > 0 && !rest.trim().is_empty() => rest.trim().to_owned(),
            _ => cut,
        }
    }
}

/// A text without terminal sequences and control characters.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                if chars.next_if_eq(&'[').is_some() {
                    for c in chars.by_ref() {
                        if ('\u{40}'..='\u{7e}').contains(&c) {
                            break;
                        }
                    }
                }
            }
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// Deletes the oldest logs of a task beyond those whose runs are kept. Names are ordered by time.
fn forget_old(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut logs: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "log"))
        .collect();
    logs.sort();
    let surplus = logs.len().saturating_sub(KEPT_RUNS as usize);
    for path in logs.into_iter().take(surplus) {
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_bounded_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home")).unwrap();
        let (mut log, path) = Log::create(&home, &"t".parse().unwrap(), "r1").unwrap();
        for _ in 0..20 {
            log.write(Stream::Out, &vec![b'x'; 1024 * 1024]);
        }
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.len() < usize::try_from(MAX_LOG).unwrap() + 100, "{}", text.len());
        assert!(text.ends_with("bytes is not kept\n"));
    }

    #[test]
    fn last_words() {
        let mut log = Log::to(None);
        assert_eq!(log.last_words(100), "");
        log.write(Stream::Out, b"out\n");
        assert_eq!(log.last_words(100), "out");
        log.write(Stream::Err, "\u{1b}[31mline one\u{1b}[0m\nline two ä\n".as_bytes());
        assert_eq!(log.last_words(100), "line one\nline two ä");
        assert_eq!(log.last_words(12), "line two ä");
        log.begin(2, 2);
        assert_eq!(log.last_words(100), "");
    }

    #[test]
    fn old_logs_go() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home")).unwrap();
        let task = "t".parse().unwrap();
        for n in 0..KEPT_RUNS + 5 {
            Log::create(&home, &task, &format!("{n:04}")).unwrap();
        }
        let kept = std::fs::read_dir(home.task_log(&task, "x").parent().unwrap()).unwrap().count();
        assert!(kept <= KEPT_RUNS as usize + 1, "{kept}");
        assert!(home.task_log(&task, &format!("{:04}", KEPT_RUNS + 4)).exists());
        assert!(!home.task_log(&task, "0000").exists());
    }
}
