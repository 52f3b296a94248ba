//! Frames: a big-endian `u32` length and that many bytes. The length is checked before anything is
//! allocated, and memory grows with what arrives, never with what a peer announces.

use crate::IpcError;
use std::io::{Read, Write};
use std::time::Duration;

/// Largest frame before the handshake is over: a hello is a few hundred bytes.
pub const MAX_BEFORE_HELLO: usize = 64 * 1024;

/// Largest frame afterwards. Larger payloads travel by file under `<home>/state/` or by fd.
pub const MAX_FRAME: usize = 1024 * 1024;

/// Bytes that a connection's reader takes from the system at once. Small frames that come together cost
/// one call, and larger ones are read straight into their place.
#[cfg(feature = "async")]
pub(crate) const READ_AHEAD: usize = 16 * 1024;

/// A frame must be complete this long after its first byte; a peer that sends one byte a second is
/// broken or hostile.
pub const FRAME_DEADLINE: Duration = Duration::from_secs(10);

/// Writes one frame.
///
/// # Errors
/// [`IpcError::TooLarge`] above `limit`, or the write error.
pub fn write_blocking(w: &mut impl Write, body: &[u8], limit: usize) -> Result<(), IpcError> {
    let frame = seal(body, limit)?;
    w.write_all(&frame).map_err(|source| IpcError::Io { doing: "writing a frame", source })
}

/// Reads one frame; `None` when the peer closed between frames.
///
/// # Errors
/// [`IpcError::TooLarge`] above `limit`, [`IpcError::Closed`] inside a frame, or the read error.
pub fn read_blocking(r: &mut impl Read, limit: usize) -> Result<Option<Vec<u8>>, IpcError> {
    let io = |source| IpcError::Io { doing: "reading a frame", source };
    let mut head = [0u8; 4];
    let mut got = 0;
    while got < head.len() {
        match r.read(&mut head[got..]) {
            Ok(0) if got == 0 => return Ok(None),
            Ok(0) => return Err(IpcError::Closed),
            Ok(n) => got += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(io(e)),
        }
    }
    let size = check(head, limit)?;
    let mut body = Vec::new();
    r.take(size as u64).read_to_end(&mut body).map_err(io)?;
    if body.len() < size { Err(IpcError::Closed) } else { Ok(Some(body)) }
}

/// A frame ready to be written: length and body in one buffer.
///
/// # Errors
/// [`IpcError::TooLarge`] above `limit`.
pub fn seal(body: &[u8], limit: usize) -> Result<Vec<u8>, IpcError> {
    if body.len() > limit {
        return Err(IpcError::TooLarge { size: body.len(), limit });
    }
    let size = u32::try_from(body.len()).map_err(|_| IpcError::TooLarge { size: body.len(), limit })?;
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend_from_slice(&size.to_be_bytes());
    frame.extend_from_slice(body);
    Ok(frame)
}

fn check(head: [u8; 4], limit: usize) -> Result<usize, IpcError> {
    let size = u32::from_be_bytes(head) as usize;
    if size > limit { Err(IpcError::TooLarge { size, limit }) } else { Ok(size) }
}

/// Reads one frame; `None` when the peer closed between frames. Waits for the first byte as long as
/// it takes, and for the rest at most [`FRAME_DEADLINE`].
///
/// Not cancel-safe: own the reader in one task.
///
/// # Errors
/// As [`read_blocking`], and [`IpcError::Deadline`] for a frame that does not arrive whole in time.
#[cfg(feature = "async")]
pub async fn read<R: tokio::io::AsyncRead + Unpin>(
    r: &mut R,
    limit: usize,
) -> Result<Option<Vec<u8>>, IpcError> {
    use tokio::io::AsyncReadExt;
    let io = |source| IpcError::Io { doing: "reading a frame", source };
    let mut head = [0u8; 4];
    match r.read(&mut head[..1]).await {
        Ok(0) => return Ok(None),
        Ok(_) => {}
        Err(e) => return Err(io(e)),
    }
    let rest = async {
        r.read_exact(&mut head[1..]).await.map_err(closed_or_io)?;
        let size = check(head, limit)?;
        let mut body = Vec::with_capacity(size.min(READ_AHEAD));
        r.take(size as u64).read_to_end(&mut body).await.map_err(io)?;
        if body.len() < size { Err(IpcError::Closed) } else { Ok(Some(body)) }
    };
    match tokio::time::timeout(FRAME_DEADLINE, rest).await {
        Ok(result) => result,
        Err(_) => Err(IpcError::Deadline { ms: FRAME_DEADLINE.as_secs() * 1000 }),
    }
}

#[cfg(feature = "async")]
fn closed_or_io(source: std::io::Error) -> IpcError {
    if source.kind() == std::io::ErrorKind::UnexpectedEof {
        IpcError::Closed
    } else {
        IpcError::Io { doing: "reading a frame", source }
    }
}

/// Writes one frame.
///
/// # Errors
/// As [`write_blocking`].
#[cfg(feature = "async")]
pub async fn write<W: tokio::io::AsyncWrite + Unpin>(
    w: &mut W,
    body: &[u8],
    limit: usize,
) -> Result<(), IpcError> {
    use tokio::io::AsyncWriteExt;
    let frame = seal(body, limit)?;
    w.write_all(&frame).await.map_err(|source| IpcError::Io { doing: "writing a frame", source })
}
