//! `crash_points`: messages with stable ids, SIGKILL at random points, drain. Every id is in the thread
//! exactly once, at the agent at most once, and the outcomes partition them.

use anyhow::{Context, Result, ensure};
use leo_tests::{Leo, model::Model, procs, wait_for};
use nix::sys::signal::Signal;
use rand::RngExt;
use reqwest::Method;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

const AGENT: &str = "assistant";
const PANE: &str = "=assistant:";

/// What is done to a running Leo.
struct Plan {
    messages: usize,
    kills: usize,
    /// What is killed, in turn.
    victims: &'static [&'static str],
    /// The text behind a message's number, and whether it is for the turn that runs.
    message: fn(usize) -> (&'static str, bool),
}

/// The demo agent, to which messages are pasted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points() -> Result<()> {
    let leo = Leo::with_demo().await?;
    let plan = Plan {
        messages: 200,
        kills: 50,
        victims: &["hub", "http", "agents", "mcp:assistant", "supervisor"],
        message: |_| ("", false),
    };
    let leo = survive(leo, &plan).await?;
    let thread = drained(&leo).await?;
    let prompts = prompts_at_the_agent(&leo)?;
    judge(&thread, &plan, |text| prompts.iter().filter(|p| p.contains(text)).count())
}

/// The real Claude, by the mod; some messages are for the turn that runs and go by the inbox. Claude dies
/// as well, so seldom that it is started again each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_with_claude() -> Result<()> {
    let model = Model::start().await?;
    let Some(leo) = Leo::with_claude(&model, "crash_points_with_claude").await? else { return Ok(()) };
    let plan = Plan {
        messages: 60,
        kills: 24,
        victims: &["agents", "hub", "claude", "agents", "http", "supervisor", "mcp:assistant", "agents"],
        message: |n| match n % 5 {
            1 => ("\n>>sleep 0.3\n>>tool leo_chat_history {\"limit\": 1}\n>>sleep 0.2\n>>say done", false),
            2 | 3 => ("", true),
            _ => ("", false),
        },
    };
    let leo = survive(leo, &plan).await?;
    judge(&drained(&leo).await?, &plan, |text| model.times_read(text))
}

fn text(n: usize) -> String {
    format!("message number {n}.")
}

/// Sends and kills at the same time, until every message was acknowledged.
async fn survive(mut leo: Leo, plan: &Plan) -> Result<Leo> {
    let (base, token) = {
        let api = leo.api().await?;
        (api.base, api.token)
    };
    // After a start of the supervisor the port is another one: the app goes by the unix socket's
    // sibling, the status, which the sender asks for each time.
    let sender = tokio::spawn({
        let control = leo.home.clone();
        let first = leo_tests::Api::new(base, token)?;
        let (messages, message) = (plan.messages, plan.message);
        async move {
            for n in 0..messages {
                let (more, steer) = message(n);
                let text = format!("{}{more}", text(n));
                let body = json!({ "text": text, "client_msg_id": format!("c{n}"), "steer": steer });
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
    for kill in 0..plan.kills {
        let name = plan.victims[kill % plan.victims.len()];
        tokio::time::sleep(Duration::from_millis(rand::rng().random_range(20..400))).await;
        match name {
            "supervisor" => {
                leo.kill_supervisor()?;
                leo.start().await?;
            }
            // It may be between two lives.
            "claude" => {
                if let Ok(pid) = leo.tmux.pane_pid(PANE) {
                    procs::signal(pid, Signal::SIGKILL);
                }
            }
            _ => {
                let pid = leo.worker_pid(name).await.with_context(|| leo.log())?;
                procs::signal(pid, Signal::SIGKILL);
                leo.worker_replaced(name, pid).await.with_context(|| leo.log())?;
            }
        }
    }
    sender.await??;
    Ok(leo)
}

/// The thread once every message has an outcome.
async fn drained(leo: &Leo) -> Result<Vec<Value>> {
    let api = leo.api().await?;
    let within = Duration::from_secs(240);
    let drained = leo_tests::wait::wait_within(within, "every message to have an outcome", || async {
        let thread = api.thread(AGENT).await.ok()?;
        (!thread.iter().any(|m| m["state"] == "pending")).then_some(thread)
    })
    .await;
    drained.with_context(|| format!("{}\n{}", leo.tmux.screen(PANE).unwrap_or_default(), leo.log()))
}

/// Each message is in the thread once, with an outcome that the agent bears out.
#[expect(clippy::print_stdout, reason = "how the outcomes were distributed is worth seeing")]
fn judge(thread: &[Value], plan: &Plan, times_at_the_agent: impl Fn(&str) -> usize) -> Result<()> {
    // A turn that has begun dies with its agent, at times before the model has read its prompt.
    let deaths = (0..plan.kills).filter(|kill| plan.victims[kill % plan.victims.len()] == "claude").count();
    let mut unread = 0;
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for n in 0..plan.messages {
        let rows: Vec<_> = thread.iter().filter(|m| m["client_msg_id"] == format!("c{n}")).collect();
        ensure!(rows.len() == 1, "c{n} is in the thread {} times", rows.len());
        let row = rows[0];
        let state = row["state"].as_str().unwrap_or_default();
        ensure!(["delivered", "failed"].contains(&state), "c{n} is {state}");
        let reason = row["failed_reason"].as_str().unwrap_or_default();
        let route = row["delivery"]["route"].as_str().unwrap_or_default();
        *outcomes.entry(format!("{state} {reason}{route}")).or_default() += 1;
        let times = times_at_the_agent(&text(n));
        ensure!(times <= 1, "message {n} reached the agent {times} times: {row}");
        if state == "delivered" {
            unread += usize::from(times == 0);
            ensure!(
                unread <= deaths,
                "message {n} is said to be delivered, and the agent does not have it: {row}"
            );
        } else if reason != "unproven" {
            ensure!(times == 0, "message {n} is said to have failed, and the agent has it: {row}");
        }
    }
    println!("outcomes of {} messages over {} kills: {outcomes:?}", plan.messages, plan.kills);
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
                    let row: Value = serde_json::from_str(line).unwrap_or_default();
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
