//! What the sources promise about themselves.

use anyhow::{Context, Result, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Longest source file in lines.
const MAX_LINES: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(1).unwrap_or(Path::new(".")).to_owned()
}

fn sources() -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> =
        ["ipc", "supervisor", "workers", "hooks", "tests"].iter().map(|d| root().join(d)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())?.flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|n| n != "target" && n != "node_modules") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push((path.clone(), fs::read_to_string(&path)?));
            }
        }
    }
    ensure!(found.len() > 50, "the sources are where this test looks");
    Ok(found)
}

#[test]
fn files_are_short_enough_to_read() -> Result<()> {
    let long: Vec<String> = sources()?
        .iter()
        .filter(|(_, text)| text.lines().count() > MAX_LINES)
        .map(|(path, text)| format!("{}: {} lines", path.display(), text.lines().count()))
        .collect();
    ensure!(long.is_empty(), "{}", long.join("\n"));
    Ok(())
}

#[test]
fn every_file_says_what_it_owns() -> Result<()> {
    let silent: Vec<String> = sources()?
        .iter()
        // The tests of a module say by their place whose they are.
        .filter(|(path, text)| !text.starts_with("//!") && !path.to_string_lossy().ends_with("tests.rs"))
        .map(|(path, _)| path.display().to_string())
        .collect();
    ensure!(silent.is_empty(), "no module head in:\n{}", silent.join("\n"));
    Ok(())
}

/// Each invariant of ARCHITECTURE.md names the tests that hold it, and they exist.
#[test]
fn invariants_name_tests_that_exist() -> Result<()> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md"))?;
    let all: String = sources()?.into_iter().map(|(_, text)| text).collect();
    let mut named = 0;
    for line in text.lines().filter(|line| line.trim_start().starts_with("Held by:")) {
        for name in line.split('`').skip(1).step_by(2) {
            let function = name.rsplit("::").next().unwrap_or(name);
            // As a function, or as a row of a macro that makes one of each.
            let defined = ["fn {}(", "    {},", "    {}: \""]
                .iter()
                .any(|form| all.contains(&form.replace("{}", function)));
            ensure!(defined, "ARCHITECTURE.md names `{name}`, which is no test");
            named += 1;
        }
    }
    ensure!(named >= 15, "the invariants name their tests: {named}");
    Ok(())
}
