//! Sentences about an agent's end, and the last words of its pane.

use super::life::{Death, MAX_CRASHES, Next};
use crate::tmux::clean_words;

/// Most lines and characters of last words in a thread.
const MAX_LINES: usize = 12;
const MAX_CHARS: usize = 1500;

/// Last words out of a pane's history: its last lines that show something.
pub(crate) fn last_words(history: &str) -> String {
    let clean = clean_words(history);
    let lines: Vec<&str> = clean
        .lines()
        .map(str::trim_end)
        // tmux writes this one itself.
        .filter(|line| !line.trim().is_empty() && !line.starts_with("Pane is dead"))
        .collect();
    let from = lines.len().saturating_sub(MAX_LINES);
    let text = lines.get(from..).unwrap_or_default().join("\n");
    let skip = text.chars().count().saturating_sub(MAX_CHARS);
    text.chars().skip(skip).collect()
}

/// The note about a process that ended.
pub(crate) fn death_note(death: &Death, next: Next) -> String {
    let how = match (death.status, death.signal) {
        (_, Some(signal)) => format!(" (signal {signal})"),
        (Some(status), None) => format!(" (exit status {status})"),
        (None, None) => String::new(),
    };
    let what = match next {
        Next::Restart(pause) => {
            format!("The agent's process ended{how}. It is started again in {} s.", pause.as_secs().max(1))
        }
        Next::GiveUp => format!(
            "The agent's process ended{how}, {MAX_CRASHES} times within five minutes. It stays stopped until it is started again."
        ),
        Next::Declined => {
            "The agent was ended at the question that it asks at its start. It stays stopped until it is started again.".to_owned()
        }
        Next::Ended => "The agent was ended in its terminal. A message starts it again.".to_owned(),
    };
    if death.words.is_empty() || matches!(next, Next::Ended | Next::Declined) {
        return what;
    }
    // A fence longer than any in the text keeps it text.
    let longest = death.words.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{what} Its last words:\n{fence}\n{}\n{fence}", death.words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn words_are_the_last_visible_lines() {
        let history = format!(
            "{}\nerror: \u{1b}[31mno \u{202e}luck\n\n\nPane is dead (status 1, today)\n",
            "line\n".repeat(50)
        );
        let words = last_words(&history);
        assert!(words.ends_with("line\nerror: [31mno luck"), "{words}");
        assert_eq!(words.lines().count(), MAX_LINES);
        assert_eq!(last_words(&"x".repeat(9000)).len(), MAX_CHARS);
        assert_eq!(last_words(""), "");
    }

    #[test]
    fn a_note_says_how_and_what_next() {
        let death = Death { status: Some(1), signal: None, words: "a ``` b".to_owned(), at_dialog: false };
        assert_eq!(
            death_note(&death, Next::Restart(Duration::from_secs(2))),
            "The agent's process ended (exit status 1). It is started again in 2 s. Its last words:\n````\na ``` b\n````"
        );
        let killed = Death { status: None, signal: Some(9), words: String::new(), at_dialog: false };
        assert!(death_note(&killed, Next::GiveUp).contains("(signal 9), 5 times"));
        assert!(!death_note(&death, Next::Ended).contains("last words"));
    }
}
