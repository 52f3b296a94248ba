//! The text that a person is writing: editing and its rows on the screen. Pure.

use super::plain;
use leo_ipc::chat::MAX_TEXT;
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// The text and where the cursor stands in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Composer {
    text: String,
    /// A byte offset, always between two characters as a person sees them.
    cursor: usize,
}

/// The composer on the screen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// Each row's text, harmless.
    pub(super) rows: Vec<String>,
    /// Row of the cursor.
    pub(super) row: usize,
    /// Column of the cursor.
    pub(super) column: usize,
}

impl Composer {
    /// What was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes the text away, for sending.
    pub(super) fn take(&mut self) -> String {
        self.cursor = 0;
        std::mem::take(&mut self.text)
    }

    /// Replaces the text; the cursor stands at its end.
    pub(super) fn set(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
    }

    /// Puts text at the cursor, with line breaks of every kind as `\n` and without characters that no
    /// keyboard writes. Whether it fitted into a message; when not, nothing is changed.
    pub(super) fn insert(&mut self, text: &str) -> bool {
        let text: String = text
            .replace("\r\n", "\n")
            .chars()
            .map(|c| if c == '\r' { '\n' } else { c })
            .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
            .collect();
        if self.text.len() + text.len() > MAX_TEXT {
            return false;
        }
        self.text.insert_str(self.cursor, &text);
        // What was put in may join with what stands around it into one character.
        self.cursor = self.boundary_at_or_after(self.cursor + text.len());
        true
    }

    fn boundary_at_or_after(&self, at: usize) -> usize {
        let mut cursor = GraphemeCursor::new(at, self.text.len(), true);
        match cursor.is_boundary(&self.text, 0) {
            Ok(true) | Err(_) => at,
            Ok(false) => cursor.next_boundary(&self.text, 0).ok().flatten().unwrap_or(self.text.len()),
        }
    }

    fn left_of(&self, at: usize) -> usize {
        self.text[..at].grapheme_indices(true).next_back().map_or(0, |(i, _)| i)
    }

    fn right_of(&self, at: usize) -> usize {
        self.text[at..].graphemes(true).next().map_or(at, |g| at + g.len())
    }

    fn boundary_at_or_before(&self, at: usize) -> usize {
        let mut cursor = GraphemeCursor::new(at, self.text.len(), true);
        match cursor.is_boundary(&self.text, 0) {
            Ok(true) | Err(_) => at,
            Ok(false) => cursor.prev_boundary(&self.text, 0).ok().flatten().unwrap_or(0),
        }
    }

    // Unicode's words may begin and end inside of its characters: a Malayalam dot reph joins with the
    // punctuation after it, which is a word of its own.
    fn word_left(&self) -> usize {
        let before = self.text[..self.cursor].trim_end();
        let start = before.split_word_bound_indices().next_back().map_or(0, |(i, _)| i);
        self.boundary_at_or_before(start)
    }

