//! The environment of an agent's process: built from an allow-list, never inherited wholesale, so that
//! an agent runs the same whoever started the supervisor and from wherever.

use leo_ipc::{AgentName, LaunchId, ask::Run, paths::Home};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Variables by name.
pub type Env = BTreeMap<String, String>;

/// Variables of the supervisor that an agent gets as they are.
const PASSED: [&str; 17] = [
    "HOME",
    "PATH",
    "LANG",
    "LANGUAGE",
    "SHELL",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "TZ",
    "SSH_AUTH_SOCK",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "IS_SANDBOX",
    "NODE_EXTRA_CA_CERTS",
    "DISABLE_AUTOUPDATER",
];

/// Families of variables that an agent gets as they are: locale, proxies, and the harness's own.
const PASSED_PREFIXES: [&str; 7] = ["LC_", "ANTHROPIC_", "CLAUDE_", "AWS_", "GOOGLE_", "VERTEX_", "DISABLE_"];

/// Proxy settings, in whatever case.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// Variables that belong to one session of Claude: a supervisor that was itself started from inside
/// Claude must not pass them on.
const OF_ONE_SESSION: [&str; 9] = [
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_CHILD_NOTES_DIR",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PLUGIN_ROOT",
];

/// Folders where programs are found although a service's PATH does not name them.
const USUAL_FOLDERS: [&str; 5] = ["/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"];

/// The variables that tie an agent's process to us.
#[derive(Debug, Clone)]
pub struct Ties {
    /// The agent.
    pub agent: AgentName,
    /// Its launch.
    pub launch: LaunchId,
    /// The launch's token.
    pub token: String,
    /// Absolute path of `leo`.
    pub program: String,
    /// The home folder.
    pub home: Home,
    /// The headless run that the process is, if it is one.
    pub run: Option<Run>,
}

impl Ties {
    /// The variables.
    pub fn vars(&self) -> Env {
        let mut vars: Env = [
            ("LEO_HOME", self.home.root().display().to_string()),
            ("LEO_AGENT", self.agent.to_string()),
            ("LEO_LAUNCH", self.launch.to_string()),
            ("LEO_API_TOKEN", self.token.clone()),
            ("LEO_PROGRAM", self.program.clone()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        if let Some(run) = &self.run {
            vars.insert("LEO_TASK".to_owned(), run.task.clone());
            vars.insert("LEO_RUN_ID".to_owned(), run.run_id.clone());
        }
        vars
    }
}

/// Our own environment, without what is not text.
pub fn ours() -> Env {
    std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect()
}

/// The environment of an agent: what passes of `base`, then what its configuration sets.
pub fn for_agent(base: &Env, configured: &Env) -> Env {
    let passes = |key: &str| {
        let listed = PASSED.contains(&key) || PASSED_PREFIXES.iter().any(|p| key.starts_with(p));
        let proxy = PROXIES.iter().any(|p| p.eq_ignore_ascii_case(key));
        (listed || proxy) && !OF_ONE_SESSION.contains(&key)
    };
    let mut env: Env = base.iter().filter(|(k, _)| passes(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
    env.entry("LANG".to_owned()).or_insert_with(|| fallback_locale().to_owned());
    env.entry("SHELL".to_owned()).or_insert_with(|| "/bin/sh".to_owned());
    env.extend(configured.iter().map(|(k, v)| (k.clone(), v.clone())));
    let path = search_path(&env);
    env.insert("PATH".to_owned(), path);
    env
}

/// macOS has no `C.UTF-8`; `en_US.UTF-8` is part of every installation. On Linux it is the other way
/// round.
pub fn fallback_locale() -> &'static str {
    if cfg!(target_os = "macos") { "en_US.UTF-8" } else { "C.UTF-8" }
}

/// PATH with the usual folders appended: a service's PATH is often just `/usr/bin:/bin`.
fn search_path(env: &Env) -> String {
    let mut folders: Vec<String> = env
        .get("PATH")
        .map(|p| p.split(':').filter(|f| f.starts_with('/')).map(str::to_owned).collect())
        .unwrap_or_default();
    let home = env.get("HOME").map(|h| format!("{h}/.local/bin"));
    for folder in home.into_iter().chain(USUAL_FOLDERS.map(str::to_owned)) {
        if !folders.contains(&folder) && Path::new(&folder).is_dir() {
            folders.push(folder);
        }
    }
    folders.join(":")
}

/// Finds a program in the PATH of `env` or the usual folders, as an absolute path.
pub fn find_program(name: &str, env: &Env) -> Option<PathBuf> {
    search_path(env).split(':').map(|folder| Path::new(folder).join(name)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Whether a shell takes this for the name of a variable.
pub fn is_name(key: &str) -> bool {
    let mut bytes = key.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Env {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn only_what_is_listed_passes_and_the_configuration_wins() {
        let base = env(&[
            ("HOME", "/h"),
            ("PATH", "/usr/bin:relative:/x"),
            ("SECRET", "s"),
            ("ANTHROPIC_API_KEY", "k"),
            ("CLAUDE_CONFIG_DIR", "/c"),
            ("CLAUDE_CODE_SESSION_ID", "inherited"),
            ("CLAUDECODE", "1"),
            ("TMUX", "x"),
            ("https_proxy", "p"),
            ("LC_CTYPE", "de_DE.UTF-8"),
            ("LEO_HOME", "/l"),
        ]);
        let built = for_agent(&base, &env(&[("ANTHROPIC_API_KEY", "mine"), ("EXTRA", "1")]));
        for gone in ["SECRET", "CLAUDE_CODE_SESSION_ID", "CLAUDECODE", "TMUX", "LEO_HOME"] {
            assert!(!built.contains_key(gone), "{gone}");
        }
        assert_eq!(built["ANTHROPIC_API_KEY"], "mine");
        assert_eq!(built["EXTRA"], "1");
        assert_eq!(built["https_proxy"], "p");
        assert_eq!(built["LC_CTYPE"], "de_DE.UTF-8");
        assert!(built["PATH"].starts_with("/usr/bin:/x"), "{}", built["PATH"]);
        assert!(!built["PATH"].contains("relative"));
    }

    #[test]
    fn programs_are_found_with_a_bare_path() {
        assert_eq!(find_program("sh", &env(&[("PATH", "")])).as_deref().map(Path::is_absolute), Some(true));
        assert_eq!(find_program("no-such-program-at-all", &Env::new()), None);
    }

    #[test]
    fn names() {
        for good in ["A", "_a1", "PATH"] {
            assert!(is_name(good));
        }
        for bad in ["", "1A", "A-B", "A=B", "Ä", "A B"] {
            assert!(!is_name(bad));
        }
    }
}
