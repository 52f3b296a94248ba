//! The hook of a permission prompt, the only one that waits: it asks the hub and prints what a person
//! decided in an app. The harness's own dialog is open meanwhile, so whenever this hook has nothing to
//! say, for whatever reason, it prints nothing and the terminal decides. It never denies by itself.

mod attach;
mod watch;

use leo_ipc::{
    CallKey,
    ask::{AskPermission, Decision, PermissionGone},
    blocking,
    hello::Role,
};
use serde_json::{Value, json};
use std::{
    io::Write,
    path::Path,
    sync::mpsc::{Sender, channel},
    time::Duration,
};

/// The event, in Claude's spelling.
pub(crate) const EVENT: &str = "PermissionRequest";

/// Longest life of a hook. A card waits an hour at most (seed 001, "Questions cards"); the rest is for
/// the hub to say that the hour is over.
const MAX_LIFE: Duration = Duration::from_secs(60 * 60 + 60);

/// How long to try to tell the hub that the harness has ended the hook, which kills it 1.5 s later.
const GONE_WITHIN: Duration = Duration::from_millis(500);

/// Largest tool input in bytes of JSON that is passed on; a frame holds 1 MiB. A larger one (a file that
/// is written whole) cannot be shown in an app whole either, and nobody should allow what they have not
/// seen: the terminal decides.
const MAX_TOOL_INPUT: usize = 700 * 1024;

/// Tools that ask even where nothing needs a permission.
const ALWAYS_ASK: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];

/// What ends the wait.
enum End {
    /// The hub has answered.
    Decided(Decision),
    /// The hub will not answer.
    Unanswered,
    /// The harness has ended the hook.
    Terminated,
    /// The harness is gone.
    Orphaned,
}

/// The request that the harness's `input` stands for; none when the terminal shall decide.
pub fn prompt(input: &[u8], token: String, at_ms: i64) -> Option<AskPermission> {
    let mut input: Value = serde_json::from_slice(input).ok()?;
    let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
    let tool_name = text("tool_name")?;
    let permission_mode = text("permission_mode");
    if permission_mode.as_deref() == Some("bypassPermissions") && !ALWAYS_ASK.contains(&tool_name.as_str()) {
        return None;
    }
    let (prompt_id, session_id) = (text("prompt_id"), text("session_id"));
    let (agent_id, agent_type) = (text("agent_id"), text("agent_type"));
    let tool_input = input.get_mut("tool_input")?.take();
    if serde_json::to_vec(&tool_input).ok()?.len() > MAX_TOOL_INPUT {
        return None;
    }
    Some(AskPermission {
        hook_key: CallKey::fresh(),
        token,
        at_ms,
        tool_name,
        tool_input,
        prompt_id,
        session_id,
        agent_id,
        agent_type,
        permission_mode,
    })
}

/// A decision in the harness's words; none leaves it to the terminal.
pub fn decision(decision: Decision) -> Option<Value> {
    Some(match decision {
        Decision::Nothing {} | Decision::Unknown => return None,
        Decision::Allow { updated_input: None } => json!({ "behavior": "allow" }),
        Decision::Allow { updated_input: Some(input) } => {
            json!({ "behavior": "allow", "updatedInput": input })
        }
        Decision::Deny { message: None } => json!({ "behavior": "deny" }),
        Decision::Deny { message: Some(message) } => json!({ "behavior": "deny", "message": message }),
    })
}

/// What the hook prints.
fn output(decided: Decision) -> Option<Value> {
    let decision = decision(decided)?;
    Some(json!({ "hookSpecificOutput": { "hookEventName": EVENT, "decision": decision } }))
}

