//! The settings and MCP servers that a launch adds to the person's own.

use crate::env::Ties;
use serde_json::{Value, json};

/// The hooks we listen to. Each starts a short-lived `leo hook`.
const HOOKS: [&str; 9] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "StopFailure",
    "SessionEnd",
    "Notification",
];

/// Seconds after which Claude gives up on a hook. `leo hook` itself ends within one.
const HOOK_TIMEOUT_S: u32 = 5;

/// Milliseconds that Claude waits for one of our tools: above the 30 minutes that a tool itself waits
/// for a person (WIRE.md §3), so that the tool decides.
const TOOL_TIMEOUT_MS: u32 = 32 * 60 * 1000;

/// `--settings`: Claude appends these hooks to the person's own.
pub(super) fn settings(program: &str, permission_mode: &str) -> Value {
    let hook = json!([{ "hooks": [{
        "type": "command", "command": program, "args": ["hook"], "timeout": HOOK_TIMEOUT_S,
    }] }]);
    let hooks: serde_json::Map<String, Value> =
        HOOKS.map(|name| (name.to_owned(), hook.clone())).into_iter().collect();
    // With a renderer chosen, Claude does not offer the other one in a dialog at start.
    let mut settings = json!({ "hooks": hooks, "tui": "default" });
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
