//! `sessions/<pid>.json`, which Claude rewrites within 50 ms of every change of its state.

use super::version;
use crate::harness::{Session, Status};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The file has less than 1 KiB; a larger one is not what we think it is.
const MAX_BYTES: u64 = 64 * 1024;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    pid: u32,
    session_id: Option<String>,
    status: Option<String>,
    waiting_for: Option<String>,
    status_updated_at: Option<i64>,
    version: Option<String>,
    messaging_socket_path: Option<PathBuf>,
}

/// Reads the session file of the process `pid`. A file that is just being rewritten reads as absent
/// for a moment.
pub(super) fn read(path: &Path, pid: u32) -> Session {
    let small = std::fs::metadata(path).is_ok_and(|m| m.len() <= MAX_BYTES);
    let bytes = if small { std::fs::read(path).unwrap_or_default() } else { Vec::new() };
    parse(&bytes, pid).unwrap_or_default()
}

fn parse(bytes: &[u8], pid: u32) -> Option<Session> {
    let file: File = serde_json::from_slice(bytes).ok()?;
    if file.pid != pid {
        return None;
    }
    let status = match file.status.as_deref() {
        None => Status::Starting,
        // With a shell running in the background, the main loop is idle.
        Some("idle" | "shell") => Status::Idle,
        Some("waiting") => Status::Waiting(file.waiting_for.unwrap_or_default()),
        // A state of a newer version is not known to be safe to paste into.
        Some(_) => Status::Busy,
    };
    Some(Session {
        status,
        id: file.session_id,
        transcript: None,
        composer: None,
        changed_at_ms: file.status_updated_at,
        version: file.version.as_deref().and_then(version::parse),
        inbox: file.messaging_socket_path.filter(|path| path.is_absolute()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states() {
        let status_of = |json: &str| parse(json.as_bytes(), 7).unwrap_or_default().status;
        for (json, status) in [
            (r#"{"pid":7,"status":"idle"}"#, Status::Idle),
            (r#"{"pid":7,"status":"shell"}"#, Status::Idle),
            (r#"{"pid":7,"status":"busy","name":{"odd":1}}"#, Status::Busy),
            (r#"{"pid":7,"status":"dreaming"}"#, Status::Busy),
            (r#"{"pid":7,"status":null}"#, Status::Starting),
            (r#"{"pid":7}"#, Status::Starting),
            (
                r#"{"pid":7,"status":"waiting","waitingFor":"permission prompt"}"#,
                Status::Waiting("permission prompt".to_owned()),
            ),
            (r#"{"pid":7,"status":"waiting"}"#, Status::Waiting(String::new())),
            (r#"{"pid":8,"status":"idle"}"#, Status::Absent),
            (r#"{"pid":7,"status":"id"#, Status::Absent),
            ("", Status::Absent),
        ] {
            assert_eq!(status_of(json), status, "{json}");
        }
        assert_eq!(read(Path::new("/no/such/file"), 7), Session::default());
    }
}
