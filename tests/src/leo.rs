//! A running Leo in a home of its own.

use crate::{Api, model::Model, procs, tmux::Tmux, wait_for};
use anyhow::{Context, Result, ensure};
use leo_ipc::{
    Generation,
    client::Client,
    control::{ControlRequest, GetStatus, Shutdown, SupervisorStatus, WorkerState},
    hello::Role,
    paths::Home,
};
use nix::sys::signal::Signal;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// The program under test: `LEO_BIN`, or the `leo` beside the test programs.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("LEO_BIN") {
        return PathBuf::from(path);
    }
    let exe = std::env::current_exe().unwrap_or_default();
    let dir = exe.ancestors().find(|dir| dir.join("leo").is_file()).unwrap_or(Path::new("."));
    dir.join("leo")
}

/// What a Leo starts with.
#[derive(Default)]
pub struct Builder {
    config: String,
    env: BTreeMap<String, String>,
    path: Vec<PathBuf>,
}

/// A running Leo. Dropping it ends its processes, its agents and its home.
pub struct Leo {
    dir: tempfile::TempDir,
    /// Its home.
    pub home: Home,
    /// Its agents' tmux server.
    pub tmux: Tmux,
    builder: Builder,
    child: Option<Child>,
}

impl Builder {
    /// Agents in `leo.yaml`, each `name: harness`; workspaces are made.
    #[must_use]
    pub fn config(mut self, yaml: &str) -> Builder {
        self.config.push_str(yaml);
        self
    }

    /// An environment variable for the supervisor and everything below it.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Builder {
        self.env.insert(key.to_owned(), value.to_owned());
        self
    }

    /// A folder of programs put before the others.
    #[must_use]
    pub fn path(mut self, dir: &Path) -> Builder {
        self.path.push(dir.to_owned());
        self
    }

    /// Makes the home and starts the supervisor in it.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn start(self) -> Result<Leo> {
        let mut leo = self.prepare()?;
        leo.start().await?;
        Ok(leo)
    }

    /// Makes the home, with nothing started.
    ///
    /// # Errors
    /// When the home cannot be made.
    pub fn prepare(self) -> Result<Leo> {
        // Short, since sockets below it have a limit.
        let dir = tempfile::Builder::new().prefix("leo-t").tempdir_in("/tmp")?;
        // Not `$HOME/.leo`, whose tmux server would be the user's own `leo`.
        let home = Home::at(dir.path().join("leo"))?;
        std::fs::create_dir_all(home.root())?;
        std::fs::create_dir_all(dir.path().join("home"))?;
        std::fs::create_dir_all(dir.path().join("work"))?;
        let tmux = Tmux { socket: home.tmux_server() };
        let leo = Leo { dir, home, tmux, builder: self, child: None };
        leo.configure(&leo.builder.config)?;
        Ok(leo)
    }
}

/// One demo agent called `assistant`.
pub const DEMO: &str = "agents: { assistant: { harness: demo, workspace: $WORK } }\n";

/// One Claude Code called `assistant`.
pub const CLAUDE: &str = "agents: { assistant: { harness: claude, workspace: $WORK } }\n";

