//! What a pane with Claude shows, from `capture-pane -p -e`.
//!
//! The composer lies between the last two full-width rules; its first line starts with `❯` and a
//! no-break space. Hints in it are dim or grey, and the cursor is a cell in reverse video, under which
//! a hint's first character may stand.

use crate::harness::{Composer, Dialog, Screen};

/// Shorter lines of `─` are part of something else.
const MIN_RULE: usize = 20;

/// The grey of hints, in the 256-colour palette.
const HINT_GREY: &str = "246";

/// One character of the pane.
#[derive(Debug, Clone, Copy)]
struct Cell {
    c: char,
    hint: bool,
    cursor: bool,
}

/// Parses a capture.
pub(super) fn parse(capture: &str) -> Screen {
    let rows = cells(capture);
    let rules: Vec<usize> = (0..rows.len()).filter(|at| is_rule(&rows[*at])).collect();
    let composer = match rules.as_slice() {
        [.., top, bottom] => composer(&rows[top + 1..*bottom]),
        _ => Composer::Absent,
    };
    let below = rules.last().map_or(0, |at| at + 1);
    let dialog = match composer {
        // Only the status line is Claude's own here; the rest may be what anybody wrote.
        Composer::Empty | Composer::Text(_) => footer_dialog(&text(&rows[below..])),
        _ => start_dialog(&text(&rows)),
    };
    let above = rules.len().checked_sub(2).map(|top| &rows[..rules[top]]).unwrap_or_default();
    let resting = waits_for_agents(above) && !text(&rows[below..]).contains("esc to interrupt");
    Screen { composer, dialog, resting }
}

/// Whether the last line above the composer says that only background agents are at work.
fn waits_for_agents(above: &[Vec<Cell>]) -> bool {
    let line =
        above.iter().rev().map(|row| text(std::slice::from_ref(row))).find(|line| !line.trim().is_empty());
    line.is_some_and(|line| {
        // The sign before it turns; what an agent writes starts with another one.
        let rest = line.trim_start_matches(|c: char| !c.is_alphanumeric());
        !line.starts_with([' ', '●', '⎿', '❯'])
            && rest.starts_with("Waiting for ")
            && rest.contains("background agent")
    })
}

fn is_rule(row: &[Cell]) -> bool {
    let visible: Vec<char> = row.iter().map(|cell| cell.c).filter(|c| !c.is_whitespace()).collect();
    let lines = visible.iter().filter(|c| **c == '─').count();
    // A label may stand in a rule.
    lines >= MIN_RULE
        && visible.first() == Some(&'─')
        && visible.last() == Some(&'─')
        && lines * 5 >= visible.len() * 3
}

fn composer(rows: &[Vec<Cell>]) -> Composer {
    let Some((first, rest)) = rows.split_first() else { return Composer::Absent };
    let prompt = |c: char| {
        first.first().map(|cell| cell.c) == Some(c) && first.get(1).map(|cell| cell.c) == Some('\u{a0}')
    };
    if prompt('!') {
        // Shell mode, in which our text would run as a command, even when nothing stands there yet.
        return Composer::Text(format!("! {}", typed(std::iter::once(&first[2..]))));
    }
    if !prompt('❯') {
        return Composer::Absent;
    }
    let lines = std::iter::once(&first[2..]).chain(rest.iter().map(Vec::as_slice));
    let text = typed(lines);
    if text.trim().is_empty() { Composer::Empty } else { Composer::Text(text) }
}

/// What was typed: hints left out.
fn typed<'a>(lines: impl Iterator<Item = &'a [Cell]>) -> String {
    let lines: Vec<&[Cell]> = lines.collect();
    let visible = |cell: &&Cell| !cell.c.is_whitespace();
    let hints = lines.iter().flat_map(|l| l.iter()).filter(visible).any(|cell| cell.hint);
    let plain = lines.iter().flat_map(|l| l.iter()).filter(visible).any(|cell| !cell.hint && !cell.cursor);
    // The cursor stands on a hint's first character when there is a hint and nothing else.
    let cursor_is_hint = hints && !plain;
    let line = |cells: &[Cell]| -> String {
        cells.iter().filter(|cell| !(cell.hint || cell.cursor && cursor_is_hint)).map(|cell| cell.c).collect()
    };
    lines.iter().map(|l| line(l).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Dialogs that stand where the conversation would be.
fn start_dialog(text: &str) -> Option<Dialog> {
    [
        ("Accessing workspace", Dialog::Trust),
        ("Do you trust the files in this folder", Dialog::Trust),
        ("Yes, I trust this folder", Dialog::Trust),
        ("Detected a custom API key", Dialog::ApiKey),
        ("running in Bypass Permissions mode", Dialog::Bypass),
        ("New MCP server found in this project", Dialog::McpChoice),
        ("new MCP servers found", Dialog::McpChoice),
        ("Try the new fullscreen renderer?", Dialog::Fullscreen),
        ("Resume from summary", Dialog::Resume),
        ("Unable to connect to Anthropic services", Dialog::Offline),
        ("Select login method", Dialog::Login),
        ("Choose the text style", Dialog::Onboarding),
        ("Welcome to Claude Code", Dialog::Onboarding),
    ]
    .into_iter()
    .find_map(|(sign, dialog)| text.contains(sign).then_some(dialog))
}

fn footer_dialog(text: &str) -> Option<Dialog> {
    text.contains("Not logged in").then_some(Dialog::NotLoggedIn)
}

fn text(rows: &[Vec<Cell>]) -> String {
    rows.iter().map(|row| row.iter().map(|cell| cell.c).collect::<String>()).collect::<Vec<_>>().join("\n")
}

/// Reads SGR sequences; tmux writes no others. Attributes go on over line ends.
fn cells(capture: &str) -> Vec<Vec<Cell>> {
    let mut rows = vec![Vec::new()];
    let (mut dim, mut grey, mut reverse) = (false, false, false);
    let mut chars = capture.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                if chars.next() == Some('[') {
                    let sequence: String = chars.by_ref().take_while(|c| !c.is_ascii_alphabetic()).collect();
                    sgr(&sequence, &mut dim, &mut grey, &mut reverse);
                }
            }
            '\n' => rows.push(Vec::new()),
            c => {
                if let Some(row) = rows.last_mut() {
                    row.push(Cell { c, hint: (dim || grey) && !reverse, cursor: reverse });
                }
            }
        }
    }
    rows
}

