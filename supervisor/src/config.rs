//! Reading `leo.yaml`: what a person may write there, what is missing filled in, and what is wrong said
//! with file, line and the nearest known key. It must not act on the configuration.

mod clients;
mod shape;
mod tasks;
pub(crate) mod watch;

use leo_ipc::config::{Config, Web};
use serde_saphyr::{Location, MessageFormatter, UserMessageFormatter};
use std::{
    fs::File,
    io::{self, Read},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

/// Largest configuration file. A real one has a few kilobytes; the parser's memory follows the size.
const MAX_FILE: u64 = 1024 * 1024;

/// How alike a known key must be to be offered for an unknown one (0 to 1).
const ALIKE: f64 = 0.65;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file is there and cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is larger than a configuration can be.
    #[error("{} has more than {MAX_FILE} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Something in it is wrong.
    #[error("{}:{line}: {what}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// A sentence.
        what: String,
    },
}

/// Something wrong at a place of the file.
pub(crate) struct Wrong {
    at: Location,
    what: String,
}

/// Reads the configuration of a home. A file that is not there means that every default holds.
/// `user_home` is what `~` stands for.
///
/// # Errors
/// As [`ConfigError`] says.
pub(crate) fn read(path: &Path, user_home: Option<&Path>) -> Result<Config, ConfigError> {
    let bytes = match read_file(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Config::default()),
        Err(source) => return Err(ConfigError::Read { path: path.to_owned(), source }),
    };
    if bytes.len() as u64 > MAX_FILE {
        return Err(ConfigError::TooLarge { path: path.to_owned() });
    }
    let wrong = |line, what| ConfigError::Wrong { path: path.to_owned(), line, what };
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        Err(e) => {
            let before = bytes.get(..e.valid_up_to()).unwrap_or_default();
            let line = before.iter().filter(|b| **b == b'\n').count() as u64 + 1;
            return Err(wrong(line, "this is not UTF-8 text".to_owned()));
        }
    };
    parse(text, user_home).map_err(|(line, what)| wrong(line, what))
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The configuration in `text`, or the line and the sentence of its first mistake.
fn parse(text: &str, user_home: Option<&Path>) -> Result<Config, (u64, String)> {
    // A file of comments holds no document at all, which is no mistake.
    if text.lines().all(|line| line.trim_start().starts_with('#') || line.trim().is_empty()) {
        return Ok(Config::default());
    }
    let file: shape::Document = serde_saphyr::from_str(text).map_err(|e| explain(&e, text))?;
    file.resolve(user_home).map_err(|wrong| (wrong.at.line().max(1), wrong.what))
}

fn check_web(web: &Web) -> Result<(), String> {
    let address = bind_address(web)
        .map_err(|text| format!("web.bind must be an IP address or `localhost`, found `{text}`"))?;
    if !address.ip().is_loopback() && web.allowed_hosts.is_empty() {
        return Err(format!(
            "web.bind {} can be reached from other machines: name the hosts that may be asked for in web.allowed_hosts",
            web.bind
        ));
    }
    Ok(())
}

/// Address and port to listen on.
///
/// # Errors
/// The text that is not an address.
pub(crate) fn bind_address(web: &Web) -> Result<SocketAddr, String> {
    let ip = match web.bind.as_str() {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        text => text.parse().map_err(|_| text.to_owned())?,
    };
    Ok(SocketAddr::new(ip, web.port))
}

/// The keys whose change waits for the next start of the supervisor, since it binds its listeners once.
pub(crate) fn needs_restart(old: &Config, new: &Config) -> Vec<String> {
    let changed = [
        ("web.enabled", old.web.enabled != new.web.enabled),
        ("web.bind", old.web.bind != new.web.bind),
        ("web.port", old.web.port != new.web.port),
    ];
    changed.iter().filter(|(_, changed)| *changed).map(|(key, _)| (*key).to_owned()).collect()
}

fn explain(error: &serde_saphyr::Error, text: &str) -> (u64, String) {
    let error = error.without_snippet();
    let line = error.location().map_or(1, |l| l.line().max(1));
    let what = match error {
        serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => unknown("key", field, expected),
        serde_saphyr::Error::SerdeUnknownVariant { variant, expected, .. } => {
            unknown("value", variant, expected)
        }
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key `{}` is there twice", key.escape_debug())
        }
        other => {
            let message = UserMessageFormatter.format_message(other);
            let message: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            in_words(&message, key_at(text, line))
        }
    };
    (line, what)
}

/// The key on a line. Never the value, which may be a secret.
fn key_at(text: &str, line: u64) -> Option<&str> {
    let index = usize::try_from(line).ok()?.checked_sub(1)?;
    let (key, _) = text.lines().nth(index)?.split_once(':')?;
    let key = key.trim();
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    plain.then_some(key)
}

/// The parser's words for a wrong type, as a person would say it; its other messages as they are.
fn in_words(message: &str, key: Option<&str>) -> String {
    let must = match message {
        "invalid boolean" => "must be true or false",
        "invalid u32" => "must be a whole number",
        "invalid u16" => "must be a whole number from 0 to 65535",
        "expected mapping start" => "must hold keys, one a line below it",
        "expected sequence start" => "must be a list",
        // The usual schedule, as it is written in a crontab.
        _ if message.contains("anchor or alias") || message.starts_with("reference to unknown") => {
            "must be in quotes, since it begins with `*` or `&`"
        }
        _ => return key.map_or_else(|| message.to_owned(), |key| format!("at `{key}`: {message}")),
    };
    format!("{} {must}", key.map_or_else(|| "this".to_owned(), |key| format!("`{key}`")))
}

fn unknown(sort: &str, found: &str, known: &[&'static str]) -> String {
    let found_shown: String = found.chars().take(64).flat_map(char::escape_debug).collect();
    let nearest = known
        .iter()
        .map(|k| (strsim::jaro_winkler(found, k).max(strsim::normalized_damerau_levenshtein(found, k)), *k))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = match nearest {
        Some((_, key)) => format!("did you mean `{key}`?"),
        None => format!("known here: {}", known.join(", ")),
    };
    format!("unknown {sort} `{found_shown}`; {hint}")
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
