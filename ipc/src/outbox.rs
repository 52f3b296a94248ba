//! Frames on their way to one peer, bounded in number and in bytes: a peer that does not read makes
//! its senders wait, and costs no more than [`ROOM`].

use crate::IpcError;
use interprocess::os::unix::uds_local_socket::tokio::Stream as Socket;
use std::sync::Arc;
use tokio::{
    io::AsyncWriteExt,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

/// Frames that may wait. Beyond it senders wait.
const FRAMES: usize = 256;

/// Bytes that may wait, in KiB: four frames of the largest size, and thousands of usual ones.
const ROOM: usize = 4 * 1024;

/// Frames are written together up to about this many bytes, to save system calls.
const WRITE_BATCH: usize = 64 * 1024;

/// The sending end; clones share its bounds.
#[derive(Clone)]
pub(crate) struct Outbox {
    tx: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
}

/// A frame with the room that it takes up until it is written.
struct Queued {
    frame: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

/// The writing end.
pub(crate) struct Writer {
    rx: mpsc::Receiver<Queued>,
    room: Arc<Semaphore>,
}

/// A queue for one peer.
pub(crate) fn outbox() -> (Outbox, Writer) {
    let (tx, rx) = mpsc::channel(FRAMES);
    let room = Arc::new(Semaphore::new(ROOM));
    (Outbox { tx, room: room.clone() }, Writer { rx, room })
}

/// What a frame takes up, in KiB; never more than there is.
fn size(frame: &[u8]) -> u32 {
    u32::try_from(frame.len().div_ceil(1024).clamp(1, ROOM)).unwrap_or(u32::MAX)
}

impl Outbox {
    /// Queues a sealed frame, waiting for room.
    ///
    /// # Errors
    /// [`IpcError::Closed`] when the peer is gone.
    pub(crate) async fn send(&self, frame: Vec<u8>) -> Result<(), IpcError> {
        let room = self.room.clone().acquire_many_owned(size(&frame)).await.map_err(|_| IpcError::Closed)?;
        self.tx.send(Queued { frame, _room: room }).await.map_err(|_| IpcError::Closed)
    }

    /// Queues a sealed frame if there is room for it now.
    pub(crate) fn try_send(&self, frame: Vec<u8>) {
        if let Ok(room) = self.room.clone().try_acquire_many_owned(size(&frame)) {
            let _ = self.tx.try_send(Queued { frame, _room: room });
        }
    }

    /// Whether the peer is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.tx.is_closed()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Wakes senders that wait for room.
        self.room.close();
    }
}

impl Writer {
    /// Writes until every sender is gone or the peer is.
    pub(crate) async fn run(mut self, socket: Arc<Socket>) -> Result<(), IpcError> {
        let mut writer = &*socket;
        while let Some(first) = self.rx.recv().await {
            let mut batch = vec![first];
            let mut bytes = batch[0].frame.len();
            while bytes < WRITE_BATCH {
                let Ok(next) = self.rx.try_recv() else { break };
                bytes += next.frame.len();
                batch.push(next);
            }
            let joined;
            let out = match &batch[..] {
                [only] => &only.frame,
                many => {
                    joined = many.iter().map(|q| &q.frame[..]).collect::<Vec<_>>().concat();
                    &joined
                }
            };
            writer
                .write_all(out)
                .await
                .map_err(|source| IpcError::Io { doing: "writing a frame", source })?;
        }
        Ok(())
    }
}
