//! What only the person may decide about Claude Code: that it may work in a folder, and that it may use
//! the API key of the environment. Claude asks both in its own terminal, where a refusal is preselected
//! and ends it; here the person is asked once, in theirs, and a yes is recorded where Claude records it.
//! Nothing is ever recorded without a yes.

mod json;

use super::{
    out::{self, Paint},
    text,
};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Claude keeps this many characters of a key to know it again.
const KEY_TAIL: usize = 20;
/// Largest file that is read. A used one has a few hundred kilobytes.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// What we read of Claude's file; everything else is left alone.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Known {
    #[serde(rename = "hasCompletedOnboarding")]
    onboarded: bool,
    projects: BTreeMap<String, Project>,
    #[serde(rename = "customApiKeyResponses")]
    keys: Keys,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Project {
    #[serde(rename = "hasTrustDialogAccepted")]
    trusted: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Keys {
    approved: Vec<String>,
    rejected: Vec<String>,
}

/// Something that Claude would ask.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Question {
    /// Whether to trust a folder.
    Folder(String),
    /// Whether to use the API key that ends so.
    Key(String),
}

/// Asks what Claude would ask when it starts in these folders, and records the answers that are a yes.
/// Needs a terminal; what goes wrong is said there, and Claude then asks by itself.
pub(crate) async fn ask_for(workspaces: &[PathBuf]) {
    let Some(file) = claude_file() else { return };
    let known = match read(&file) {
        Ok(Some(text)) => match serde_json::from_str::<Known>(&text) {
            Ok(known) => known,
            Err(_) => return say_unreadable(&file),
        },
        Ok(None) => Known::default(),
        Err(_) => return say_unreadable(&file),
    };
    if !known.onboarded {
        out::line("Claude Code has not been set up on this machine yet: run `claude` once and follow it.");
        return;
    }
    let key = std::env::var("ANTHROPIC_API_KEY").ok();
    for question in questions(&known, workspaces, key.as_deref()) {
        if yes(&question).await
            && let Err(e) = record(&file, &question)
        {
            out::line(&format!("That could not be written to {}: {e}", file.display()));
        }
    }
}

fn say_unreadable(file: &Path) {
    out::line(&format!("{} cannot be read; Claude Code will ask by itself.", file.display()));
}

/// Where Claude records such answers.
fn claude_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    Some(set("CLAUDE_CONFIG_DIR").or_else(|| set("HOME"))?.join(".claude.json"))
}

fn questions(known: &Known, workspaces: &[PathBuf], key: Option<&str>) -> Vec<Question> {
    let mut questions: Vec<Question> = Vec::new();
    for workspace in workspaces {
        let Some(text) = workspace.to_str() else { continue };
        let question = Question::Folder(text.to_owned());
        if !is_trusted(known, workspace) && !questions.contains(&question) {
            questions.push(question);
        }
    }
    if let Some(key) = key.filter(|key| !key.trim().is_empty()) {
        let tail = tail(key);
        if !known.keys.approved.contains(&tail) && !known.keys.rejected.contains(&tail) {
            questions.push(Question::Key(tail));
        }
    }
    questions
}

/// Claude takes the answer for a folder from any folder above it, up to the repository's root.
fn is_trusted(known: &Known, workspace: &Path) -> bool {
    for folder in workspace.ancestors() {
        if folder.to_str().and_then(|f| known.projects.get(f)).is_some_and(|p| p.trusted) {
            return true;
        }
        if folder.join(".git").exists() {
            return false;
        }
    }
    false
}

fn tail(key: &str) -> String {
    let skip = key.chars().count().saturating_sub(KEY_TAIL);
    key.chars().skip(skip).collect()
}

async fn yes(question: &Question) -> bool {
    let paint = Paint::stdout();
    let ask = match question {
        Question::Folder(folder) => {
            out::line("Claude Code will read, change and run files in its folder:");
            out::line(&format!("  {}", paint.bold(&text::path(folder))));
            "Do you trust what is in it? [y/N] "
        }
        Question::Key(tail) => {
            let last: String = tail.chars().skip(tail.chars().count().saturating_sub(4)).collect();
            out::line(&format!(
                "ANTHROPIC_API_KEY is set (it ends in {}).",
                paint.bold(&text::visible(&last))
            ));
            "May Claude Code use it? [y/N] "
        }
    };
    out::raw(ask.as_bytes());
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().lock().take(64).read_line(&mut line).map(|_| line)
    });
    let answer = line.await.ok().and_then(Result::ok).unwrap_or_default();
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

