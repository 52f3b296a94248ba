//! The listening sockets of a home: bound once, held for the supervisor's life, handed to workers as
//! duplicates, and unlinked only here. While they are held no connection is refused, whoever dies.
//!
//! Everything here runs with the home's lock held, which is what makes it safe to replace a socket file
//! that an earlier supervisor left behind.

use leo_ipc::{AgentName, config::Web, paths::Home};
use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    net::SocketAddr,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
};

/// Connections that may wait for the http worker on TCP while it is being replaced; the system caps it.
/// Unix sockets get the system's maximum from std.
const TCP_BACKLOG: u32 = 1024;

/// Why the home's folders or sockets cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    /// A folder cannot be made or made private.
    #[error("the folder {} cannot be used: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder of ours belongs to somebody else.
    #[error("the folder {} belongs to user {owner}: remove it, or use another LEO_HOME", path.display())]
    ForeignFolder {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Something else is where a socket should be.
    #[error("{} is not a socket: move it away", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A unix socket cannot be bound.
    #[error("the socket {} cannot be made: {source}", path.display())]
    Bind {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The TCP address cannot be bound.
    #[error("cannot listen on {address}: {source}; choose another port with web.port in {}", config.display())]
    Tcp {
        /// The address.
        address: String,
        /// The configuration file.
        config: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Makes the home's own folders, private to this user.
///
/// # Errors
/// When one cannot be made, or belongs to somebody else.
pub(crate) fn prepare_folders(home: &Home) -> Result<(), SocketError> {
    let folder = |path: &Path, source| SocketError::Folder { path: path.to_owned(), source };
    // The home itself may be a folder that the person shares; only ours below it are made private.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(home.root())
        .map_err(|source| folder(home.root(), source))?;
    for path in [home.state(), home.run(), home.logs()] {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|source| folder(&path, source))?;
        let meta = fs::metadata(&path).map_err(|source| folder(&path, source))?;
        if meta.uid() != nix::unistd::geteuid().as_raw() {
            return Err(SocketError::ForeignFolder { path, owner: meta.uid() });
        }
        if meta.mode() & 0o077 != 0 {
            fs::set_permissions(&path, Permissions::from_mode(0o700))
                .map_err(|source| folder(&path, source))?;
        }
    }
    Ok(())
}

/// A unix listener with its file, which goes when this is dropped.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode, so that only our own file is ever removed.
    file: (u64, u64),
}

impl UnixSocket {
    /// Binds `path`, replacing a socket that an earlier supervisor left.
    ///
    /// # Errors
    /// When something that is not a socket is there, or the system refuses.
    pub(crate) fn bind(path: PathBuf) -> Result<UnixSocket, SocketError> {
        let bind = |path: &Path, source| SocketError::Bind { path: path.to_owned(), source };
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.file_type().is_socket() => {
                fs::remove_file(&path).map_err(|source| bind(&path, source))?;
            }
            Ok(_) => return Err(SocketError::NotASocket { path }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(bind(&path, source)),
        }
        let made = UnixListener::bind(&path).and_then(|listener| {
            listener.set_nonblocking(true)?;
            // The folder is private already; this is the second lock on the door.
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            let meta = fs::symlink_metadata(&path)?;
            Ok((listener, (meta.dev(), meta.ino())))
        });
        match made {
            Ok((listener, file)) => Ok(UnixSocket { listener, path, file }),
            Err(source) => Err(bind(&path, source)),
        }
    }

    /// A duplicate of the listener.
    ///
    /// # Errors
    /// When no descriptor is free.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        Ok(self.listener.try_clone()?.into())
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.file);
        if ours && let Err(e) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), error = %e, "a socket file stays behind");
        }
    }
}

