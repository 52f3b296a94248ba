//! Text from people and programs, made safe for a terminal (DESIGN.md, invariant 13).

use leo_ipc::prompt::is_invisible;

const ZWJ: char = '\u{200d}';
const TEXT_STYLE: char = '\u{fe0e}';
const EMOJI_STYLE: char = '\u{fe0f}';

/// The text as it is pasted into a composer: no control, bidi or zero-width characters, which end
/// the brackets early or make a harness ask for a second look; tabs as four blanks; one kind of line
/// end. It ends with one blank, since a backslash before Enter means "new line" to Claude, and an
/// open `@` or `/` completion would take the Enter for itself.
pub(crate) fn for_paste(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' => {
                if chars.peek() == Some(&'\n') {
                    chars.next();
                }
                out.push('\n');
            }
            '\n' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            '\t' => out.push_str("    "),
            // Joins emoji into one; anywhere else it is invisible.
            ZWJ => {
                let before = out.chars().rev().find(|c| *c != EMOJI_STYLE).is_some_and(is_pictograph);
                if before && chars.peek().copied().is_some_and(is_pictograph) {
                    out.push(c);
                }
            }
            TEXT_STYLE | EMOJI_STYLE => {
                if out.chars().next_back().is_some_and(|c| !c.is_whitespace() && !is_invisible(c)) {
                    out.push(c);
                }
            }
            c if c.is_control() || is_invisible(c) => {}
            c => out.push(c),
        }
    }
    let trimmed = out.trim();
    format!("{trimmed} ")
}

/// Text that a program printed, for showing to a person: lines of visible characters only.
pub(crate) fn clean_words(text: &str) -> String {
    text.chars().filter(|c| *c == '\n' || !(c.is_control() || is_invisible(*c))).collect()
}

/// The blocks that emoji come from. More than needed does no harm: it only keeps a joiner.
fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}')
        && !c.is_alphanumeric()
        && !is_invisible(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leo_ipc::prompt;
    use proptest::prelude::*;

    #[test]
    fn what_is_pasted() {
        for (text, pasted) in [
            ("[Leo Chat] a\tb\r\nc\rd", "[Leo Chat] a    b\nc\nd "),
            ("[Leo Chat] x\u{1b}[201~rm -rf\u{7}", "[Leo Chat] x[201~rm -rf "),
            ("[Leo Chat] \u{202e}abc\u{2066}\u{200b}\u{feff}\u{ad}", "[Leo Chat] abc "),
            (
                "[Leo Chat] family \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
                "[Leo Chat] family \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} ",
            ),
            ("[Leo Chat] \u{2764}\u{fe0f}\u{200d}\u{1f525}", "[Leo Chat] \u{2764}\u{fe0f}\u{200d}\u{1f525} "),
            ("[Leo Chat] a\u{200d}b \u{fe0f}c", "[Leo Chat] ab c "),
            ("[Leo Chat] \u{1f1e9}\u{1f1ea} 漢字 \u{85}Ж", "[Leo Chat] \u{1f1e9}\u{1f1ea} 漢字 \nЖ "),
            ("[Leo Chat] ends with \\", "[Leo Chat] ends with \\ "),
            ("[Leo Chat] see @src\n\n", "[Leo Chat] see @src "),
            ("\u{0}", " "),
        ] {
            assert_eq!(for_paste(text), pasted, "{text:?}");
        }
    }

    #[test]
    fn words_stay_lines() {
        assert_eq!(clean_words("one\u{1b}[31m\r\ntwo\u{202e}\u{9b}"), "one[31m\ntwo");
    }

    fn nasty() -> impl Strategy<Value = String> {
        let c = prop_oneof![
            any::<char>(),
            prop::sample::select(vec![
                '\u{1b}',
                '\r',
                '\n',
                '\t',
                '\u{200d}',
                '\u{fe0f}',
                '\u{1f468}',
                '\u{202e}',
                '\u{9b}',
                '\u{2028}',
                ' ',
                '\\',
                '\u{e0041}',
                '\u{feff}',
            ]),
        ];
        prop::collection::vec(c, 0..60).prop_map(|chars| chars.into_iter().collect())
    }

    proptest! {
        #[test]
        fn nothing_dangerous_is_pasted(text in nasty()) {
            let pasted = for_paste(&text);
            prop_assert!(pasted.chars().all(|c| c == '\n' || !c.is_control()));
            prop_assert!(pasted.chars().all(|c| matches!(c, ZWJ | TEXT_STYLE | EMOJI_STYLE) || !is_invisible(c)));
            prop_assert!(pasted.ends_with(' ') && !pasted.ends_with("\n "));
            prop_assert!(prompt::same(&text, &pasted), "{:?} {:?}", text, pasted);
            prop_assert_eq!(for_paste(&pasted), pasted);
        }
    }
}
