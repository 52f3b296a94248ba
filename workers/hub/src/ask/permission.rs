//! Permission prompts and question cards: what a harness's hook asks, and what it is told.

use super::{
    card,
    machine::{Event, Kind, State},
    store::{self, Ask, Hook, NewAsk, Settlement},
};
use crate::{agent, error::Outcome, statements::Cached, writer::Tx};
use leo_ipc::{
    AgentName, Fault, Time,
    ask::{AskPermission, Decision, PermissionGone, input_hash},
    config::Chat,
    id::token_hash,
};
use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;

/// What AskUserQuestion is called.
const QUESTIONS_TOOL: &str = "AskUserQuestion";

/// Longest message of a card in characters; the summary is its own field.
const MAX_TEXT: usize = 1000;

/// Opens the card of a prompt, or goes on with the one that the same hook opened. False when there is
/// nothing to ask: an agent that bypasses permissions.
pub(crate) fn open(tx: &mut Tx<'_>, chat: &Chat, request: &AskPermission) -> Outcome<bool> {
    let who = agent::authenticate_any(tx.db, &token_hash(&request.token))?;
    if let Some(ask) = store::by_hook(tx.db, request.hook_key.as_str())? {
        tx.db.execute_cached(
            "UPDATE asks SET detached_at = NULL WHERE message_id = ?1",
            [ask.message_id.as_str()],
        )?;
        return Ok(true);
    }
    let gone: Option<i64> = tx
        .db
        .query_row_cached("SELECT 1 FROM hook_keys WHERE key = ?1", [gone_key(&request.hook_key)], |row| {
            row.get(0)
        })
        .optional()?;
    if gone.is_some() {
        return Ok(false);
    }
    let asks_a_person = matches!(request.tool_name.as_str(), QUESTIONS_TOOL | "ExitPlanMode");
    if request.permission_mode.as_deref() == Some("bypassPermissions") && !asks_a_person {
        return Ok(false);
    }
    let hash = input_hash(&request.tool_input);
    let questions =
        if request.tool_name == QUESTIONS_TOOL { card::questions(&request.tool_input) } else { None };
    let hook = Hook {
        key: request.hook_key.as_str(),
        tool_name: &request.tool_name,
        // Only a questions card repeats the input in its answer.
        tool_input: questions.as_ref().map(|_| request.tool_input.to_string()),
        input_hash: &hash,
        tool_use_id: match_call(tx, &who.name, request, &hash)?,
        subagent: request.agent_id.as_deref(),
    };
    let (kind, timeout_s) = match questions {
        Some(_) => (Kind::Questions, chat.question_timeout_s),
        None => (Kind::Permission, chat.permission_timeout_s),
    };
    let (input, truncated) = card::kept_input(&request.tool_input);
    let permission = leo_ipc::ask::Permission {
        tool: request.tool_name.clone(),
        summary: card::summary(&request.tool_name, &request.tool_input),
        input,
        truncated,
        agent_type: request.agent_type.clone(),
        // A background subagent's dialog is not drawn while a hook holds it (claude_facts.md §1).
        in_terminal: request.agent_id.is_none(),
    };
    let text = text(&permission, questions.as_ref());
    let deadline = tx.now.millis() + i64::try_from(timeout_s.saturating_mul(1000)).unwrap_or(i64::MAX / 4);
    let dedupe = format!("hook:{}", request.hook_key);
    let new = NewAsk {
        agent: &who.name,
        kind,
        text: &text,
        input: &questions.unwrap_or_else(card::allow_or_deny),
        permission: (kind == Kind::Permission).then_some(&permission),
        deadline: Some(Time::from_millis(deadline)),
        opened_ms: request.at_ms,
        dedupe: &dedupe,
        run: None,
        asker: None,
        hook: Some(hook),
    };
    store::open(tx, &new)?;
    Ok(true)
}

fn text(permission: &leo_ipc::ask::Permission, questions: Option<&leo_ipc::ask::Input>) -> String {
    let questions = questions.and_then(|input| input.questions.as_deref());
    let whole = match questions {
        Some(questions) => questions.iter().map(|q| q.question.as_str()).collect::<Vec<_>>().join("\n"),
        None => format!("{}: {}", permission.tool, permission.summary),
    };
    whole.chars().take(MAX_TEXT).collect()
}

