//! Lines from the client, bounded: a client that never ends a line must not fill the memory, and the
//! request in a line that is too long must still be answered.

use leo_ipc::mcp::MAX_LINE;
use serde_json::Value;
use std::io::{self, BufRead};

/// One line.
#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    /// Its text. Bytes that are no UTF-8 are replaced: a broken character must not cost a request.
    Text(String),
    /// It was longer than allowed; the request's id, if it has one.
    TooLong(Option<Value>),
}

/// Reads the next line that is not empty; `None` at the end.
///
/// # Errors
/// When the input breaks, which is an end too.
pub(crate) fn next(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    next_within(input, MAX_LINE)
}

fn next_within(input: &mut impl BufRead, max: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut too_long: Option<IdScan> = None;
    loop {
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if buffer.is_empty() {
            // A last line without its end is taken for a whole one.
            return Ok(finish(&line, too_long));
        }
        let end = buffer.iter().position(|b| *b == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        if let Some(scan) = &mut too_long {
            scan.feed(part);
        } else if line.len() + part.len() > max {
            let mut scan = IdScan::default();
            scan.feed(&line);
            scan.feed(part);
            line = Vec::new();
            too_long = Some(scan);
        } else {
            line.extend_from_slice(part);
        }
        let used = end.map_or(buffer.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            if let Some(line) = finish(&line, too_long.take()) {
                return Ok(Some(line));
            }
            line.clear();
        }
    }
}

fn finish(line: &[u8], too_long: Option<IdScan>) -> Option<Line> {
    if let Some(scan) = too_long {
        return Some(Line::TooLong(scan.found));
    }
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    (!line.is_empty()).then(|| Line::Text(String::from_utf8_lossy(line).into_owned()))
}

/// Longest id that is looked for.
const MAX_ID: usize = 256;

/// Finds the top-level `id` of a JSON object that passes by and is not kept.
#[derive(Default)]
struct IdScan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// At depth 1: whether the next string is a key.
    at_key: bool,
    /// The key, or the id's value while `in_id`.
    token: Vec<u8>,
    in_id: bool,
    found: Option<Value>,
}

impl IdScan {
    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.byte(*byte);
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.found.is_some() {
            return;
        }
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return self.keep(byte);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.at_key = self.depth == 1 && byte == b'{';
                self.token.clear();
            }
            b':' if self.depth == 1 && self.at_key => {
                self.in_id = self.token == b"\"id\"";
                self.at_key = false;
                self.token.clear();
            }
            b',' | b'}' | b']' => {
                if self.depth == 1 {
                    if self.in_id {
                        let id = serde_json::from_slice::<Value>(&self.token).ok();
                        self.found = id.filter(|id| id.is_string() || id.is_i64() || id.is_u64());
                    }
                    self.in_id = false;
                    self.at_key = byte == b',';
                    self.token.clear();
                }
                if byte != b',' {
                    self.depth = self.depth.saturating_sub(1);
                }
            }
            b if b.is_ascii_whitespace() => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && (self.at_key || self.in_id) && self.token.len() < MAX_ID {
            self.token.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn all(input: &[u8], max: usize, buffer: usize) -> Vec<Line> {
        let mut input = io::BufReader::with_capacity(buffer, input);
        std::iter::from_fn(|| next_within(&mut input, max).unwrap()).collect()
    }

    fn text(line: &str) -> Line {
        Line::Text(line.to_owned())
    }

    #[test]
    fn lines() {
        let input = b"\xEF\xBB\xBFone\r\n\n  \ntwo \xff\nlast";
        assert_eq!(all(input, 100, 3), [text("one"), text("two \u{fffd}"), text("last")]);
    }

    #[test]
    fn a_line_too_long_gives_its_id_and_the_next_line_is_whole() {
        let long = "x".repeat(100);
        for (line, id) in [
            (json!({"id": 7, "method": "m", "params": {"id": 9, "text": long}}), Some(json!(7))),
            (
                json!({"method": "m", "params": [{"id": 9}, long], "zid": 1, "id": "a\"b"}),
                Some(json!("a\"b")),
            ),
            (json!({"method": "m", "params": {"id": 9, "text": long}}), None),
            (json!({"id": {"id": 3}, "x": long}), None),
            (json!([{"id": 1, "x": long}]), None),
        ] {
            let input = format!("{line}\nnext\n");
            assert_eq!(all(input.as_bytes(), 50, 8), [Line::TooLong(id), text("next")], "{line}");
        }
    }

    proptest! {
        #[test]
        fn the_id_is_found_wherever_it_stands(
            id in prop_oneof![any::<i64>().prop_map(Value::from), "[ -~äß\"\\\\]{0,20}".prop_map(Value::from)],
            before in "[ -~\"\\\\]{0,40}",
            buffer in 1..40usize,
        ) {
            // serde_json keeps keys in order, so `id` stands between the two.
            let line = json!({"a": {"id": before, "k": [before]}, "id": id, "z": "x".repeat(64)}).to_string();
            prop_assert_eq!(all(line.as_bytes(), 32, buffer), [Line::TooLong(Some(id))]);
        }
    }
}
