//! What an agent reads for a message (seed 001, "Delivery"). Pure text.

use leo_ipc::chat::Message;

/// The prompt of a message. It always starts with `[Leo Chat] `, since a leading `!`, `/` or `#` would
/// run as a command in the agent's terminal.
pub(crate) fn compose(text: &str) -> String {
    format!("[Leo Chat] {text}")
}

/// Longest part of a question that a prompt repeats, in characters.
const MAX_QUOTED: usize = 1500;

/// The prompt of a message that replies to an ask.
pub(crate) fn reply_to_ask(text: &str, ask: &Message) -> String {
    let question: String = ask.text.chars().take(MAX_QUOTED).collect();
    format!("{}\nIn reply to your leo_chat_ask {} ({}): {question}", compose(text), ask.id, ask.ts)
}

/// The prompt of an answer that no call waited for.
pub(crate) fn late_answer(text: &str, ask: &Message, answer: &str) -> String {
    format!("{}\nAnswer: {answer}", reply_to_ask(text, ask))
}

/// Splits a reply that is longer than a message may be, at character boundaries, so that nothing the
/// agent said is lost.
pub(crate) fn split(text: &str, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > most {
        let mut cut = most;
        while !rest.is_char_boundary(cut) {
            cut -= 1;
        }
        // A line's end nearby reads better than the middle of a word.
        if let Some(line) = rest[..cut].rfind('\n').filter(|line| *line > most / 2) {
            cut = line + 1;
        }
        let (part, left) = rest.split_at(cut);
        parts.push(part);
        rest = left;
    }
    parts.push(rest);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_split_loses_nothing(text in "\\PC{0,200}(\n\\PC{0,50}){0,5}", most in 8usize..64) {
            let parts = split(&text, most);
            prop_assert!(parts.iter().all(|p| p.len() <= most));
            prop_assert_eq!(parts.concat(), text.as_str());
        }
    }
}
