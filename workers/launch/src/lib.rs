//! What every process of an agent gets from us, whichever worker starts it: its environment, the ties
//! that its hooks and tools find us by, our MCP server, and files that only this user can read.
//!
//! It must not start anything, and must not know why something is started.

mod env;
mod private;

pub use env::{Env, Ties, fallback_locale, find_program, for_agent, is_name, ours};
pub use private::write_private;

use serde_json::{Value, json};

/// Milliseconds that a harness waits for one of our tools: above the 30 minutes that a tool itself waits
/// for a person (WIRE.md §3), so that the tool decides.
pub const TOOL_TIMEOUT_MS: u32 = 32 * 60 * 1000;

/// The value of Claude's `--mcp-config`: our server, beside the person's own.
pub fn claude_mcp(ties: &Ties) -> Value {
    json!({ "mcpServers": { "leo": {
        "command": ties.program, "args": ["mcp-server"], "env": ties.vars(), "timeout": TOOL_TIMEOUT_MS,
    } } })
}
