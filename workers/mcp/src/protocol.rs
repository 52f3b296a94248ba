//! What the shim and the worker say about themselves. The shim answers `initialize` on its own, so that
//! an agent can start while its worker is away; both take the words from here.

use serde_json::{Value, json};

/// Versions we speak, oldest first. Not 2026-07-28: Claude Code then subscribes to list changes in a
/// way that loses them, and has no session for the worker to be replaced behind.
pub(crate) const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The version for a client that asked for `wanted`: the same when we speak it, else our newest, which
/// the client may then refuse.
pub(crate) fn negotiate(wanted: &str) -> &'static str {
    let newest = VERSIONS[VERSIONS.len() - 1];
    VERSIONS.into_iter().find(|v| *v == wanted).unwrap_or(newest)
}

/// Our name towards clients. The name that a client shows is the one in its own configuration.
pub(crate) const SERVER_NAME: &str = "leo";

/// Our version towards clients.
pub(crate) const SERVER_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether the final answer of this client's turns reaches the person by itself.
pub(crate) fn captures_replies(client_name: &str) -> bool {
    let name = client_name.to_ascii_lowercase();
    name.starts_with("claude") || name.starts_with("leo-demo")
}

/// How the agent should behave. Clients cut this at 2 KB.
pub(crate) fn instructions(captured: bool) -> String {
    let replies = if captured {
        "Your final answer to such a prompt is sent to them automatically, so do not post it again. \
         Use leo_chat_post for what should reach them besides: progress on long work, files, or news \
         nobody asked for. If you call leo_chat_post during such a turn, your final answer is not sent \
         automatically: post everything they should read."
    } else {
        "Answer such a prompt with leo_chat_post: your final answer in the terminal does not reach \
         them. Also use it for progress on long work, files, or news nobody asked for."
    };
    format!(
        "Leo connects you with a person who reads and writes in a chat app, often on a phone. Their \
         messages arrive as prompts that start with [Leo Chat]. {replies} Keep messages short; Markdown \
         is shown. Give files by absolute path, with the text as their caption. Use leo_chat_ask when you \
         cannot go on without their decision: it shows them a question with buttons, a list or a text \
         field and waits for the answer; take it back with leo_chat_ask_withdraw when you no longer need \
         it. leo_chat_history shows earlier messages of this thread when you lack context."
    )
}

/// The result of `initialize` for a client with these parameters.
pub(crate) fn initialize_result(params: &Value) -> Value {
    let text = |pointer| params.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    json!({
        "protocolVersion": negotiate(text("/protocolVersion")),
        "capabilities": { "tools": { "listChanged": true } },
        "serverInfo": { "name": SERVER_NAME, "version": SERVER_VERSION },
        "instructions": instructions(captures_replies(text("/clientInfo/name"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_version_it_asks_for_or_our_newest() {
        for (wanted, given) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("", "2025-11-25"),
        ] {
            assert_eq!(negotiate(wanted), given, "{wanted}");
        }
    }

    #[test]
    fn instructions_fit_and_depend_on_who_captures_replies() {
        for captured in [true, false] {
            assert!(instructions(captured).len() < 2000);
        }
        let init = initialize_result(&json!({"clientInfo": {"name": "claude-code"}}));
        assert!(init["instructions"].as_str().unwrap().contains("sent to them automatically"));
        let init = initialize_result(&json!({"clientInfo": {"name": "codex-mcp-client"}}));
        assert!(init["instructions"].as_str().unwrap().contains("Answer such a prompt with leo_chat_post"));
    }
}
