//! The commands a person types.

use anyhow::{Result, ensure};
use leo_tests::Leo;
use serde_json::Value;

fn text(out: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

#[tokio::test]
async fn without_a_daemon_every_command_says_what_to_do() -> Result<()> {
    let leo = Leo::builder().prepare()?;
    for args in [
        &["status"][..],
        &["worker", "list"],
        &["worker", "restart", "hub"],
        &["agent", "list"],
        &["agent", "stop", "x"],
        &["reload"],
        &["chat", "assistant", "hello"],
    ] {
        let out = leo.run(args)?;
        ensure!(out.status.code() == Some(69), "{args:?}: {:?} {}", out.status, text(&out));
        ensure!(text(&out).contains("leo up"), "{args:?}: {}", text(&out));
    }
    let out = leo.run(&["no-such-command"])?;
    ensure!(out.status.code() == Some(2), "{:?}", out.status);
    Ok(())
}

#[tokio::test]
async fn reading_commands_speak_json() -> Result<()> {
    let leo = Leo::with_demo().await?;
    for args in [&["status", "--json"][..], &["worker", "list", "--json"], &["agent", "list", "--json"]] {
        let out = leo.run(args)?;
        ensure!(out.status.success(), "{args:?}: {}", text(&out));
        let json: Value = serde_json::from_slice(&out.stdout)?;
        ensure!(
            json.to_string().contains("assistant") || json.to_string().contains("hub"),
            "{args:?}: {json}"
        );
    }
    let out = leo.run(&["status"])?;
    let shown = text(&out);
    for word in ["hub", "http", "agents", "reminders", "mcp:assistant", "assistant"] {
        ensure!(shown.contains(word), "status names {word}:\n{shown}");
    }
    let out = leo.run(&["doctor"])?;
    ensure!(text(&out).to_lowercase().contains("tmux"), "{}", text(&out));
    let out = leo.run(&["completions", "bash"])?;
    ensure!(out.status.success() && text(&out).contains("leo"));
    let out = leo.run(&["web", "login-url"])?;
    ensure!(text(&out).contains("/login?token="), "{}", text(&out));
    Ok(())
}

#[tokio::test]
async fn agents_from_the_command_line() -> Result<()> {
    let leo = Leo::with_demo().await?;
    let work = leo.work();
    let work = work.to_string_lossy();
    let out = leo.run(&["agent", "add", "second", "--harness", "demo", "--workspace", &work])?;
    ensure!(out.status.success(), "{}", text(&out));
    leo.agent_idle("second").await?;
    let out = leo.run(&["agent", "add", "second", "--harness", "demo", "--workspace", &work])?;
    ensure!(!out.status.success() && text(&out).contains("second"), "{}", text(&out));
    let out = leo.run(&["chat", "second", ">>say from the shell"])?;
    ensure!(out.status.success() && text(&out).contains("from the shell"), "{}", text(&out));
    let out = leo.run(&["agent", "logs", "second"])?;
    ensure!(text(&out).contains("from the shell"), "{}", text(&out));
    ensure!(leo.run(&["agent", "stop", "second"])?.status.success());
    ensure!(!leo.tmux.sessions()?.contains(&"second".to_owned()));
    ensure!(leo.run(&["agent", "start", "second"])?.status.success());
    leo.agent_idle("second").await?;
    let out = leo.run(&["agent", "rm", "second"])?;
    ensure!(out.status.success(), "{}", text(&out));
    let api = leo.api().await?;
    ensure!(api.agent("second").await.is_err(), "it is gone");
    ensure!(!api.thread("second").await?.is_empty(), "its thread stays readable");
    Ok(())
}

#[tokio::test]
async fn a_worker_can_be_restarted_by_name() -> Result<()> {
    let leo = Leo::with_demo().await?;
    for worker in ["http", "hub", "agents", "reminders", "mcp:assistant"] {
        let pid = leo.worker_pid(worker).await?;
        let out = leo.run(&["worker", "restart", worker])?;
        ensure!(out.status.success(), "{}", text(&out));
        leo.worker_replaced(worker, pid).await?;
    }
    let out = leo.run(&["worker", "restart", "nobody"])?;
    ensure!(!out.status.success() && text(&out).contains("nobody"), "{}", text(&out));
    Ok(())
}