fn sgr(sequence: &str, dim: &mut bool, grey: &mut bool, reverse: &mut bool) {
    let mut codes = sequence.split([';', ':']);
    while let Some(code) = codes.next() {
        match code {
            "" | "0" => (*dim, *grey, *reverse) = (false, false, false),
            "2" => *dim = true,
            "22" => *dim = false,
            "7" => *reverse = true,
            "27" => *reverse = false,
            "38" => {
                *grey = match codes.next() {
                    Some("5") => codes.next() == Some(HINT_GREY),
                    Some("2") => {
                        // Three numbers, one per colour.
                        codes.by_ref().take(3).for_each(drop);
                        false
                    }
                    _ => false,
                }
            }
            "48" => match codes.next() {
                Some("5") => drop(codes.next()),
                Some("2") => codes.by_ref().take(3).for_each(drop),
                _ => {}
            },
            "39" | "30" | "31" | "32" | "33" | "34" | "35" | "36" | "37" => *grey = false,
            code if code.len() == 2 && code.starts_with('9') => *grey = false,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fixture(name: &str) -> Screen {
        let path = format!("{}/fixtures/claude/{name}.ans", env!("CARGO_MANIFEST_DIR"));
        parse(&std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}")))
    }

    /// Captured from Claude Code 2.1.332 in tmux 3.3a.
    #[test]
    fn real_panes() {
        let text = |t: &str| Composer::Text(t.to_owned());
        for (name, composer, dialog) in [
            ("idle_empty", Composer::Empty, None),
            ("busy", Composer::Empty, None),
            ("busy_queued", Composer::Empty, None),
            ("interrupted", Composer::Empty, None),
            ("background_agent", Composer::Empty, None),
            ("shortcuts", Composer::Empty, None),
            ("draft", text("my draft"), None),
            ("busy_draft", text("draft while busy"), None),
            ("after_turn", text("draft while busy"), None),
            ("pasted", text("[Pasted text #1 +4 lines]"), None),
            ("pasted_two", text("line one\n  line two"), None),
            ("slash_menu", text("/"), None),
            ("bash_mode", text("! "), None),
            ("bash_mode_text", text("! ls"), None),
            ("permission", Composer::Absent, None),
            ("question", Composer::Absent, None),
            ("trust", Composer::Absent, Some(Dialog::Trust)),
            ("api_key", Composer::Absent, Some(Dialog::ApiKey)),
            ("bypass", Composer::Absent, Some(Dialog::Bypass)),
            ("mcp_choice", Composer::Absent, Some(Dialog::McpChoice)),
            ("fullscreen", Composer::Absent, Some(Dialog::Fullscreen)),
            ("onboarding", Composer::Absent, Some(Dialog::Offline)),
            ("bad_resume", Composer::Absent, None),
            ("not_logged_in", Composer::Empty, Some(Dialog::NotLoggedIn)),
        ] {
            assert_eq!(
                fixture(name),
                Screen { composer, dialog, resting: name == "background_agent" },
                "{name}"
            );
        }
        let Composer::Text(long) = fixture("long_line").composer else { panic!("no text") };
        assert_eq!(leo_ipc::prompt::normalise(&long).matches("word").count(), 100);
    }

    fn row(inner: &str) -> String {
        let rule = "─".repeat(80);
        format!("text\n{rule}\n{inner}\n{rule}\n  status")
    }

    #[test]
    fn a_cursor_on_a_draft_is_not_a_hint() {
        for (inner, composer) in [
            ("❯\u{a0}\u{1b}[7mP\u{1b}[0;2mress up\u{1b}[0m", Composer::Empty),
            ("❯\u{a0}\u{1b}[7mP\u{1b}[0m", Composer::Text("P".to_owned())),
            ("❯\u{a0}\u{1b}[7mP\u{1b}[0mlease", Composer::Text("Please".to_owned())),
            ("❯\u{a0}/mod\u{1b}[7me\u{1b}[0;2ml\u{1b}[0m", Composer::Text("/mode".to_owned())),
            ("❯\u{a0}\u{1b}[38;5;246mTry \"fix it\"\u{1b}[39m", Composer::Empty),
            ("❯\u{a0}\u{1b}[38;2;1;2;246mtyped\u{1b}[39m", Composer::Text("typed".to_owned())),
            ("❯ 1. Yes", Composer::Absent),
            ("", Composer::Absent),
        ] {
            assert_eq!(parse(&row(inner)).composer, composer, "{inner:?}");
        }
    }

    #[test]
    fn what_an_agent_writes_is_no_dialog() {
        let shown = format!("● Not logged in · run /login, Accessing workspace\n{}", row("❯\u{a0}"));
        assert_eq!(parse(&shown), Screen { composer: Composer::Empty, dialog: None, resting: false });
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(capture in "[\\x1b\\[0-9;m─❯\u{a0} a-z\n!]{0,400}") {
            parse(&capture);
        }
    }
}
