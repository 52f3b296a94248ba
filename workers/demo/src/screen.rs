//! Drawing. The transcript goes into the terminal's own scroll-back; below it stays a live part with
//! the status, the composer or a dialog, which is drawn anew at each change.

use crate::{
    app::{App, Block},
    dialog::{Body, Questions},
};
use crossterm::{
    cursor::{Hide, MoveToColumn, MoveUp, Show},
    queue,
    style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor},
    terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate},
};
use std::{
    io::{self, Write},
    time::Duration,
};
use unicode_width::UnicodeWidthChar;

/// Most rows of the composer; the rest of a long text scrolls inside.
const COMPOSER_ROWS: usize = 10;

/// Most rows of one block of output; a person sees the rest in its file or its thread.
const OUTPUT_ROWS: usize = 40;

/// Longest text of a block that is drawn, in characters.
const BLOCK_CHARS: usize = 20_000;

/// What stands before the composer's text: the second character is a no-break space.
const PROMPT: &str = "❯\u{a0}";

/// One piece of a row.
#[derive(Debug, Clone, PartialEq)]
struct Span {
    text: String,
    color: Option<Color>,
    bold: bool,
}

type Row = Vec<Span>;

fn plain(text: impl Into<String>) -> Span {
    Span { text: text.into(), color: None, bold: false }
}

fn colored(text: impl Into<String>, color: Color) -> Span {
    Span { text: text.into(), color: Some(color), bold: false }
}

fn dim(text: impl Into<String>) -> Span {
    colored(text, Color::DarkGrey)
}

/// The terminal as we have drawn it.
pub(crate) struct Screen<W: Write> {
    out: W,
    width: usize,
    /// Rows of the live part above the one with the cursor.
    above: usize,
}

impl<W: Write> Screen<W> {
    /// A screen of this width with nothing drawn.
    pub(crate) fn new(out: W, width: u16) -> Screen<W> {
        Screen { out, width: usize::from(width.max(20)), above: 0 }
    }

    /// Shows the greeting.
    pub(crate) fn banner(&mut self, cwd: &str, linked: bool) -> io::Result<()> {
        let leo = if linked { "connected to Leo" } else { "on its own, without Leo" };
        let rows = vec![
            vec![],
            vec![
                colored("  ●  ", Color::Yellow),
                Span { text: "Leo demo agent".to_owned(), color: None, bold: true },
                dim(format!("  {}", env!("CARGO_PKG_VERSION"))),
            ],
            vec![dim(format!("     {leo} · {cwd}"))],
            vec![dim("     I echo what you send and play small scripts. /help shows them.")],
            vec![],
        ];
        self.write_rows(&rows)?;
        self.out.flush()
    }

    /// Adds to the transcript and draws the live part below it.
    pub(crate) fn print(&mut self, blocks: &[Block], app: &App, now: Duration) -> io::Result<()> {
        queue!(self.out, BeginSynchronizedUpdate, Hide)?;
        self.erase_live()?;
        for block in blocks {
            let rows = block_rows(block, self.width);
            self.write_rows(&rows)?;
        }
        self.draw_live(app, now)?;
        queue!(self.out, Show, EndSynchronizedUpdate)?;
        self.out.flush()
    }

    /// Draws for another width. What the terminal has wrapped anew cannot be known, so the visible part
    /// is wiped; the scroll-back keeps the transcript.
    pub(crate) fn resize(&mut self, width: u16, app: &App, now: Duration) -> io::Result<()> {
        self.width = usize::from(width.max(20));
        self.erase_live()?;
        self.draw_live(app, now)?;
        self.out.flush()
    }

    /// Wipes the live part and leaves the cursor below the transcript.
    pub(crate) fn leave(&mut self) -> io::Result<()> {
        self.erase_live()?;
        queue!(self.out, Show)?;
        self.out.flush()
    }

    fn erase_live(&mut self) -> io::Result<()> {
        if self.above > 0 {
            queue!(self.out, MoveUp(u16::try_from(self.above).unwrap_or(u16::MAX)))?;
        }
        self.above = 0;
        queue!(self.out, MoveToColumn(0), Clear(ClearType::FromCursorDown))
    }

    fn write_rows(&mut self, rows: &[Row]) -> io::Result<()> {
        for row in rows {
            self.write_row(row)?;
            queue!(self.out, Print("\r\n"))?;
        }
        Ok(())
    }

    fn write_row(&mut self, row: &Row) -> io::Result<()> {
        for span in row {
            if let Some(color) = span.color {
                queue!(self.out, SetForegroundColor(color))?;
            }
            if span.bold {
                queue!(self.out, SetAttribute(Attribute::Bold))?;
            }
            queue!(self.out, Print(&span.text))?;
            if span.color.is_some() || span.bold {
                queue!(self.out, SetAttribute(Attribute::Reset), ResetColor)?;
            }
        }
        Ok(())
    }

