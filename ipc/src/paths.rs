//! The layout of a home folder (`$LEO_HOME`, else `~/.leo`): every path that two processes share.

use crate::{AgentName, TaskName};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Longest home path in bytes. A unix socket path may have 104 bytes on macOS and 108 on Linux, the
/// terminating zero included, and our longest socket name below the home needs 23.
pub const MAX_HOME_BYTES: usize = 80;

/// A home folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

/// Why a home folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadHome {
    /// Neither `LEO_HOME` nor `HOME` is set.
    #[error("neither LEO_HOME nor HOME is set")]
    Unset,
    /// A relative path would mean another folder to each process.
    #[error("LEO_HOME must be an absolute path, found {}", .0.display())]
    Relative(PathBuf),
    /// Its sockets would not fit into the system's limit.
    #[error("the home path {} has {} bytes; unix sockets below it need it to be at most {MAX_HOME_BYTES}: set LEO_HOME to a shorter path", .0.display(), .0.as_os_str().len())]
    TooLong(PathBuf),
}

impl Home {
    /// The home that the environment names.
    ///
    /// # Errors
    /// When there is none, or it is relative or too long.
    pub fn from_env() -> Result<Home, BadHome> {
        match std::env::var_os("LEO_HOME").filter(|v| !v.is_empty()) {
            Some(root) => Home::at(PathBuf::from(root)),
            None => {
                let home = std::env::var_os("HOME").filter(|v| !v.is_empty()).ok_or(BadHome::Unset)?;
                Home::at(PathBuf::from(home).join(".leo"))
            }
        }
    }

    /// A home at a given path.
    ///
    /// # Errors
    /// When the path is relative or too long.
    pub fn at(root: PathBuf) -> Result<Home, BadHome> {
        if !root.is_absolute() {
            return Err(BadHome::Relative(root));
        }
        // `/a/b/` and `/a/b` must name the same home, since its hash names the tmux server.
        let root: PathBuf = root.components().collect();
        if root.as_os_str().len() > MAX_HOME_BYTES {
            return Err(BadHome::TooLong(root));
        }
        Ok(Home { root })
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.root.join("leo.yaml")
    }

    /// What survives restarts: database, tokens, attachments.
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Sockets and locks of the running system.
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Rotated logs of the supervisor and its workers.
    pub fn logs(&self) -> PathBuf {
        self.state().join("logs")
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.state().join("chat.db")
    }

    /// The operator's token (0600).
    pub fn operator_token(&self) -> PathBuf {
        self.state().join("api.token")
    }

    /// The HTTP socket for local programs (0600, no token).
    pub fn http_socket(&self) -> PathBuf {
        self.state().join("leo.sock")
    }

    /// The hub's socket.
    pub fn hub_socket(&self) -> PathBuf {
        self.run().join("hub.sock")
    }

    /// The agents worker's socket.
    pub fn agents_socket(&self) -> PathBuf {
        self.run().join("agents.sock")
    }

    /// The socket that the mod inside Claude speaks HTTP on.
    pub fn bridge_socket(&self) -> PathBuf {
        self.run().join("bridge.sock")
    }

    /// The peer inbox of one agent's Claude, which Claude itself binds. The name is hashed: an agent's
    /// may have 63 bytes.
    pub fn inbox_socket(&self, agent: &AgentName) -> PathBuf {
        self.run().join(format!("i-{}.sock", short_hash(agent.as_str().as_bytes())))
    }

    /// The mods that were written for Claude, a folder for each content.
    pub fn mods(&self) -> PathBuf {
        self.state().join("mods")
    }

    /// The supervisor's own socket.
    pub fn control_socket(&self) -> PathBuf {
        self.run().join("leo.ctl")
    }

    /// The socket of one agent's MCP worker. The name is hashed: an agent's may have 63 bytes.
    pub fn mcp_socket(&self, agent: &AgentName) -> PathBuf {
        self.run().join(format!("m-{}.sock", short_hash(agent.as_str().as_bytes())))
    }

