//! Text from elsewhere made harmless and laid out: nothing in it acts on the terminal, and every
//! terminal agrees with us on how many columns it takes. Pure.

use std::fmt::Write as _;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Columns of a tab: fixed, so that a text looks the same wherever its line starts.
const TAB: &str = "    ";

/// Columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The text with line breaks kept, tabs as spaces, and everything that would act on the terminal or
/// change the direction of what follows shown as `\u{…}`.
///
/// Joiners between pictures, skin tones and the mark that asks for a picture instead of a letter are
/// left out: terminals disagree about the width of such sequences, and one wrong column shifts the rest
/// of the row.
pub(super) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' => out.push('\n'),
            '\t' => out.push_str(TAB),
            '\u{fe0e}' | '\u{fe0f}' => {}
            '\u{1f3fb}'..='\u{1f3ff}' if is_picture(before) => {}
            '\u{200d}' if is_picture(before) => {}
            // Joiners that shape letters, in scripts that have them.
            '\u{200c}' | '\u{200d}' if before.is_alphabetic() || matches!(before, '\u{900}'..='\u{dff}') => {
                out.push(c);
            }
            c if c.is_control() || is_hidden(c) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "{}", c.escape_unicode());
            }
            c => out.push(c),
        }
        if !matches!(c, '\u{fe0e}' | '\u{fe0f}') {
            before = c;
        }
    }
    out
}

/// The text with line breaks kept and every other character that is not seen as itself shown as
/// `\u{…}`, tabs and joiners included: for what a person is about to allow or choose.
pub(super) fn exact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let unseen = c.is_control() || is_hidden(c) || matches!(c, '\u{fe00}'..='\u{fe0f}');
        if unseen && c != '\n' {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// As [`clean`], on one line.
pub(super) fn clean_line(text: &str) -> String {
    clean(text).replace('\n', " ")
}

fn is_picture(c: char) -> bool {
    matches!(c, '\u{1f000}'..='\u{1faff}' | '\u{2600}'..='\u{27bf}' | '\u{2190}'..='\u{21ff}' | '\u{2b00}'..='\u{2bff}')
}

/// Zero-width, direction-changing and tag characters.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// A clean text in rows of at most `columns` columns: broken at spaces where there are some, inside a
/// word only where it is longer than a row. At least one row.
pub(super) fn wrap(clean: &str, columns: usize) -> Vec<String> {
    // A character may take two columns; narrower rows could not hold it.
    let columns = columns.max(2);
    clean.split('\n').flat_map(|line| wrap_line(line, columns)).collect()
}

fn wrap_line(line: &str, columns: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let mut row = String::new();
    let mut used = 0;
    for word in words(line) {
        let wide = width(word);
        if used + wide <= columns {
            row.push_str(word);
            used += wide;
            continue;
        }
        if word.trim().is_empty() {
            // Space at the end of a row is the break itself.
            rows.push(std::mem::take(&mut row));
            used = 0;
            continue;
        }
        if used > 0 && wide <= columns {
            rows.push(trimmed(&mut row));
            used = 0;
        }
        for grapheme in word.graphemes(true) {
            let wide = width(grapheme);
            if used + wide > columns {
                rows.push(trimmed(&mut row));
                used = 0;
            }
            row.push_str(grapheme);
            used += wide;
        }
    }
    rows.push(row);
    rows
}

/// The parts of a line that stay together: runs of spaces, single wide characters (CJK has no spaces),
/// and everything else up to the next of these, punctuation included.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let mut end = 0;
        let mut first = None;
        for grapheme in rest.graphemes(true) {
            let kind = (grapheme.trim().is_empty(), width(grapheme) > 1);
            if first.is_some_and(|first| first != kind) {
                break;
            }
            end += grapheme.len();
            first = Some(kind);
            if kind.1 {
                break;
            }
        }
        let (word, after) = rest.split_at(end);
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

/// The row without its trailing spaces; a row of nothing else stays, as it is somebody's indentation.
fn trimmed(row: &mut String) -> String {
    let taken = std::mem::take(row);
    let end = taken.trim_end().len();
    if end == 0 { taken } else { taken[..end].to_owned() }
}

/// A clean line cut to so many columns, with an ellipsis where something is missing.
pub(super) fn cut(clean: &str, columns: usize) -> String {
    if width(clean) <= columns {
        return clean.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for grapheme in clean.graphemes(true) {
        let wide = width(grapheme);
        if used + wide + 1 > columns {
            break;
        }
        used += wide;
        out.push_str(grapheme);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_acts_on_the_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\u{7}\u{9b}c"), "a\\u{1b}[31mb\\u{7}\\u{9b}c");
        assert_eq!(clean("x\u{202e}y\u{200b}z\u{e0041}"), "x\\u{202e}y\\u{200b}z\\u{e0041}");
        assert_eq!(clean("a\r\nb\rc\td"), "a\nb\\u{d}c    d");
    }

    #[test]
    fn what_is_allowed_is_shown_exactly() {
        assert_eq!(exact("rm\t\u{202e}x\u{200b}y\u{200d}\nz"), "rm\\u{9}\\u{202e}x\\u{200b}y\\u{200d}\nz");
        assert_eq!(exact("日本 é"), "日本 é");
    }

    #[test]
    fn pictures_take_the_columns_that_terminals_give_them() {
        assert_eq!(clean("👩\u{200d}👩\u{200d}👧!"), "👩👩👧!");
        assert_eq!(clean("👍🏽 ❤\u{fe0f}"), "👍 ❤");
        assert_eq!(width(&clean("❤\u{fe0f}")), 1);
        // A joiner between letters shapes them.
        assert_eq!(clean("क्\u{200d}ष"), "क्\u{200d}ष");
        assert_eq!(clean("می\u{200c}خواهم"), "می\u{200c}خواهم");
    }

    #[test]
    fn wraps_at_words_and_inside_long_ones() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("one two", 7), ["one two"]);
        assert_eq!(wrap("try /exit, then.", 8), ["try", "/exit,", "then."]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("日本語テキスト", 5), ["日本", "語テ", "キス", "ト"]);
        assert_eq!(wrap("a\n\nb", 5), ["a", "", "b"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("    indented code", 10), ["    ", "indented", "code"].map(str::to_owned));
    }

    #[test]
    fn cuts() {
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 0), "");
    }

    proptest! {
        /// Rows fit, and no letter is lost or made up.
        #[test]
        fn rows_fit(text in "\\PC{0,80}", columns in 2usize..30) {
            let clean = clean(&text);
            let rows = wrap(&clean, columns);
            for row in &rows {
                // One character with its marks may be wider than a very narrow row.
                let one = row.graphemes(true).count() == 1;
                prop_assert!(one || width(row) <= columns, "{row:?} has {} columns", width(row));
            }
            let letters = |s: &str| s.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&rows.concat()), letters(&clean));
        }

        #[test]
        fn clean_text_is_printable(text in any::<String>()) {
            prop_assert!(clean(&text).chars().all(|c| c == '\n' || !c.is_control()));
        }
    }
}