/// Removes the sockets of MCP workers that an earlier supervisor left: which of them are wanted is
/// known only when the agents worker says so, and a dead one would look like a daemon that is down.
pub(crate) fn remove_dead_mcp_sockets(home: &Home) {
    let Ok(entries) = fs::read_dir(home.run()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|n| n.starts_with("m-") && n.ends_with(".sock"));
        if ours && entry.file_type().is_ok_and(|t| t.is_socket()) {
            // One that stays is replaced when its agent is there again.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The socket of an agent's MCP worker.
///
/// # Errors
/// As [`UnixSocket::bind`].
pub(crate) fn bind_mcp(home: &Home, agent: &AgentName) -> Result<UnixSocket, SocketError> {
    UnixSocket::bind(home.mcp_socket(agent))
}

/// Binds the TCP address; `None` when it is switched off. Must be called inside a tokio runtime.
///
/// # Errors
/// When the address is taken or not ours.
pub(crate) fn bind_tcp(home: &Home, web: &Web) -> Result<Option<std::net::TcpListener>, SocketError> {
    if !web.enabled {
        return Ok(None);
    }
    let refused = |source| SocketError::Tcp {
        address: format!("{}:{}", web.bind, web.port),
        config: home.config(),
        source,
    };
    let address: SocketAddr = crate::config::bind_address(web)
        .map_err(|_| refused(io::Error::new(io::ErrorKind::InvalidInput, "not an IP address")))?;
    let listen = || {
        let socket = if address.is_ipv4() {
            tokio::net::TcpSocket::new_v4()?
        } else {
            tokio::net::TcpSocket::new_v6()?
        };
        // A supervisor that was killed leaves connections in TIME_WAIT; its successor must not wait.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(TCP_BACKLOG)?.into_std()
    };
    listen().map(Some).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn replaces_a_dead_socket_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(UnixStream::connect(&path).is_err(), "a dead socket file is there");

        let socket = UnixSocket::bind(path.clone()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        // The duplicate keeps the queue alive, the file is the holder's.
        let copy = socket.duplicate().unwrap();
        drop(copy);
        UnixStream::connect(&path).unwrap();
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn refuses_what_is_not_a_socket_and_leaves_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "precious").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        for path in [file.clone(), link, folder] {
            let said = UnixSocket::bind(path.clone()).unwrap_err().to_string();
            assert_eq!(said, format!("{} is not a socket: move it away", path.display()));
        }
        assert_eq!(fs::read_to_string(file).unwrap(), "precious");
    }

    #[test]
    fn does_not_remove_a_successors_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        let first = UnixSocket::bind(path.clone()).unwrap();
        fs::remove_file(&path).unwrap();
        // Keeps the inode from being used again.
        let _other = UnixListener::bind(dir.path().join("y.sock")).unwrap();
        let _second = UnixListener::bind(&path).unwrap();
        drop(first);
        assert!(path.exists());
    }

    #[test]
    fn folders_are_private_and_old_mcp_sockets_go() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("h")).unwrap();
        fs::create_dir_all(home.run()).unwrap();
        fs::set_permissions(home.run(), Permissions::from_mode(0o755)).unwrap();
        prepare_folders(&home).unwrap();
        for path in [home.run(), home.state(), home.logs()] {
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700, "{}", path.display());
        }
        let agent: AgentName = "a".parse().unwrap();
        drop(UnixListener::bind(home.mcp_socket(&agent)).unwrap());
        fs::write(home.run().join("m-note.sock"), "not a socket").unwrap();
        remove_dead_mcp_sockets(&home);
        assert!(!home.mcp_socket(&agent).exists());
        assert!(home.run().join("m-note.sock").exists());
    }

    #[tokio::test]
    async fn tcp_says_what_to_change() {
        let home = Home::at("/h".into()).unwrap();
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let web = Web { port: taken.local_addr().unwrap().port(), ..Web::default() };
        let said = bind_tcp(&home, &web).unwrap_err().to_string();
        assert!(said.contains("web.port in /h/leo.yaml"), "{said}");
        assert!(bind_tcp(&home, &Web { enabled: false, ..web }).unwrap().is_none());
        assert!(bind_tcp(&home, &Web { port: 0, ..Web::default() }).unwrap().is_some());
    }
}
