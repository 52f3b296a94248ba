//! The real agents, installed by `scripts/test` into a cache outside the work tree.

use std::path::PathBuf;

/// The folder of the agents' programs, from `LEO_TEST_AGENTS`.
///
/// `None` means that this machine cannot install them (no npm). The caller skips its test loudly, or
/// fails under `CI=true`.
pub fn bin_dir() -> Option<PathBuf> {
    let dir = std::env::var_os("LEO_TEST_AGENTS").map(PathBuf::from)?;
    dir.join("claude").exists().then_some(dir)
}

/// The folder of the agents' programs, or a loud skip.
///
/// # Panics
/// Under `CI=true`, where a skip is a failure.
#[expect(clippy::panic, clippy::print_stderr, reason = "a skip must be loud, and must not pass in CI")]
pub fn bin_dir_or_skip(test: &str) -> Option<PathBuf> {
    let found = bin_dir();
    if found.is_none() {
        let text =
            format!("SKIPPED {test}: the real agents are not installed (LEO_TEST_AGENTS; see scripts/test)");
        if std::env::var("CI").is_ok_and(|ci| ci == "true") {
            panic!("{text}");
        }
        eprintln!("{text}");
    }
    found
}
