//! The shape of `leo.yaml` as a person writes it: every key optional, unknown ones refused.

use super::{
    Wrong, check_web,
    clients::{ClientKey, ClientSection},
    tasks::{TaskKey, TaskSection, resolve_task},
};
use leo_ipc::{
    AgentName,
    chat::Route,
    config::{AgentConfig, Chat, Config, Harness, Web},
};
use serde::Deserialize;
use serde_saphyr::{Location, Spanned};
use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

/// The whole file.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Document {
    web: Option<WebSection>,
    chat: Option<ChatSection>,
    defaults: Option<AgentSection>,
    agents: Option<BTreeMap<AgentKey, Option<Spanned<AgentSection>>>>,
    tasks: Option<BTreeMap<TaskKey, Option<Spanned<TaskSection>>>>,
    api_clients: Option<BTreeMap<ClientKey, Option<ClientSection>>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WebSection {
    enabled: Option<bool>,
    bind: Option<Spanned<String>>,
    port: Option<u16>,
    allowed_hosts: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct ChatSection {
    enabled: Option<bool>,
    permission_timeout: Option<Spanned<Duration>>,
    question_timeout: Option<Spanned<Duration>>,
    routes: Option<Spanned<Vec<RouteName>>>,
    whisper_model: Option<Spanned<String>>,
    whisper_language: Option<Spanned<String>>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AgentSection {
    harness: Option<HarnessName>,
    workspace: Option<Spanned<String>>,
    pub(super) model: Option<String>,
    pub(super) env: Option<BTreeMap<String, String>>,
    args: Option<Vec<String>>,
    autostart: Option<bool>,
    idle_suspend_after: Option<Duration>,
    pub(super) permission_mode: Option<String>,
}

/// Of its own, since the wire's type takes any name for one of a newer build.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum HarnessName {
    Claude,
    Demo,
}

/// Of its own for the same reason, and because not every route is for a person to choose.
#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum RouteName {
    Bridge,
    Inbox,
    Paste,
}

/// Whole seconds, written as `120s`, `30m`, `1h` or `2d`.
#[derive(Clone, Copy)]
pub(super) struct Duration(pub(super) u64);

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        seconds(&text).map(Duration).ok_or_else(|| {
            let shown: String = text.chars().take(64).flat_map(char::escape_debug).collect();
            serde::de::Error::custom(format!("must be a duration such as 120s, 30m or 1h, found `{shown}`"))
        })
    }
}

fn seconds(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let each = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let digits =
        text.strip_suffix(unit).filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))?;
    digits.parse::<u64>().ok()?.checked_mul(each)
}

/// An agent's name with the place where it stands.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct AgentKey(AgentName);

impl<'de> Deserialize<'de> for AgentKey {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map(AgentKey).map_err(serde::de::Error::custom)
    }
}

impl Document {
    /// The configuration that this document and the defaults make.
    pub(super) fn resolve(self, user_home: Option<&Path>) -> Result<Config, Wrong> {
        let mut config = Config::default();
        if let Some(section) = self.web {
            let Web { enabled, bind, port, allowed_hosts } = config.web;
            let at = section.bind.as_ref().map_or(Location::UNKNOWN, |bind| bind.referenced);
            config.web = Web {
                enabled: section.enabled.unwrap_or(enabled),
                bind: section.bind.map_or(bind, |bind| bind.value),
                port: section.port.unwrap_or(port),
                allowed_hosts: section.allowed_hosts.unwrap_or(allowed_hosts),
            };
            check_web(&config.web).map_err(|what| Wrong { at, what })?;
        }
        if let Some(section) = self.chat {
            config.chat = resolve_chat(section, &config.chat, user_home)?;
        }
        let defaults = self.defaults.unwrap_or_default();
        for (AgentKey(name), section) in self.agents.unwrap_or_default() {
            let Some(section) = section else {
                // `assistant:` with nothing below it takes everything from the defaults.
                let agent = resolve_agent(&name, AgentSection::default(), &defaults, user_home, None)?;
                config.agents.insert(name, agent);
                continue;
            };
            let at = section.referenced;
            let agent = resolve_agent(&name, section.value, &defaults, user_home, Some(at))?;
            config.agents.insert(name, agent);
        }
        for (TaskKey(name), section) in self.tasks.unwrap_or_default() {
            let at = section.as_ref().map(|section| section.referenced);
            let section = section.map(|section| section.value).unwrap_or_default();
            let task = resolve_task(&name, section, &defaults, user_home, at)?;
            config.tasks.insert(name, task);
        }
        for (ClientKey(name), section) in self.api_clients.unwrap_or_default() {
            config.api_clients.insert(name, section.unwrap_or_default().into());
        }
        Ok(config)
    }
}

/// Longest `chat.question_timeout`, in seconds: the longest that any ask of a tool call may wait.
const MAX_QUESTION_TIMEOUT_S: u64 = leo_ipc::ask::MAX_TIMEOUT_S;

/// Longest `chat.permission_timeout`, in seconds: a tool call is held up by it, and a day is longer than
/// anybody means.
const MAX_PERMISSION_TIMEOUT_S: u64 = 86_400;

