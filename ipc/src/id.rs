//! Identifiers. Each is a type of its own, so that one cannot be passed where another is meant.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use uuid::Uuid;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        pub struct $name(pub String);

        impl $name {
            /// The text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name(text.to_owned())
            }
        }
    };
}

text_id! {
    /// A message, reminder or attachment: UUIDv7 text, ordered by time when compared as a string.
    /// Only the hub makes them, so that their order never runs backwards.
    MessageId
}
text_id! {
    /// One start of an agent's harness. A stale launch is refused for good.
    LaunchId
}
text_id! {
    /// Idempotency key of a request that changes something: the same key asks for the same change.
    CallKey
}

impl LaunchId {
    /// A fresh launch.
    pub fn fresh() -> LaunchId {
        LaunchId(Uuid::now_v7().simple().to_string())
    }
}

impl CallKey {
    /// A key for a request made once by this process.
    pub fn fresh() -> CallKey {
        CallKey(Uuid::now_v7().simple().to_string())
    }
}

/// A random token: 64 hexadecimal characters from two version-4 UUIDs' 244 random bits, hashed with
/// SHA-256 so that the fixed bits do not show.
pub fn fresh_token() -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    hash.update(Uuid::new_v4().as_bytes());
    hash.update(Uuid::new_v4().as_bytes());
    hex(&hash.finalize())
}

/// SHA-256 of a token, as hexadecimal: what is kept at rest.
pub fn token_hash(token: &str) -> String {
    use sha2::{Digest, Sha256};
    hex(&Sha256::digest(token.as_bytes()))
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, b| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{b:02x}");
        out
    })
}

/// A spawn of a worker, counted up by the supervisor. It, not the pid, is a worker's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An agent's name, which is also its thread's: `[a-z0-9][a-z0-9-]{0,62}` (WIRE.md §6).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(value_type = String))]
pub struct AgentName(String);

/// Why a text is not an agent's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an agent's name: use 1 to 63 of a-z, 0-9 and -, not starting with -")]
pub struct BadAgentName(pub String);

impl AgentName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AgentName {
    type Error = BadAgentName;
    fn try_from(text: String) -> Result<Self, BadAgentName> {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let bytes = text.as_bytes();
        let good =
            !bytes.is_empty() && bytes.len() <= 63 && bytes[0] != b'-' && bytes.iter().all(|b| inner(*b));
        if good { Ok(AgentName(text)) } else { Err(BadAgentName(text)) }
    }
}

impl FromStr for AgentName {
    type Err = BadAgentName;
    fn from_str(text: &str) -> Result<Self, BadAgentName> {
        AgentName::try_from(text.to_owned())
    }
}

impl From<AgentName> for String {
    fn from(name: AgentName) -> String {
        name.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Place in the event journal: `epoch:seq`. The epoch changes only with a new database.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EventId {
    /// The database's epoch.
    pub epoch: String,
    /// Contiguous within the epoch, from 1.
    pub seq: u64,
}

/// Why a text is not an event id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an event id, which looks like `<epoch>:<seq>`")]
pub struct BadEventId(pub String);

impl FromStr for EventId {
    type Err = BadEventId;
    fn from_str(text: &str) -> Result<Self, BadEventId> {
        let bad = || BadEventId(text.chars().take(80).collect());
        let (epoch, seq) = text.rsplit_once(':').ok_or_else(bad)?;
        if epoch.is_empty() || !seq.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        Ok(EventId { epoch: epoch.to_owned(), seq: seq.parse().map_err(|_| bad())? })
    }
}

impl TryFrom<String> for EventId {
    type Error = BadEventId;
    fn try_from(text: String) -> Result<Self, BadEventId> {
        text.parse()
    }
}

impl From<EventId> for String {
    fn from(id: EventId) -> String {
        id.to_string()
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epoch, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_names() {
        for good in ["a", "assistant", "9-lives", &"x".repeat(63)] {
            assert!(good.parse::<AgentName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "A", "a b", "a/b", "ä", &"x".repeat(64)] {
            assert!(bad.parse::<AgentName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn event_ids() {
        let id: EventId = "e1:42".parse().unwrap();
        assert_eq!((id.epoch.as_str(), id.seq), ("e1", 42));
        for bad in ["", "42", ":42", "e1:", "e1:-1", "e1:+1", "e1:99999999999999999999999"] {
            assert!(bad.parse::<EventId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn tokens_are_64_hex_and_differ() {
        let (a, b) = (fresh_token(), fresh_token());
        assert_eq!(a.len(), 64);
        assert_ne!(a, b);
        assert!(a.bytes().all(|c| c.is_ascii_hexdigit()));
    }
}
