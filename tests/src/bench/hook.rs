//! P3: how long `leo hook` takes, against `/bin/true` and the same start in Python and Node.

use crate::{Samples, say};
use anyhow::{Context, Result};
use leo_ipc::{
    AgentName, Generation,
    agent::{BeginLaunch, PutAgent, Source},
    client::Client,
    config::{AgentConfig, Harness},
    hello::Role,
    hub::HubRequest,
    id::{fresh_token, token_hash},
};
use leo_tests::{Leo, leo::program};
use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const ROUNDS: usize = 200;
const SLOW_ROUNDS: usize = 20;

pub(crate) async fn run() -> Result<()> {
    say("hook: P3, start to exit with the supervisor up");
    let leo = Leo::with_demo().await?;
    let token = fresh_token();
    let name: AgentName = "bench".parse()?;
    let hub: Client<HubRequest> = Client::new(leo.home.hub_socket(), Role::Cli, Generation(0));
    let config = AgentConfig {
        harness: Harness::Demo,
        workspace: leo.work().to_string_lossy().into_owned(),
        autostart: false,
        ..AgentConfig::default()
    };
    let within = Duration::from_secs(5);
    hub.call(
        PutAgent { name: name.clone(), config, source: Source::Api, must_be_new: false, key: None },
        within,
    )
    .await?;
    let launch = BeginLaunch {
        name,
        launch: "bench-launch".into(),
        token_hash: token_hash(&token),
        tmux_session: "bench".into(),
        crash_restart: false,
    };
    hub.call(launch, within).await?;

    let event = r#"{"session_id":"s","hook_event_name":"PreToolUse","prompt_id":"p","tool_name":"Bash",
        "tool_input":{"command":"ls"},"tool_use_id":"t","cwd":"/","permission_mode":"default"}"#;
    let program = program();
    let hook = |_| {
        let mut command = Command::new(&program);
        command.arg("hook").env_clear().env("LEO_HOME", leo.home.root()).env("LEO_API_TOKEN", &token);
        time(command, event)
    };
    let plain = |path: &'static str, args: &'static [&'static str]| {
        move |_| {
            let mut command = Command::new(path);
            command.args(args);
            time(command, event)
        }
    };
    // Interleaved, so that both see the same machine.
    let (mut hooks, mut trues) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        hooks.push(hook(round)?);
        trues.push(plain("/bin/true", &[])(round)?);
    }
    let (hooks, trues) = (Samples::new(hooks), Samples::new(trues));
    say(&format!("  leo hook:   {}", hooks.show()));
    say(&format!("  /bin/true:  {}", trues.show()));
    say(&format!("  ratio of the medians: {:.2}", ratio(&hooks, &trues)));
    for (path, args) in [
        ("python3", &["-c", "import json,sys,socket; json.load(sys.stdin)"][..]),
        ("node", &["-e", "JSON.parse(require('fs').readFileSync(0))"][..]),
    ] {
        if !on_path(path) {
            say(&format!("  {path}: not on this machine"));
            continue;
        }
        let samples: Result<Vec<_>> = (0..SLOW_ROUNDS).map(plain(path, args)).collect();
        let samples = Samples::new(samples?);
        say(&format!("  {path:9}:  {} ({:.1} times as long)", samples.show(), ratio(&samples, &hooks)));
    }
    Ok(())
}

fn ratio(a: &Samples, b: &Samples) -> f64 {
    a.median().as_secs_f64() / b.median().as_secs_f64().max(f64::MIN_POSITIVE)
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| Path::new(&dir).join(program).exists())
}

fn time(mut command: Command, input: &str) -> Result<Duration> {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // `/bin/true` may be gone before it is written to.
    let _ = child.stdin.take().context("a pipe")?.write_all(input.as_bytes());
    child.wait()?;
    Ok(start.elapsed())
}
