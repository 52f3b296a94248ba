//! Readiness and heartbeats: bytes on a pipe that only the worker holds, the first when it is ready, the
//! others when it has come round. A pipe that ends means that the worker is on its way out, which its exit
//! will say better.

use tokio::{io::AsyncReadExt, net::unix::pipe};

/// Waits for the byte of readiness; `false` when the pipe ended without one.
pub(crate) async fn wait(pipe: &mut pipe::Receiver) -> bool {
    let mut byte = [0u8; 1];
    matches!(pipe.read(&mut byte).await, Ok(1))
}

/// Waits for a heartbeat; `false` when the pipe ended. Beats that were not read in time are one.
pub(crate) async fn beat(pipe: &mut pipe::Receiver) -> bool {
    let mut bytes = [0u8; 64];
    matches!(pipe.read(&mut bytes).await, Ok(1..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[tokio::test]
    async fn a_byte_is_ready_and_an_end_is_not() {
        for (text, ready) in [("\n", true), ("", false)] {
            let (reader, mut writer) = std::io::pipe().unwrap();
            writer.write_all(text.as_bytes()).unwrap();
            drop(writer);
            let mut pipe = pipe::Receiver::from_owned_fd(reader.into()).unwrap();
            assert_eq!(wait(&mut pipe).await, ready);
        }
    }

    #[tokio::test]
    async fn later_bytes_are_heartbeats_until_the_end() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut pipe = pipe::Receiver::from_owned_fd(reader.into()).unwrap();
        writer.write_all(b"\n").unwrap();
        assert!(wait(&mut pipe).await);
        for _ in 0..2 {
            writer.write_all(b"..").unwrap();
            assert!(beat(&mut pipe).await);
        }
        drop(writer);
        assert!(!beat(&mut pipe).await);
    }
}
