//! What a worker says on standard error: always read, so that a full pipe never blocks it, written to
//! its log, and the end of it kept for when it dies.

use crate::logs::Logs;
use std::{collections::VecDeque, sync::Arc};
use tokio::{io::AsyncReadExt, process::ChildStderr};

/// How much of a generation's output is kept as its last words.
const LAST_WORDS: usize = 64 * 1024;
/// Read at once.
const CHUNK: usize = 16 * 1024;

/// Reads until the end and returns the last words.
pub(crate) async fn drain(mut stderr: ChildStderr, logs: Logs, log: Arc<str>) -> Vec<u8> {
    let mut tail = Tail::default();
    let mut chunk = vec![0u8; CHUNK];
    loop {
        match stderr.read(&mut chunk).await {
            Ok(0) | Err(_) => return tail.into_bytes(),
            Ok(n) => {
                let bytes = chunk.get(..n).unwrap_or_default();
                tail.push(bytes);
                logs.append(&log, bytes.to_vec());
            }
        }
    }
}

/// The last bytes of a stream.
#[derive(Default)]
struct Tail(VecDeque<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        let extra = self.0.len().saturating_sub(LAST_WORDS);
        self.0.drain(..extra);
    }

    fn into_bytes(self) -> Vec<u8> {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_end() {
        let mut tail = Tail::default();
        tail.push(&vec![b'a'; LAST_WORDS]);
        tail.push(b"the end");
        let bytes = tail.into_bytes();
        assert_eq!(bytes.len(), LAST_WORDS);
        assert!(bytes.ends_with(b"the end"));
    }
}
