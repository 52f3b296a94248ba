//! MCP: the worker that answers one agent's tool calls, and the stdio shim that the agent's harness
//! starts. Messages and questions are kept by the hub, never here.

mod protocol;
mod server;
mod session;
mod shim;
mod tools;
mod worker;

pub use shim::shim;
pub use worker::worker;
