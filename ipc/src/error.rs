//! Errors of the wire: [`IpcError`] when a call could not be made, [`Fault`] when the peer refused it.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A refusal by the peer: typed, with a sentence for a person. `code` is the snake_case code of
/// WIRE.md, which the HTTP worker passes on unchanged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Machine-readable code, such as `unknown_agent`.
    pub code: String,
    /// One sentence that says what and where.
    pub message: String,
    /// What the refusal is about, where a client can use it (the settled message of a 409).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

impl Fault {
    /// A refusal with a code and a sentence.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault { code: code.into(), message: message.into(), data: None }
    }

    /// The same refusal with data attached.
    pub fn with_data(mut self, data: serde_json::Value) -> Fault {
        self.data = Some(data);
        self
    }

    /// A request that the peer could not read; says where.
    pub fn bad_request(message: impl Into<String>) -> Fault {
        Fault::new("bad_request", message)
    }

    /// A bug or a broken disk on the peer's side; the message must not quote user data.
    pub fn internal(message: impl Into<String>) -> Fault {
        Fault::new("internal", message)
    }

    /// The part of the system that could answer is not there right now.
    pub fn unavailable(message: impl Into<String>) -> Fault {
        Fault::new("unavailable", message)
    }
}

/// Why a call did not get an answer.
#[derive(Debug, thiserror::Error)]
pub enum IpcError {
    /// No socket, or nobody accepts on it.
    #[error("cannot connect to {}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Reading or writing failed after the connection was made.
    #[error("connection broke while {doing}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The peer closed the connection.
    #[error("the peer closed the connection")]
    Closed,
    /// A frame is larger than the limit in force.
    #[error("a frame of {size} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Announced size in bytes.
        size: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// A frame does not hold what it should.
    #[error("a frame cannot be read: {what}")]
    Undecodable {
        /// What was expected and what was found.
        what: String,
    },
    /// The peer speaks no version that we speak, or is not the one we wanted.
    #[error("the peer refused the connection: {reason}")]
    Refused {
        /// The peer's sentence.
        reason: String,
    },
    /// The peer belongs to another user.
    #[error("the peer runs as user {found}, expected {expected}")]
    WrongUser {
        /// Its effective uid.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// No answer within the caller's deadline.
    #[error("no answer within {ms} ms")]
    Deadline {
        /// The deadline in milliseconds.
        ms: u64,
    },
    /// The peer answered with a refusal.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl IpcError {
    /// The refusal that stands for this error on the next wire up.
    pub fn into_fault(self) -> Fault {
        match self {
            IpcError::Fault(fault) => fault,
            IpcError::TooLarge { .. } => Fault::new("too_large", self.to_string()),
            IpcError::Undecodable { .. } => Fault::internal(self.to_string()),
            other => Fault::unavailable(other.to_string()),
        }
    }

    /// Whether asking again on a fresh connection may help.
    pub fn is_retryable(&self) -> bool {
        matches!(self, IpcError::Connect { .. } | IpcError::Io { .. } | IpcError::Closed)
    }
}