    /// The lock that makes the supervisor the only one of its home.
    pub fn lock(&self) -> PathBuf {
        self.run().join("supervisor.lock")
    }

    /// The supervisor's pid, for people; never a lock.
    pub fn pid(&self) -> PathBuf {
        self.run().join("supervisor.pid")
    }

    /// Hook events that could not be handed over, for the hub to read at its next start.
    pub fn spool(&self) -> PathBuf {
        self.state().join("spool")
    }

    /// What belongs to one agent: launch files, prompts too long to paste.
    pub fn agent_dir(&self, agent: &AgentName) -> PathBuf {
        self.state().join("agents").join(agent.as_str())
    }

    /// What belongs to one task: its lock and the files of its runs.
    pub fn task_dir(&self, task: &TaskName) -> PathBuf {
        self.state().join("tasks").join(task.as_str())
    }

    /// The log of one run of a task.
    pub fn task_log(&self, task: &TaskName, run_id: &str) -> PathBuf {
        self.logs().join("tasks").join(task.as_str()).join(format!("{run_id}.log"))
    }

    /// Files of all threads, in a folder for each thread.
    pub fn attachments(&self) -> PathBuf {
        self.state().join("chat").join("attachments")
    }

    /// The folder of one attachment's file (seed 001).
    pub fn attachment_dir(&self, agent: &AgentName, id: &str) -> PathBuf {
        self.attachments().join(agent.as_str()).join(id)
    }

    /// Where one attachment's file lies.
    pub fn attachment_file(&self, agent: &AgentName, id: &str, filename: &str) -> PathBuf {
        self.attachment_dir(agent, id).join(crate::filename::on_disk(filename))
    }

    /// Uploads that have no thread yet: `<id>.part` while their bytes arrive, then a folder `<id>`.
    pub fn uploads(&self) -> PathBuf {
        self.state().join("chat").join("uploads")
    }

    /// An upload's bytes while they arrive.
    pub fn upload_part(&self, id: &str) -> PathBuf {
        self.uploads().join(format!("{id}.part"))
    }

    /// Where an upload without a thread lies.
    pub fn upload_file(&self, id: &str, filename: &str) -> PathBuf {
        self.uploads().join(id).join(crate::filename::on_disk(filename))
    }

    /// Name of this home's own tmux server (`tmux -L`): `leo` for `~/.leo`, else with a hash, so that
    /// two homes never share a server.
    pub fn tmux_server(&self) -> String {
        // By the user database, not by HOME: two homes of one user under different HOMEs must not meet.
        let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
        let default = user.map(|u| u.dir.join(".leo"));
        if default.as_deref() == Some(self.root.as_path()) {
            "leo".to_owned()
        } else {
            use std::os::unix::ffi::OsStrExt;
            format!("leo-{}", short_hash(self.root.as_os_str().as_bytes()))
        }
    }
}

fn short_hash(bytes: &[u8]) -> String {
    crate::id::hex(&Sha256::digest(bytes)[..4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_socket_fits_macos() {
        let home = Home::at(PathBuf::from(format!("/{}", "h".repeat(MAX_HOME_BYTES - 1)))).unwrap();
        let agent: AgentName = "a".repeat(63).parse().unwrap();
        for path in [
            home.mcp_socket(&agent),
            home.inbox_socket(&agent),
            home.bridge_socket(),
            home.http_socket(),
            home.agents_socket(),
            home.control_socket(),
            home.hub_socket(),
        ] {
            assert!(path.as_os_str().len() < 104, "{}", path.display());
        }
        assert!(Home::at(PathBuf::from(format!("/{}", "h".repeat(MAX_HOME_BYTES)))).is_err());
    }

    #[test]
    fn a_trailing_slash_is_the_same_home() {
        let (a, b) = (Home::at("/x/y/".into()).unwrap(), Home::at("/x/y".into()).unwrap());
        assert_eq!(a, b);
        assert_eq!(a.tmux_server(), b.tmux_server());
        assert!(Home::at("x".into()).is_err());
    }
}
