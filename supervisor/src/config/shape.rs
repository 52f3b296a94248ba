//! The shape of `leo.yaml` as a person writes it: every key optional, unknown ones refused.

use super::{Wrong, check_web};
use leo_ipc::{
    AgentName,
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
}

#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields, default)]
struct AgentSection {
    harness: Option<HarnessName>,
    workspace: Option<Spanned<String>>,
    model: Option<String>,
    env: Option<BTreeMap<String, String>>,
    args: Option<Vec<String>>,
    autostart: Option<bool>,
    permission_mode: Option<String>,
}

/// Of its own, since the wire's type takes any name for one of a newer build.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum HarnessName {
    Claude,
    Demo,
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
            config.chat.enabled = section.enabled.unwrap_or(config.chat.enabled);
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
        Ok(config)
    }
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
    let path = absolute(&workspace.value, user_home)
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
        permission_mode: own.permission_mode.or_else(|| defaults.permission_mode.clone()),
    })
}

/// An absolute path, with `~` expanded: a relative one would depend on where the supervisor was
/// started.
fn absolute(text: &str, user_home: Option<&Path>) -> Result<String, String> {
    let path = match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let home = user_home.ok_or("`~` cannot be expanded, since HOME is not set")?;
            home.join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(text),
    };
    if !path.is_absolute() {
        return Err(format!("workspace must be an absolute path or start with `~/`, found `{text}`"));
    }
    if path.components().any(|c| c == Component::ParentDir) {
        return Err(format!("workspace must not contain `..`, found `{text}`"));
    }
    let clean: PathBuf = path.components().collect();
    clean.into_os_string().into_string().map_err(|_| "workspace must be UTF-8 text".to_owned())
}
