//! The line where a person writes: text and a cursor. Pure.

use unicode_width::UnicodeWidthChar;

/// Most characters kept; more is dropped. Above the longest message that there is.
const MAX_CHARS: usize = 512 * 1024;

/// Text being written.
#[derive(Debug, Default)]
pub(crate) struct Composer {
    text: Vec<char>,
    /// Characters before the cursor.
    cursor: usize,
}

impl Composer {
    /// Whether nothing is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes the text out.
    pub(crate) fn take(&mut self) -> String {
        self.cursor = 0;
        std::mem::take(&mut self.text).into_iter().collect()
    }

    /// Replaces the text.
    pub(crate) fn set(&mut self, text: &str) {
        self.text.clear();
        self.cursor = 0;
        self.insert(text);
    }

    /// Inserts text at the cursor. Line ends of every kind become `\n`, a tab four blanks; other
    /// control characters are dropped, so that nothing pasted can draw on the terminal.
    pub(crate) fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ");
        let room = MAX_CHARS.saturating_sub(self.text.len());
        let clean: Vec<char> = text.chars().filter(|c| *c == '\n' || !c.is_control()).take(room).collect();
        let end = self.cursor + clean.len();
        self.text.splice(self.cursor..self.cursor, clean);
        self.cursor = end;
    }

    /// Deletes the character before the cursor.
    pub(crate) fn backspace(&mut self) {
        if self.cursor > 0 {
            self.cursor -= 1;
            self.text.remove(self.cursor);
        }
    }

    /// Deletes the character at the cursor.
    pub(crate) fn delete(&mut self) {
        if self.cursor < self.text.len() {
            self.text.remove(self.cursor);
        }
    }

    /// Deletes the word before the cursor.
    pub(crate) fn delete_word(&mut self) {
        let blanks = self.text[..self.cursor].iter().rev().take_while(|c| c.is_whitespace()).count();
        let letters =
            self.text[..self.cursor - blanks].iter().rev().take_while(|c| !c.is_whitespace()).count();
        let start = self.cursor - blanks - letters;
        self.text.drain(start..self.cursor);
        self.cursor = start;
    }

    /// Deletes everything.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.cursor = 0;
    }

    /// Moves the cursor by characters, as far as there are any.
    pub(crate) fn move_by(&mut self, by: isize) {
        self.cursor = self.cursor.saturating_add_signed(by).min(self.text.len());
    }

    /// Moves the cursor to the start or the end of its line.
    pub(crate) fn move_to_line_edge(&mut self, end: bool) {
        self.cursor = if end {
            self.cursor + self.text[self.cursor..].iter().take_while(|c| **c != '\n').count()
        } else {
            self.cursor - self.text[..self.cursor].iter().rev().take_while(|c| **c != '\n').count()
        };
    }

    /// The rows of a field of this width, at most `rows` of them around the cursor, and the cursor's
    /// row and column in it.
    pub(crate) fn layout(&self, width: usize, rows: usize) -> (Vec<String>, usize, usize) {
        let mut lines = vec![String::new()];
        let (mut column, mut at) = (0, (0, 0));
        for i in 0..=self.text.len() {
            let c = self.text.get(i).copied();
            let cell = c.and_then(UnicodeWidthChar::width).unwrap_or(0);
            if column + cell.max(1) > width.max(2) {
                lines.push(String::new());
                column = 0;
            }
            if i == self.cursor {
                at = (lines.len() - 1, column);
            }
            match c {
                Some('\n') => {
                    lines.push(String::new());
                    column = 0;
                }
                Some(c) => {
                    column += cell;
                    if let Some(line) = lines.last_mut() {
                        line.push(c);
                    }
                }
                None => {}
            }
        }
        let rows = rows.max(1);
        let first = (at.0 + 1).saturating_sub(rows).min(lines.len().saturating_sub(rows));
        let shown = lines.into_iter().skip(first).take(rows).collect();
        (shown, at.0 - first, at.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Composer {
        let mut composer = Composer::default();
        composer.insert(text);
        composer
    }

    #[test]
    fn a_paste_keeps_its_lines_and_loses_its_control_characters() {
        assert_eq!(of("a\r\nb\rc\n\td\u{1b}[201~e\u{7}").take(), "a\nb\nc\n    d[201~e");
    }

    #[test]
    fn editing() {
        let mut composer = of("one two");
        composer.delete_word();
        assert_eq!(composer.layout(80, 5).0, ["one "]);
        composer.insert("xy\nz");
        composer.move_to_line_edge(false);
        composer.backspace();
        composer.move_by(-1);
        composer.delete();
        assert_eq!(composer.take(), "one xz");
        composer.set("abc");
        composer.move_by(-10);
        composer.insert("_");
        composer.move_to_line_edge(true);
        composer.insert("_");
        assert_eq!(composer.take(), "_abc_");
    }

    #[test]
    fn layout_wraps_and_follows_the_cursor() {
        let composer = of("abcdef");
        assert_eq!(composer.layout(3, 5), (vec!["abc".into(), "def".into(), String::new()], 2, 0));
        let composer = of("a\nb\nc\nd");
        assert_eq!(composer.layout(9, 2), (vec!["c".into(), "d".into()], 1, 1));
        // A wide character is not torn.
        let composer = of("a漢字");
        assert_eq!(composer.layout(4, 5).0, ["a漢", "字"]);
        assert_eq!(of("").layout(10, 3), (vec![String::new()], 0, 0));
    }
}
