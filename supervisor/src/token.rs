//! The operator's token: made once, then only read. It is never replaced by itself, since every app and
//! bookmark of the person holds it.

use leo_ipc::{id::fresh_token, paths::Home};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::PathBuf,
};

/// Characters of a token.
const LENGTH: usize = 64;

/// Why the token cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// It is not there, in a command that only reads it.
    #[error("there is no operator token at {}: `leo up` makes one", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// Others could read it.
    #[error("the operator token {} can be read by others (mode {mode:03o}): run `chmod 600 {}`, and replace the token if others use this machine", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It holds something else.
    #[error("the operator token {} does not hold {LENGTH} hexadecimal characters: restore it, or remove it to get a new one (apps then have to log in again)", path.display())]
    Garbled {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("the operator token {} cannot be used: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The token of a home; made when there is none. The home's `state` folder must exist.
///
/// # Errors
/// When the file is there and cannot be trusted.
pub(crate) fn ensure(home: &Home) -> Result<String, TokenError> {
    match read(home) {
        Err(TokenError::Missing { path }) => {
            make(home).map_err(|source| TokenError::Io { path, source })?;
            read(home)
        }
        other => other,
    }
}

/// The token of a home.
///
/// # Errors
/// As [`ensure`], and when there is none.
pub(crate) fn read(home: &Home) -> Result<String, TokenError> {
    let path = home.operator_token();
    let io = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => TokenError::Missing { path: path.clone() },
        _ => TokenError::Io { path: path.clone(), source },
    };
    let file = File::open(&path).map_err(io)?;
    let mode = file.metadata().map_err(io)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(TokenError::Exposed { path, mode });
    }
    let mut text = String::new();
    // One byte more than a token and its newline, so that a longer file is seen to be longer.
    if file.take(LENGTH as u64 + 2).read_to_string(&mut text).is_err() {
        return Err(TokenError::Garbled { path });
    }
    let token = text.trim_end_matches('\n');
    if token.len() != LENGTH || !token.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(TokenError::Garbled { path });
    }
    Ok(token.to_owned())
}

/// Writes a new token beside its place and links it there: a crash leaves a whole file or none, and a
/// file that appeared meanwhile is kept.
fn make(home: &Home) -> io::Result<()> {
    let path = home.operator_token();
    let beside = path.with_extension(format!("new.{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    let linked = writeln!(file, "{}", fresh_token())
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::hard_link(&beside, &path));
    std::fs::remove_file(&beside)?;
    match linked {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn home(dir: &tempfile::TempDir) -> Home {
        let home = Home::at(dir.path().to_owned()).unwrap();
        std::fs::create_dir_all(home.state()).unwrap();
        home
    }

    #[test]
    fn is_made_once_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let home = home(&dir);
        assert!(matches!(read(&home), Err(TokenError::Missing { .. })));
        let token = ensure(&home).unwrap();
        assert_eq!(token.len(), LENGTH);
        assert_eq!(ensure(&home).unwrap(), token);
        let mode = std::fs::metadata(home.operator_token()).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let names: Vec<_> =
            std::fs::read_dir(home.state()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["api.token"]);
    }

    #[test]
    fn a_bad_file_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let home = home(&dir);
        let path = home.operator_token();
        for content in
            ["", "\n", "short", &"g".repeat(64), &"a".repeat(65), &format!("{}\nx", "a".repeat(64))]
        {
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            assert!(matches!(ensure(&home), Err(TokenError::Garbled { .. })), "{content:?}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        std::fs::write(&path, "a".repeat(64)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let said = ensure(&home).unwrap_err().to_string();
        assert!(said.contains("mode 644") && said.contains("chmod 600"), "{said}");
    }
}
