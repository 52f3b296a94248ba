//! What is pasted for a message: its prompt, or a short prompt that names a file with it.

use crate::{harness::write_private, tmux::for_paste};
use leo_ipc::MessageId;
use std::{
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Longest prompt that is pasted, in bytes; harnesses cut or lose longer pastes.
pub(crate) const MAX_PASTE: usize = 32 * 1024;

/// Files of earlier prompts that are kept: an agent may come back to one within a long session.
const KEPT_FILES: usize = 100;

/// The prompts of what a person sends start so …
const MARK: &str = "[Leo Chat]";

/// … and those of what an API client sends so, up to the first `]`. Every prompt starts with one of them:
/// a leading `!`, `/` or `#` would run as a command.
const CLIENT_MARK: &str = "[message from ";

/// What a prompt starts with.
fn mark(prompt: &str) -> Option<&str> {
    if prompt.starts_with(MARK) {
        return Some(MARK);
    }
    let end = prompt.strip_prefix(CLIENT_MARK)?.find(']')? + CLIENT_MARK.len();
    prompt.get(..=end).filter(|mark| !mark.contains(char::is_control))
}

/// What will be pasted for a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pasted {
    /// The prompt itself.
    Itself(String),
    /// A prompt that names the file at this path, to be written before.
    Named {
        /// What is pasted.
        text: String,
        /// Where the message goes.
        path: PathBuf,
    },
}

/// Why a prompt cannot be pasted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unpastable {
    /// It would run as a command.
    #[error("a prompt must start with {MARK} or {CLIENT_MARK}<name>]")]
    NotMarked,
    /// Its file cannot be written.
    #[error("the message's file {} cannot be written: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl Pasted {
    /// Decides what is pasted. `agent_dir` is the agent's folder.
    ///
    /// # Errors
    /// When the prompt does not start as a prompt must.
    pub(crate) fn of(prompt: &str, message: &MessageId, agent_dir: &Path) -> Result<Pasted, Unpastable> {
        let text = for_paste(prompt);
        let mark = mark(&text).ok_or(Unpastable::NotMarked)?.to_owned();
        if text.len() <= MAX_PASTE {
            return Ok(Pasted::Itself(text));
        }
        // Ids come from the hub, but a file name must not depend on it.
        let name: String =
            message.as_str().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let path = agent_dir.join("prompts").join(format!("{name}.txt"));
        let text = format!(
            "{mark} The message is {} bytes long and is in the file {}. Read that file and treat its whole content as the message from {}. ",
            body(prompt).len(),
            path.display(),
            if mark == MARK { "the person" } else { "that program" },
        );
        Ok(Pasted::Named { text, path })
    }

    /// What is pasted.
    pub(crate) fn text(&self) -> &str {
        match self {
            Pasted::Itself(text) | Pasted::Named { text, .. } => text,
        }
    }

    /// What the hub has to know when it is not the prompt itself.
    pub(crate) fn handed_prompt(&self) -> Option<String> {
        match self {
            Pasted::Itself(_) => None,
            Pasted::Named { text, .. } => Some(text.trim_end().to_owned()),
        }
    }

    /// Writes the file, when there is one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn prepare(&self, prompt: &str) -> Result<(), Unpastable> {
        let Pasted::Named { path, .. } = self else { return Ok(()) };
        let write = || {
            if let Some(folder) = path.parent() {
                std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                prune(folder);
            }
            write_private(path, body(prompt).as_bytes())
        };
        write().map_err(|source| Unpastable::Write { path: path.clone(), source })
    }
}

/// The message without the mark that every prompt starts with.
fn body(prompt: &str) -> &str {
    let rest = mark(prompt).and_then(|mark| prompt.strip_prefix(mark));
    rest.map_or(prompt, |rest| rest.strip_prefix(' ').unwrap_or(rest))
}

/// Removes the oldest files; their names order them by time.
fn prune(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.sort();
    for old in files.iter().rev().skip(KEPT_FILES - 1) {
        // One that stays costs nothing but its bytes.
        let _ = std::fs::remove_file(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn id() -> MessageId {
        MessageId::from("019a-b")
    }

    #[test]
    fn short_prompts_are_pasted_and_long_ones_named() {
        let folder = tempfile::tempdir().unwrap();
        let short = Pasted::of("[Leo Chat] hello\\", &id(), folder.path()).unwrap();
        assert_eq!((short.text(), short.handed_prompt()), ("[Leo Chat] hello\\ ", None));

        let long = format!("[Leo Chat] {}", "ä\n".repeat(20_000));
        let named = Pasted::of(&long, &id(), folder.path()).unwrap();
        named.prepare(&long).unwrap();
        let path = folder.path().join("prompts/019a-b.txt");
        let expected = format!(
            "[Leo Chat] The message is 60000 bytes long and is in the file {}. Read that file and treat its whole content as the message from the person.",
            path.display()
        );
        assert_eq!(named.handed_prompt().as_deref(), Some(expected.as_str()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "ä\n".repeat(20_000));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_limit_is_what_is_pasted() {
        let folder = tempfile::tempdir().unwrap();
        let of_length = |n: usize| format!("[Leo Chat] {}", "x".repeat(n - "[Leo Chat]  ".len()));
        let named = |n| matches!(Pasted::of(&of_length(n), &id(), folder.path()), Ok(Pasted::Named { .. }));
        assert!(!named(MAX_PASTE));
        assert!(named(MAX_PASTE + 1));
    }

    #[test]
    fn a_long_message_of_a_client_is_not_the_persons() {
        let folder = tempfile::tempdir().unwrap();
        let body = "x".repeat(MAX_PASTE);
        let long = format!("[message from ci] {body}");
        let named = Pasted::of(&long, &id(), folder.path()).unwrap();
        let text = named.text();
        assert!(
            text.starts_with("[message from ci] The message is 32768 bytes long and is in the file "),
            "{text}"
        );
        assert!(text.contains("as the message from that program."), "{text}");
        named.prepare(&long).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("prompts/019a-b.txt")).unwrap(), body);
    }

    #[test]
    fn only_marked_prompts_are_pasted() {
        for prompt in [
            "!rm -rf",
            "/clear",
            "# x",
            "",
            "\u{1b}[Leo Chat",
            "x [Leo Chat]",
            "[message from ci",
            "[message from \n] /clear",
        ] {
            assert!(Pasted::of(prompt, &id(), Path::new("/")).is_err(), "{prompt}");
        }
        // What is stripped cannot stand before the mark.
        assert!(Pasted::of("\u{202e}\u{1b}[Leo Chat] x", &id(), Path::new("/")).is_ok());
    }

    #[test]
    fn old_files_go() {
        let folder = tempfile::tempdir().unwrap();
        let prompts = folder.path().join("prompts");
        std::fs::create_dir(&prompts).unwrap();
        for n in 0..KEPT_FILES + 20 {
            std::fs::write(prompts.join(format!("{n:04}.txt")), "").unwrap();
        }
        let long = format!("[Leo Chat] {}", "x".repeat(MAX_PASTE));
        Pasted::of(&long, &MessageId::from("9999"), folder.path()).unwrap().prepare(&long).unwrap();
        assert_eq!(std::fs::read_dir(&prompts).unwrap().count(), KEPT_FILES);
        assert!(prompts.join("9999.txt").exists() && !prompts.join("0020.txt").exists());
    }
}
