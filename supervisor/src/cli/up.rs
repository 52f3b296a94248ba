//! `leo up`: the supervisor in the foreground, with what a person needs to begin.

mod live;

use super::{
    agent::NewAgent,
    api::Api,
    consent, doctor,
    failure::{Failure, chain},
    harness,
    out::{self, Paint},
    serve::{self, Ground, Hangup},
    status::Agents,
    text, web,
};
use crate::{
    board::Entries,
    daemon::{Shared, StartError},
    worker::WorkerName,
};
use leo_ipc::{
    AgentName, ExitCode,
    agent::Agent,
    config::Harness,
    control::{SupervisorStatus, WorkerState},
    paths::Home,
};
use std::{
    collections::BTreeMap,
    io::IsTerminal,
    path::{Path, PathBuf},
    sync::{Arc, mpsc::SyncSender},
    time::Duration,
};

/// How long the workers may take to be ready before the person hears that they are not. They start in
/// milliseconds; the bound is for a machine that is busy, or a database that is being migrated.
const READY: Duration = Duration::from_secs(90);

/// The first agent's name, which every app shows first.
const FIRST_AGENT: &str = "assistant";

/// Runs everything until Ctrl-C.
pub(crate) fn run(home: &Home) -> Result<ExitCode, Failure> {
    let tmux = doctor::tmux_for_up()?;
    let ground = Ground::prepare(home.clone(), None)?;
    tracing::info!(tmux, "tmux");
    // The supervisor gets a thread of its own: printing to a terminal that somebody has paused blocks,
    // and a question to the person may stand for an hour.
    let (started, starting) = std::sync::mpsc::sync_channel(1);
    let supervisor = std::thread::Builder::new()
        .name("supervisor".to_owned())
        .spawn(move || supervise(ground, &started))
        .map_err(|source| StartError::System { doing: "starting the supervisor's thread", source })?;
    let runtime = super::runtime()?;
    // Without a word it has failed, which its end says.
    if let Ok(shared) = starting.recv() {
        runtime.block_on(accompany(home, shared));
    }
    let code = supervisor.join().unwrap_or(Ok(ExitCode::Failure))?;
    Ok(serve::finish(runtime, code))
}

fn supervise(ground: Ground, started: &SyncSender<Arc<Shared>>) -> Result<ExitCode, Failure> {
    let runtime = super::runtime()?;
    let code = runtime.block_on(async {
        let daemon = ground.daemon()?;
        let terminal = std::io::stdin().is_terminal() || std::io::stdout().is_terminal();
        let hangup = if terminal { Hangup::Stop } else { Hangup::Reload };
        serve::follow_signals(daemon.shared(), hangup)?;
        // The receiver waits for this.
        let _ = started.send(daemon.shared());
        Ok::<_, Failure>(daemon.run().await)
    })?;
    Ok(serve::finish(runtime, code))
}

/// Everything that the person sees while the supervisor runs.
async fn accompany(home: &Home, shared: Arc<Shared>) {
    tokio::select! {
        () = greet(home, &shared) => {}
        () = shared.stop.cancelled() => {}
    }
    tokio::select! {
        () = live::follow(home.clone(), shared.clone()) => {}
        () = shared.stop.cancelled() => {}
    }
    out::line("");
    out::line("Stopping. The agents stay in tmux; the next `leo up` finds them again.");
}

/// Waits until everything is ready, makes the first agent, and says how to go on.
async fn greet(home: &Home, shared: &Arc<Shared>) {
    let paint = Paint::stdout();
    out::line(&format!("{} {}", paint.bold("Leo"), leo_ipc::version::BUILD));
    let ready = wait_until_ready(shared).await;
    let api = Api::new(home);
    let agent = if ready { first_agent(&api, shared).await } else { None };
    let status = SupervisorStatus {
        version: String::new(),
        pid: std::process::id(),
        boot_id: shared.boot_id.clone(),
        since: shared.since,
        tcp: shared.tcp.map(|a| a.to_string()),
        config_error: None,
        rss_bytes: None,
        cpu_percent: None,
        workers: Vec::new(),
    };
    out::line("");
    let leo = own_command(home);
    let width = out::width();
    let point = |title: &str, what: &str| out::line(&format!("  {title:<8}{what}"));
    let hinted = |title: &str, what: &str, hint: &str| {
        // A hint that does not fit would only tear the lines apart.
        let fits = 12 + text::columns(what) + text::columns(hint) <= width;
        let hint = if fits { format!("  {}", paint.dim(hint)) } else { String::new() };
        point(title, &format!("{}{hint}", paint.bold(what)));
    };
    match (web::base_url(&status), web::login_url(home, &status)) {
        (Some(url), Ok(login)) => {
            point("Web", &paint.cyan(&url));
            point("Log in", &paint.cyan(&login));
        }
        (Some(url), Err(failure)) => {
            point("Web", &paint.cyan(&url));
            failure.print();
        }
        (None, _) => point("Web", "switched off (web.enabled)"),
    }
    let name = agent.as_ref().map_or(FIRST_AGENT, AgentName::as_str);
    hinted("Chat", &format!("{leo} chat {name}"), "in a second terminal");
    point("Status", &paint.bold(&format!("{leo} status")));
    hinted("Stop", "Ctrl-C", "the agents keep running in tmux");
    out::line("");
}

