//! `leo agent`

use super::{
    Json,
    api::{Api, ApiError, segment},
    consent,
    failure::Failure,
    harness,
    out::{self, Paint},
    status::Agents,
    table::{self, Cell, Column, Tone, plain},
    text,
    worker::wrap,
};
use clap::{Args, Subcommand, ValueEnum};
use leo_ipc::{
    AgentName, ExitCode,
    agent::{Activity, Agent, Status},
    agents::{AttachCommand, LogText},
    paths::Home,
};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::BTreeMap, io::IsTerminal, os::unix::process::CommandExt, path::PathBuf, process::Command,
};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Define an agent and start it.
    Add(Add),
    /// List the agents.
    List(Json),
    /// Start an agent.
    Start(Name),
    /// Stop an agent until a message or you start it again.
    Stop(Name),
    /// Stop and start an agent; its session goes on.
    Restart(Name),
    /// Show an agent's terminal in this one; Ctrl-B D comes back.
    Attach(Name),
    /// Print the end of an agent's terminal.
    Logs(Logs),
    /// Interrupt what an agent is doing, as Esc does.
    Interrupt(Name),
    /// Empty an agent's context, as /clear in its terminal does; its thread stays.
    Clear(Name),
    /// Put a summary in the place of an agent's context, as /compact in its terminal does.
    Compact(Compact),
    /// Stop an agent and forget it; its messages stay readable.
    Rm(Name),
}

