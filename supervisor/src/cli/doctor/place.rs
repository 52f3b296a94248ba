//! Checks of the home: configuration, token, sockets, database, disk.

use super::Check;
use crate::{
    cli::{rpc, text},
    config,
    token::{self, TokenError},
};
use leo_ipc::{
    control::{GetStatus, WorkerState},
    paths::Home,
};
use nix::sys::statvfs::statvfs;
use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Below this the database cannot grow for long.
const LITTLE_SPACE: u64 = 1_000_000_000;
/// Below this the database may stop accepting messages at any moment.
const NO_SPACE: u64 = 100_000_000;

pub(super) async fn all(home: &Home) -> Vec<Check> {
    vec![
        folder(home),
        configuration(home),
        operator_token(home),
        daemon(home).await,
        database(home),
        disk(home),
    ]
}

fn folder(home: &Home) -> Check {
    const NAME: &str = "home";
    let shown = text::path(&home.root().display().to_string());
    match fs::metadata(home.root()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Check::ok(NAME, format!("{shown} does not exist yet; `leo up` makes it"))
        }
        Err(e) => Check::fail(NAME, format!("{shown} cannot be used: {e}"), "set LEO_HOME to another folder"),
        Ok(meta) if !meta.is_dir() => {
            Check::fail(NAME, format!("{shown} is not a folder"), "set LEO_HOME to another path")
        }
        Ok(meta) if meta.uid() != nix::unistd::geteuid().as_raw() => {
            let found = format!("{shown} belongs to user {}", meta.uid());
            Check::fail(NAME, found, "run Leo as that user, or set LEO_HOME to a folder of your own")
        }
        Ok(_) => Check::ok(NAME, shown),
    }
}

fn configuration(home: &Home) -> Check {
    const NAME: &str = "config";
    let file = home.config();
    let person = std::env::var_os("HOME").filter(|h| !h.is_empty()).map(PathBuf::from);
    match config::read(&file, person.as_deref()) {
        Ok(_) if !file.exists() => Check::ok(NAME, "no leo.yaml: every default holds"),
        Ok(config) => {
            let agents = config.agents.len();
            let agents = if agents == 1 { "1 agent".to_owned() } else { format!("{agents} agents") };
            Check::ok(NAME, format!("{}, {agents}", text::path(&file.display().to_string())))
        }
        Err(e) => Check::fail(NAME, e.to_string(), "mend the line, then run `leo reload` or `leo up`"),
    }
}

fn operator_token(home: &Home) -> Check {
    const NAME: &str = "token";
    match token::read(home) {
        Ok(_) => Check::ok(NAME, "private, and of the right form"),
        Err(TokenError::Missing { .. }) => Check::ok(NAME, "none yet; `leo up` makes one"),
        Err(e) => Check::fail(NAME, e.to_string(), "`leo up` refuses to start until then"),
    }
}

async fn daemon(home: &Home) -> Check {
    const NAME: &str = "daemon";
    let status = match rpc::ask(home, GetStatus::default(), rpc::QUICK).await {
        Ok(status) => status,
        Err(failure) if failure.code == leo_ipc::ExitCode::NotRunning => {
            return Check::ok(NAME, "not running; `leo up` starts it");
        }
        Err(_) => {
            let hint = "look at supervisor.log under state/logs; a hung one is ended with its pid from run/supervisor.lock";
            return Check::fail(NAME, "it does not answer on its socket", hint);
        }
    };
    let down: Vec<String> = status
        .workers
        .iter()
        .filter(|w| w.state != WorkerState::Running)
        .map(|w| format!("{} ({})", w.name, w.reason.as_deref().unwrap_or("starting")))
        .collect();
    if !down.is_empty() {
        let found = format!("pid {}; not running: {}", status.pid, down.join("; "));
        return Check::fail(NAME, found, "see `leo status`; `leo worker restart NAME` tries again");
    }
    if let Some(error) = status.config_error {
        return Check::warn(
            NAME,
            format!("it runs with an older configuration: {error}"),
            "mend it, then `leo reload`",
        );
    }
    Check::ok(NAME, format!("pid {}, {} workers running", status.pid, status.workers.len()))
}

/// Looks only at the file: the hub alone opens the database.
fn database(home: &Home) -> Check {
    const NAME: &str = "database";
    let file = home.database();
    let mut head = [0u8; 16];
    match File::open(&file).and_then(|mut f| f.read(&mut head).map(|n| (n, f.metadata()))) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Check::ok(NAME, "none yet; the hub makes it"),
        Err(e) => {
            Check::fail(NAME, format!("{} cannot be read: {e}", file.display()), "mend its permissions")
        }
        // A new one may be empty until its first transaction.
        Ok((0, _)) => Check::ok(NAME, "empty"),
        Ok((_, meta)) if head == *b"SQLite format 3\0" => {
            let size = meta.map_or(0, |m| m.len());
            let log = fs::metadata(with_suffix(&file, "-wal")).map_or(0, |m| m.len());
            Check::ok(NAME, format!("{}, write-ahead log {}", text::bytes(size), text::bytes(log)))
        }
        Ok(_) => {
            let hint = "move it away and put back a copy; backups made before each upgrade lie beside it";
            Check::fail(NAME, format!("{} is not a SQLite database", file.display()), hint)
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn disk(home: &Home) -> Check {
    const NAME: &str = "disk";
    // The home may not exist yet; its file system does.
    let place = home.root().ancestors().find(|p| p.exists()).unwrap_or(Path::new("/"));
    #[allow(clippy::useless_conversion, reason = "block counts have 32 bits on macOS and 64 on Linux")]
    let free = match statvfs(place) {
        Ok(stat) => u64::from(stat.blocks_available()).saturating_mul(u64::from(stat.fragment_size())),
        Err(e) => return Check::warn(NAME, format!("the free space is not known: {e}"), "look with `df -h`"),
    };
    let found = format!("{} free at {}", text::bytes(free), text::path(&place.display().to_string()));
    match free {
        0..NO_SPACE => Check::fail(NAME, found, "make room: messages cannot be kept safe on a full disk"),
        NO_SPACE..LITTLE_SPACE => Check::warn(NAME, found, "make room soon"),
        _ => Check::ok(NAME, found),
    }
}
