//! Naming a file where a person writes: with quotes, backslashes and `~`, as terminals paste what is
//! dropped on them. Pure.

use std::path::{Path, PathBuf};

/// The path at the start of a text, and what follows it; `None` when there is none.
pub(super) fn path_and_rest(text: &str, home: Option<&Path>) -> Option<(PathBuf, String)> {
    let text = text.trim_start();
    let mut path = String::new();
    let mut quote = None;
    let mut end = text.len();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, '\\') => path.extend(chars.next().map(|(_, c)| c)),
            (None, c) if c.is_whitespace() => {
                end = at;
                break;
            }
            (_, c) => path.push(c),
        }
    }
    if path.is_empty() || quote.is_some() {
        return None;
    }
    let path = match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path.strip_prefix("file://").unwrap_or(&path)),
    };
    Some((path, text.get(end..).unwrap_or_default().trim().to_owned()))
}

/// The name of a file as people see it.
pub(super) fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_as_people_and_terminals_write_them() {
        let home = Some(Path::new("/home/ann"));
        for (text, path, rest) in [
            ("/a/b.png", "/a/b.png", ""),
            ("  a.png  look at this ", "a.png", "look at this"),
            ("'/a/my file.png' caption", "/a/my file.png", "caption"),
            ("\"/a/it's.png\"", "/a/it's.png", ""),
            ("/a/my\\ file\\ \\(1\\).png and", "/a/my file (1).png", "and"),
            ("~/x.txt", "/home/ann/x.txt", ""),
            ("file:///a/b", "/a/b", ""),
            ("/a/日本\u{202f}x.png", "/a/日本", "x.png"),
        ] {
            let found = path_and_rest(text, home);
            assert_eq!(found, Some((PathBuf::from(path), rest.to_owned())), "{text}");
        }
        for text in ["", "  ", "'open", "\""] {
            assert_eq!(path_and_rest(text, home), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_escaped_path_comes_back(path in "[ -~]{1,40}", caption in "[a-z]{0,8}") {
            prop_assume!(!path.starts_with("~/") && !path.starts_with("file://"));
            let escaped: String = path.chars().flat_map(|c| ['\\', c]).collect();
            let found = path_and_rest(&format!("{escaped} {caption}"), None);
            prop_assert_eq!(found, Some((PathBuf::from(path), caption)));
        }
    }
}