    fn draw_live(&mut self, app: &App, now: Duration) -> io::Result<()> {
        let (mut rows, cursor_row, cursor_column) = live_rows(app, self.width, now);
        rows.iter_mut().for_each(|row| fit(row, self.width));
        for (i, row) in rows.iter().enumerate() {
            if i > 0 {
                queue!(self.out, Print("\r\n"))?;
            }
            self.write_row(row)?;
        }
        let below = rows.len().saturating_sub(cursor_row + 1);
        if below > 0 {
            queue!(self.out, MoveUp(u16::try_from(below).unwrap_or(u16::MAX)))?;
        }
        queue!(self.out, MoveToColumn(u16::try_from(cursor_column).unwrap_or(u16::MAX)))?;
        self.above = cursor_row;
        Ok(())
    }
}

/// Cuts a row that would wrap: the live part is found again by counting its rows.
fn fit(row: &mut Row, width: usize) {
    let mut left = width;
    for span in row {
        let mut used = 0;
        let kept = |c: &char| {
            used += c.width().unwrap_or(0);
            used <= left
        };
        span.text = span.text.chars().take_while(kept).collect();
        left = left.saturating_sub(used);
    }
}

/// The live part's rows, and where its cursor is.
fn live_rows(app: &App, width: usize, now: Duration) -> (Vec<Row>, usize, usize) {
    let mut rows: Vec<Row> = vec![vec![]];
    let rule = || vec![dim("─".repeat(width))];
    match app.dialog.as_ref().map(|dialog| &dialog.body) {
        Some(Body::Command { command, no_chosen }) => return command_rows(rows, command, *no_chosen, width),
        Some(Body::Questions(questions)) => return question_rows(rows, questions, width),
        None => {}
    }
    if let Some(since) = app.busy_since {
        let seconds = now.saturating_sub(since).as_secs();
        let text = if app.stopping { "Stopping…".to_owned() } else { format!("Working… {seconds}s") };
        rows.push(vec![colored("  ✳ ", Color::Yellow), plain(text), dim("  ·  esc to interrupt")]);
    }
    for prompt in &app.queue {
        let first = prompt.lines().next().unwrap_or_default();
        rows.push(vec![dim(format!("  ⏎ waiting: {first}"))]);
    }
    rows.push(rule());
    let (lines, row, column) = app.composer.layout(width.saturating_sub(4), COMPOSER_ROWS);
    let cursor_row = rows.len() + row;
    for (i, line) in lines.into_iter().enumerate() {
        let mark = if i == 0 { PROMPT } else { "  " };
        rows.push(vec![colored(mark, Color::Yellow), plain(line)]);
    }
    rows.push(rule());
    let hint = if app.is_quit_armed(now) {
        "  Press Ctrl-C again to exit"
    } else if app.busy_since.is_some() {
        "  enter to queue · esc to interrupt"
    } else {
        "  enter to send · alt-enter for a new line · /help"
    };
    rows.push(vec![dim(hint)]);
    (rows, cursor_row, column + 2)
}

/// The chosen row of a dialog, or another.
fn choice(text: &str, chosen: bool) -> Row {
    let row = format!(" {} {text}", if chosen { "❯" } else { " " });
    vec![if chosen { colored(row, Color::Blue) } else { plain(row) }]
}

fn title(text: String) -> Row {
    vec![Span { text, color: Some(Color::Blue), bold: true }]
}

fn question_rows(mut rows: Vec<Row>, questions: &Questions, width: usize) -> (Vec<Row>, usize, usize) {
    let Some((question, number, count)) = questions.current() else { return (rows, 0, 0) };
    rows.push(vec![colored("─".repeat(width), Color::Blue)]);
    rows.push(title(format!(" {} ({number} of {count})", visible(&question.header))));
    rows.push(vec![]);
    for line in wrap(&visible(&question.text), width.saturating_sub(6)).into_iter().take(COMPOSER_ROWS) {
        rows.push(vec![plain(format!("   {line}"))]);
    }
    rows.push(vec![]);
    let cursor = rows.len() + questions.cursor;
    for (i, (label, description)) in question.options.iter().enumerate() {
        let tick = match question.multi {
            true if questions.ticked.contains(&i) => "[x] ",
            true => "[ ] ",
            false => "",
        };
        // One row each, or the cursor's place would be another.
        let label = visible(label).replace('\n', " ");
        let mut row = choice(&format!("{}. {tick}{label}", i + 1), i == questions.cursor);
        if !description.is_empty() {
            row.push(dim(format!("  {}", visible(description).replace('\n', " "))));
        }
        rows.push(row);
    }
    rows.push(vec![]);
    let keys = if question.multi { "space or a number ticks, enter goes on" } else { "enter or a number" };
    rows.push(vec![dim(format!("   {keys} · esc to decline · or answer in the chat"))]);
    (rows, cursor, 1)
}

