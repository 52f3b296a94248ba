//! The settings and MCP servers that a launch adds to the person's own.

use crate::env::Ties;
use serde_json::{Value, json};
use std::path::Path;

/// Milliseconds that Claude waits for one of our tools: above the 30 minutes that a tool itself waits
/// for a person (WIRE.md §3), so that the tool decides.
const TOOL_TIMEOUT_MS: u32 = 32 * 60 * 1000;

/// `--settings`: the hooks, which Claude appends to the person's own, and answers to its start-up
/// dialogs.
pub(super) fn settings(program: &str, permission_mode: &str) -> Value {
    let mut settings = leo_hooks::claude_settings(Path::new(program));
    // With a renderer chosen, Claude does not offer the other one in a dialog at start.
    settings["tui"] = json!("default");
    if permission_mode == "bypassPermissions" {
        // Whoever wrote this mode into the configuration has answered the dialog.
        settings["skipDangerousModePermissionPrompt"] = json!(true);
    }
    settings
}

/// `--mcp-config`: our server, beside the person's own.
pub(super) fn mcp(ties: &Ties) -> Value {
    json!({ "mcpServers": { "leo": {
        "command": ties.program, "args": ["mcp-server"], "env": ties.vars(), "timeout": TOOL_TIMEOUT_MS,
    } } })
}
