//! Whose thread a task's cards go to (seed 001, "Config"). Pure.

use leo_ipc::{
    AgentName, TaskName,
    config::{TaskConfig, TaskRuntime},
};

/// The thread of everything that has no better one.
const FALLBACK: &str = "assistant";

/// An agent that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its name.
    pub(crate) name: AgentName,
    /// The folder it works in.
    pub(crate) workspace: String,
}

/// Where a task's cards go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The thread's name; `assistant` where nothing better was found, whether or not there is such an
    /// agent.
    pub(crate) agent: String,
    /// The configured owner, when it names no agent: a note in the thread says so.
    pub(crate) unknown: Option<String>,
}

/// Resolves a task's owner: the configured one; else the persistent task's own agent; else the agent
/// that works in the task's folder; else `assistant`.
pub(crate) fn resolve(name: &TaskName, task: &TaskConfig, agents: &[Known]) -> Owner {
    let known = |agent: &AgentName| Owner { agent: agent.to_string(), unknown: None };
    let fallback = |unknown| Owner { agent: FALLBACK.to_owned(), unknown };
    if let Some(owner) = &task.owner {
        return find(agents, owner).map_or_else(|| fallback(Some(owner.clone())), known);
    }
    let own = (task.runtime == TaskRuntime::Persistent).then(|| own_agent(name, task, agents)).flatten();
    let in_folder = || {
        let workspace = task.workspace.as_ref()?;
        agents.iter().find(|agent| agent.workspace == *workspace).map(|agent| &agent.name)
    };
    own.or_else(in_folder).map_or_else(|| fallback(None), known)
}

/// The agent that a persistent task names as its own, or that is named like it.
pub(crate) fn own_agent<'a>(
    name: &TaskName,
    task: &TaskConfig,
    agents: &'a [Known],
) -> Option<&'a AgentName> {
    find(agents, task.agent.as_deref().unwrap_or(name.as_str()))
}

fn find<'a>(agents: &'a [Known], name: &str) -> Option<&'a AgentName> {
    agents.iter().find(|agent| agent.name.as_str() == name).map(|agent| &agent.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agents(list: &[(&str, &str)]) -> Vec<Known> {
        let known = |(name, workspace): &(&str, &str)| Known {
            name: name.parse().unwrap(),
            workspace: (*workspace).to_owned(),
        };
        list.iter().map(known).collect()
    }

    #[test]
    fn the_owner_of_a_task() {
        let all = agents(&[("assistant", "/a"), ("builder", "/b"), ("news", "/n")]);
        let task = |owner: Option<&str>, agent: Option<&str>, workspace: Option<&str>, persistent: bool| {
            TaskConfig {
                owner: owner.map(str::to_owned),
                agent: agent.map(str::to_owned),
                workspace: workspace.map(str::to_owned),
                runtime: if persistent { TaskRuntime::Persistent } else { TaskRuntime::Oneshot },
                ..TaskConfig::default()
            }
        };
        // (what it shows, the task's name, the task, its owner, the unknown owner)
        let cases = [
            ("its owner, when set", "x", task(Some("builder"), None, Some("/n"), true), "builder", None),
            ("a persistent task's own agent", "news", task(None, None, Some("/b"), true), "news", None),
            ("which it may name", "x", task(None, Some("news"), Some("/b"), true), "news", None),
            ("a oneshot task has no own agent", "news", task(None, None, Some("/b"), false), "builder", None),
            (
                "the agent whose workspace equals the task's",
                "x",
                task(None, None, Some("/n"), false),
                "news",
                None,
            ),
            (
                "likewise for a persistent task without an agent",
                "x",
                task(None, None, Some("/n"), true),
                "news",
                None,
            ),
            ("otherwise assistant", "x", task(None, None, Some("/z"), false), "assistant", None),
            (
                "otherwise assistant, without a workspace too",
                "x",
                task(None, None, None, false),
                "assistant",
                None,
            ),
            (
                "an owner that names no agent",
                "x",
                task(Some("ghost"), None, Some("/n"), false),
                "assistant",
                Some("ghost"),
            ),
            (
                "nor any name at all",
                "x",
                task(Some("No Name!"), None, None, true),
                "assistant",
                Some("No Name!"),
            ),
        ];
        for (what, name, task, agent, unknown) in cases {
            let owner = resolve(&name.parse().unwrap(), &task, &all);
            let expected = Owner { agent: agent.to_owned(), unknown: unknown.map(str::to_owned) };
            assert_eq!(owner, expected, "{what}");
        }
    }

    #[test]
    fn without_any_agent_it_is_still_assistant() {
        let owner = resolve(&"x".parse().unwrap(), &TaskConfig::default(), &[]);
        assert_eq!(owner, Owner { agent: "assistant".to_owned(), unknown: None });
    }
}
