//! The wait for the hub's decision, over the hub's restarts: the same key on a new connection is the
//! same prompt.

use leo_ipc::{
    Call, Envelope, Fault, IpcError, Kind,
    ask::{AskPermission, Decision},
    blocking, codec,
    frame::{self, MAX_FRAME},
    hello::Role,
};
use std::{
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

/// How long to look for a hub that is not there, at first and whenever it was lost: the hub keeps the
/// prompt as long (WIRE.md §2).
const ATTACH_WITHIN: Duration = Duration::from_secs(15);

/// The same at first for a subagent's prompt: its dialog is not shown while the hook runs, so without a
/// daemon the person in the terminal would wait for nothing.
const SUBAGENT_ATTACH_WITHIN: Duration = Duration::from_secs(2);

/// A connection that lasted this long was good, and losing it opens a new window. One that is refused
/// again and again must not.
const STEADY: Duration = Duration::from_secs(1);

/// Pause before connecting again.
const PAUSE: Duration = Duration::from_millis(50);

/// How long the hub may take to read the request.
const WRITE_WITHIN: Duration = Duration::from_secs(10);

/// Asks until there is an answer, however long that takes; none when the hub refuses, or cannot be
/// reached for [`ATTACH_WITHIN`].
pub(super) fn ask(hub: &Path, ask: &AskPermission) -> Option<Decision> {
    let body = codec::encode(&ask.clone().into_request()).ok()?;
    let request = codec::encode(&Envelope { kind: Kind::Request, id: 1, body }).ok()?;
    let first = if ask.agent_id.is_some() { SUBAGENT_ATTACH_WITHIN } else { ATTACH_WITHIN };
    let mut until = Instant::now() + first;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let error = match blocking::connect_to(hub, Role::Hook, left) {
            Ok(socket) => {
                let attached = Instant::now();
                match exchange(&socket, &request) {
                    Ok(decision) => return Some(decision),
                    Err(error) => {
                        if attached.elapsed() >= STEADY {
                            until = Instant::now() + ATTACH_WITHIN;
                        }
                        error
                    }
                }
            }
            Err(error) => error,
        };
        if !may_pass(&error) {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether a later attempt may fare better.
fn may_pass(error: &IpcError) -> bool {
    match error {
        IpcError::Fault(Fault { code, .. }) => code == "unavailable",
        IpcError::Deadline { .. } => true,
        other => other.is_retryable(),
    }
}

fn exchange(socket: &UnixStream, request: &[u8]) -> Result<Decision, IpcError> {
    let mut stream = socket;
    stream
        .set_write_timeout(Some(WRITE_WITHIN))
        .map_err(|source| IpcError::Io { doing: "setting a timeout", source })?;
    frame::write_blocking(&mut stream, request, MAX_FRAME)?;
    loop {
        let bytes = frame::read_blocking(&mut stream, MAX_FRAME)?.ok_or(IpcError::Closed)?;
        let envelope: Envelope = codec::decode(&bytes)?;
        match envelope.kind {
            Kind::Reply => return codec::decode(&envelope.body),
            Kind::Fault => return Err(IpcError::Fault(codec::decode(&envelope.body)?)),
            _ => {}
        }
    }
}
