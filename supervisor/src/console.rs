//! The supervisor's log lines on standard error, for a service manager. A thread of its own writes
//! them: a reader that stalls must not keep the supervisor from restarting a worker.

use std::{
    io::{self, Write},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    time::Duration,
};

/// Lines waiting for the reader. Beyond it lines are dropped; the log file has them all the same.
const QUEUE: usize = 1024;
/// Longest wait for the reader at the end.
const FLUSH: Duration = Duration::from_secs(1);

enum Entry {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// A writer for `tracing`. Clones share the thread, which ends with the last of them.
#[derive(Debug, Clone)]
pub(crate) struct Console {
    queue: SyncSender<Entry>,
}

impl Console {
    /// Starts the thread.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start() -> io::Result<Console> {
        let (queue, entries) = sync_channel(QUEUE);
        std::thread::Builder::new().name("console".to_owned()).spawn(move || write_all(&entries))?;
        Ok(Console { queue })
    }

    /// Waits a moment until everything said so far is written.
    pub(crate) fn flush_all(&self) {
        let (done, wait) = sync_channel(1);
        if self.queue.try_send(Entry::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(FLUSH);
        }
    }
}

fn write_all(entries: &Receiver<Entry>) {
    while let Ok(entry) = entries.recv() {
        // A reader that went away is no reason to stop working.
        match entry {
            Entry::Line(bytes) => drop(io::stderr().lock().write_all(&bytes)),
            Entry::Flush(done) => drop(done.send(())),
        }
    }
}

impl Write for Console {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // `tracing` writes one line at a time.
        let _ = self.queue.try_send(Entry::Line(bytes.to_vec()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
