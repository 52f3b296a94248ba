//! The mod that Claude loads (`--plugin-dir`): its files, carried in this binary and written once for
//! each content. Claude writes types of its own beside them, which are none of our business.

use sha2::{Digest, Sha256};
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// The first Claude that runs mods of this kind (Claude Code 2.1.287).
pub const FIRST_CLAUDE: [u32; 3] = [2, 1, 287];

macro_rules! files {
    ($($path:literal),* $(,)?) => { [$(($path, include_str!(concat!("../mod/", $path)))),*] };
}

/// Path below the mod's folder, and content.
const FILES: [(&str, &str); 6] = files![
    ".claude-plugin/plugin.json",
    "hooks/hooks.json",
    "hooks/register.ts",
    "hooks/line.ts",
    "hooks/commands.ts",
    "types/leo.d.ts",
];

/// The hash of all files, which names the folder.
fn version() -> String {
    let mut hash = Sha256::new();
    for (path, text) in FILES {
        hash.update(path.len().to_le_bytes());
        hash.update(path);
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    leo_ipc::id::hex(&hash.finalize()[..8])
}

/// Makes sure that the mod lies below `mods`, and returns its folder. A folder once made is never
/// changed, since sessions that run have it loaded and would load it again.
///
/// # Errors
/// When it cannot be written.
pub fn write_mod(mods: &Path) -> io::Result<PathBuf> {
    let folder = mods.join(version());
    if is_whole(&folder) {
        return Ok(folder);
    }
    let made = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made(mods)?;
    let partial = mods.join(format!("{}.{}.partial", version(), std::process::id()));
    discard(&partial)?;
    for (path, text) in FILES {
        let path = partial.join(path);
        path.parent().map_or(Ok(()), made)?;
        let mut file = fs::File::create_new(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
    }
    if folder.exists() {
        // Somebody has changed or removed files of it.
        discard(&folder)?;
    }
    match fs::rename(&partial, &folder) {
        Ok(()) => Ok(folder),
        // Another process was quicker.
        Err(_) if is_whole(&folder) => discard(&partial).map(|()| folder),
        Err(e) => Err(e),
    }
}

fn is_whole(folder: &Path) -> bool {
    FILES.iter().all(|(path, text)| fs::read(folder.join(path)).is_ok_and(|found| found == text.as_bytes()))
}

fn discard(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_mod_is_written_once_and_whole() {
        let home = tempfile::tempdir().unwrap();
        let mods = home.path().join("state/mods");
        let folder = write_mod(&mods).unwrap();
        let inode = || fs::metadata(folder.join("hooks/register.ts")).unwrap().ino();
        let first = inode();
        // What Claude writes beside our files changes nothing.
        fs::create_dir_all(folder.join(".claude-plugin/types")).unwrap();
        fs::write(folder.join("tsconfig.json"), "{}").unwrap();
        assert_eq!(write_mod(&mods).unwrap(), folder);
        assert_eq!(inode(), first);
        // A file that was changed is replaced with all the others.
        fs::write(folder.join("hooks/line.ts"), "broken").unwrap();
        assert_eq!(write_mod(&mods).unwrap(), folder);
        assert!(is_whole(&folder));
        assert_eq!(fs::read_dir(&mods).unwrap().count(), 1, "nothing half made stays");
    }

    #[test]
    fn every_file_of_the_mod_is_carried() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("mod");
        let mut folders = vec![root.clone()];
        let mut found = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                    assert!(FILES.iter().any(|(file, _)| *file == name), "{name}");
                    found += 1;
                }
            }
        }
        assert_eq!(found, FILES.len());
    }
}
