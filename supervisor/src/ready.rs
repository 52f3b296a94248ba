//! Readiness: one byte on a pipe that only the worker holds. A pipe that ends without it means that the
//! worker is on its way out, which its exit will say better.

use tokio::{io::AsyncReadExt, net::unix::pipe};

/// Waits for the byte; `false` when the pipe ended without one.
pub(crate) async fn wait(mut pipe: pipe::Receiver) -> bool {
    let mut byte = [0u8; 1];
    matches!(pipe.read(&mut byte).await, Ok(1))
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
            let pipe = pipe::Receiver::from_owned_fd(reader.into()).unwrap();
            assert_eq!(wait(pipe).await, ready);
        }
    }
}