impl Leo {
    /// A Leo to be configured.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A running Leo with one ready demo agent.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn with_demo() -> Result<Leo> {
        let leo = Leo::builder().config(DEMO).start().await?;
        leo.agent_idle("assistant").await?;
        Ok(leo)
    }

    /// A running Leo with one ready Claude Code that talks to `model`; `None` when this machine has
    /// no Claude Code.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn with_claude(model: &Model, test: &str) -> Result<Option<Leo>> {
        let Some(leo) = Leo::prepare_claude(model, test)? else { return Ok(None) };
        let mut leo = leo;
        leo.start().await?;
        leo.agent_idle("assistant").await?;
        Ok(Some(leo))
    }

    /// As [`Leo::with_claude`], with a configuration before the agent's.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn with_claude_and(model: &Model, test: &str, yaml: &str) -> Result<Option<Leo>> {
        let Some(mut leo) = Leo::prepare_claude(model, test)? else { return Ok(None) };
        leo.configure(&format!("{yaml}\n{CLAUDE}"))?;
        leo.start().await?;
        leo.agent_idle("assistant").await?;
        Ok(Some(leo))
    }

    /// A home for Claude Code with nothing started; `None` when this machine has no Claude Code.
    ///
    /// # Errors
    /// When the home cannot be made.
    pub fn prepare_claude(model: &Model, test: &str) -> Result<Option<Leo>> {
        let Some(bin) = crate::agents::bin_dir_or_skip(test) else { return Ok(None) };
        let leo = Leo::builder()
            .config(CLAUDE)
            .path(&bin)
            .env("ANTHROPIC_BASE_URL", &model.url())
            .env("ANTHROPIC_API_KEY", "sk-fake")
            .env("DISABLE_TELEMETRY", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .prepare()?;
        let state = serde_json::json!({
            "hasCompletedOnboarding": true,
            "theme": "dark",
            "fullscreenUpsellSeenCount": 3,
            "customApiKeyResponses": { "approved": ["sk-fake"], "rejected": [] },
            "projects": { leo.work().to_string_lossy(): { "hasTrustDialogAccepted": true } },
        });
        std::fs::write(leo.user_home().join(".claude.json"), state.to_string())?;
        Ok(Some(leo))
    }

    /// Writes another configuration; `$WORK` stands for the agents' folder.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn configure(&self, yaml: &str) -> Result<()> {
        let yaml = yaml.replace("$WORK", &self.work().to_string_lossy());
        std::fs::write(self.home.config(), format!("web: {{ port: 0 }}\n{yaml}"))?;
        Ok(())
    }

    /// The agents' folder.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// `HOME` of everything started here.
    pub fn user_home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// A `leo` command in this home, with an environment built from nothing.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let path = self.builder.path.iter().cloned().chain(std::env::split_paths(&inherited));
        command.args(args).env_clear();
        command.env("PATH", std::env::join_paths(path).unwrap_or(inherited));
        command.env("HOME", self.user_home()).env("LEO_HOME", self.home.root()).env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8").envs(&self.builder.env);
        command
    }

    /// Runs a `leo` command and returns its output.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn run(&self, args: &[&str]) -> Result<std::process::Output> {
        self.command(args).stdin(Stdio::null()).output().with_context(|| format!("run leo {args:?}"))
    }

    /// Starts the supervisor and waits until every worker runs.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn start(&mut self) -> Result<()> {
        self.spawn()?;
        self.ready().await
    }

    /// Starts the supervisor.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&mut self) -> Result<()> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join("supervisor.log"))?;
        let mut command = self.command(&["supervise"]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(command.spawn().with_context(|| format!("start {}", program().display()))?);
        Ok(())
    }

    /// Waits until every worker runs.
    ///
    /// # Errors
    /// When they do not.
    pub async fn ready(&self) -> Result<()> {
        let waited = wait_for("all workers to run", || async {
            let status = self.status().await.ok()?;
            let running =
                |name: &str| status.workers.iter().any(|w| w.name == name && w.state == WorkerState::Running);
            (["hub", "http", "agents", "reminders"].iter().all(|name| running(name))
                && status.workers.iter().all(|w| w.state == WorkerState::Running))
            .then_some(())
        })
        .await;
        waited.with_context(|| format!("supervisor log:\n{}", self.log()))
    }

    /// The end of what the supervisor wrote.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.dir.path().join("supervisor.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// The supervisor's status, from its own socket.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn status(&self) -> Result<SupervisorStatus> {
        Ok(self.control().call(GetStatus::default(), Duration::from_secs(5)).await?)
    }

    fn control(&self) -> Client<ControlRequest> {
        Client::new(self.home.control_socket(), Role::Cli, Generation(0))
    }

    /// A worker's process.
    ///
    /// # Errors
    /// When it has none.
    pub async fn worker_pid(&self, name: &str) -> Result<i32> {
        let status = self.status().await?;
        let worker = status.workers.into_iter().find(|w| w.name == name);
        let pid = worker.and_then(|w| w.pid).with_context(|| format!("worker {name} has no process"))?;
        Ok(i32::try_from(pid)?)
    }

    /// Waits until a worker runs in another process than `old`.
    ///
    /// # Errors
    /// When it does not.
    pub async fn worker_replaced(&self, name: &str, old: i32) -> Result<i32> {
        wait_for(&format!("a new {name} worker"), || async {
            let status = self.status().await.ok()?;
            let worker =
                status.workers.into_iter().find(|w| w.name == name && w.state == WorkerState::Running)?;
            i32::try_from(worker.pid?).ok().filter(|pid| *pid != old)
        })
        .await
    }

    /// The supervisor's process.
    ///
    /// # Errors
    /// When it was not started.
    pub fn supervisor_pid(&self) -> Result<i32> {
        Ok(i32::try_from(self.child.as_ref().context("no supervisor was started")?.id())?)
    }

    /// A client with the operator's token on TCP.
    ///
    /// # Errors
    /// When there is no listener or token.
    pub async fn api(&self) -> Result<Api> {
        let address = self.status().await?.tcp.context("no TCP listener")?;
        let token = std::fs::read_to_string(self.home.operator_token())?;
        Api::new(format!("http://{address}"), token.trim())
    }

    /// Waits until an agent is running and idle.
    ///
    /// # Errors
    /// When it does not become so; the error shows its terminal.
    pub async fn agent_idle(&self, name: &str) -> Result<()> {
        let api = self.api().await?;
        let idle = wait_for(&format!("agent {name} to be idle"), || async {
            let agent = api.agent(name).await.ok()?;
            (agent["status"] == "running" && agent["activity"] == "idle").then_some(())
        })
        .await;
        if idle.is_err() {
            let agent = api.agent(name).await;
            let screen = self.tmux.screen(&format!("={name}:"));
            return idle.with_context(|| format!("{agent:?}\n{screen:?}\n{}", self.log()));
        }
        idle
    }

    /// Waits for a message's state.
    ///
    /// # Errors
    /// When it does not come to that state.
    pub async fn message_state(&self, agent: &str, id: &str, state: &str) -> Result<serde_json::Value> {
        let api = self.api().await?;
        let reached = wait_for(&format!("message {id} to be {state}"), || async {
            api.message(agent, id).await.ok().filter(|m| m["state"] == state)
        })
        .await;
        if reached.is_err() {
            let screen = self.tmux.screen(&format!("={agent}:")).unwrap_or_default();
            let message = api.message(agent, id).await;
            return reached.with_context(|| format!("{message:?}\n{screen}\n{}", self.log()));
        }
        reached
    }

    /// Waits for the reply to a message and returns its text.
    ///
    /// # Errors
    /// When there is none.
    pub async fn reply(&self, agent: &str, to: &str) -> Result<String> {
        let api = self.api().await?;
        let replied =
            wait_for(&format!("a reply to {to}"), || async { api.reply(agent, to).await.ok().flatten() })
                .await;
        match replied {
            Ok(message) => Ok(message["text"].as_str().unwrap_or_default().to_owned()),
            Err(e) => {
                let screen = self.tmux.screen(&format!("={agent}:")).unwrap_or_default();
                let thread = api.thread(agent).await.unwrap_or_default();
                Err(e).with_context(|| format!("{thread:#?}\n{screen}\n{}", self.log()))
            }
        }
    }

    /// Kills the supervisor with SIGKILL and reaps it.
    ///
    /// # Errors
    /// When none runs.
    pub fn kill_supervisor(&mut self) -> Result<()> {
        let mut child = self.child.take().context("no supervisor was started")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Stops the supervisor as Ctrl-C does.
    ///
    /// # Errors
    /// When it does not end well.
    pub async fn stop(&mut self) -> Result<()> {
        let mut child = self.child.take().context("no supervisor was started")?;
        procs::signal(i32::try_from(child.id())?, Signal::SIGINT);
        let status = wait_for("the supervisor to end", || {
            let ended = child.try_wait().ok().flatten();
            async move { ended }
        })
        .await?;
        ensure!(status.success(), "the supervisor ended with {status}\n{}", self.log());
        Ok(())
    }

    /// Asks the supervisor to stop over its socket; for tests of that path.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn shutdown(&self) -> Result<()> {
        self.control().call(Shutdown {}, Duration::from_secs(10)).await?;
        Ok(())
    }

    /// Processes of this home besides those in tmux: workers, hooks and shims name the program, and
    /// workers are children of `supervisor`.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn workers_of(&self, supervisor: i32) -> Result<Vec<procs::Proc>> {
        Ok(procs::list()?.into_iter().filter(|p| p.parent == supervisor).collect())
    }
}

impl Drop for Leo {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.tmux.kill_server();
        if std::thread::panicking() || std::env::var_os("LEO_TEST_KEEP").is_some() {
            #[expect(clippy::print_stderr, reason = "a failed test shows where to look")]
            {
                eprintln!("supervisor log of {}:\n{}", self.home.root().display(), self.log());
            }
        }
    }
}
