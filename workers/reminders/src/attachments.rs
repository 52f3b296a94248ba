//! Files that are no longer kept: the hub says which, and they are removed here. Removing again what is
//! gone does nothing, so it does not matter where this was stopped.

use leo_ipc::{
    IpcError,
    attachment::{PrunableFolder, PruneAttachments},
    client::Client,
    hub::HubRequest,
    paths::Home,
};
use std::{fs, io, path::Path, time::Duration};

/// How long the hub may take to name a batch, over its restarts.
const WITHIN: Duration = Duration::from_secs(60);

/// Most batches of one round, so that a folder that cannot be removed does not keep the round going.
const MAX_BATCHES: usize = 1000;

/// Removes what is due.
///
/// # Errors
/// When the hub could not be asked; the next round goes on.
pub(crate) async fn prune(home: &Home, hub: &Client<HubRequest>) -> Result<usize, IpcError> {
    let mut removed = Vec::new();
    let mut count = 0;
    for _ in 0..MAX_BATCHES {
        let told = std::mem::take(&mut removed);
        let batch = hub.call(PruneAttachments { removed: told }, WITHIN).await?.folders;
        removed =
            batch.iter().filter(|folder| remove(home, folder)).map(|folder| folder.id.clone()).collect();
        count += removed.len();
        // Nothing left, or nothing that can be removed.
        if removed.is_empty() {
            break;
        }
    }
    Ok(count)
}

/// Whether the folder is gone.
fn remove(home: &Home, folder: &PrunableFolder) -> bool {
    let path = Path::new(&folder.path);
    let ours = [home.attachments(), home.uploads()].iter().any(|root| path.starts_with(root));
    // The folder of one file is named by its id; anything else is not ours to remove.
    if !ours || !path.ends_with(&folder.id) {
        tracing::error!(path = folder.path, "the hub names a folder that is no file's; it stays");
        return false;
    }
    match fs::remove_dir_all(path) {
        Ok(()) => true,
        Err(e) if e.kind() == io::ErrorKind::NotFound => true,
        Err(e) => {
            tracing::warn!(path = folder.path, error = %e, "a file that is no longer kept cannot be removed");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home")).unwrap();
        let file = home.attachments().join("a").join("id1").join("x.png");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "x").unwrap();
        let folder =
            |id: &str, path: &Path| PrunableFolder { id: id.into(), path: path.display().to_string() };
        for (id, path) in
            [("state", home.state()), ("a", home.root().join("a")), ("id2", file.parent().unwrap().into())]
        {
            assert!(!remove(&home, &folder(id, &path)), "{}", path.display());
        }
        assert!(file.exists());
        assert!(remove(&home, &folder("id1", file.parent().unwrap())));
        assert!(!file.exists() && remove(&home, &folder("id1", file.parent().unwrap())), "gone is gone");
    }
}
