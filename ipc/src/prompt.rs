//! Telling whether two texts are the same prompt. A harness changes what it is handed: Claude wraps
//! long pastes in `<pasted_content id="…">`, composes characters (NFC), turns tabs into spaces and
//! CRLF into two newlines, and drops what cannot be seen. Evidence of a delivery must not hang on any
//! of that.
//!
//! Both the hub (hooks) and the agents worker (transcripts, the terminal) ask here, so that they can
//! never disagree.

use unicode_normalization::UnicodeNormalization;

/// Longest id of a `<pasted_content id="…">` tag that is taken for Claude's. Its own has four
/// characters.
const MAX_TAG_ID: usize = 64;

/// The text with everything removed that a harness may add, drop or replace: `<pasted_content>` tags,
/// white space, control, bidi, zero-width and other invisible characters; what is left is composed
/// (NFC). Only for comparing, never for showing.
pub fn normalise(text: &str) -> String {
    // Before unwrapping, since a tag may be broken by what the harness drops; composing comes last,
    // since a combining character after a tag would change the tag's own `>`.
    let visible: String =
        text.chars().filter(|c| !c.is_whitespace() && !c.is_control() && !is_invisible(*c)).collect();
    unwrap_pasted(&visible).nfc().collect()
}

/// Whether two texts are the same prompt.
pub fn same(a: &str, b: &str) -> bool {
    normalise(a) == normalise(b)
}

/// Whether the prompt `needle` is part of `hay`, as when a person's draft was in the composer or
/// several queued prompts became one. A prompt with nothing to see is part of nothing: it would be
/// evidence for everything.
pub fn contains(hay: &str, needle: &str) -> bool {
    let needle = normalise(needle);
    !needle.is_empty() && normalise(hay).contains(&needle)
}

/// Unicode's `Default_Ignorable_Code_Point`, bidi controls included, and the interlinear annotations:
/// what a terminal does not show.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Removes opening and closing tags; `text` has no white space left.
fn unwrap_pasted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        match tag_len(from) {
            Some(len) => rest = from.get(len..).unwrap_or_default(),
            None => {
                out.push('<');
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    out
}

fn tag_len(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("</").or_else(|| text.strip_prefix('<'))?;
    let id = inner.strip_prefix("pasted_contentid=\"")?;
    let end = id.find("\">")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (end <= MAX_TAG_ID && id.get(..end)?.chars().all(plain))
        .then(|| text.len() - id.len() + end + "\">".len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wrapped(text: &str) -> String {
        format!("\n\n<pasted_content id=\"fa73\">\n{text}\n</pasted_content id=\"fa73\">\n")
    }

    #[test]
    fn what_a_harness_changes_does_not_matter() {
        let prompt = "[Leo Chat] one\ttwo\r\nthree";
        for seen in [
            prompt,
            "[Leo Chat] one    two\n\nthree",
            "[Leo Chat] one two three\n",
            &wrapped(prompt),
            "[Leo Chat]\u{200b} one\u{2066} two\u{feff}\u{1b} three\u{0}",
        ] {
            assert!(same(prompt, seen), "{seen:?}");
        }
        assert!(same("[Leo Chat] cafe\u{301}", "[Leo Chat] caf\u{e9}"));
        assert!(same("\u{1f468}\u{200d}\u{1f469}\u{fe0f}", "\u{1f468}\u{1f469}"));
        assert!(same("text with \u{1b}[201~ in it", "text with [201~ in it"));
        assert!(same("a\u{2028}b\u{85}c", "a\nb\nc"));
    }

    #[test]
    fn other_prompts_differ() {
        for (a, b) in [
            ("[Leo Chat] yes", "[Leo Chat] no"),
            ("[Leo Chat] yes", "yes"),
            ("[Leo Chat] yes", "my draft [Leo Chat] yes"),
            ("<pasted id=\"a\">x", "x"),
            ("Straße", "STRASSE"),
            ("", "x"),
        ] {
            assert!(!same(a, b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_prompt_may_hold_the_tags_itself() {
        let prompt =
            "what is <pasted_content id=\"x1\"> and <pasted_content> and < and </pasted_content id=\"";
        assert!(same(prompt, &wrapped(prompt)));
        assert!(normalise(prompt).contains("<pasted_content>"));
    }

    #[test]
    fn a_combining_character_does_not_eat_a_tag() {
        assert!(same("\u{338}x", &wrapped("\u{338}x")));
    }

    #[test]
    fn parts() {
        assert!(contains("my draft [Leo Chat] yes", "[Leo Chat] yes"));
        assert!(contains(&wrapped("a\nb\nc"), "b c"));
        assert!(!contains("anything", " \u{200b}\n"));
        assert!(!contains("[Leo Chat] y", "[Leo Chat] yes"));
    }

    proptest! {
        #[test]
        fn wrapping_and_composing_never_matter(text in "\\PC{0,40}|(?s).{0,40}|[<>/a-z_ =\"]{0,60}") {
            prop_assert!(same(&text, &wrapped(&text)));
            let composed: String = text.nfc().collect();
            prop_assert!(same(&text, &composed));
            let spaced: String = text.replace('\t', "    ").replace("\r\n", "\n\n");
            prop_assert!(same(&text, &spaced));
        }

        #[test]
        fn a_part_is_found(before in "[ -~]{0,10}", text in "[a-z]{1,20}", after in "[ -~]{0,10}") {
            let hay = format!("{before} {text} {after}");
            prop_assert!(contains(&hay, &text));
        }
    }
}