fn record(file: &Path, question: &Question) -> io::Result<()> {
    // A link stays a link: the person may keep the file elsewhere.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    // Read again: Claude itself may have written since the question was asked.
    let text = read(&file)?.unwrap_or_else(|| "{}".to_owned());
    let changed = match question {
        Question::Folder(folder) => {
            json::set(&text, &["projects", folder, "hasTrustDialogAccepted"], |_| Ok("true".to_owned()))
        }
        Question::Key(tail) => json::set(&text, &["customApiKeyResponses", "approved"], |old| {
            let mut approved: Vec<String> = old.map_or(Ok(Vec::new()), serde_json::from_str)?;
            approved.push(tail.clone());
            serde_json::to_string(&approved)
        }),
    }?;
    write(&file, &changed)
}

fn read(file: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    match File::open(file) {
        Ok(file) => file.take(MAX_FILE).read_to_string(&mut text).map(|_| Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Replaces the file whole or not at all, with the permissions that it had.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let mode = fs::metadata(file).map_or(0o600, |m| m.permissions().mode() & 0o777);
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".leo.{}", std::process::id()));
    let beside = PathBuf::from(name);
    let mut new = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    let written =
        new.write_all(text.as_bytes()).and_then(|()| new.sync_all()).and_then(|()| fs::rename(&beside, file));
    if written.is_err() {
        // The file that is there stays; ours must not litter.
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &str) -> Known {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn asks_only_what_claude_would_ask() {
        let dir = tempfile::tempdir().unwrap();
        let repository = dir.path().join("repo");
        let inside = repository.join("src");
        fs::create_dir_all(inside.join("deep")).unwrap();
        fs::create_dir_all(repository.join(".git")).unwrap();
        let key = "sk-ant-0123456789012345678901234567890-tail";
        let ask =
            |json: String, key: Option<&str>| questions(&known(&json), std::slice::from_ref(&inside), key);

        let folder = Question::Folder(inside.to_str().unwrap().to_owned());
        assert_eq!(ask("{}".into(), None), std::slice::from_ref(&folder));
        let trusting = |folder: &Path| {
            serde_json::json!({ "projects": { folder.to_str().unwrap(): { "hasTrustDialogAccepted": true } } })
                .to_string()
        };
        assert!(ask(trusting(&inside), None).is_empty());
        assert!(ask(trusting(&repository), None).is_empty(), "the repository's root counts");
        assert_eq!(ask(trusting(dir.path()), None), [folder], "what is above it does not");

        let tail = "567890123456789-tail".to_owned();
        let asked = ask(trusting(&inside), Some(key));
        assert_eq!(asked, [Question::Key(super::tail(key))]);
        assert_eq!(super::tail(key).len(), KEY_TAIL);
        assert_ne!(super::tail(key), tail);
        for list in ["approved", "rejected"] {
            let mut json: serde_json::Value = serde_json::from_str(&trusting(&inside)).unwrap();
            json["customApiKeyResponses"] = serde_json::json!({ list: [super::tail(key)] });
            assert!(ask(json.to_string(), Some(key)).is_empty(), "{list}");
        }
    }

    #[test]
    fn records_a_yes_beside_everything_else() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real.json");
        let link = dir.path().join(".claude.json");
        fs::write(&real, r#"{"numStartups":7,"customApiKeyResponses":{"rejected":["x"]},"tips":{"a":1.50}}"#)
            .unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        record(&link, &Question::Folder("/w".into())).unwrap();
        record(&link, &Question::Key("tail".into())).unwrap();
        let text = fs::read_to_string(&real).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["projects"]["/w"]["hasTrustDialogAccepted"], true);
        assert_eq!(value["customApiKeyResponses"]["approved"][0], "tail");
        assert_eq!(value["customApiKeyResponses"]["rejected"][0], "x");
        assert!(text.contains("1.50"), "{text}");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left beside it");
    }

    #[test]
    fn a_broken_file_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".claude.json");
        fs::write(&file, "{broken").unwrap();
        assert!(record(&file, &Question::Key("tail".into())).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "{broken");
    }
}
