//! The only crate that knows the wire between Leo's processes: framing, handshake, the types that
//! cross it, the client and server halves, process exit codes, ids and the layout of a home folder.
//!
//! It must not touch the database or hold domain decisions, and its blocking half (for `leo hook`)
//! needs no async runtime. A change to a type here must keep yesterday's frames readable: see
//! [`version`] and the golden frames under `ipc/fixtures`.

pub mod agent;
pub mod agents;
pub mod api_client;
pub mod ask;
pub mod attachment;
pub mod blocking;
pub mod chat;
#[cfg(feature = "async")]
pub mod client;
pub mod codec;
pub mod config;
pub mod control;
pub mod delivery;
pub mod error;
pub mod event;
pub mod exit;
pub mod filename;
pub mod frame;
pub mod hello;
pub mod hook;
pub mod hub;
pub mod id;
pub mod mcp;
#[cfg(feature = "async")]
mod outbox;
pub mod paths;
pub mod prompt;
pub mod reminder;
mod rpc;
#[cfg(feature = "async")]
pub mod server;
pub mod task;
pub mod time;
pub mod version;
pub mod voice;

pub use api_client::ClientName;
pub use error::{Fault, IpcError};
pub use exit::ExitCode;
pub use id::{AgentName, CallKey, EventId, Generation, LaunchId, MessageId};
pub use rpc::{Call, Done, Envelope, Kind, Streaming};
pub use task::TaskName;
pub use time::Time;
