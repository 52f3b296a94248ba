//! Reading a transcript for evidence: is this prompt in it, and which turn did it start?
//!
//! The file is read line by line from a place on; a line that cannot be read is skipped, and a last
//! line without its end is left for the next time.

use leo_ipc::prompt;
use serde::Deserialize;
use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

/// How much of a file's end is read when no place is known: more than a turn with large tool results.
const TAIL: u64 = 8 * 1024 * 1024;

/// A line longer than this is no prompt of ours (those end at 32 KiB) and is passed over unread.
const MAX_LINE: u64 = 4 * 1024 * 1024;

/// What the hub counts since a hand-over reaches us a little later (milliseconds). Little enough that an
/// earlier message of the same text stays out: its turn took longer.
const CLOCK_SLACK_MS: i64 = 150;

/// Stands before the prompt in Claude's words about one that a hook refused.
const ORIGINAL_PROMPT: &str = "Original prompt: ";

/// What was found of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// It began, or is part of, a turn of this id.
    Turn {
        /// The harness's id for the prompt, where the row has one.
        prompt_id: Option<String>,
    },
    /// It was folded into a turn that was already running, and has no reply of its own.
    Absorbed,
    /// A hook of the person's own did not let it pass: the model has not read it.
    Refused {
        /// The hook's words.
        why: String,
    },
}

/// A search for one prompt.
#[derive(Debug, Clone)]
pub(crate) struct Search<'a> {
    /// What was handed over.
    pub(crate) prompt: &'a str,
    /// Rows older than this (milliseconds since 1970) are of an earlier message with the same text.
    pub(crate) since_ms: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct Row {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "promptId")]
    prompt_id: Option<String>,
    timestamp: Option<String>,
    #[serde(rename = "isMeta", default)]
    is_meta: bool,
    #[serde(rename = "isSidechain", default)]
    is_sidechain: bool,
    message: Option<Message>,
    attachment: Option<Attachment>,
    operation: Option<String>,
    reason: Option<String>,
    content: Option<serde_json::Value>,
    #[serde(rename = "promptSubmitEnding")]
    submit_ending: Option<SubmitEnding>,
}

/// How Claude writes that a prompt did not become a turn.
#[derive(Debug, Deserialize)]
struct SubmitEnding {
    ending: Ending,
}

#[derive(Debug, Deserialize)]
struct Ending {
    kind: String,
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: Option<String>,
    #[serde(default)]
    content: serde_json::Value,
}

#[derive(Debug, Deserialize)]
struct Attachment {
    #[serde(rename = "type")]
    kind: Option<String>,
    prompt: Option<serde_json::Value>,
}

impl Search<'_> {
    /// Looks through a transcript; `None` when the prompt is not in it (or there is no such file).
    pub(crate) fn run(&self, path: &Path) -> Option<Found> {
        let mut file = File::open(path).ok()?;
        let length = file.metadata().ok()?.len();
        let from = length.saturating_sub(TAIL);
        file.seek(SeekFrom::Start(from)).ok()?;
        let mut reader = BufReader::new(file);
        if from > 0 {
            skip_line(&mut reader)?;
        }
        self.read(reader)
    }

    /// Looks through rows. The newest row that matches decides.
    fn read(&self, mut reader: impl BufRead) -> Option<Found> {
        let wanted = prompt::normalise(self.prompt);
        if wanted.is_empty() {
            return None;
        }
        let mut found = None;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).ok()?;
            if read == 0 || line.last() != Some(&b'\n') {
                if read as u64 == MAX_LINE && skip_line(&mut reader).is_some() {
                    continue;
                }
                return found;
            }
            if may_matter(&line)
                && let Ok(row) = serde_json::from_slice::<Row>(&line)
            {
                found = self.matches(&row, &wanted).or(found);
            }
        }
    }

    fn matches(&self, row: &Row, wanted: &str) -> Option<Found> {
        if let (Some(since), Some(at)) = (self.since_ms, row.timestamp.as_deref().and_then(millis))
            && at + CLOCK_SLACK_MS < since
        {
            return None;
        }
        let is_it = |value: &serde_json::Value| texts(value).iter().any(|t| prompt::normalise(t) == *wanted);
        match row.kind.as_str() {
            "user" if !row.is_meta && !row.is_sidechain => {
                let message = row.message.as_ref().filter(|m| m.role.as_deref() == Some("user"))?;
                is_it(&message.content).then(|| Found::Turn { prompt_id: row.prompt_id.clone() })
            }
            "attachment" => {
                let attachment =
                    row.attachment.as_ref().filter(|a| a.kind.as_deref() == Some("queued_command"))?;
                is_it(attachment.prompt.as_ref()?).then_some(Found::Absorbed)
            }
            "queue-operation" if row.operation.as_deref() == Some("remove") => {
                let absorbed = row.reason.as_deref() == Some("absorbed_mid_turn");
                (absorbed && is_it(row.content.as_ref()?)).then_some(Found::Absorbed)
            }
            "system" => {
                let ending = &row.submit_ending.as_ref()?.ending;
                let content = row.content.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
                let ours = match content.split_once(ORIGINAL_PROMPT) {
                    Some((_, original)) => prompt::normalise(original) == *wanted,
                    // A hook may ask Claude to leave the prompt out. Then its time has to do.
                    None => self.since_ms.is_some(),
                };
                (ending.kind == "blocked_by_hook" && ours)
                    .then(|| Found::Refused { why: ending.reason.trim().to_owned() })
            }
            _ => None,
        }
    }
}

