//! Checks of the machine: tmux, locale, search path, Claude Code.

use super::{Check, version_of};
use crate::cli::{failure::Failure, harness};
use leo_ipc::ExitCode;
use serde::Deserialize;
use std::{ffi::OsString, path::Path, process::Command};

/// Oldest tmux whose options we use (`paste-buffer -p`, `new-session -e`).
const OLDEST_TMUX: (u32, u32) = (3, 0);

/// The search path that a service gets at login. launchd's and systemd's have nothing of the person's
/// own folders in it.
const SERVICE_PATH: &str = if cfg!(target_os = "macos") {
    "/usr/bin:/bin:/usr/sbin:/sbin"
} else {
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
};

fn how_to_install() -> &'static str {
    if cfg!(target_os = "macos") {
        "install it with `brew install tmux`"
    } else {
        "install it with your package manager, for example `sudo apt-get install tmux`"
    }
}

fn own_path() -> Option<OsString> {
    std::env::var_os("PATH")
}

/// Finds a usable tmux before anything is started.
///
/// # Errors
/// When there is none, with how to get one.
pub(crate) fn tmux_for_up() -> Result<String, Failure> {
    let failure = |what: String| Failure::new(ExitCode::Config, what);
    let program = harness::find("tmux", own_path().as_deref()).ok_or_else(|| {
        failure(format!("the agents live in tmux, which is not on PATH: {}", how_to_install()))
    })?;
    let output = Command::new(&program)
        .arg("-V")
        .output()
        .map_err(|e| failure(format!("{} cannot be run: {e}", program.display())))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if new_enough(&said) {
        Ok(said)
    } else {
        let (major, minor) = OLDEST_TMUX;
        Err(failure(format!("{said} is too old: Leo needs {major}.{minor} or newer; {}", how_to_install())))
    }
}

/// Whether `tmux -V` names a version that we can use. Development builds (`next-3.6`, `master`) are.
fn new_enough(said: &str) -> bool {
    let version = said.rsplit(' ').next().unwrap_or_default();
    let version = version.trim_start_matches(|c: char| !c.is_ascii_digit());
    if version.is_empty() {
        return said.starts_with("tmux");
    }
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    found >= OLDEST_TMUX
}

pub(super) async fn tmux() -> Check {
    let Some(program) = harness::find("tmux", own_path().as_deref()) else {
        return Check::fail("tmux", "it is not on PATH", how_to_install());
    };
    match harness::run(&program, &["-V"]).await {
        Ok(said) if new_enough(&said) => Check::ok("tmux", format!("{said}, {}", program.display())),
        Ok(said) => Check::fail("tmux", format!("{said} is too old"), how_to_install()),
        Err(why) => {
            Check::fail("tmux", format!("{} does not run: {why}", program.display()), how_to_install())
        }
    }
}

pub(super) fn locale() -> Check {
    // The first that is set decides, as for every program.
    let set = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
    let plain = locale.as_deref().unwrap_or_default().to_ascii_lowercase();
    let hint =
        "Leo gives its agents a UTF-8 locale; your own terminal needs one to show them: export LANG=C.UTF-8";
    match locale {
        Some(locale) if plain.contains("utf-8") || plain.contains("utf8") => Check::ok("locale", locale),
        Some(locale) => Check::warn("locale", format!("{locale} is not UTF-8"), hint),
        None => Check::warn("locale", "none is set", hint),
    }
}

/// Whether what works in this shell works for a service, too.
pub(super) fn service_path() -> Check {
    let missing: Vec<String> = ["tmux", "claude"]
        .into_iter()
        .filter_map(|program| {
            let here = harness::find(program, own_path().as_deref())?;
            harness::find(program, Some(SERVICE_PATH.as_ref())).is_none().then(|| here.display().to_string())
        })
        .collect();
    if missing.is_empty() {
        return Check::ok("path", "a service finds what this shell finds");
    }
    let found = format!("a service started at login does not find {}", missing.join(", "));
    Check::warn("path", found, "give the service your PATH, or start Leo from a shell with `leo up`")
}

/// What `claude auth status` prints.
#[derive(Deserialize)]
struct Auth {
    #[serde(rename = "loggedIn")]
    logged_in: bool,
    #[serde(rename = "authMethod", default)]
    method: String,
}

pub(super) async fn claude() -> Vec<Check> {
    let Some(program) = harness::find("claude", own_path().as_deref()) else {
        let hint = "optional: without it new agents are the built-in demo; install it with `npm install -g @anthropic-ai/claude-code`";
        return vec![Check::warn("claude", "Claude Code is not on PATH", hint)];
    };
    let version = match version_of(&program).await {
        Ok(version) => Check::ok("claude", format!("{version}, {}", program.display())),
        Err(why) => {
            let found = format!("{} does not run: {why}", program.display());
            return vec![Check::fail("claude", found, "reinstall it; `claude --version` must work")];
        }
    };
    vec![version, logged_in(&program).await]
}

async fn logged_in(program: &Path) -> Check {
    const NAME: &str = "login";
    let hint = "run `claude` and follow it, or `claude auth login`; or set ANTHROPIC_API_KEY";
    // It exits with 1 when nobody is logged in, and says so in JSON all the same.
    match harness::output(program, &["auth", "status"]).await {
        Ok((_, text)) => match serde_json::from_str::<Auth>(&text) {
            Ok(auth) if auth.logged_in => {
                Check::ok(NAME, format!("Claude Code is logged in ({})", auth.method))
            }
            Ok(_) => Check::warn(NAME, "Claude Code is not logged in", hint),
            Err(_) => Check::warn(NAME, "this Claude Code does not say whether it is logged in", hint),
        },
        Err(why) => Check::warn(NAME, format!("whether Claude Code is logged in is not known: {why}"), hint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tmux_versions() {
        for said in ["tmux 3.0", "tmux 3.3a", "tmux next-3.6", "tmux openbsd-7.5", "tmux master", "tmux 10.1"]
        {
            assert!(new_enough(said), "{said}");
        }
        for said in ["tmux 2.9a", "tmux 1.8", "", "no such thing"] {
            assert!(!new_enough(said), "{said}");
        }
    }
}