fn command_rows(
    mut rows: Vec<Row>,
    command: &str,
    no_chosen: bool,
    width: usize,
) -> (Vec<Row>, usize, usize) {
    rows.push(vec![colored("─".repeat(width), Color::Blue)]);
    rows.push(title(" Run this command?".to_owned()));
    rows.push(vec![]);
    for line in wrap(&visible(command), width.saturating_sub(6)).into_iter().take(COMPOSER_ROWS) {
        rows.push(vec![plain(format!("   {line}"))]);
    }
    rows.push(vec![]);
    let cursor = rows.len() + usize::from(no_chosen);
    rows.push(choice("1. Yes", !no_chosen));
    rows.push(choice("2. No", no_chosen));
    rows.push(vec![]);
    rows.push(vec![dim("   ↑/↓ and enter, or 1 and 2 · esc for no")]);
    (rows, cursor, 1)
}

fn block_rows(block: &Block, width: usize) -> Vec<Row> {
    let wide = width.saturating_sub(3);
    let mut rows: Vec<Row> = vec![];
    let mut hang = |mark: Span, text: &str, paint: &dyn Fn(String) -> Span, max: usize| {
        let lines = wrap(&visible(text), wide);
        let hidden = lines.len().saturating_sub(max);
        for (i, line) in lines.into_iter().take(max).enumerate() {
            let first = if i == 0 { mark.clone() } else { plain("  ") };
            rows.push(vec![first, paint(line)]);
        }
        if hidden > 0 {
            rows.push(vec![dim(format!("  … {hidden} more lines"))]);
        }
    };
    match block {
        Block::User(text) => hang(dim("❯ "), text, &|line| dim(line), usize::MAX),
        Block::Agent(text) => hang(colored("● ", Color::Yellow), text, &|line| plain(line), usize::MAX),
        Block::Tool { name, detail } => {
            let text = format!("{name} {detail}");
            hang(colored("● ", Color::Green), &text, &|line| plain(line), 3);
        }
        Block::Output(text) => hang(dim("└ "), text, &|line| dim(line), OUTPUT_ROWS),
        Block::Note(text) => hang(dim("· "), text, &|line| dim(line), usize::MAX),
        Block::Error(text) => {
            hang(colored("✗ ", Color::Red), text, &|line| colored(line, Color::Red), OUTPUT_ROWS);
        }
    }
    if !matches!(block, Block::Tool { .. }) {
        rows.push(vec![]);
    }
    rows
}

/// The text without anything that would move the cursor, and not endless.
fn visible(text: &str) -> String {
    let clean = text.chars().map(|c| match c {
        '\n' => '\n',
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    });
    let mut kept: String = clean.take(BLOCK_CHARS).collect();
    if text.chars().nth(BLOCK_CHARS).is_some() {
        kept.push('…');
    }
    kept
}

/// Lines of at most `width` columns, broken between words where that is possible.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut lines = Vec::new();
    for line in text.trim_end().split('\n') {
        let (mut row, mut columns) = (String::new(), 0);
        for word in line.split_inclusive(' ') {
            let wide: usize = word.trim_end().chars().filter_map(UnicodeWidthChar::width).sum();
            if columns > 0 && columns + wide > width && wide <= width {
                lines.push(std::mem::take(&mut row));
                columns = 0;
            }
            for c in word.chars() {
                let cell = c.width().unwrap_or(0);
                if columns + cell > width {
                    lines.push(std::mem::take(&mut row));
                    columns = 0;
                    if c == ' ' {
                        continue;
                    }
                }
                row.push(c);
                columns += cell;
            }
        }
        lines.push(row);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Event;

    fn text(rows: &[Row]) -> Vec<String> {
        rows.iter().map(|row| row.iter().map(|span| span.text.as_str()).collect()).collect()
    }

    fn columns(row: &str) -> usize {
        row.chars().filter_map(UnicodeWidthChar::width).sum()
    }

    #[test]
    fn the_composer_stands_between_the_last_two_rules() {
        let mut app = App::default();
        app.step(Event::Paste("one\ntwo 漢字".into()), Duration::ZERO);
        app.begin(Duration::ZERO);
        app.queue.push_back("x".repeat(300));
        for width in [20, 80, 160] {
            let (mut rows, row, column) = live_rows(&app, width, Duration::from_secs(3));
            rows.iter_mut().for_each(|row| fit(row, width));
            let rows = text(&rows);
            let rules: Vec<usize> = (0..rows.len()).filter(|i| rows[*i] == "─".repeat(width)).collect();
            assert_eq!(rules.len(), 2);
            assert_eq!(rows[rules[0] + 1], "❯\u{a0}one");
            assert_eq!(rows[rules[0] + 2], "  two 漢字");
            assert_eq!((row, column), (rules[0] + 2, 10));
            assert!(rows.iter().all(|row| columns(row) <= width), "{rows:?}");
        }
    }

    #[test]
    fn words_stay_whole_where_they_can() {
        assert_eq!(wrap("one two three", 8), ["one two ", "three"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("a\n\nb\n", 4), ["a", "", "b"]);
        assert_eq!(wrap("漢字漢字", 5), ["漢字", "漢字"]);
    }

    #[test]
    fn nothing_in_a_text_draws_on_the_terminal() {
        let rows = text(&block_rows(&Block::User("a\u{1b}[2Jb\rc\u{7}".into()), 80));
        assert!(rows.concat().chars().all(|c| !c.is_control()), "{rows:?}");
    }
}
