//! Prompts that the terminal settled: what the harness does next shows it (claude_facts.md §1, "settle
//! table"). After a Yes Claude leaves the hook running and runs the tool; after a No with a comment only
//! the batch's end tells; after No or Esc nothing fires, and the session's status says so.

use super::{
    machine::Event,
    store::{self, Ask, Settlement},
};
use crate::{error::Outcome, statements::Cached, writer::Tx};
use leo_ipc::{AgentName, hook::HookEvent};

/// Settles the prompts that a hook event shows to be over.
pub(crate) fn by_hook(tx: &mut Tx<'_>, agent: &AgentName, event: &HookEvent, at_ms: i64) -> Outcome<()> {
    match event.name.as_str() {
        "PostToolUse" | "PostToolUseFailure" | "PermissionDenied" | "PostToolBatch" => {
            tools(tx, agent, event)
        }
        "Stop" | "StopFailure" | "UserPromptSubmit" if event.agent_id.is_none() => {
            main_prompts(tx, agent, at_ms)
        }
        "SessionEnd" => {
            let open = store::all(
                tx.db,
                "agent = ?1 AND state = 'open' AND hook_key IS NOT NULL AND opened_ms <= ?2",
                &[&agent.as_str(), &at_ms],
            )?;
            settle_all(tx, &open)
        }
        _ => Ok(()),
    }
}

/// A tool that has run, or was answered for, needs no permission any more. One that ran although an app
/// denied it was allowed in the terminal an instant before.
fn tools(tx: &mut Tx<'_>, agent: &AgentName, event: &HookEvent) -> Outcome<()> {
    if let (Some(id), "PostToolUse" | "PostToolUseFailure") = (&event.tool_use_id, event.name.as_str()) {
        let denied = "agent = ?1 AND tool_use_id = ?2 AND kind = 'permission' AND state = 'answered'";
        for ask in store::all(tx.db, denied, &[&agent.as_str(), id])? {
            if ask.answer.as_ref().is_some_and(|answer| answer.values == ["deny"]) {
                store::terminal_was_first(tx, &ask)?;
            }
        }
    }
    for id in event.tool_use_id.iter().chain(&event.tool_use_ids) {
        let mut over =
            store::all(tx.db, "agent = ?1 AND state = 'open' AND tool_use_id = ?2", &[&agent.as_str(), id])?;
        if over.is_empty() {
            // A prompt whose call was not known when it opened.
            over = store::all(
                tx.db,
                "agent = ?1 AND state = 'open' AND hook_key IS NOT NULL AND tool_use_id IS NULL AND tool_name = ?2
                 AND input_hash = ?3 AND subagent IS ?4",
                &[&agent.as_str(), &event.tool_name, &event.input_hash, &event.agent_id],
            )?;
            over.truncate(1);
        }
        settle_all(tx, &over)?;
        tx.db.execute_cached(
            "DELETE FROM tool_calls WHERE agent = ?1 AND tool_use_id = ?2",
            [agent.as_str(), id],
        )?;
    }
    Ok(())
}

/// Settles the main conversation's prompts that had opened before `at_ms`: its turn is over, or its
/// dialog is no longer there. Subagents' prompts live on.
pub(crate) fn main_prompts(tx: &mut Tx<'_>, agent: &AgentName, at_ms: i64) -> Outcome<()> {
    let open = store::all(
        tx.db,
        "agent = ?1 AND state = 'open' AND hook_key IS NOT NULL AND subagent IS NULL AND opened_ms < ?2",
        &[&agent.as_str(), &at_ms],
    )?;
    settle_all(tx, &open)
}

/// How an agent went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// A person stopped it. Headless runs that speak in its thread go on.
    Stopped,
    /// It was removed, and with it its thread's future.
    Removed,
}

/// Closes everything that an agent has open which a person stopped or removed.
pub(crate) fn agent_gone(tx: &mut Tx<'_>, agent: &AgentName, gone: Gone) -> Outcome<()> {
    let own = "state = 'open' AND coalesce(asker, agent) = ?1 AND (?2 OR NOT EXISTS
         (SELECT 1 FROM messages m JOIN runs r ON r.id = m.run_id WHERE m.id = asks.message_id AND r.message_id IS NULL))";
    for ask in store::all(tx.db, own, &[&agent.as_str(), &(gone == Gone::Removed)])? {
        store::settle(tx, &ask, &Settlement::of(Event::AgentGone))?;
    }
    Ok(())
}

fn settle_all(tx: &mut Tx<'_>, asks: &[Ask]) -> Outcome<()> {
    asks.iter().try_for_each(|ask| store::settle(tx, ask, &Settlement::of(Event::Terminal)).map(|_| ()))
}