#[derive(Args)]
pub(crate) struct Name {
    /// The agent's name.
    name: AgentName,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    name: Name,
    /// What the summary is to keep, in words.
    #[arg(value_name = "KEEP")]
    instructions: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Logs {
    /// The agent's name.
    name: AgentName,
    /// Lines from the end, 1 to 5000.
    #[arg(short = 'n', long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5000))]
    lines: u32,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Add {
    /// Its name: a-z, 0-9 and -.
    name: AgentName,
    /// Which program it is; Claude Code where it is installed, else the demo agent.
    #[arg(long)]
    harness: Option<HarnessArgument>,
    /// The folder it works in; the current one unless given.
    #[arg(long)]
    workspace: Option<PathBuf>,
    /// Model name for the harness.
    #[arg(long)]
    model: Option<String>,
    /// Claude's permission mode, such as `default`, `acceptEdits` or `plan`.
    #[arg(long)]
    permission_mode: Option<String>,
    /// An environment variable for it; may be repeated.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = parse_env)]
    env: Vec<(String, String)>,
    /// An argument for the harness's command line; may be repeated.
    #[arg(long = "arg", value_name = "ARGUMENT", allow_hyphen_values = true)]
    args: Vec<String>,
    /// Only define it; a message or `leo agent start` starts it.
    #[arg(long)]
    no_start: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum HarnessArgument {
    /// Claude Code.
    Claude,
    /// The built-in agent that needs no account.
    Demo,
}

fn parse_env(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Body of `POST /api/v1/agents`.
#[derive(Serialize)]
pub(crate) struct NewAgent {
    /// Its name.
    pub(crate) name: AgentName,
    /// Its program.
    pub(crate) harness: leo_ipc::config::Harness,
    /// Absolute path.
    pub(crate) workspace: String,
    /// Its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Added to its environment.
    pub(crate) env: BTreeMap<String, String>,
    /// Added to its command line.
    pub(crate) args: Vec<String>,
    /// Start now and with the supervisor.
    pub(crate) autostart: bool,
    /// Claude's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permission_mode: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(home: &Home, verb: Verb) -> Result<ExitCode, Failure> {
    let api = Api::new(home);
    match verb {
        Verb::Add(arguments) => add(&api, arguments).await?,
        Verb::List(Json { json }) => {
            let agents = api.get::<Agents>("/api/v1/agents").await?.agents;
            if json {
                out::json(&serde_json::json!({ "agents": agents }));
            } else if agents.is_empty() {
                out::line("No agents yet. Add one: leo agent add NAME");
            } else {
                render(&agents, out::width(), Paint::stdout()).iter().for_each(|line| out::line(line));
            }
        }
        Verb::Start(name) => change(&api, &name, "start", "is being started").await?,
        Verb::Stop(name) => change(&api, &name, "stop", "is stopped").await?,
        Verb::Restart(name) => change(&api, &name, "restart", "is being started again").await?,
        Verb::Interrupt(name) => change(&api, &name, "interrupt", "was interrupted").await?,
        Verb::Clear(name) => change(&api, &name, "clear", "was cleared: it begins anew").await?,
        Verb::Compact(Compact { name, instructions }) => {
            let keep = Some(instructions.join(" ")).filter(|keep| !keep.is_empty());
            let body = serde_json::json!({ "instructions": keep });
            tell(&api, &name, "compact", &body, "is compacting its context; its thread says how it ends")
                .await?
        }
        Verb::Rm(name) => {
            let done: Value = api.delete(&path(&name.name, "")).await?;
            if name.json {
                out::json(&done);
            } else {
                out::line(&format!("{} is gone; its messages stay readable.", name.name));
            }
        }
        Verb::Logs(Logs { name, lines, json }) => {
            let logs: LogText = api.get(&format!("{}?lines={lines}", path(&name, "/logs"))).await?;
            if json {
                out::json(&logs);
            } else {
                logs.text.lines().for_each(|line| out::line(&text::visible(line)));
            }
        }
        Verb::Attach(name) => return attach(&api, &name).await,
    }
    Ok(ExitCode::Ok)
}

fn path(name: &AgentName, rest: &str) -> String {
    format!("/api/v1/agents/{}{rest}", segment(name.as_str()))
}

async fn change(api: &Api, name: &Name, verb: &str, done: &str) -> Result<(), Failure> {
    tell(api, name, verb, &(), done).await
}

async fn tell(api: &Api, name: &Name, verb: &str, body: &impl Serialize, done: &str) -> Result<(), Failure> {
    let agent: Agent = api.post(&path(&name.name, &format!("/{verb}")), body).await?;
    if name.json {
        out::json(&agent);
    } else {
        out::line(&format!("{} {done}.", agent.name));
        say_what_it_needs(&agent);
    }
    Ok(())
}

fn say_what_it_needs(agent: &Agent) {
    if agent.activity == Activity::NeedsInput {
        let what = agent.waiting_for.as_deref().unwrap_or("it needs you in its terminal");
        out::line(&format!("It waits for you: {}", text::visible(what)));
        out::line(&format!("Look at it with `leo agent attach {}`.", agent.name));
    }
}

async fn add(api: &Api, arguments: Add) -> Result<(), Failure> {
    let failure = |what: String| Failure::new(ExitCode::Usage, what);
    let asked = arguments.workspace.unwrap_or_else(|| PathBuf::from("."));
    let workspace = std::fs::canonicalize(&asked)
        .ok()
        .filter(|folder| folder.is_dir())
        .ok_or_else(|| failure(format!("the workspace {} is not a folder", asked.display())))?;
    let text = workspace.to_str().ok_or_else(|| failure("the workspace's path is not UTF-8".to_owned()))?;
    let harness = match arguments.harness {
        Some(HarnessArgument::Claude) => leo_ipc::config::Harness::Claude,
        Some(HarnessArgument::Demo) => leo_ipc::config::Harness::Demo,
        None => harness::choose().await.0,
    };
    // Before the person is asked anything: whether there is a daemon, and the name is free.
    let known = api.get::<Agents>("/api/v1/agents").await?.agents;
    if known.iter().any(|agent| agent.name == arguments.name) {
        let what = format!("there is already an agent `{}`: choose another name", arguments.name);
        return Err(Failure::new(ExitCode::Failure, what));
    }
    if harness == leo_ipc::config::Harness::Claude && out::is_interactive() {
        consent::ask_for(std::slice::from_ref(&workspace)).await;
    }
    let new = NewAgent {
        name: arguments.name,
        harness,
        workspace: text.to_owned(),
        model: arguments.model,
        env: arguments.env.into_iter().collect(),
        args: arguments.args,
        autostart: !arguments.no_start,
        permission_mode: arguments.permission_mode,
    };
    let agent: Agent = api.post("/api/v1/agents", &new).await?;
    if arguments.json {
        out::json(&agent);
    } else {
        out::line(&format!("{} ({harness}) works in {}.", agent.name, text::path(text)));
        say_what_it_needs(&agent);
        out::line(&format!("Talk to it: leo chat {}", agent.name));
    }
    Ok(())
}

/// Becomes the terminal's view of the agent.
async fn attach(api: &Api, name: &Name) -> Result<ExitCode, Failure> {
    let spec: AttachCommand = api.get(&path(&name.name, "/attach")).await?;
    if name.json {
        out::json(&spec);
        return Ok(ExitCode::Ok);
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Failure::new(ExitCode::Usage, "attaching needs a terminal"));
    }
    let Some((program, arguments)) = spec.argv.split_first() else {
        return Err(Failure::from(ApiError::Unreadable { what: "it names no program".to_owned() }));
    };
    // Inside another tmux the variable would make tmux refuse, though the two servers differ.
    let error = Command::new(program).args(arguments).env_remove("TMUX").exec();
    Err(Failure::new(ExitCode::Failure, format!("{program} cannot be run: {error}")))
}

/// The agents as a table, each with what it waits for below.
pub(crate) fn render(agents: &[Agent], width: usize, paint: Paint) -> Vec<String> {
    let head = [
        Column::flexible("AGENT"),
        Column::text("STATUS"),
        Column::text("ACTIVITY"),
        Column::text("HARNESS"),
        Column::number("UNREAD"),
        Column::number("RESTARTS"),
        Column::flexible("WORKSPACE"),
    ];
    let rows: Vec<Vec<Cell>> = agents.iter().map(row).collect();
    let mut lines = table::render(&head, &rows, width, paint);
    for agent in agents {
        if agent.activity == Activity::NeedsInput {
            let what = agent.waiting_for.as_deref().unwrap_or("look at its terminal");
            let said = format!("{} waits for you: {}", agent.name, text::visible(what));
            lines.extend(wrap(&said, width.saturating_sub(2)).map(|l| format!("  {}", paint.yellow(&l))));
        }
    }
    lines
}

fn row(agent: &Agent) -> Vec<Cell> {
    let (activity, tone) = activity(agent);
    let status_tone = match agent.status {
        Status::Running => Tone::Good,
        Status::Starting => Tone::Warn,
        Status::Stopped | Status::Unknown => Tone::Dim,
    };
    vec![
        (agent.name.to_string(), Tone::Bold),
        (if agent.suspended { "asleep" } else { status(agent.status) }.to_owned(), status_tone),
        (activity.to_owned(), tone),
        plain(agent.harness.to_string()),
        plain(agent.unread.to_string()),
        plain(agent.restarts.to_string()),
        plain(text::path(&agent.workspace)),
    ]
}

/// The status as the API spells it.
pub(crate) fn status(status: Status) -> &'static str {
    match status {
        Status::Starting => "starting",
        Status::Running => "running",
        Status::Stopped => "stopped",
        Status::Unknown => "unknown",
    }
}

fn activity(agent: &Agent) -> (&'static str, Tone) {
    match agent.activity {
        Activity::NeedsInput => ("needs you", Tone::Warn),
        Activity::Working if agent.status != Status::Stopped => ("working", Tone::Plain),
        Activity::Idle if agent.status != Status::Stopped => ("idle", Tone::Plain),
        Activity::Working | Activity::Idle | Activity::Unknown => ("–", Tone::Dim),
    }
}
