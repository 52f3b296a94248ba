//! Which coding agents this machine can run: programs on PATH and what they say about themselves.

use crate::spawn;
use leo_ipc::config::Harness;
use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

/// How long a program may take to say its version. Claude Code needs about a second on a cold disk.
const PATIENCE: Duration = Duration::from_secs(15);
/// Longest answer that is kept.
const MAX_ANSWER: usize = 16 * 1024;

/// The harness of a new agent where nobody named one, and why.
pub(crate) async fn choose() -> (Harness, String) {
    let Some(claude) = find("claude", std::env::var_os("PATH").as_deref()) else {
        return (Harness::Demo, "claude is not on PATH".to_owned());
    };
    match run(&claude, &["--version"]).await {
        Ok(version) => (Harness::Claude, version),
        Err(why) => (Harness::Demo, format!("{} does not run: {why}", claude.display())),
    }
}

/// The first executable file of this name on a search path.
pub(crate) fn find(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    std::env::split_paths(path?)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(program))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// What a program prints, without the blank ends.
///
/// # Errors
/// A sentence's end: why there is no answer.
pub(crate) async fn run(program: &Path, args: &[&str]) -> Result<String, String> {
    let (done, text) = output(program, args).await?;
    if done { Ok(text) } else { Err(text.lines().last().unwrap_or("it failed without a word").to_owned()) }
}

/// Whether a program succeeded, and what it printed (its errors, when it printed nothing).
///
/// # Errors
/// As [`run`].
pub(crate) async fn output(program: &Path, args: &[&str]) -> Result<(bool, String), String> {
    let mut command = tokio::process::Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = spawn::alone(|| command.spawn()).map_err(|e| e.to_string())?;
    match tokio::time::timeout(PATIENCE, child.wait_with_output()).await {
        Ok(Ok(output)) => {
            let bytes = if output.stdout.is_empty() { output.stderr } else { output.stdout };
            let text = String::from_utf8_lossy(bytes.get(..MAX_ANSWER).unwrap_or(&bytes)).trim().to_owned();
            Ok((output.status.success(), text))
        }
        Ok(Err(e)) => Err(e.to_string()),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_only_executable_files_in_absolute_folders() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tool");
        std::fs::write(&file, "").unwrap();
        let path = std::env::join_paths([Path::new("relative"), dir.path()]).unwrap();
        assert_eq!(find("tool", Some(&path)), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find("tool", Some(&path)), Some(file));
        assert_eq!(find("tool", None), None);
    }

    #[tokio::test]
    async fn says_why_a_program_has_no_answer() {
        let sh = Path::new("/bin/sh");
        assert_eq!(run(sh, &["-c", "echo 1.2"]).await.unwrap(), "1.2");
        assert_eq!(run(sh, &["-c", "echo broken >&2; exit 3"]).await.unwrap_err(), "broken");
        assert!(run(Path::new("/no/such"), &[]).await.is_err());
    }
}
