//! Server-sent events as bytes arrive, cut anywhere: the line protocol of the HTML standard, as far as
//! our stream uses it. Pure.

/// Longest frame that is kept. The stream's largest event carries one message, which fits into the
/// hub's 1 MiB frame; JSON may grow it, but not beyond this.
const MAX_FRAME: usize = 8 * 1024 * 1024;

/// One dispatched frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frame {
    /// `id:`, when the frame had one.
    pub(super) id: Option<String>,
    /// `event:`.
    pub(super) event: String,
    /// `data:`, lines joined.
    pub(super) data: String,
}

/// The stream breaks its own rules or ours.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadStream {
    /// A frame without an end.
    #[error("an event is longer than {MAX_FRAME} bytes")]
    TooLong,
    /// Bytes that are no text.
    #[error("an event is not UTF-8")]
    NotText,
}

/// Collects bytes and gives out frames.
#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    frame: Frame,
    has_data: bool,
}

impl Parser {
    /// Takes the next bytes and returns the frames that they completed. Comments are dropped; a frame
    /// without data is not dispatched, as the standard says.
    ///
    /// # Errors
    /// When the stream cannot be one of ours.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, BadStream> {
        let mut frames = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|b| *b == b'\n') {
            self.line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            let line = std::str::from_utf8(&line).map_err(|_| BadStream::NotText)?;
            if let Some(frame) = self.take_line(line.strip_suffix('\r').unwrap_or(line)) {
                frames.push(frame);
            }
        }
        self.line.extend_from_slice(rest);
        if self.line.len() + self.frame.data.len() > MAX_FRAME {
            return Err(BadStream::TooLong);
        }
        Ok(frames)
    }

    fn take_line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.frame.event),
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
                self.has_data = true;
            }
            // `retry`, comments (an empty field name) and what a newer build adds.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: &str = "retry: 1000\n\n: beat\n\nid: e:1\nevent: chat.message\ndata: {\"seq\":1}\n\n\
                          id: e:2\r\nevent: x\r\ndata: a\r\ndata:b é\r\n\r\n";

    fn expected() -> Vec<Frame> {
        vec![
            Frame { id: Some("e:1".into()), event: "chat.message".into(), data: "{\"seq\":1}".into() },
            Frame { id: Some("e:2".into()), event: "x".into(), data: "a\nb é".into() },
        ]
    }

    proptest! {
        /// However the bytes are cut, the frames are the same.
        #[test]
        fn cuts_do_not_matter(cuts in proptest::collection::vec(0..STREAM.len(), 0..12)) {
            let mut cuts = cuts;
            cuts.push(0);
            cuts.push(STREAM.len());
            cuts.sort_unstable();
            let mut parser = Parser::default();
            let mut frames = Vec::new();
            for pair in cuts.windows(2) {
                frames.extend(parser.feed(&STREAM.as_bytes()[pair[0]..pair[1]]).unwrap());
            }
            prop_assert_eq!(frames, expected());
        }
    }

    #[test]
    fn a_frame_without_end_is_refused() {
        let mut parser = Parser::default();
        let chunk = vec![b'x'; 1024 * 1024];
        let result = (0..10).map(|_| parser.feed(&chunk)).find(Result::is_err);
        assert_eq!(result, Some(Err(BadStream::TooLong)));
        assert_eq!(Parser::default().feed(b"data: \xff\n"), Err(BadStream::NotText));
    }
}
