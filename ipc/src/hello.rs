//! The first frame in each direction. Its layout is frozen for ever: a peer of any age can read it and
//! say why it cannot go on.

use crate::{Generation, IpcError, version};
use serde::{Deserialize, Serialize};

/// What every Leo hello starts with.
pub const MAGIC: &str = "leo";

/// Who is calling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The parent process.
    Supervisor,
    /// A worker process.
    Worker,
    /// `leo hook`.
    Hook,
    /// The stdio shim of `leo mcp-server`.
    Shim,
    /// A command typed by a person.
    Cli,
    /// A role that this build does not know.
    #[serde(other)]
    Unknown,
}

/// The caller's first frame. **Frozen**: never add, rename or remove a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`MAGIC`].
    pub magic: String,
    /// Oldest protocol version the caller speaks.
    pub min: u16,
    /// Newest protocol version the caller speaks.
    pub max: u16,
    /// The caller's build, for logs.
    pub build: String,
    /// Who is calling.
    pub role: Role,
    /// The caller's generation, 0 where it has none.
    pub generation: Generation,
}

/// The answer. **Frozen** like [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloReply {
    /// [`MAGIC`].
    pub magic: String,
    /// The version to speak from here on, or 0 when refused.
    pub version: u16,
    /// The answering build, for logs.
    pub build: String,
    /// Why the call was refused; empty when it was not.
    pub reason: String,
}

impl Hello {
    /// The hello of this build.
    pub fn new(role: Role, generation: Generation) -> Hello {
        Hello {
            magic: MAGIC.to_owned(),
            min: version::MIN,
            max: version::MAX,
            build: version::BUILD.to_owned(),
            role,
            generation,
        }
    }

    /// The answer of this build to a hello.
    pub fn answer(&self) -> HelloReply {
        let version = self.max.min(version::MAX);
        let reason = if self.magic != MAGIC {
            "this is a Leo socket, and the caller does not speak its protocol".to_owned()
        } else if version < self.min || version < version::MIN {
            format!(
                "the caller ({}) speaks versions {}..={}, this build ({}) {}..={}: restart the older one",
                self.build,
                self.min,
                self.max,
                version::BUILD,
                version::MIN,
                version::MAX
            )
        } else {
            String::new()
        };
        let version = if reason.is_empty() { version } else { 0 };
        HelloReply { magic: MAGIC.to_owned(), version, build: version::BUILD.to_owned(), reason }
    }
}

impl HelloReply {
    /// The agreed version.
    ///
    /// # Errors
    /// [`IpcError::Refused`] with the peer's reason.
    pub fn accept(&self) -> Result<u16, IpcError> {
        if self.version == 0 || self.magic != MAGIC {
            let reason =
                if self.reason.is_empty() { "no reason given".to_owned() } else { self.reason.clone() };
            return Err(IpcError::Refused { reason });
        }
        Ok(self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_the_newest_common_version_or_says_why_not() {
        let ours = Hello::new(Role::Cli, Generation(0));
        assert_eq!(ours.answer().accept().unwrap(), version::MAX);

        let newer = Hello { min: version::MAX, max: version::MAX + 7, ..ours.clone() };
        assert_eq!(newer.answer().accept().unwrap(), version::MAX);

        let too_new = Hello { min: version::MAX + 1, max: version::MAX + 7, ..ours.clone() };
        let refusal = too_new.answer().accept().unwrap_err().to_string();
        assert!(refusal.contains("restart the older one"), "{refusal}");

        let stranger = Hello { magic: "GET / HTTP/1.1".into(), ..ours };
        assert!(stranger.answer().accept().is_err());
    }
}