    fn word_right(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let skipped = rest.len() - rest.trim_start().len();
        let word = rest[skipped..].split_word_bounds().next().map_or(0, str::len);
        self.boundary_at_or_after(self.cursor + skipped + word)
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |i| i + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |i| self.cursor + i)
    }

    /// One character to the left.
    pub(super) fn left(&mut self) {
        self.cursor = self.left_of(self.cursor);
    }

    /// One character to the right.
    pub(super) fn right(&mut self) {
        self.cursor = self.right_of(self.cursor);
    }

    /// To the start of the word before.
    pub(super) fn left_word(&mut self) {
        self.cursor = self.word_left();
    }

    /// To the end of the word after.
    pub(super) fn right_word(&mut self) {
        self.cursor = self.word_right();
    }

    /// To the start of the line.
    pub(super) fn home(&mut self) {
        self.cursor = self.line_start();
    }

    /// To the end of the line.
    pub(super) fn end(&mut self) {
        self.cursor = self.line_end();
    }

    /// One row up on a screen of `columns`; false on the first row.
    pub(super) fn up(&mut self, columns: usize) -> bool {
        let at = self.rows(columns);
        if at.row == 0 {
            return false;
        }
        self.cursor = self.offset_of(at.row - 1, at.column, columns);
        true
    }

    /// One row down on a screen of `columns`; false on the last row.
    pub(super) fn down(&mut self, columns: usize) -> bool {
        let at = self.rows(columns);
        if at.row + 1 >= at.rows.len() {
            return false;
        }
        self.cursor = self.offset_of(at.row + 1, at.column, columns);
        true
    }

    /// Deletes the character before the cursor.
    pub(super) fn backspace(&mut self) {
        self.delete(self.left_of(self.cursor), self.cursor);
    }

    /// Deletes the character under the cursor.
    pub(super) fn delete_right(&mut self) {
        self.delete(self.cursor, self.right_of(self.cursor));
    }

    /// Deletes the word before the cursor.
    pub(super) fn delete_word_left(&mut self) {
        self.delete(self.word_left(), self.cursor);
    }

    /// Deletes from the start of the line to the cursor.
    pub(super) fn delete_to_start(&mut self) {
        self.delete(self.line_start(), self.cursor);
    }

    /// Deletes from the cursor to the end of the line.
    pub(super) fn delete_to_end(&mut self) {
        self.delete(self.cursor, self.line_end());
    }

    fn delete(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = self.boundary_at_or_after(from);
    }

    /// The rows on a screen of so many columns. The last column stays free for the cursor.
    pub(super) fn rows(&self, columns: usize) -> Rows {
        let mut rows = vec![String::new()];
        let (mut row, mut column) = (0, 0);
        self.walk(columns, |offset, at_row, at_column, shown| {
            if rows.len() <= at_row {
                rows.push(String::new());
            }
            if let Some(last) = rows.last_mut() {
                last.push_str(shown);
            }
            if offset <= self.cursor {
                (row, column) = (at_row, at_column);
            }
        });
        Rows { rows, row, column }
    }

    fn offset_of(&self, row: usize, column: usize, columns: usize) -> usize {
        let mut found = 0;
        self.walk(columns, |offset, at_row, at_column, _| {
            if at_row < row || (at_row == row && at_column <= column) {
                found = offset;
            }
        });
        found
    }

    /// Visits each character, and the end, with its offset, place and how it is shown.
    fn walk(&self, columns: usize, mut visit: impl FnMut(usize, usize, usize, &str)) {
        let columns = columns.max(3) - 1;
        let (mut row, mut column) = (0, 0);
        for (offset, grapheme) in self.text.grapheme_indices(true) {
            if grapheme == "\n" {
                visit(offset, row, column, "");
                row += 1;
                column = 0;
                continue;
            }
            let shown = plain::clean(grapheme);
            let wide = plain::width(&shown);
            if column + wide > columns {
                row += 1;
                column = 0;
            }
            visit(offset, row, column, &shown);
            column += wide;
        }
        visit(self.text.len(), row, column, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn composer(text: &str) -> Composer {
        let mut composer = Composer::default();
        assert!(composer.insert(text));
        composer
    }

    #[test]
    fn edits_whole_characters() {
        let mut c = composer("a👩\u{200d}👧é");
        c.left();
        c.backspace();
        assert_eq!(c.text(), "aé");
        c.delete_right();
        assert_eq!(c.text(), "a");
        c.insert("\u{301}");
        c.backspace();
        assert!(c.is_empty());
    }

    #[test]
    fn edits_words_and_lines() {
        let mut c = composer("one two\nthree four");
        c.delete_word_left();
        assert_eq!(c.text(), "one two\nthree ");
        c.home();
        c.delete_to_end();
        assert_eq!(c.text(), "one two\n");
        c.left();
        c.left_word();
        c.delete_to_start();
        assert_eq!(c.text(), "two\n");
        c.right_word();
        c.insert("!");
        assert_eq!(c.text(), "two!\n");
        assert_eq!(c.take(), "two!\n");
        assert!(c.is_empty());
    }

    #[test]
    fn a_paste_keeps_its_lines_and_nothing_that_acts() {
        let c = composer("a\r\nb\rc\td\u{1b}[31m\u{7}");
        assert_eq!(c.text(), "a\nb\nc\td[31m");
        let mut full = composer(&"x".repeat(MAX_TEXT));
        assert!(!full.insert("y"));
        assert_eq!(full.text().len(), MAX_TEXT);
    }

    #[test]
    fn rows_follow_the_width() {
        let c = composer("abcdef\n日本語");
        let rows = c.rows(5);
        assert_eq!(rows.rows, ["abcd", "ef", "日本", "語"]);
        assert_eq!((rows.row, rows.column), (3, 2));
        let mut c = c;
        assert!(c.up(5));
        assert_eq!((c.rows(5).row, c.rows(5).column), (2, 2));
        assert!(c.up(5) && c.up(5) && !c.up(5));
        assert!(c.down(5));
        assert_eq!(c.rows(5).row, 1);
    }

    /// A word's bound inside of a character once left the cursor there.
    #[test]
    fn a_word_that_ends_inside_a_character_does_not_split_it() {
        let mut c = composer("\u{d4e}!");
        c.left_word();
        c.left_word();
        assert_eq!(c.cursor, 0);
        c.right_word();
        assert_eq!(c.cursor, c.text().len());
        c.delete_word_left();
        assert!(c.is_empty());
    }

    #[derive(Debug, Clone)]
    enum Op {
        Insert(String),
        Move(u8),
        Delete(u8),
    }

    proptest! {
        /// The cursor always stands where a character begins, whatever is done.
        #[test]
        fn the_cursor_stands_between_characters(ops in proptest::collection::vec(prop_oneof![
            "\\PC{0,5}|\n|\u{301}|\u{200d}👧".prop_map(Op::Insert),
            (0u8..8).prop_map(Op::Move),
            (0u8..5).prop_map(Op::Delete),
        ], 0..40), columns in 1usize..12) {
            let mut c = Composer::default();
            for op in ops {
                match op {
                    Op::Insert(text) => { c.insert(&text); }
                    Op::Move(n) => match n {
                        0 => c.left(), 1 => c.right(), 2 => c.left_word(), 3 => c.right_word(),
                        4 => c.home(), 5 => c.end(),
                        6 => { c.up(columns); }
                        _ => { c.down(columns); }
                    },
                    Op::Delete(n) => match n {
                        0 => c.backspace(), 1 => c.delete_right(), 2 => c.delete_word_left(),
                        3 => c.delete_to_start(), _ => c.delete_to_end(),
                    },
                }
                let mut boundaries: Vec<usize> = c.text.grapheme_indices(true).map(|(i, _)| i).collect();
                boundaries.push(c.text.len());
                prop_assert!(boundaries.contains(&c.cursor));
                let rows = c.rows(columns);
                prop_assert!(rows.row < rows.rows.len());
            }
        }
    }
}
