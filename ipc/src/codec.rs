//! MessagePack in and out: named maps only, so that fields can be added, and every byte accounted for.

use crate::IpcError;
use serde::{Serialize, de::DeserializeOwned};

/// Encodes a value as named MessagePack.
///
/// # Errors
/// When the value cannot be represented (for example a map with non-text keys inside JSON).
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, IpcError> {
    rmp_serde::to_vec_named(value)
        .map_err(|e| IpcError::Undecodable { what: format!("encoding failed: {e}") })
}

/// Decodes a value that must fill `bytes` to the end: the library alone would accept trailing bytes,
/// which would hide a framing mistake.
///
/// # Errors
/// When the bytes are not a `T`, are nested too deeply, or do not end with it.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, IpcError> {
    let mut cursor = std::io::Cursor::new(bytes);
    let mut de = rmp_serde::Deserializer::new(&mut cursor);
    // The library's own default is 1024 levels, which is more stack than a worker thread needs to risk.
    de.set_max_depth(MAX_DEPTH);
    let value = T::deserialize(&mut de).map_err(|e| IpcError::Undecodable {
        what: format!("not a {}: {e}", std::any::type_name::<T>().rsplit("::").next().unwrap_or("value")),
    })?;
    let used = usize::try_from(cursor.position()).unwrap_or(usize::MAX);
    if used != bytes.len() {
        return Err(IpcError::Undecodable {
            what: format!("{} trailing bytes", bytes.len().saturating_sub(used)),
        });
    }
    Ok(value)
}

/// Deepest nesting that a frame may have.
const MAX_DEPTH: usize = 128;
