//! Text for people: durations, sizes, paths, and names that came from elsewhere.

use leo_ipc::Time;
use std::path::Path;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The text with every character that would act on a terminal, or hide, shown as `\u{…}`.
pub(crate) fn visible(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() || is_invisible(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
        out
    })
}

/// Zero-width and direction-changing characters.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Columns that a text takes.
pub(crate) fn columns(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The text cut to so many columns, with an ellipsis where something is missing.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let wide = columns(grapheme);
        if used + wide + 1 > most {
            break;
        }
        used += wide;
        out.push_str(grapheme);
    }
    if most > 0 {
        out.push('…');
    }
    out
}

/// How long ago something was, in its two largest units.
pub(crate) fn since(then: Time) -> String {
    duration(Time::now().millis().saturating_sub(then.millis()).max(0).unsigned_abs() / 1000)
}

/// Seconds in their two largest units.
pub(crate) fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, m) => format!("{m}m {}s", seconds % 60),
        (0, h, m) => format!("{h}h {m}m"),
        (d, h, _) => format!("{d}d {h}h"),
    }
}

/// Bytes as people read them.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if n < 1000 {
        return format!("{n} B");
    }
    // A rounded figure for reading; its precision is the format's.
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let mut value = n as f64;
    let mut unit = "B";
    for next in UNITS {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// A path with the person's own folder as `~`.
pub(crate) fn path(path: &str) -> String {
    let home = std::env::var_os("HOME").filter(|h| !h.is_empty());
    let rest = home.as_ref().and_then(|home| Path::new(path).strip_prefix(home).ok());
    match rest {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => visible(&format!("~/{}", rest.display())),
        None => visible(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes() {
        let shown = [0, 59, 60, 3599, 3600, 90_061].map(duration);
        assert_eq!(shown, ["0s", "59s", "1m 0s", "59m 59s", "1h 0m", "1d 1h"]);
        let shown = [0, 999, 1000, 12_345_678, 2_000_000_000].map(bytes);
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "12.3 MB", "2.0 GB"]);
    }

    #[test]
    fn cuts_by_columns_and_not_inside_a_character() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "long…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("👩‍👩‍👧‍👦x", 2), "…");
    }

    #[test]
    fn nothing_from_elsewhere_acts_on_the_terminal() {
        assert_eq!(visible("a\u{1b}[31mb\u{202e}c\n"), "a\\u{1b}[31mb\\u{202e}c\\u{a}");
        assert_eq!(visible("日本 é"), "日本 é");
    }
}
