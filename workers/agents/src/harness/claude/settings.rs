//! The settings and MCP servers that a launch adds to the person's own.

use serde_json::{Value, json};
use std::path::Path;

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
