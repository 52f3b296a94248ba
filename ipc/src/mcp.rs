//! Between the stdio shim and its agent's MCP worker: JSON-RPC lines, one a frame, after a hello that
//! proves who the agent is.

use serde::{Deserialize, Serialize};

/// Longest JSON-RPC line in bytes, in either direction: what rmcp and the clients accept. A tool's
/// result may hold an image.
pub const MAX_LINE: usize = 16 * 1024 * 1024;

/// Largest frame once the token was checked. Larger than on other sockets, because the line is the
/// payload; there are only an agent's own shims on it.
pub const MAX_LINE_FRAME: usize = MAX_LINE + 64 * 1024;

/// A frame from the shim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum FromShim {
    /// First: the launch's token. Nothing is answered before it was checked.
    Token {
        /// The token.
        token: String,
        /// The folder that the harness started the shim in, to which relative paths refer.
        #[serde(default)]
        cwd: Option<String>,
        /// Whether the caller is a dispatched subagent, which may not use the tools.
        #[serde(default)]
        dispatched: bool,
        /// The headless run that the harness is, if it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<crate::ask::Run>,
    },
    /// One JSON-RPC message from the harness.
    Line {
        /// The message, without its newline.
        json: String,
        /// The call's idempotency key, on requests: launch, shim and the request's number in it (a
        /// second shim of the same launch counts its JSON-RPC ids from the start again). The same key
        /// after a reconnect asks for the same call.
        #[serde(default)]
        call_key: Option<String>,
        /// Milliseconds since the call was first given to a worker: more than zero when it is given to
        /// another because that one was lost. What the call may still take is less by that much.
        #[serde(default, skip_serializing_if = "is_zero")]
        age_ms: u64,
    },
    /// A frame of a newer build; ignored.
    #[serde(other)]
    Unknown,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A frame to the shim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum ToShim {
    /// The token was good.
    Welcome {},
    /// The token was not; there is no use in trying again.
    Denied {
        /// A sentence.
        reason: String,
    },
    /// One JSON-RPC message for the harness.
    Line {
        /// The message, without its newline.
        json: String,
    },
    /// A frame of a newer build; ignored.
    #[serde(other)]
    Unknown,
}
