//! The settings and MCP servers that a launch adds to the person's own.

use serde_json::{Value, json};
use std::path::Path;

/// `--settings`: the hooks, which Claude appends to the person's own, and answers to its start-up
/// dialogs.
pub(super) fn settings(program: &str, permission_mode: &str, inbox: bool) -> Value {
    let mut settings = leo_hooks::claude_settings(Path::new(program));
    // With a renderer chosen, Claude does not offer the other one in a dialog at start.
    settings["tui"] = json!("default");
    // Messages in the peer inbox are Leo's, of a person who may write to this agent; Claude would hold
    // them in a dialog where the agent bypasses permissions.
    if inbox {
        settings["crossSessionInbound"] = json!("accept");
    }
    if permission_mode == "bypassPermissions" {
        // Whoever wrote this mode into the configuration has answered the dialog.
        settings["skipDangerousModePermissionPrompt"] = json!(true);
    }
    settings
}