/// Asks, waits, and prints the decision if there is one. The process must end afterwards: threads that
/// still wait end with it.
pub(crate) fn run(hub: &Path, ask: AskPermission) {
    let gone = PermissionGone { hook_key: ask.hook_key.clone(), token: ask.token.clone() };
    let (ends, end) = channel();
    // From here on the signal waits for its thread: nothing is asked that could not be taken back.
    let Ok(signals) = watch::hold_termination() else { return };
    let path = hub.to_owned();
    let asking = move |ends: &Sender<End>| {
        let _ = ends.send(attach::ask(&path, &ask).map_or(End::Unanswered, End::Decided));
    };
    let terminated = move |ends: &Sender<End>| {
        if watch::wait_for_termination(signals) {
            let _ = ends.send(End::Terminated);
        }
    };
    let orphaned = |ends: &Sender<End>| {
        if watch::wait_for_reader_end(&std::io::stdout()) {
            let _ = ends.send(End::Orphaned);
        }
    };
    let started = [
        spawn("terminated", &ends, terminated),
        spawn("orphaned", &ends, orphaned),
        spawn("ask", &ends, asking),
    ];
    if started.iter().any(Result::is_err) {
        return;
    }
    match end.recv_timeout(MAX_LIFE) {
        Ok(End::Decided(decision)) => print(decision),
        Ok(End::Terminated) => {
            // A hub that cannot be told sees the prompt settled in the session's status.
            let _ = blocking::call(hub, Role::Hook, gone, GONE_WITHIN);
        }
        // A harness that died has settled nothing: the hub finds out by itself that nobody asks any more.
        Ok(End::Unanswered | End::Orphaned) | Err(_) => {}
    }
}

fn spawn(
    name: &str,
    ends: &Sender<End>,
    body: impl FnOnce(&Sender<End>) + Send + 'static,
) -> std::io::Result<()> {
    let ends = ends.clone();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || body(&ends)).map(drop)
}

fn print(decision: Decision) {
    let Some(json) = output(decision) else { return };
    let mut stdout = std::io::stdout().lock();
    // A harness that no longer reads has decided otherwise.
    let _ = stdout.write_all(format!("{json}\n").as_bytes()).and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(input: &Value) -> Option<AskPermission> {
        prompt(input.to_string().as_bytes(), "t".into(), 7)
    }

    #[test]
    fn the_payload_is_passed_on_as_it_is() {
        let input = json!({
            "hook_event_name": EVENT, "session_id": "s", "prompt_id": "p", "permission_mode": "default",
            "tool_name": "Bash", "tool_input": {"command": "ls", "n": [1, 0.5, null]},
            "permission_suggestions": [], "agent_id": "a", "agent_type": "general-purpose"
        });
        let ask = of(&input).unwrap();
        assert_eq!((ask.tool_name.as_str(), &ask.tool_input), ("Bash", &input["tool_input"]));
        assert_eq!((ask.token.as_str(), ask.at_ms), ("t", 7));
        assert_eq!(ask.session_id.as_deref(), Some("s"));
        assert_eq!(ask.prompt_id.as_deref(), Some("p"));
        assert_eq!(ask.agent_id.as_deref(), Some("a"));
        assert_eq!(ask.agent_type.as_deref(), Some("general-purpose"));
        assert_eq!(ask.permission_mode.as_deref(), Some("default"));
        assert_ne!(of(&input).unwrap().hook_key, ask.hook_key);
    }

    #[test]
    fn the_terminal_decides_what_cannot_be_asked() {
        let bypass = |tool: &str| {
            of(&json!({"tool_name": tool, "tool_input": {}, "permission_mode": "bypassPermissions"}))
        };
        assert!(bypass("Bash").is_none());
        assert!(bypass("AskUserQuestion").is_some() && bypass("ExitPlanMode").is_some());
        let sized = |bytes: usize| of(&json!({"tool_name": "Write", "tool_input": {"x": "x".repeat(bytes)}}));
        assert!(sized(MAX_TOOL_INPUT - 100).is_some());
        assert!(sized(MAX_TOOL_INPUT).is_none());
        assert!(of(&json!({"tool_name": "Bash"})).is_none());
        assert!(of(&json!({"tool_input": {}})).is_none());
        assert!(prompt(b"{", "t".into(), 1).is_none());
    }

    #[test]
    fn decisions_in_the_harness_words() {
        let told = |decision| output(decision).map(|json| json["hookSpecificOutput"].clone());
        let says = |decision: Value| Some(json!({"hookEventName": EVENT, "decision": decision}));
        for (decision, expected) in [
            (Decision::Nothing {}, None),
            (Decision::Unknown, None),
            (Decision::Allow { updated_input: None }, says(json!({"behavior": "allow"}))),
            (
                Decision::Allow { updated_input: Some(json!({"answers": {"Which?": ["a", "b"]}})) },
                says(json!({"behavior": "allow", "updatedInput": {"answers": {"Which?": ["a", "b"]}}})),
            ),
            (Decision::Deny { message: None }, says(json!({"behavior": "deny"}))),
            (
                Decision::Deny { message: Some("not \"now\"".into()) },
                says(json!({"behavior": "deny", "message": "not \"now\""})),
            ),
        ] {
            assert_eq!(told(decision), expected);
        }
    }
}
