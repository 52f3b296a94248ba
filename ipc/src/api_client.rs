//! API clients: scripts and CI jobs with a token of their own, which may do two things and nothing else
//! (WIRE.md §1), and the requests about them.

use crate::{AgentName, CallKey};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use wildmatch::WildMatch;

/// Most clients of one home.
pub const MAX_CLIENTS: u64 = 200;

/// Most globs of one permission of a client.
pub const MAX_GLOBS: usize = 100;

/// A client's name: as an agent's, since it stands in prompts and commands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(value_type = String))]
pub struct ClientName(String);

/// Why a text is not a client's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an API client's name: use 1 to 63 of a-z, 0-9 and -, not starting with -")]
pub struct BadClientName(pub String);

impl ClientName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Who a message of this client's is from, as `sender` says it.
    pub fn sender(&self) -> String {
        format!("client:{}", self.0)
    }
}

impl TryFrom<String> for ClientName {
    type Error = BadClientName;
    fn try_from(text: String) -> Result<Self, BadClientName> {
        match AgentName::try_from(text) {
            Ok(name) => Ok(ClientName(name.into())),
            Err(bad) => Err(BadClientName(bad.0)),
        }
    }
}

impl FromStr for ClientName {
    type Err = BadClientName;
    fn from_str(text: &str) -> Result<Self, BadClientName> {
        ClientName::try_from(text.to_owned())
    }
}

impl From<ClientName> for String {
    fn from(name: ClientName) -> String {
        name.0
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which agents a permission is for: a name, in which `*` stands for any characters and `?` for one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(value_type = String))]
pub struct AgentGlob(String);

/// Why a text is not a glob over agents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no agents: use an agent's name, in which * stands for any characters and ? for one")]
pub struct BadAgentGlob(pub String);

impl AgentGlob {
    /// The glob.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is for this agent.
    pub fn matches(&self, agent: &AgentName) -> bool {
        WildMatch::new(&self.0).matches(agent.as_str())
    }
}

impl TryFrom<String> for AgentGlob {
    type Error = BadAgentGlob;
    fn try_from(text: String) -> Result<Self, BadAgentGlob> {
        let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-*?".contains(&b);
        let good = (1..=63).contains(&text.len()) && text.bytes().all(known);
        if good { Ok(AgentGlob(text)) } else { Err(BadAgentGlob(text.chars().take(80).collect())) }
    }
}

impl FromStr for AgentGlob {
    type Err = BadAgentGlob;
    fn from_str(text: &str) -> Result<Self, BadAgentGlob> {
        AgentGlob::try_from(text.to_owned())
    }
}

impl From<AgentGlob> for String {
    fn from(glob: AgentGlob) -> String {
        glob.0
    }
}

impl fmt::Display for AgentGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a client may do. Nothing unless it says so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Permissions {
    /// The agents that it may send messages to.
    pub can_message: Vec<AgentGlob>,
    /// The agents into whose threads it may post.
    pub can_post: Vec<AgentGlob>,
}

impl Permissions {
    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.can_message.is_empty() && self.can_post.is_empty()
    }
}

/// A client as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ApiClient {
    /// Its name.
    pub name: ClientName,
    /// Whether `leo.yaml` names it, and says what it may do.
    pub configured: bool,
    /// Whether it has a token.
    pub has_token: bool,
    /// What it may do.
    pub permissions: Permissions,
    /// When its token was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<crate::Time>,
}

/// Gives a client its token. What it may do is the configuration's to say where that names it, else this
/// request's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddClient {
    /// Its name.
    pub name: ClientName,
    /// What it may do; must be empty for a client of the configuration.
    #[serde(default)]
    pub permissions: Permissions,
    /// SHA-256 of its token.
    pub token_hash: String,
    /// The same key again gives it the newer token: the answer with the older one was lost.
    pub key: CallKey,
}

/// Asks for all clients, those of the configuration without a token included.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListClients {}

/// Answer to [`ListClients`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Clients {
    /// By name.
    pub clients: Vec<ApiClient>,
}

/// Takes a client's token away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveClient {
    /// Its name.
    pub name: ClientName,
    /// The same key again is the same removal, and no error.
    pub key: CallKey,
}

/// Asks which client a token belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthClient {
    /// SHA-256 of the token.
    pub token_hash: String,
}

/// Answer to [`AuthClient`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientIdentity {
    /// The client.
    pub name: ClientName,
}

/// A message from a client to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientMessage {
    /// The client, by its token. Whether it may is checked where the message is stored.
    pub client: ClientName,
    /// The agent.
    pub agent: AgentName,
    /// Its text.
    pub text: String,
    /// The client's own id for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_msg_id: Option<String>,
    /// Idempotency key where the client gave no id of its own.
    pub key: CallKey,
}

/// A message for the person, put into an agent's thread by a client or by the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPost {
    /// The client, by its token; none for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientName>,
    /// The thread.
    pub agent: AgentName,
    /// Its text, as Markdown.
    pub text: String,
    /// The caller's own id for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_msg_id: Option<String>,
    /// Idempotency key where the caller gave no id of its own.
    pub key: CallKey,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        let agent = |name: &str| name.parse::<AgentName>().unwrap();
        for (glob, name, matches) in [
            ("assistant", "assistant", true),
            ("assistant", "assistant-2", false),
            ("*", "anything", true),
            ("build-*", "build-linux", true),
            ("build-*", "build", false),
            ("?", "a", true),
            ("?", "ab", false),
            ("*-ci", "team-ci", true),
        ] {
            let read: AgentGlob = glob.parse().unwrap();
            assert_eq!(read.matches(&agent(name)), matches, "{glob} {name}");
        }
        for bad in ["", "A", "a b", "a/*", "[ab]", "ä", "a\n", &"x".repeat(64)] {
            assert!(bad.parse::<AgentGlob>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names() {
        assert_eq!("github-ci".parse::<ClientName>().unwrap().sender(), "client:github-ci");
        let said = "Git Hub".parse::<ClientName>().unwrap_err().to_string();
        assert!(said.contains("API client's name"), "{said}");
    }
}
