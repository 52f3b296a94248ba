//! `leo status`: works as long as the supervisor does, and says of the agents what it can learn.

use super::{
    agent,
    api::{Api, ApiError},
    failure::Failure,
    out::{self, Paint},
    rpc, text, web, worker,
};
use leo_ipc::{
    ExitCode,
    agent::Agent,
    control::{GetStatus, SupervisorStatus, WorkerState},
    paths::Home,
};
use serde::Deserialize;
use std::time::Duration;

/// How long the agents may take to be known. The workers that know them may be down, and a status that
/// hangs is none.
const AGENTS: Duration = Duration::from_secs(3);

/// Answer of `GET /api/v1/agents`.
#[derive(Deserialize)]
pub(crate) struct Agents {
    /// By name.
    pub(crate) agents: Vec<Agent>,
}

/// Prints the state of everything.
pub(crate) async fn run(home: &Home, json: bool) -> Result<ExitCode, Failure> {
    let status = rpc::ask(home, GetStatus { measure: true }, rpc::QUICK).await?;
    let agents = agents(home).await;
    let well = status.workers.iter().all(|w| w.state == WorkerState::Running) && agents.is_ok();
    if json {
        let (agents, problem) = match agents {
            Ok(agents) => (Some(agents), None),
            Err(why) => (None, Some(why)),
        };
        out::json(&serde_json::json!({
            "home": home.root(), "well": well, "supervisor": status, "agents": agents, "agents_error": problem,
        }));
        return Ok(ExitCode::Ok);
    }
    for line in render(home, &status, &agents, out::width(), Paint::stdout()) {
        out::line(&line);
    }
    Ok(ExitCode::Ok)
}

async fn agents(home: &Home) -> Result<Vec<Agent>, String> {
    let api = Api::new(home);
    match tokio::time::timeout(AGENTS, api.get::<Agents>("/api/v1/agents")).await {
        Ok(Ok(answer)) => Ok(answer.agents),
        Ok(Err(ApiError::NotRunning { .. })) => Err("the HTTP socket is gone".to_owned()),
        Ok(Err(e)) => Err(super::failure::chain(&e)),
        Err(_) => Err(format!("no answer within {} s", AGENTS.as_secs())),
    }
}

fn render(
    home: &Home,
    status: &SupervisorStatus,
    agents: &Result<Vec<Agent>, String>,
    width: usize,
    paint: Paint,
) -> Vec<String> {
    let mut lines = Vec::new();
    let usage = match (status.rss_bytes, status.cpu_percent) {
        (Some(rss), Some(cpu)) => format!(" · {} · {cpu:.1} %", text::bytes(rss)),
        _ => String::new(),
    };
    lines.push(format!(
        "{} {} · pid {} · up {}{usage}",
        paint.bold("Leo"),
        text::visible(&status.version),
        status.pid,
        text::since(status.since)
    ));
    let place = text::path(&home.root().display().to_string());
    match web::base_url(status) {
        Some(url) => lines.push(format!("{} · {}", paint.cyan(&url), paint.dim(&place))),
        None => lines.push(format!("web app off · {}", paint.dim(&place))),
    }
    if let Some(error) = &status.config_error {
        lines.push(paint.yellow("The configuration is wrong; the last good one stays in force:"));
        lines.extend(worker::wrap(&text::visible(error), width.saturating_sub(2)).map(|l| format!("  {l}")));
    }
    lines.push(String::new());
    lines.extend(worker::render(&status.workers, width, paint));
    lines.push(String::new());
    match agents {
        Ok(agents) if agents.is_empty() => {
            lines.push(format!("No agents yet. {}", paint.dim("Add one: leo agent add NAME")));
        }
        Ok(agents) => lines.extend(agent::render(agents, width, paint)),
        Err(why) => {
            lines.push(paint.yellow("What the agents do is not known now:"));
            lines
                .extend(worker::wrap(&text::visible(why), width.saturating_sub(2)).map(|l| format!("  {l}")));
        }
    }
    lines
}
