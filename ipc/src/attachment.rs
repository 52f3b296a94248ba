//! Files on their way: uploads that wait for their message, and the end of files that are no longer
//! kept. An upload's bytes never cross a socket: whoever receives them writes `<home>/state/chat/uploads/
//! <id>.part`, and the hub moves that into place.

use crate::{AgentName, CallKey, chat::Attachment};
use serde::{Deserialize, Serialize};

/// Most files of one message from an app; as many as `leo_chat_post` may have.
pub const MAX_FILES: usize = crate::chat::MAX_POST_FILES;

/// Largest upload in bytes (WIRE.md §1).
pub const MAX_UPLOAD_BYTES: u64 = 100 * 1024 * 1024;

/// Longest file name as people see it, in bytes. File systems stop at 255; the rest is for names that
/// other systems write in fewer.
pub const MAX_FILENAME: usize = 1024;

/// Asks whether an upload may begin, before its bytes are taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginUpload {
    /// The upload's idempotency key.
    pub key: CallKey,
    /// The thread that it is meant for; any when absent.
    #[serde(default)]
    pub agent: Option<AgentName>,
}

/// Answer to [`BeginUpload`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UploadBegun {
    /// What the same key has uploaded before: there is nothing to send.
    #[serde(default)]
    pub existing: Option<Attachment>,
}

/// An upload whose bytes are complete and on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddUpload {
    /// Its id, which names its file: chosen by who received it.
    pub id: String,
    /// The same key is the same upload.
    pub key: CallKey,
    /// The thread that it is meant for; the first message's that sends it when absent.
    #[serde(default)]
    pub agent: Option<AgentName>,
    /// Its name as the sender gave it.
    pub filename: String,
    /// Media type that the sender gave.
    #[serde(default)]
    pub mime: Option<String>,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the bytes, as hexadecimal.
    pub sha256: String,
}

/// Answer to [`AddUpload`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uploaded {
    /// The file.
    pub attachment: Attachment,
    /// False when the same key had uploaded it before.
    pub created: bool,
}

/// Asks for files that are no longer kept. The hub marks them first and names them until it is told that
/// they are gone, so that neither a crash before nor one after the removal leaves anything behind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PruneAttachments {
    /// Ids of an earlier answer whose folders were removed.
    #[serde(default)]
    pub removed: Vec<String>,
}

/// Answer to [`PruneAttachments`]: a batch; empty when nothing is left to do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Prunable {
    /// What to remove, with all that is in it.
    pub folders: Vec<PrunableFolder>,
}

/// A folder of a file that is no longer kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrunableFolder {
    /// The file's id, to be told back.
    pub id: String,
    /// Absolute path, below `<home>/state/chat`.
    pub path: String,
}