/// The call that a prompt belongs to. The prompt carries no id: identical parallel calls are told apart
/// by their order.
fn match_call(
    tx: &Tx<'_>,
    agent: &AgentName,
    request: &AskPermission,
    hash: &str,
) -> Outcome<Option<String>> {
    let found: Option<String> = tx
        .db
        .query_row_cached(
            "SELECT tool_use_id FROM tool_calls WHERE agent = ?1 AND tool_name = ?2 AND input_hash = ?3
             AND subagent IS ?4 AND asked = 0 ORDER BY at, tool_use_id LIMIT 1",
            rusqlite::params![agent.as_str(), request.tool_name, hash, request.agent_id],
            |row| row.get(0),
        )
        .optional()?;
    if let Some(id) = &found {
        tx.db.execute_cached(
            "UPDATE tool_calls SET asked = 1 WHERE agent = ?1 AND tool_use_id = ?2",
            [agent.as_str(), id],
        )?;
    }
    Ok(found)
}

/// What the hook prints, once it is known.
pub(crate) fn decision(db: &Connection, hook_key: &str) -> Outcome<Option<Decision>> {
    let ask = store::by_hook(db, hook_key)?.ok_or_else(|| Fault::internal("a prompt vanished"))?;
    Ok(match ask.state {
        State::Open => None,
        State::Expired => Some(Decision::Nothing {}),
        State::Answered => Some(answered(&ask)),
    })
}

fn answered(ask: &Ask) -> Decision {
    let Some(answer) = ask.answer.as_ref().filter(|_| ask.answered_by.as_deref() != Some("terminal")) else {
        return Decision::Nothing {};
    };
    match (ask.kind, &ask.input, answer.values.first().map(String::as_str)) {
        (Kind::Questions, Some(input), _) => {
            let original: Value =
                ask.tool_input.as_deref().and_then(|t| serde_json::from_str(t).ok()).unwrap_or(Value::Null);
            Decision::Allow { updated_input: Some(card::updated_input(&original, input, answer)) }
        }
        (Kind::Permission, _, Some("allow")) => Decision::Allow { updated_input: None },
        (Kind::Permission, _, Some("deny")) => {
            Decision::Deny { message: Some(answer.text.clone()).filter(|text| !text.trim().is_empty()) }
        }
        _ => Decision::Nothing {},
    }
}

fn gone_key(hook_key: &leo_ipc::CallKey) -> String {
    format!("gone:{hook_key}")
}

/// The harness ended the hook: the terminal settled the prompt.
pub(crate) fn gone(tx: &mut Tx<'_>, request: &PermissionGone) -> Outcome<()> {
    let who = agent::authenticate_any(tx.db, &token_hash(&request.token))?;
    let found = store::by_hook(tx.db, request.hook_key.as_str())?;
    if found.is_none() {
        // The two come over connections of their own: the end may be heard before the prompt, which
        // must not open a card then.
        tx.db.execute_cached(
            "INSERT INTO hook_keys (key, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            rusqlite::params![gone_key(&request.hook_key), tx.now.millis()],
        )?;
    }
    if let Some(ask) = found.filter(|ask| ask.agent == who.name) {
        store::settle(tx, &ask, &Settlement::of(Event::Terminal))?;
        // Claude ends a hook only when the terminal has decided: what an app answered in the same
        // instant did not count.
        store::terminal_was_first(tx, &ask)?;
    }
    Ok(())
}

/// The hook's connection is lost: it has a while to come back.
pub(crate) fn detached(tx: &mut Tx<'_>, hook_key: &str) -> Outcome<()> {
    tx.db.execute_cached(
        "UPDATE asks SET detached_at = ?2 WHERE hook_key = ?1 AND state = 'open'",
        rusqlite::params![hook_key, tx.now.millis()],
    )?;
    tx.asks_changed();
    Ok(())
}

/// After a start of the hub no hook is connected yet.
pub(crate) fn all_detached(tx: &mut Tx<'_>) -> Outcome<()> {
    tx.db.execute_cached(
        "UPDATE asks SET detached_at = ?1 WHERE state = 'open' AND hook_key IS NOT NULL",
        [tx.now.millis()],
    )?;
    tx.asks_changed();
    Ok(())
}

/// Keeps a call that a prompt may belong to.
pub(crate) fn remember_call(
    tx: &mut Tx<'_>,
    agent: &AgentName,
    event: &leo_ipc::hook::HookEvent,
) -> Outcome<()> {
    if let (Some(id), Some(tool), Some(hash)) = (&event.tool_use_id, &event.tool_name, &event.input_hash) {
        tx.db
            .prepare_cached(
                "INSERT INTO tool_calls (agent, tool_use_id, tool_name, input_hash, subagent, at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
            )?
            .execute(rusqlite::params![agent.as_str(), id, tool, hash, event.agent_id, tx.now.millis()])?;
    }
    Ok(())
}
