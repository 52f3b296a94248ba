//! `crash_points`: messages with stable ids, SIGKILL at random points, drain. Every id is in the thread
//! exactly once, at the agent at most once, and the outcomes partition them.

use anyhow::{Context, Result, ensure};
use leo_tests::{Leo, procs, wait_for};
use nix::sys::signal::Signal;
use rand::RngExt;
use reqwest::Method;
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};

const AGENT: &str = "assistant";
const MESSAGES: usize = 200;
const KILLS: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points() -> Result<()> {
    let mut leo = Leo::with_demo().await?;
    let (base, token) = {
        let api = leo.api().await?;
        (api.base, api.token)
    };
    // After a start of the supervisor the port is another one: the app goes by the unix socket's
    // sibling, the status, which the sender asks for each time.
    let sender = tokio::spawn({
        let control = leo.home.clone();
        let first = leo_tests::Api::new(base, token)?;
        async move {
            for n in 0..MESSAGES {
                let body =
                    json!({ "text": format!("message number {n}."), "client_msg_id": format!("c{n}") });
                wait_for("an acknowledgement", || async {
                    let api = current(&control).await.unwrap_or(first.clone());
                    let path = format!("/api/v1/chat/{AGENT}/messages");
                    let answer = api.ask(Method::POST, &path, Some(body.clone())).await.ok()?;
                    answer.status.is_success().then_some(())
                })
                .await?;
            }
            anyhow::Ok(())
        }
    });
    let names = ["hub", "http", "agents", "mcp:assistant", "supervisor"];
    for kill in 0..KILLS {
        let name = names[kill % names.len()];
        tokio::time::sleep(Duration::from_millis(rand::rng().random_range(20..400))).await;
        if name == "supervisor" {
            leo.kill_supervisor()?;
            leo.start().await?;
            continue;
        }
        let pid = leo.worker_pid(name).await.with_context(|| leo.log())?;
        procs::signal(pid, Signal::SIGKILL);
        leo.worker_replaced(name, pid).await.with_context(|| leo.log())?;
    }
    sender.await??;

    let api = leo.api().await?;
    let drained = leo_tests::wait::wait_within(
        Duration::from_secs(240),
        "every message to have an outcome",
        || async {
            let thread = api.thread(AGENT).await.ok()?;
            (!thread.iter().any(|m| m["state"] == "pending")).then_some(thread)
        },
    )
    .await;
    let thread = drained
        .with_context(|| format!("{}\n{}", leo.tmux.screen("=assistant:").unwrap_or_default(), leo.log()))?;

    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for n in 0..MESSAGES {
        let rows: Vec<_> = thread.iter().filter(|m| m["client_msg_id"] == format!("c{n}")).collect();
        ensure!(rows.len() == 1, "c{n} is in the thread {} times", rows.len());
        let state = rows[0]["state"].as_str().unwrap_or_default();
        ensure!(["delivered", "failed"].contains(&state), "c{n} is {state}");
        let reason = rows[0]["failed_reason"].as_str().unwrap_or_default();
        *outcomes.entry(format!("{state} {reason}").trim().to_owned()).or_default() += 1;
    }
    let prompts = prompts_at_the_agent(&leo)?;
    for n in 0..MESSAGES {
        let times = prompts.iter().filter(|p| p.contains(&format!("message number {n}."))).count();
        let row = thread.iter().find(|m| m["client_msg_id"] == format!("c{n}")).context("a row")?;
        ensure!(times <= 1, "message {n} reached the agent {times} times");
        if row["state"] == "delivered" {
            ensure!(times == 1, "message {n} is said to be delivered, and the agent does not have it");
        } else if row["failed_reason"] != "unproven" {
            ensure!(times == 0, "message {n} is said to have failed, and the agent has it: {row}");
        }
    }
    println!("outcomes of {MESSAGES} messages over {KILLS} kills: {outcomes:?}");
    Ok(())
}

async fn current(home: &leo_ipc::paths::Home) -> Option<leo_tests::Api> {
    use leo_ipc::{Generation, client::Client, control::GetStatus, hello::Role};
    let client = Client::new(home.control_socket(), Role::Cli, Generation(0));
    let status = client.call(GetStatus::default(), Duration::from_secs(2)).await.ok()?;
    let token = std::fs::read_to_string(home.operator_token()).ok()?;
    leo_tests::Api::new(format!("http://{}", status.tcp?), token.trim()).ok()
}

/// The prompts in all transcripts of the demo agent.
fn prompts_at_the_agent(leo: &Leo) -> Result<Vec<String>> {
    let mut prompts = Vec::new();
    let mut folders = vec![leo.home.state()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "jsonl") {
                for line in std::fs::read_to_string(path)?.lines() {
                    let row: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
                    if row["type"] == "user" {
                        prompts.push(row["message"]["content"].as_str().unwrap_or_default().to_owned());
                    }
                }
            }
        }
    }
    ensure!(!prompts.is_empty(), "the demo agent keeps a transcript below the state folder");
    Ok(prompts)
}
