//! `api_clients` of `leo.yaml`: who may do what. Tokens are not in the file.

use leo_ipc::{
    ClientName,
    api_client::{AgentGlob, Permissions},
};
use serde::Deserialize;

/// An API client's name with the place where it stands.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClientKey(pub(super) ClientName);

impl<'de> Deserialize<'de> for ClientKey {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map(ClientKey).map_err(serde::de::Error::custom)
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ClientSection {
    can_message: Option<Vec<Glob>>,
    can_post: Option<Vec<Glob>>,
}

/// A glob over agents' names.
struct Glob(AgentGlob);

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map(Glob).map_err(serde::de::Error::custom)
    }
}

impl From<ClientSection> for Permissions {
    fn from(section: ClientSection) -> Permissions {
        let globs = |list: Option<Vec<Glob>>| list.unwrap_or_default().into_iter().map(|g| g.0).collect();
        Permissions { can_message: globs(section.can_message), can_post: globs(section.can_post) }
    }
}