/// Most rows are answers and tool results; only these kinds are worth parsing.
fn may_matter(line: &[u8]) -> bool {
    let has = |sign: &[u8]| line.windows(sign.len()).any(|w| w == sign);
    let signs: [&[u8]; 4] =
        [b"\"user\"", b"\"queued_command\"", b"\"queue-operation\"", b"\"promptSubmitEnding\""];
    signs.iter().any(|sign| has(sign))
}

/// The texts of a message's content: a string, or blocks.
fn texts(content: &serde_json::Value) -> Vec<&str> {
    match content {
        serde_json::Value::String(text) => vec![text],
        serde_json::Value::Array(blocks) => {
            blocks.iter().filter_map(|b| b.get("text").and_then(serde_json::Value::as_str)).collect()
        }
        _ => Vec::new(),
    }
}

fn millis(timestamp: &str) -> Option<i64> {
    timestamp.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

/// Passes over the rest of a line; `None` at the end of the file.
fn skip_line(reader: &mut impl BufRead) -> Option<()> {
    loop {
        let (used, done) = {
            let buffer = reader.fill_buf().ok()?;
            if buffer.is_empty() {
                return None;
            }
            match buffer.iter().position(|b| *b == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), false),
            }
        };
        reader.consume(used);
        if done {
            return Some(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const AT: &str = "2026-11-29T21:38:02.688Z";

    fn user(prompt_id: &str, text: &str, at: &str) -> String {
        json!({"type": "user", "promptId": prompt_id, "timestamp": at, "message": {"role": "user", "content": text}})
            .to_string()
    }

    fn find(lines: &[String], prompt: &str, since: Option<&str>) -> Option<Found> {
        let text = lines.iter().fold(String::new(), |all, line| all + line + "\n");
        Search { prompt, since_ms: since.map(|s| millis(s).unwrap()) }.read(text.as_bytes())
    }

    fn refused(text: &str) -> String {
        let content = format!(
            "UserPromptSubmit operation blocked by hook:\n[sh]: not here\n\n\nOriginal prompt: {text}"
        );
        let ending =
            json!({"ending": {"kind": "blocked_by_hook", "reason": "not here"}, "promptKept": false});
        json!({"type": "system", "timestamp": AT, "content": content, "promptSubmitEnding": ending})
            .to_string()
    }

    fn turn(id: &str) -> Option<Found> {
        Some(Found::Turn { prompt_id: Some(id.to_owned()) })
    }

    #[test]
    fn prompts_are_found_as_claude_writes_them() {
        let wrapped =
            "\n\n<pasted_content id=\"fa73\">\n[Leo Chat] a\nb\nc\nd\n</pasted_content id=\"fa73\">\n";
        let lines = [
            "broken {".to_owned(),
            user("p1", "[Leo Chat] yes", AT),
            json!({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "[Leo Chat] no"}]}}).to_string(),
            user("p2", wrapped, AT),
            json!({"type": "user", "isMeta": true, "promptId": "p3", "message": {"role": "user", "content": "[Leo Chat] meta"}}).to_string(),
            json!({"type": "user", "promptId": "p4", "message": {"role": "user", "content": [{"type": "text", "text": "[Leo Chat] block"}]}}).to_string(),
            json!({"type": "queue-operation", "operation": "enqueue", "content": "[Leo Chat] queued"}).to_string(),
            json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": "[Leo Chat] folded"}}).to_string(),
            json!({"type": "queue-operation", "operation": "remove", "reason": "absorbed_mid_turn", "content": "[Leo Chat] gone"}).to_string(),
            refused("[Leo Chat] poison"),
        ];
        for (prompt, found) in [
            ("[Leo Chat] yes", turn("p1")),
            ("[Leo Chat] a\nb\nc\nd ", turn("p2")),
            ("[Leo Chat] no", None),
            ("[Leo Chat] meta", None),
            ("[Leo Chat] block", turn("p4")),
            ("[Leo Chat] queued", None),
            ("[Leo Chat] folded", Some(Found::Absorbed)),
            ("[Leo Chat] gone", Some(Found::Absorbed)),
            ("[Leo Chat] poison", Some(Found::Refused { why: "not here".to_owned() })),
            ("", None),
        ] {
            assert_eq!(find(&lines, prompt, None), found, "{prompt}");
        }
    }

    #[test]
    fn an_earlier_message_of_the_same_text_is_no_evidence() {
        let lines = [user("p1", "[Leo Chat] yes", AT)];
        assert_eq!(find(&lines, "[Leo Chat] yes", Some("2026-11-29T21:38:10Z")), None);
        assert_eq!(find(&lines, "[Leo Chat] yes", Some("2026-11-29T21:38:02.800Z")), turn("p1"));
        let both = [user("p1", "[Leo Chat] yes", AT), user("p2", "[Leo Chat] yes", "2026-11-29T21:39:00Z")];
        assert_eq!(find(&both, "[Leo Chat] yes", Some("2026-11-29T21:38:50Z")), turn("p2"));
    }

    #[test]
    fn the_tail_of_a_large_file_is_enough_and_half_a_line_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let filler = json!({"type": "assistant", "text": "x".repeat(5 * 1024 * 1024)}).to_string();
        let mut text = String::new();
        for _ in 0..3 {
            text += &filler;
            text.push('\n');
        }
        text += &user("p9", "[Leo Chat] late", AT);
        std::fs::write(&path, &text).unwrap();
        let search = Search { prompt: "[Leo Chat] late", since_ms: None };
        assert_eq!(search.run(&path), None, "the line has no end yet");
        std::fs::write(&path, text + "\n").unwrap();
        assert_eq!(search.run(&path), turn("p9"));
        assert_eq!(search.run(Path::new("/no/such/file")), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "\\PC{0,20}") {
            Search { prompt: &text, since_ms: Some(0) }.read(bytes.as_slice());
        }
    }
}
