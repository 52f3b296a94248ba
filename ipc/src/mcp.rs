//! Between the stdio shim and its agent's MCP worker: JSON-RPC lines, one a frame, after a hello that
//! proves who the agent is.

use serde::{Deserialize, Serialize};

/// A frame from the shim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum FromShim {
    /// First: the launch's token. Nothing is answered before it was checked.
    Token {
        /// The token.
        token: String,
    },
    /// One JSON-RPC message from the harness.
    Line {
        /// The message, without its newline.
        json: String,
        /// The call's idempotency key, on requests: (launch, JSON-RPC id). The same key after a
        /// reconnect asks for the same call.
        #[serde(default)]
        call_key: Option<String>,
    },
    /// A frame of a newer build; ignored.
    #[serde(other)]
    Unknown,
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
