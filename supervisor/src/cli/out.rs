//! Standard output and error of commands: lines, colours, the terminal's width. A reader that went away
//! (`leo status | head -1`) is no error.

use super::text::visible;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// Width of a table when standard output is no terminal and nobody said another: wide enough for every
/// column, and still readable in a mail.
const NO_TERMINAL: usize = 160;
/// Narrowest width that tables are made for.
const NARROWEST: usize = 40;

/// Prints a line.
pub(crate) fn line(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}");
}

/// Prints text as it is.
pub(crate) fn raw(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Prints a value as indented JSON.
pub(crate) fn json<T: Serialize>(value: &T) {
    // Our own types; what cannot be shown would be a bug that the reader sees as missing output.
    if let Ok(text) = serde_json::to_string_pretty(value) {
        line(&text);
    }
}

/// Says an error on standard error.
pub(crate) fn error(message: &str) {
    let paint = Paint::stderr();
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "{} {}", paint.red("error:"), visible(message));
}

/// Says on standard error what does not keep a command from its work.
pub(crate) fn warning(message: &str) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "{} {}", Paint::stderr().yellow("warning:"), visible(message));
}

/// Says something on standard error that is no error, beside what a command prints for others. The text
/// is ours, colours included.
pub(crate) fn note(message: &str) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "{message}");
}

/// Whether a person sits at both ends.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Columns that a table may take.
pub(crate) fn width() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|c| c.parse::<usize>().ok());
    let terminal = || {
        let known = io::stdout().is_terminal().then(crossterm::terminal::size)?;
        known.ok().map(|(columns, _)| usize::from(columns))
    };
    terminal().or(asked).filter(|c| *c > 0).unwrap_or(NO_TERMINAL).max(NARROWEST)
}

fn colours_wanted(terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// Colours for standard output, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// Colours where standard output is a terminal and nobody forbids them.
    pub(crate) fn stdout() -> Paint {
        Paint { on: colours_wanted(io::stdout().is_terminal()) }
    }

    /// The same for standard error.
    pub(crate) fn stderr() -> Paint {
        Paint { on: colours_wanted(io::stderr().is_terminal()) }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Emphasis.
    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Beside the point.
    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// Broken.
    pub(crate) fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// Well.
    pub(crate) fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Wants attention.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// Something to use: a link, a command.
    pub(crate) fn cyan(self, text: &str) -> String {
        self.wrap("36", text)
    }
}
