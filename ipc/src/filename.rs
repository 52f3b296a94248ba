//! The name that a file gets on disk. People see the name that the sender gave; the one on disk goes
//! into prompts, shells and other programs, so it holds nothing that any of them would read as something
//! else. Pure.

use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};
use unicode_segmentation::UnicodeSegmentation;

/// Longest name on disk, in bytes. File systems take 255; some of them (encrypted ones) take less, and
/// whoever copies the file may add to its name.
pub const MAX_BYTES: usize = 200;

/// Longest extension that is kept when a name is cut, in bytes; what is longer is no extension.
const MAX_EXTENSION: usize = 16;

/// Names that Windows keeps for devices, whatever their extension: the file may end up on one.
const RESERVED: [&str; 4] = ["con", "prn", "aux", "nul"];

/// A name that is safe on every disk and in every shell, as near to `name` as that allows.
///
/// Letters, digits and their marks of any script stay, composed (NFC), with `.`, `-` and `_`; everything
/// else becomes `_`: separators, spaces (macOS puts U+202F into the names of screenshots, and agents
/// write it back as a plain space), quotes, controls, marks that turn the direction of writing.
pub fn on_disk(name: &str) -> String {
    let mut safe = String::with_capacity(name.len());
    for c in name.nfc() {
        let kept = c.is_alphanumeric() || is_combining_mark(c) || matches!(c, '.' | '-' | '_');
        safe.push(if kept && !is_hidden(c) { c } else { '_' });
    }
    let safe = shorten(&safe);
    // A leading dot hides the file, a leading dash is an option to programs, and a mark without a letter
    // before it would join what stands before the name.
    let first = safe.chars().next();
    if first.is_none_or(|c| !c.is_alphanumeric() && c != '_') || is_reserved(&safe) {
        return format!("_{}", safe.trim_start_matches(['.', '-']));
    }
    safe
}

/// Some invisible characters are letters to Unicode (the Hangul fillers).
fn is_hidden(c: char) -> bool {
    crate::prompt::is_invisible(c)
}

fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    RESERVED.contains(&stem.as_str())
        || port.is_some_and(|n| n.len() == 1 && n.as_bytes()[0].is_ascii_digit())
}

/// Cuts between characters as people see them, and keeps the extension.
fn shorten(name: &str) -> String {
    // One byte is for the `_` that may come in front.
    let most = MAX_BYTES - 1;
    if name.len() <= most {
        return name.to_owned();
    }
    let extension = name.rfind('.').map_or("", |at| &name[at..]);
    let extension = if extension.len() <= MAX_EXTENSION { extension } else { "" };
    let stem = &name[..name.len() - extension.len()];
    let mut out = String::with_capacity(most);
    for grapheme in stem.graphemes(true) {
        if out.len() + grapheme.len() + extension.len() > most {
            break;
        }
        out.push_str(grapheme);
    }
    out + extension
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_on_disk() {
        for (name, expected) in [
            ("report.pdf", "report.pdf"),
            ("Größe 漢字.png", "Größe_漢字.png"),
            ("cafe\u{301}.txt", "caf\u{e9}.txt"),
            ("हिन्दी.txt", "हिन्दी.txt"),
            ("../../etc/passwd", "__.._etc_passwd"),
            ("a/b", "a_b"),
            (".", "_"),
            ("..", "_"),
            ("", "_"),
            ("-rf", "_rf"),
            (".bashrc", "_bashrc"),
            ("CON", "_CON"),
            ("nul.txt", "_nul.txt"),
            ("com1", "_com1"),
            ("console.log", "console.log"),
            ("x\0y\nz", "x_y_z"),
            ("invoice\u{202e}fdp.exe", "invoice_fdp.exe"),
            ("Screenshot 2026-11-30 at 9.41.05\u{202f}AM.png", "Screenshot_2026-11-30_at_9.41.05_AM.png"),
            ("it's \"$(rm)\" `x`; a, b.txt", "it_s____rm____x___a__b.txt"),
            ("\u{301}x", "_\u{301}x"),
            ("😀.png", "_.png"),
            ("a\u{3164}b", "a_b"),
        ] {
            assert_eq!(on_disk(name), expected, "{name:?}");
        }
    }

    #[test]
    fn long_names_keep_their_extension() {
        let cut = on_disk(&format!("{}.tar.gz", "漢".repeat(300)));
        assert!(cut.len() <= MAX_BYTES && cut.ends_with("漢.gz"), "{cut}");
        let marked = on_disk(&"e\u{323}\u{302}\u{330}".repeat(200));
        assert!(
            marked.len() <= MAX_BYTES && marked.graphemes(true).all(|g| g.chars().count() == 2),
            "{marked}"
        );
        assert!(on_disk(&format!("a.{}", "x".repeat(400))).len() <= MAX_BYTES);
    }

    proptest! {
        #[test]
        fn every_name_is_one_plain_word(name in any::<String>()) {
            let safe = on_disk(&name);
            prop_assert!(!safe.is_empty() && safe.len() <= MAX_BYTES);
            prop_assert!(!safe.starts_with(['.', '-']));
            prop_assert!(safe.chars().all(|c| c.is_alphanumeric() || is_combining_mark(c) || ".-_".contains(c)));
            prop_assert_eq!(on_disk(&safe), safe, "a safe name stays");
        }
    }
}