async fn wait_until_ready(shared: &Shared) -> bool {
    let mut board = shared.board.watch();
    let state = |entries: &Entries, name: &WorkerName| entries.get(name).map(|e| e.status.state);
    let needed = [WorkerName::Hub, WorkerName::Http, WorkerName::Agents];
    let settled = board.wait_for(|entries| {
        needed.iter().all(|name| {
            matches!(
                state(entries, name),
                Some(WorkerState::Running | WorkerState::Failed | WorkerState::Degraded)
            )
        })
    });
    let entries = match tokio::time::timeout(READY, settled).await {
        Ok(Ok(entries)) => entries.clone(),
        _ => shared.board.watch().borrow().clone(),
    };
    let mut ready = true;
    for name in needed {
        if state(&entries, &name) != Some(WorkerState::Running) {
            ready = false;
            let reason = entries.get(&name).and_then(|e| e.status.reason.clone());
            out::error(&format!("{name} is not running: {}", reason.as_deref().unwrap_or("not ready yet")));
        }
    }
    ready
}

/// Makes the first agent where there is none, and asks what only the person may decide. Answers with
/// the agent to talk to.
async fn first_agent(api: &Api, shared: &Shared) -> Option<AgentName> {
    let agents = match api.get::<Agents>("/api/v1/agents").await {
        Ok(answer) => answer.agents,
        Err(e) => {
            out::error(&format!("the agents are not known: {}", chain(&e)));
            return None;
        }
    };
    let configured = shared.config.borrow().agents.clone();
    let of_claude = agents.iter().filter(|a| a.harness == Harness::Claude).map(|a| &a.workspace);
    let in_file = configured.values().filter(|a| a.harness == Harness::Claude).map(|a| &a.workspace);
    let mut workspaces: Vec<PathBuf> = of_claude.chain(in_file).map(PathBuf::from).collect();
    workspaces.sort();
    workspaces.dedup();
    if !agents.is_empty() || !configured.is_empty() {
        if !workspaces.is_empty() && out::is_interactive() {
            consent::ask_for(&workspaces).await;
        }
        let first = |name: &AgentName| name.as_str() == FIRST_AGENT;
        let known = || agents.iter().map(|a| &a.name).chain(configured.keys());
        return known().find(|n| first(n)).or_else(|| known().next()).cloned();
    }
    make_first_agent(api, shared).await
}

async fn make_first_agent(api: &Api, shared: &Shared) -> Option<AgentName> {
    let (harness, why) = harness::choose().await;
    let workspace = workspace(&shared.home);
    if harness == Harness::Claude && out::is_interactive() {
        consent::ask_for(std::slice::from_ref(&workspace)).await;
    }
    let new = NewAgent {
        name: FIRST_AGENT.parse().ok()?,
        harness,
        workspace: workspace.to_str()?.to_owned(),
        model: None,
        env: BTreeMap::new(),
        args: Vec::new(),
        autostart: true,
        permission_mode: None,
    };
    match api.post::<_, Agent>("/api/v1/agents", &new).await {
        Ok(agent) => {
            let place = text::path(&agent.workspace);
            let what = match harness {
                // `2.1.332 (Claude Code)`
                Harness::Claude => {
                    let version = why.split_whitespace().next().unwrap_or_default();
                    format!("Claude Code {}", text::visible(version))
                }
                _ => format!("the demo agent, since {}", text::visible(&why)),
            };
            out::line(&format!("Made the agent {}: {what}, in {place}.", agent.name));
            Some(agent.name)
        }
        Err(e) => {
            out::error(&format!("the agent {FIRST_AGENT} was not made: {}", chain(&e)));
            None
        }
    }
}

/// The folder `up` was run in, unless an agent has no business there: the root, or the home's own.
fn workspace(home: &Home) -> PathBuf {
    let person = std::env::var_os("HOME").filter(|h| !h.is_empty()).map(PathBuf::from);
    let fallback = person.unwrap_or_else(|| PathBuf::from("/"));
    match std::env::current_dir() {
        Ok(here) if here != Path::new("/") && !here.starts_with(home.root()) => here,
        _ => fallback,
    }
}

/// How this program is called in another terminal.
fn own_command(home: &Home) -> String {
    let own = std::env::current_exe().ok();
    let on_path = harness::find("leo", std::env::var_os("PATH").as_deref());
    let same = |a: &Path, b: &Path| a.canonicalize().ok() == b.canonicalize().ok();
    let program = match (own, on_path) {
        (Some(own), Some(found)) if same(&own, &found) => "leo".to_owned(),
        // Whole, since the other terminal may be in another folder.
        (Some(own), _) => own.display().to_string(),
        (None, _) => "leo".to_owned(),
    };
    let usual = std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".leo"));
    if usual.as_deref() == Some(home.root()) {
        program
    } else {
        format!("LEO_HOME={} {program}", home.root().display())
    }
}
