//! Tables that fit: columns as wide as their widest cell, the flexible ones cut when the terminal is
//! narrow.

use super::{
    out::Paint,
    text::{columns, cut},
};

/// Blanks between columns.
const GAP: usize = 2;
/// A flexible column is never cut below this.
const LEAST: usize = 8;

/// How a cell is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it is.
    Plain,
    /// Emphasis.
    Bold,
    /// Beside the point.
    Dim,
    /// Well.
    Good,
    /// Wants attention.
    Warn,
    /// Broken.
    Bad,
}

/// One cell: text without colour, and its tone.
pub(crate) type Cell = (String, Tone);

/// A cell without a tone.
pub(crate) fn plain(text: impl Into<String>) -> Cell {
    (text.into(), Tone::Plain)
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    right: bool,
    flexible: bool,
}

impl Column {
    /// Text, never cut.
    pub(crate) const fn text(title: &'static str) -> Column {
        Column { title, right: false, flexible: false }
    }

    /// A number: to the right, never cut.
    pub(crate) const fn number(title: &'static str) -> Column {
        Column { title, right: true, flexible: false }
    }

    /// Text that is cut when there is no room.
    pub(crate) const fn flexible(title: &'static str) -> Column {
        Column { title, right: false, flexible: true }
    }
}

/// The lines of a table with its head.
pub(crate) fn render(head: &[Column], rows: &[Vec<Cell>], width: usize, paint: Paint) -> Vec<String> {
    let widths = widths(head, rows, width);
    let title: Vec<Cell> = head.iter().map(|c| (c.title.to_owned(), Tone::Dim)).collect();
    std::iter::once(&title).chain(rows).map(|row| line(head, row, &widths, paint)).collect()
}

fn widths(head: &[Column], rows: &[Vec<Cell>], width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(i, column)| {
            let cells = rows.iter().filter_map(|row| row.get(i)).map(|(text, _)| columns(text));
            cells.chain([columns(column.title)]).max().unwrap_or(0)
        })
        .collect();
    let total: usize = widths.iter().sum::<usize>() + GAP * head.len().saturating_sub(1);
    let mut excess = total.saturating_sub(width);
    // The last flexible column gives way first: it is the least important one.
    for (i, column) in head.iter().enumerate().rev().filter(|(_, c)| c.flexible) {
        let Some(own) = widths.get_mut(i) else { continue };
        let least = LEAST.max(columns(column.title));
        let give = excess.min(own.saturating_sub(least));
        *own -= give;
        excess -= give;
    }
    widths
}

fn line(head: &[Column], row: &[Cell], widths: &[usize], paint: Paint) -> String {
    let mut out = String::new();
    for (i, ((column, (text, tone)), width)) in head.iter().zip(row).zip(widths).enumerate() {
        if i > 0 {
            out.push_str(&" ".repeat(GAP));
        }
        let text = cut(text, *width);
        let pad = " ".repeat(width.saturating_sub(columns(&text)));
        let shown = match tone {
            Tone::Plain => text,
            Tone::Bold => paint.bold(&text),
            Tone::Dim => paint.dim(&text),
            Tone::Good => paint.green(&text),
            Tone::Warn => paint.yellow(&text),
            Tone::Bad => paint.red(&text),
        };
        let (before, after) = if column.right { (pad, String::new()) } else { (String::new(), pad) };
        out.push_str(&before);
        out.push_str(&shown);
        out.push_str(&after);
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flexible_columns_give_way_and_the_line_fits() {
        let head = [Column::text("NAME"), Column::number("PID"), Column::flexible("WORKSPACE")];
        let rows = vec![
            vec![plain("assistant"), plain("7"), plain("/a/long/path/that/does/not/fit/here")],
            vec![plain("日本"), plain("12345"), plain("/b")],
        ];
        let paint = Paint::stdout();
        let lines = render(&head, &rows, 30, paint);
        assert_eq!(
            lines,
            ["NAME         PID  WORKSPACE", "assistant      7  /a/long/pat…", "日本       12345  /b",]
        );
        assert!(render(&head, &rows, 200, paint)[1].ends_with("/here"));
    }
}
