//! The hooks that Claude Code is told to call. They are passed on its command line (`--settings`) and
//! are merged with the person's own; no file of theirs is touched.

use crate::permission;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The events that we listen to, in Claude's spelling.
pub const CLAUDE_EVENTS: [&str; 11] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "PermissionRequest",
    "Stop",
    "StopFailure",
    "SessionEnd",
    "Notification",
];

/// Leo's own tools, in Claude's spelling. A person who runs an agent under Leo has already allowed it
/// to write into its own thread; a permission prompt for each word would be noise.
pub const CLAUDE_OWN_TOOLS: [&str; 7] = [
    "mcp__leo__leo_chat_post",
    "mcp__leo__leo_chat_ask",
    "mcp__leo__leo_chat_ask_withdraw",
    "mcp__leo__leo_chat_history",
    "mcp__leo__leo_chat_schedule",
    "mcp__leo__leo_chat_schedule_list",
    "mcp__leo__leo_chat_schedule_cancel",
];

/// Seconds after which Claude ends a hook of ours. The hook bounds itself to one second; this is for a
/// machine so loaded that it does not get that far.
const TIMEOUT_S: u64 = 5;

/// The same for the hook of a permission prompt, which waits for a person and bounds itself to about an
/// hour: a day, so that Claude's bound never comes first.
const PERMISSION_TIMEOUT_S: u64 = 86_400;

/// A settings object that makes Claude run `program hook` at every event of [`CLAUDE_EVENTS`] and
/// allows [`CLAUDE_OWN_TOOLS`] without asking. The caller may add further keys before it passes it to `--settings`.
///
/// The command is in exec form, with `args`, so that no shell is involved and a path with blanks needs
/// no quoting. A path that is not UTF-8 is written as well as it can be: JSON has no other text.
pub fn claude_settings(program: &Path) -> Value {
    let hook = |event: &str| {
        let timeout = if event == permission::EVENT { PERMISSION_TIMEOUT_S } else { TIMEOUT_S };
        json!({ "type": "command", "command": program.to_string_lossy(), "args": ["hook"], "timeout": timeout })
    };
    let hooks: Map<String, Value> = CLAUDE_EVENTS
        .iter()
        .map(|event| ((*event).to_owned(), json!([{ "hooks": [hook(event)] }])))
        .collect();
    json!({ "hooks": hooks, "permissions": { "allow": CLAUDE_OWN_TOOLS } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_runs_the_program_without_a_shell() {
        let settings = claude_settings(Path::new("/opt/a b/leo"));
        let hooks = settings["hooks"].as_object().unwrap();
        assert_eq!(hooks.len(), CLAUDE_EVENTS.len());
        for event in CLAUDE_EVENTS {
            let hook = &hooks[event][0]["hooks"][0];
            assert_eq!(hook["command"], "/opt/a b/leo", "{event}");
            assert_eq!(hook["args"], json!(["hook"]), "{event}");
            assert_eq!(hook["type"], "command", "{event}");
            let waits = event == "PermissionRequest";
            assert_eq!(hook["timeout"], if waits { 86_400 } else { 5 }, "{event}");
        }
    }
}
