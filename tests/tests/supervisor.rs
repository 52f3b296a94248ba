//! Starting: one supervisor a home, whatever the last one left behind and however little environment
//! there is.

use anyhow::{Context, Result, ensure};
use leo_ipc::control::WorkerState;
use leo_tests::{Leo, leo::DEMO, procs, wait_for};
use nix::sys::signal::Signal;
use std::{os::unix::net::UnixListener, process::Stdio};

#[tokio::test]
async fn two_supervisors_at_once_exactly_one_lives() -> Result<()> {
    let leo = Leo::builder().config(DEMO).prepare()?;
    let start = || {
        leo.command(&["supervise"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
    };
    let mut both = [start()?, start()?];
    let loser = wait_for("one of them to give up", || {
        let ended = both.iter_mut().position(|child| child.try_wait().is_ok_and(|s| s.is_some()));
        async move { ended }
    })
    .await?;
    let refused = std::mem::replace(&mut both[loser], start()?).wait_with_output()?;
    ensure!(refused.status.code() == Some(75), "{:?}", refused.status);
    let text = String::from_utf8_lossy(&refused.stderr);
    ensure!(text.contains("another supervisor runs"), "it says why: {text}");
    let mut third = both.into_iter().collect::<Vec<_>>();
    let mut late = third.remove(loser);
    ensure!(late.wait()?.code() == Some(75), "and so does a third");
    let ready = leo.ready().await;
    let mut winner = third.remove(0);
    procs::signal_child(&winner, Signal::SIGTERM);
    ensure!(winner.wait()?.success());
    ready
}

/// Whatever the pid and lock files hold, only the lock itself counts.
#[tokio::test]
async fn lock_zoo() -> Result<()> {
    for left_behind in ["", "garbage", "1", "999999999", "-5\n"] {
        let mut leo = Leo::builder().config(DEMO).prepare()?;
        std::fs::create_dir_all(leo.home.run())?;
        std::fs::write(leo.home.lock(), left_behind)?;
        std::fs::write(leo.home.pid(), left_behind)?;
        leo.start().await.with_context(|| format!("with {left_behind:?}"))?;
        leo.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn dead_sockets_are_replaced_and_other_files_are_not() -> Result<()> {
    let mut leo = Leo::builder().config(DEMO).prepare()?;
    std::fs::create_dir_all(leo.home.run())?;
    std::fs::create_dir_all(leo.home.state())?;
    for socket in
        [leo.home.hub_socket(), leo.home.agents_socket(), leo.home.control_socket(), leo.home.http_socket()]
    {
        drop(UnixListener::bind(socket)?);
    }
    leo.start().await?;
    leo.stop().await?;

    std::fs::write(leo.home.hub_socket(), "a person's notes")?;
    let out = leo.run(&["supervise"])?;
    ensure!(!out.status.success());
    ensure!(std::fs::read_to_string(leo.home.hub_socket())? == "a person's notes", "not ours, not touched");
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    ensure!(text.contains("hub.sock"), "it names the file: {text}");
    Ok(())
}

#[tokio::test]
async fn starts_with_hardly_any_environment() -> Result<()> {
    let leo = Leo::builder().config(DEMO).prepare()?;
    let mut command = leo.command(&["supervise"]);
    command
        .env_clear()
        .env("HOME", leo.user_home())
        .env("LEO_HOME", leo.home.root())
        .env("PATH", "/usr/bin:/bin");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    leo.ready().await?;
    leo.agent_idle("assistant").await?;
    let api = leo.api().await?;
    let id = api.send("assistant", "⠋ Ж 😀").await?;
    let reply = leo.reply("assistant", &id).await?;
    ensure!(reply.contains("⠋ Ж 😀"), "{reply}");
    procs::signal_child(&child, Signal::SIGTERM);
    child.wait()?;
    Ok(())
}

#[tokio::test]
async fn a_newer_database_is_refused_and_the_rest_says_so() -> Result<()> {
    let mut leo = Leo::builder().config(DEMO).prepare()?;
    leo.start().await?;
    leo.stop().await?;
    let status = std::process::Command::new("sqlite3")
        .arg(leo.home.database())
        .arg("PRAGMA user_version = 999")
        .status();
    if !status.is_ok_and(|s| s.success()) {
        // The same through the file's header: user_version is the big-endian word at offset 60.
        let mut bytes = std::fs::read(leo.home.database())?;
        bytes[60..64].copy_from_slice(&999u32.to_be_bytes());
        std::fs::write(leo.home.database(), bytes)?;
    }
    leo.spawn()?;
    let reason = wait_for("the hub to be given up", || async {
        let hub = leo.status().await.ok()?.workers.into_iter().find(|w| w.name == "hub")?;
        (hub.state == WorkerState::Failed).then_some(hub.reason)
    })
    .await
    .with_context(|| leo.log())?;
    ensure!(reason.as_deref().is_some_and(|r| r.contains("newer leo")), "{reason:?}");
    let api = leo.api().await?;
    let answer = api.ask(reqwest::Method::GET, "/api/v1/chat/threads", None).await?;
    ensure!(answer.status == 503 && answer.code() == "unavailable", "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn a_broken_configuration_names_file_line_and_key() -> Result<()> {
    let cases = [
        ("agents:\n  assistant:\n    harnes: demo\n", "harness"),
        ("web:\n  prot: 1\n", "port"),
        ("agents:\n  assistant:\n    harness: demo\n    workspace: relative/path\n", "workspace"),
    ];
    for (yaml, expected) in cases {
        let leo = Leo::builder().prepare()?;
        std::fs::write(leo.home.config(), yaml)?;
        let out = leo.run(&["supervise"])?;
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        ensure!(out.status.code() == Some(78), "{:?} for {yaml}: {text}", out.status);
        ensure!(text.contains("leo.yaml") && text.contains(expected), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_running_supervisor_keeps_its_last_good_configuration() -> Result<()> {
    let leo = Leo::with_demo().await?;
    std::fs::write(leo.home.config(), "agents: [not, a, map]\n")?;
    let out = leo.run(&["reload"])?;
    ensure!(!out.status.success(), "a bad file is an error");
    ensure!(leo.status().await?.config_error.is_some(), "and the status says so");
    let api = leo.api().await?;
    ensure!(api.agent("assistant").await.is_ok(), "the agent is still there");
    std::fs::write(
        leo.home.config(),
        format!(
            "web: {{ port: 0 }}\nagents:\n  assistant: {{ harness: demo, workspace: {w} }}\n  second: {{ harness: demo, workspace: {w} }}\n",
            w = leo.work().display()
        ),
    )?;
    ensure!(leo.run(&["reload"])?.status.success());
    leo.agent_idle("second").await?;
    ensure!(leo.status().await?.config_error.is_none());
    Ok(())
}