fn resolve_chat(section: ChatSection, plain: &Chat, user_home: Option<&Path>) -> Result<Chat, Wrong> {
    let model = section.whisper_model.map(|model| {
        absolute("chat.whisper_model", &model.value, user_home)
            .map_err(|what| Wrong { at: model.referenced, what })
    });
    let language = section.whisper_language.map(|language| {
        let known = (2..=20).contains(&language.value.len())
            && language.value.bytes().all(|b| b.is_ascii_lowercase());
        if known {
            return Ok(language.value);
        }
        let shown: String = language.value.chars().take(64).flat_map(char::escape_debug).collect();
        let what =
            format!("chat.whisper_language must be auto or a language such as en or de, found `{shown}`");
        Err(Wrong { at: language.referenced, what })
    });
    let seconds = |given: Option<Spanned<Duration>>, key: &str, most: u64, plain: u64| match given {
        None => Ok(plain),
        Some(given) if (1..=most).contains(&given.value.0) => Ok(given.value.0),
        Some(given) => Err(Wrong {
            at: given.referenced,
            what: format!("chat.{key} must be between 1s and {}h", most / 3600),
        }),
    };
    Ok(Chat {
        routes: resolve_routes(section.routes, &plain.routes)?,
        enabled: section.enabled.unwrap_or(plain.enabled),
        permission_timeout_s: seconds(
            section.permission_timeout,
            "permission_timeout",
            MAX_PERMISSION_TIMEOUT_S,
            plain.permission_timeout_s,
        )?,
        question_timeout_s: seconds(
            section.question_timeout,
            "question_timeout",
            MAX_QUESTION_TIMEOUT_S,
            plain.question_timeout_s,
        )?,
        whisper_model: model.transpose()?.or_else(|| plain.whisper_model.clone()),
        whisper_language: language.transpose()?.unwrap_or_else(|| plain.whisper_language.clone()),
    })
}

fn resolve_routes(given: Option<Spanned<Vec<RouteName>>>, plain: &[Route]) -> Result<Vec<Route>, Wrong> {
    let Some(given) = given else { return Ok(plain.to_vec()) };
    let wrong = |what: &str| Wrong { at: given.referenced, what: format!("chat.routes {what}") };
    if given.value.is_empty() {
        return Err(wrong("must name at least one of bridge, inbox, paste"));
    }
    if (1..given.value.len()).any(|at| given.value[..at].contains(&given.value[at])) {
        return Err(wrong("names a route twice"));
    }
    let route = |name: &RouteName| match name {
        RouteName::Bridge => Route::Bridge,
        RouteName::Inbox => Route::Inbox,
        RouteName::Paste => Route::Paste,
    };
    Ok(given.value.iter().map(route).collect())
}

fn resolve_agent(
    name: &AgentName,
    own: AgentSection,
    defaults: &AgentSection,
    user_home: Option<&Path>,
    at: Option<Location>,
) -> Result<AgentConfig, Wrong> {
    let plain = AgentConfig::default();
    let mut env = defaults.env.clone().unwrap_or_default();
    env.extend(own.env.unwrap_or_default());
    let Some(workspace) = own.workspace.or_else(|| defaults.workspace.clone()) else {
        return Err(Wrong {
            at: at.unwrap_or(Location::UNKNOWN),
            what: format!("agent `{name}` has no workspace: give it one, or all of them one in defaults"),
        });
    };
    let path = absolute("workspace", &workspace.value, user_home)
        .map_err(|what| Wrong { at: workspace.referenced, what: format!("agent `{name}`: {what}") })?;
    let harness = match own.harness.or(defaults.harness) {
        Some(HarnessName::Claude) => Harness::Claude,
        Some(HarnessName::Demo) => Harness::Demo,
        None => plain.harness,
    };
    Ok(AgentConfig {
        harness,
        workspace: path,
        model: own.model.or_else(|| defaults.model.clone()),
        env,
        args: own.args.or_else(|| defaults.args.clone()).unwrap_or_default(),
        autostart: own.autostart.or(defaults.autostart).unwrap_or(plain.autostart),
        // `0s` takes back what the defaults say.
        idle_suspend_after_s: own
            .idle_suspend_after
            .or(defaults.idle_suspend_after)
            .map(|Duration(seconds)| seconds)
            .filter(|seconds| *seconds > 0),
        permission_mode: own.permission_mode.or_else(|| defaults.permission_mode.clone()),
    })
}

/// An absolute path, with `~` expanded: a relative one would depend on where the supervisor was
/// started.
pub(super) fn absolute(what: &str, text: &str, user_home: Option<&Path>) -> Result<String, String> {
    let path = match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let home = user_home.ok_or("`~` cannot be expanded, since HOME is not set")?;
            home.join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(text),
    };
    if !path.is_absolute() {
        return Err(format!("{what} must be an absolute path or start with `~/`, found `{text}`"));
    }
    if path.components().any(|c| c == Component::ParentDir) {
        return Err(format!("{what} must not contain `..`, found `{text}`"));
    }
    let clean: PathBuf = path.components().collect();
    clean.into_os_string().into_string().map_err(|_| format!("{what} must be UTF-8 text"))
}
