//! Which Claude a program is. An option that it does not know would end it at its start, so what is newer
//! than the oldest Claude that we support is asked for only where it is there.

use leo_launch::Env;
use std::{
    collections::HashMap,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{LazyLock, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

/// How long the program may take to say its version (measured: 0.1 s). The worker waits for it, once for
/// each program.
const WITHIN: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(10);

type Known = HashMap<(PathBuf, Option<SystemTime>), Option<[u32; 3]>>;

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// The version that a program says of itself; `None` when it does not.
pub(super) fn of(program: &Path, env: &Env) -> Option<[u32; 3]> {
    let changed = std::fs::metadata(program).and_then(|meta| meta.modified()).ok();
    let key = (program.to_owned(), changed);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    *known.entry(key).or_insert_with(|| ask(program, env).as_deref().and_then(parse))
}

fn ask(program: &Path, env: &Env) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").env_clear().envs(env);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let until = Instant::now() + WITHIN;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() >= until {
            // Whatever it is, it is not waited for.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(LOOK);
    }
    let mut text = String::new();
    child.stdout.take()?.take(1024).read_to_string(&mut text).ok()?;
    Some(text)
}

/// `2.1.332`, with whatever may stand behind.
pub(super) fn parse(text: &str) -> Option<[u32; 3]> {
    let word = text.split_whitespace().next()?;
    let mut parts = word.splitn(3, '.');
    let mut next = || -> Option<u32> {
        let part = parts.next()?;
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part.get(..end)?.parse().ok()
    };
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (text, version) in [
            ("2.1.332 (Claude Code)\n", Some([2, 1, 332])),
            ("2.1.332-dev.3", Some([2, 1, 332])),
            ("", None),
            ("2.1", None),
            ("2.x.1", None),
            ("nightly", None),
        ] {
            assert_eq!(parse(text), version, "{text}");
        }
        assert_eq!(of(Path::new("/no/such/program"), &Env::new()), None);
    }
}
