//! A locale in which tmux knows UTF-8.

use leo_launch::fallback_locale as fallback;
use std::collections::BTreeMap;

/// The locale in force if it is a UTF-8 one, else the system's plain UTF-8 locale.
pub(super) fn utf8(env: &BTreeMap<String, String>) -> String {
    let in_force =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|key| env.get(key)).find(|v| !v.is_empty());
    match in_force {
        Some(name) if is_utf8(name) => name.clone(),
        _ => fallback().to_owned(),
    }
}

fn is_utf8(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("utf-8") || name.ends_with("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_set_decides() {
        let table: [(&[(&str, &str)], &str); 5] = [
            (&[("LANG", "de_DE.UTF-8")], "de_DE.UTF-8"),
            (&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")], fallback()),
            (&[("LC_ALL", ""), ("LC_CTYPE", "fr_FR.utf8")], "fr_FR.utf8"),
            (&[("LANG", "de_DE.ISO-8859-1")], fallback()),
            (&[], fallback()),
        ];
        for (env, expected) in table {
            let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            assert_eq!(utf8(&env), expected);
        }
    }
}
