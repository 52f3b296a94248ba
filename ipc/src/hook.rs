//! What a harness's hooks report, reduced to what we use, and the hook's request to the hub.

use crate::{CallKey, IpcError};
use serde::{Deserialize, Serialize};

/// Longest text field that a hook passes on. The hub's frames hold 1 MiB.
pub const MAX_HOOK_TEXT: usize = 640 * 1024;

/// One hook event (`claude_facts.md` §1). Fields that an event lacks are absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HookEvent {
    /// `SessionStart`, `UserPromptSubmit`, `Stop`, …
    pub name: String,
    /// The harness's session.
    pub session_id: Option<String>,
    /// The session's transcript.
    pub transcript_path: Option<String>,
    /// The prompt of the turn.
    pub prompt_id: Option<String>,
    /// `UserPromptSubmit`: the text.
    pub prompt: Option<String>,
    /// `Stop`, `StopFailure`: the final message.
    pub last_assistant_message: Option<String>,
    /// `StopFailure`, `PostToolUseFailure`: the error.
    pub error: Option<String>,
    /// `SessionStart`: startup, resume, clear, compact.
    pub source: Option<String>,
    /// `SessionEnd`: why.
    pub reason: Option<String>,
    /// Tool events: the tool.
    pub tool_name: Option<String>,
    /// Tool events: the call.
    pub tool_use_id: Option<String>,
    /// `PostToolBatch`: the calls of the batch.
    pub tool_use_ids: Vec<String>,
    /// Tool events: SHA-256 of the canonical input, which tells parallel calls apart.
    pub input_hash: Option<String>,
    /// Present inside a subagent.
    pub agent_id: Option<String>,
    /// `Notification`: its text.
    pub message: Option<String>,
    /// `Notification`: its type.
    pub notification_type: Option<String>,
    /// `default`, `acceptEdits`, `plan`, `bypassPermissions`, …
    pub permission_mode: Option<String>,
    /// Whether a text above was cut to [`MAX_HOOK_TEXT`].
    pub truncated: bool,
}

impl HookEvent {
    /// Reads the JSON that a harness gives its hook on standard input.
    ///
    /// # Errors
    /// When it is not a JSON object with an event name.
    pub fn from_json(bytes: &[u8]) -> Result<HookEvent, IpcError> {
        let undecodable = |what: String| IpcError::Undecodable { what };
        let input: serde_json::Value =
            serde_json::from_slice(bytes).map_err(|e| undecodable(format!("hook input: {e}")))?;
        // Field by field: a harness that changes the type of one field must not cost the event.
        let text = |key: &str| input.get(key).and_then(serde_json::Value::as_str).map(str::to_owned);
        let name = text("hook_event_name")
            .filter(|name| !name.is_empty())
            .ok_or_else(|| undecodable("hook input has no hook_event_name".to_owned()))?;
        let mut event = HookEvent {
            name,
            session_id: text("session_id"),
            transcript_path: text("transcript_path"),
            prompt_id: text("prompt_id"),
            prompt: text("prompt"),
            last_assistant_message: text("last_assistant_message"),
            error: text("error"),
            source: text("source"),
            reason: text("reason"),
            tool_name: text("tool_name"),
            tool_use_id: text("tool_use_id"),
            tool_use_ids: batch(&input),
            input_hash: input.get("tool_input").map(crate::ask::input_hash),
            agent_id: text("agent_id"),
            message: text("message"),
            notification_type: text("notification_type"),
            permission_mode: text("permission_mode"),
            truncated: false,
        };
        for text in
            [&mut event.prompt, &mut event.last_assistant_message, &mut event.error, &mut event.message]
                .into_iter()
                .flatten()
        {
            if text.len() > MAX_HOOK_TEXT {
                let mut cut = MAX_HOOK_TEXT;
                while !text.is_char_boundary(cut) {
                    cut -= 1;
                }
                text.truncate(cut);
                event.truncated = true;
            }
        }
        Ok(event)
    }
}

/// The calls of a `PostToolBatch`.
fn batch(input: &serde_json::Value) -> Vec<String> {
    let calls = input.get("tool_calls").and_then(serde_json::Value::as_array).into_iter().flatten();
    calls.filter_map(|call| call.get("tool_use_id")?.as_str().map(str::to_owned)).collect()
}

/// A hook's request to the hub. Whose agent it is follows from the token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportHook {
    /// Fresh per hook process; the same key reports the same event.
    pub hook_key: CallKey,
    /// The launch's token.
    pub token: String,
    /// Milliseconds since 1970 when the hook was started.
    pub at_ms: i64,
    /// What happened.
    pub event: HookEvent,
    /// Who saw it.
    #[serde(default)]
    pub source: Source,
}

/// Who reports an event of a harness. Claude tells both its hooks and the mod inside it of the same
/// events; each counts once, whoever brings it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A process that the harness started for the event.
    #[default]
    Hook,
    /// The mod inside Claude.
    Bridge,
}

/// The name of an event that only the mod sees: the main turn of its `prompt_id` was interrupted.
pub const TURN_ABORTED: &str = "TurnAborted";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_claudes_payload_and_ignores_the_rest() {
        let event = HookEvent::from_json(
            br#"{"session_id":"s","hook_event_name":"Stop","prompt_id":"p","effort":{"level":"medium"},
                "last_assistant_message":"done","background_tasks":[]}"#,
        )
        .unwrap();
        assert_eq!(event.name, "Stop");
        assert_eq!(event.last_assistant_message.as_deref(), Some("done"));
        assert!(HookEvent::from_json(b"[]").is_err());
        assert!(HookEvent::from_json(b"{}").is_err());
    }

    #[test]
    fn a_batch_names_its_calls() {
        let event = HookEvent::from_json(
            br#"{"hook_event_name":"PostToolBatch","tool_calls":[{"tool_use_id":"u1"},{"x":1},{"tool_use_id":"u2"}]}"#,
        )
        .unwrap();
        assert_eq!(event.tool_use_ids, ["u1", "u2"]);
    }

    #[test]
    fn long_texts_are_cut_on_a_character() {
        let text = "ä".repeat(MAX_HOOK_TEXT);
        let json = serde_json::json!({"hook_event_name": "UserPromptSubmit", "prompt": text}).to_string();
        let event = HookEvent::from_json(json.as_bytes()).unwrap();
        assert!(event.truncated);
        assert!(event.prompt.unwrap().len() <= MAX_HOOK_TEXT);
    }
}
