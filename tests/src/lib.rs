//! The harness of the end-to-end tests: a home of its own, the real `leo` in it, a scripted model for
//! the real agents, and waiting for conditions.
//!
//! Tests speak to Leo only from outside: HTTP, SSE, MCP, the command line, tmux and signals. Nothing
//! here reaches into another crate's private functions.

pub mod agents;
pub mod files;
pub mod http;
pub mod leo;
pub mod mcp;
pub mod model;
pub mod procs;
pub mod speech;
pub mod sse;
pub mod tasks;
pub mod tmux;
pub mod wait;

pub use http::Api;
pub use leo::{Builder, Leo};
pub use wait::wait_for;
