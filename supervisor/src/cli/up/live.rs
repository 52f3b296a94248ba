//! The lines that `leo up` prints while it runs: what happens to workers and agents, for a person who
//! looks up now and then. Best effort: what is missed is in the logs and in `leo status`.

use crate::{
    board::Entries,
    cli::{
        agent,
        api::{Api, Update},
        out::{self, Paint},
        text,
    },
    daemon::Shared,
    worker::WorkerName,
};
use leo_ipc::{
    AgentName, Generation, Time,
    agent::{Activity, Agent, Status},
    control::WorkerState,
    paths::Home,
};
use serde::Deserialize;
use std::{collections::HashMap, sync::Arc};

/// Prints until it is dropped.
pub(crate) async fn follow(home: Home, shared: Arc<Shared>) {
    tokio::join!(follow_workers(shared), follow_agents(home));
}

fn say(text: &str) {
    let now = Time::now().timestamp().to_zoned_datetime(jiff::tz::TimeZone::system());
    out::line(&format!("{}  {text}", Paint::stdout().dim(&now.strftime("%H:%M:%S").to_string())));
}

async fn follow_workers(shared: Arc<Shared>) {
    let mut board = shared.board.watch();
    let mut seen: HashMap<WorkerName, (Generation, WorkerState)> = HashMap::new();
    // The MCP workers come and go with their agents, which is no news; their troubles are.
    remember(&mut seen, &board.borrow_and_update());
    while board.changed().await.is_ok() {
        let entries = board.borrow_and_update().clone();
        for line in news(&seen, &entries) {
            say(&line);
        }
        remember(&mut seen, &entries);
    }
}

fn remember(seen: &mut HashMap<WorkerName, (Generation, WorkerState)>, entries: &Entries) {
    seen.clear();
    seen.extend(entries.iter().map(|(name, e)| (name.clone(), (e.generation, e.status.state))));
}

fn news(seen: &HashMap<WorkerName, (Generation, WorkerState)>, entries: &Entries) -> Vec<String> {
    let paint = Paint::stdout();
    let mut lines = Vec::new();
    for (name, entry) in entries {
        let before = seen.get(name).copied();
        let why = entry.status.reason.as_deref().map(text::visible).unwrap_or_default();
        let state = entry.status.state;
        let changed = before.is_none_or(|(_, old)| old != state);
        match state {
            WorkerState::Failed if changed => {
                lines.push(format!("{} {why}", paint.red(&format!("{name} failed:"))));
            }
            WorkerState::Backoff | WorkerState::Degraded if changed => {
                lines.push(format!("{} {why}", paint.yellow(&format!("{name} is down:"))));
            }
            _ => match before {
                Some((old, _)) if entry.generation > old && !why.is_empty() => {
                    lines.push(format!("{name} was restarted: {why}"));
                }
                Some((old, _)) if entry.generation > old => lines.push(format!("{name} was restarted")),
                _ => {}
            },
        }
    }
    lines
}

/// The payload of every event about an agent.
#[derive(Deserialize)]
struct AboutAgent {
    agent: Agent,
}

async fn follow_agents(home: Home) {
    let api = Api::new(&home);
    let mut events = api.events(None);
    let mut said: HashMap<AgentName, String> = HashMap::new();
    loop {
        let Update::Event(event) = events.next().await else { continue };
        if !event.kind.starts_with("agent_") {
            continue;
        }
        // Events of a turn name the agent only.
        let Ok(AboutAgent { agent }) = serde_json::from_value(event.data) else { continue };
        let news = about(&agent);
        if said.get(&agent.name) != Some(&news) {
            say(&news);
            said.insert(agent.name, news);
        }
    }
}

fn about(agent: &Agent) -> String {
    let paint = Paint::stdout();
    let name = paint.bold(agent.name.as_str());
    match (agent.status, agent.activity) {
        (_, Activity::NeedsInput) => {
            let what = agent.waiting_for.as_deref().unwrap_or("look at its terminal");
            let how = format!("leo agent attach {}", agent.name);
            format!("{name} {} {} ({how})", paint.yellow("needs you:"), text::visible(what))
        }
        (Status::Running, Activity::Working) => format!("{name} is working"),
        (Status::Running, Activity::Idle) => format!("{name} is idle"),
        (status, _) => format!("{name} is {}", agent::status(status)),
    }
}
