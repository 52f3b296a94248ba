//! Tasks: real headless agents, their cards and asks, and what happens when their holders are killed.

use anyhow::{Context, Result, ensure};
use leo_tests::{Leo, model::Model, procs, wait::wait_within, wait_for};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

const AGENT: &str = "assistant";

/// A schedule of every minute fires within one, and a busy machine needs some of the next.
const A_MINUTE_AND_MORE: Duration = Duration::from_secs(150);

fn text(out: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// A home with a demo agent that does not run, and these tasks (YAML of one line each).
async fn with_tasks(tasks: &str) -> Result<Leo> {
    let agents = "agents: { assistant: { harness: demo, workspace: $WORK, autostart: false } }\n";
    Leo::builder().config(&format!("{agents}tasks:\n{tasks}")).start().await
}

/// Processes of a home that belong to a run.
fn of_runs(leo: &Leo) -> Result<Vec<procs::Proc>> {
    let home = leo.home.root().display().to_string();
    let ours = |p: &procs::Proc| p.command.contains("task-guard") && p.command.contains(&home);
    Ok(procs::list()?.into_iter().filter(ours).collect())
}

async fn no_process_is_left(leo: &Leo) -> Result<()> {
    wait_for("every process of the run to end", || async { of_runs(leo).ok().filter(Vec::is_empty) }).await?;
    Ok(())
}

/// Posts, asks, is answered, ends well; then fails, with a card.
async fn a_real_task(harness: &str, test: &str) -> Result<()> {
    let model = Model::start().await?;
    let prompt = ">>tool leo_chat_post {\"text\": \"fresh news\"}\n\
                  >>tool leo_chat_ask {\"question\": \"Ship it?\", \"options\": [\"Yes\", \"No\"]}\n>>say done";
    let Some(mut leo) = Leo::prepare_headless(&model, harness, test, prompt)? else { return Ok(()) };
    leo.start().await?;
    let api = leo.api().await?;
    let running = leo.run_task("news")?;
    let card = api.message_where("the card", AGENT, |m| m["text"] == "fresh news").await;
    let card = match card {
        Ok(card) => card,
        Err(e) => return Err(e).with_context(|| format!("{}\n{:?}", leo.log(), api_log(&leo))),
    };
    ensure!(card["kind"] == "task" && card["task"] == "news", "{card}");
    let ask = api.message_where("the ask", AGENT, |m| m["kind"] == "ask" && m["state"] == "open").await?;
    ensure!(ask["run_id"] == card["run_id"], "{ask}");
    let open_for = seconds(&ask["deadline"])? - seconds(&ask["ts"])?;
    ensure!((299..=301).contains(&open_for), "an ask of a headless run waits 300 s, found {open_for}");
    let answer = format!("/api/v1/chat/{AGENT}/messages/{}/answer", ask["id"].as_str().unwrap_or_default());
    api.post(&answer, json!({ "values": ["Yes"], "text": "" })).await?;
    let out = running.end().await?;
    ensure!(out.status.success(), "{}", text(&out));
    ensure!(text(&out).contains("done"), "its output is live: {}", text(&out));
    ensure!(model.tool_results().iter().any(|r| r.contains("Yes")), "{:?}", model.tool_results());
    let runs = api.runs("news").await?;
    ensure!(runs[0]["state"] == "succeeded" && runs[0]["id"] == card["run_id"], "{runs:?}");

    model.fail_with(Some(400));
    let out = leo.run_task("news")?.end().await?;
    ensure!(out.status.code() == Some(1), "{}: {}", out.status, text(&out));
    let failed =
        |m: &Value| m["text"].as_str().is_some_and(|t| t.starts_with("**Task failed: news**\nRun `"));
    let card = api.message_where("the failure card", AGENT, failed).await?;
    let said = card["text"].as_str().unwrap_or_default();
    ensure!(card["kind"] == "task" && said.contains("scripted failure"), "{said}");
    no_process_is_left(&leo).await
}

fn seconds(time: &Value) -> Result<i64> {
    let time: leo_ipc::Time = serde_json::from_value(time.clone())?;
    Ok(time.millis() / 1000)
}

/// The logs of all runs, for a failed test.
fn api_log(leo: &Leo) -> Vec<String> {
    fn read(folder: &Path, out: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                read(&path, out);
            } else {
                out.push(std::fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    let mut out = Vec::new();
    read(&leo.home.logs().join("tasks"), &mut out);
    out
}

#[tokio::test]
async fn a_real_claude_task() -> Result<()> {
    a_real_task("claude", "a_real_claude_task").await
}

#[tokio::test]
async fn a_real_codex_task() -> Result<()> {
    a_real_task("codex", "a_real_codex_task").await
}

#[tokio::test]
async fn a_real_opencode_task() -> Result<()> {
    a_real_task("opencode", "a_real_opencode_task").await
}

/// A schedule fires; the worker that holds the run is killed, and the run with it; the next time it is
/// due it runs again.
#[tokio::test]
async fn a_scheduled_run_dies_with_its_worker_and_the_next_one_comes() -> Result<()> {
    let leo = with_tasks(
        "  tick: { harness: demo, schedule: '* * * * *', prompt: \">>tool leo_chat_post {\\\"text\\\": \\\"tick\\\"}\\n>>sleep 3000\" }\n",
    )
    .await?;
    let api = leo.api().await?;
    let cards = || async {
        let thread = api.thread(AGENT).await.ok()?;
        Some(thread.into_iter().filter(|m| m["text"] == "tick").collect::<Vec<_>>())
    };
    let first =
        wait_within(A_MINUTE_AND_MORE, "the first card", || async { cards().await?.into_iter().next() })
            .await
            .with_context(|| leo.log())?;
    let worker = leo.worker_pid("tasks").await?;
    procs::signal(worker, Signal::SIGKILL);
    no_process_is_left(&leo).await?;
    leo.worker_replaced("tasks", worker).await?;
    let interrupted = wait_for("the run to be recorded as interrupted", || async {
        let runs = api.runs("tick").await.ok()?;
        runs.into_iter().find(|r| r["id"] == first["run_id"] && r["state"] == "interrupted")
    })
    .await?;
    ensure!(interrupted["trigger"] == "schedule", "{interrupted}");
    wait_within(A_MINUTE_AND_MORE, "the next card", || async {
        cards().await?.into_iter().find(|m| m["run_id"] != first["run_id"])
    })
    .await?;
    let failed = api.thread(AGENT).await?.into_iter().any(|m| m.to_string().contains("Task failed"));
    ensure!(!failed, "an interrupted run posts nothing");
    Ok(())
}

#[tokio::test]
async fn a_run_survives_the_hub_and_outlives_the_supervisor() -> Result<()> {
    let mut leo = with_tasks("  long: { harness: demo, prompt: \">>sleep 4\\n>>say over\" }\n").await?;
    let running = leo.run_task("long")?;
    wait_for("the run to start", || async { of_runs(&leo).ok().filter(|p| !p.is_empty()) }).await?;
    procs::signal(leo.worker_pid("hub").await?, Signal::SIGKILL);
    let out = running.end().await?;
    ensure!(out.status.success() && text(&out).contains("over"), "{}", text(&out));
    ensure!(!text(&out).contains("warning"), "the hub's death costs nothing: {}", text(&out));
    ensure!(leo.api().await?.runs("long").await?[0]["state"] == "succeeded");

    let running = leo.run_task("long")?;
    wait_for("the run to start", || async { of_runs(&leo).ok().filter(|p| !p.is_empty()) }).await?;
    leo.kill_supervisor()?;
    let out = running.end().await?;
    ensure!(out.status.success() && text(&out).contains("over"), "its result is unchanged: {}", text(&out));
    ensure!(text(&out).contains("warning: how it ended is not recorded"), "{}", text(&out));
    leo.start().await?;
    let api = leo.api().await?;
    wait_for("the run to be recorded as interrupted", || async {
        api.runs("long").await.ok()?.into_iter().find(|r| r["state"] == "interrupted")
    })
    .await?;
    no_process_is_left(&leo).await
}

#[tokio::test]
async fn a_run_without_a_daemon_says_so_and_has_the_same_result() -> Result<()> {
    let leo = Leo::builder()
        .config(
            "tasks:\n  ok: { harness: demo, workspace: $WORK, prompt: '>>say fine' }\n  \
             bad: { harness: demo, workspace: $WORK, notify_on_fail: true, prompt: '>>fail broken' }\n",
        )
        .prepare()?;
    let out = leo.run(&["run", "ok"])?;
    ensure!(out.status.success(), "{}", text(&out));
    ensure!(String::from_utf8_lossy(&out.stdout) == "fine\n", "{}", text(&out));
    ensure!(text(&out).contains("warning: no daemon is running"), "{}", text(&out));
    let out = leo.run(&["run", "bad"])?;
    ensure!(out.status.code() == Some(1), "{}", text(&out));
    ensure!(text(&out).contains("warning: no card was posted"), "{}", text(&out));
    let out = leo.run(&["run", "nope"])?;
    ensure!(out.status.code() == Some(1) && text(&out).contains("has: bad, ok"), "{}", text(&out));
    Ok(())
}

#[tokio::test]
async fn one_run_of_a_task_at_a_time_and_ctrl_c_ends_it() -> Result<()> {
    let leo = with_tasks(
        "  long: { harness: demo, notify_on_fail: true, prompt: \">>tool leo_chat_post {\\\"text\\\": \\\"up\\\"}\\n>>sleep 3000\" }\n",
    )
    .await?;
    let api = leo.api().await?;
    let running = leo.run_task("long")?;
    api.message_where("the card", AGENT, |m| m["text"] == "up").await?;
    let out = leo.run(&["run", "long"])?;
    ensure!(out.status.code() == Some(75), "{}: {}", out.status, text(&out));
    ensure!(text(&out).contains("a run of `long` is in progress"), "{}", text(&out));
    procs::signal(running.pid()?, Signal::SIGINT);
    let out = running.end().await?;
    ensure!(out.status.code() == Some(1) && text(&out).contains("was interrupted"), "{}", text(&out));
    ensure!(api.runs("long").await?[0]["state"] == "interrupted");
    ensure!(api.thread(AGENT).await?.len() == 1, "an interrupted run posts nothing");
    no_process_is_left(&leo).await
}

#[tokio::test]
async fn a_killed_leo_run_takes_its_run_along() -> Result<()> {
    let leo = with_tasks("  long: { harness: demo, prompt: '>>sleep 3000' }\n").await?;
    let api = leo.api().await?;
    let running = leo.run_task("long")?;
    wait_for("the run to start", || async { of_runs(&leo).ok().filter(|p| !p.is_empty()) }).await?;
    procs::signal(running.pid()?, Signal::SIGKILL);
    no_process_is_left(&leo).await?;
    wait_for("the run to be recorded as interrupted", || async {
        api.runs("long").await.ok()?.into_iter().find(|r| r["state"] == "interrupted")
    })
    .await?;
    Ok(())
}

/// What a run leaves behind in other process groups and sessions ends with it.
#[tokio::test]
async fn a_run_leaves_no_process_behind() -> Result<()> {
    let bin = tempfile::tempdir()?;
    let marker = format!("{}", 1_000_000 + std::process::id());
    let script =
        format!("#!/bin/sh\ncat >/dev/null\nsetsid sleep {marker} &\nsleep {marker} &\necho started\n");
    std::fs::write(bin.path().join("claude"), script)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bin.path().join("claude"), mode)?;
    let leo = Leo::builder()
        .config("tasks: { t: { harness: claude, workspace: $WORK, prompt: x } }\n")
        .path(bin.path())
        .prepare()?;
    let out = leo.run(&["run", "t"])?;
    ensure!(out.status.success() && text(&out).contains("started"), "{}", text(&out));
    let left: Vec<_> =
        procs::list()?.into_iter().filter(|p| p.command == format!("sleep {marker}")).collect();
    if cfg!(target_os = "linux") {
        ensure!(left.is_empty(), "{left:?}");
    }
    left.iter().for_each(|p| procs::signal(p.pid, Signal::SIGKILL));
    Ok(())
}

#[tokio::test]
async fn a_run_is_ended_when_its_time_is_over_and_tried_again() -> Result<()> {
    let leo = with_tasks(
        "  slow: { harness: demo, timeout: 1s, retries: 1, notify_on_fail: true, prompt: '>>sleep 3000' }\n",
    )
    .await?;
    let out = leo.run_task("slow")?.end().await?;
    ensure!(out.status.code() == Some(1) && text(&out).contains("longer than 1 s"), "{}", text(&out));
    let api = leo.api().await?;
    let run = api.runs("slow").await?.remove(0);
    ensure!(run["attempts"] == 2 && run["state"] == "failed", "{run}");
    let thread = api.thread(AGENT).await?;
    ensure!(thread[0]["text"].as_str().is_some_and(|t| t.contains("· 2 attempt(s)")), "{thread:?}");
    let log = leo.run(&["task", "log", "slow"])?;
    ensure!(text(&log).contains("[leo] attempt 2 of 2"), "{}", text(&log));
    no_process_is_left(&leo).await
}

/// Twenty failures in a row, those among them that could not even start: one card that says so, and one
/// line when it is over.
#[tokio::test]
async fn failure_card() -> Result<()> {
    let leo =
        with_tasks("  bad: { harness: demo, notify_on_fail: true, prompt_file: $WORK/prompt.md }\n").await?;
    let prompt = leo.work().join("prompt.md");
    for n in 0..20 {
        match n % 4 {
            // There is no prompt to start with.
            0 => drop(std::fs::remove_file(&prompt)),
            _ => std::fs::write(&prompt, ">>fail the model is away")?,
        }
        let out = leo.run(&["run", "bad"])?;
        ensure!(out.status.code() == Some(1), "{}", text(&out));
    }
    let api = leo.api().await?;
    let thread = api.thread(AGENT).await?;
    ensure!(thread.len() == 1, "{thread:#?}");
    let said = thread[0]["text"].as_str().unwrap_or_default();
    ensure!(said.contains("Failed 20 times in a row"), "{said}");
    let list = leo.run(&["task", "list"])?;
    ensure!(text(&list).contains("failed 20 times"), "{}", text(&list));
    std::fs::write(&prompt, ">>say well again")?;
    for _ in 0..2 {
        ensure!(leo.run(&["run", "bad"])?.status.success());
    }
    let thread = api.thread(AGENT).await?;
    ensure!(thread.len() == 2, "{thread:#?}");
    ensure!(thread[1]["text"] == "Task bad succeeded again after 20 failures.", "{thread:#?}");
    Ok(())
}

#[tokio::test]
async fn a_failure_is_reported_on_the_socket_only() -> Result<()> {
    let leo = with_tasks("  bad: { harness: demo, prompt: x }\n").await?;
    let report = json!({ "task": "bad", "run_id": "r1", "attempts": 2, "error": "away", "log_path": "/l" });
    let api = leo.api().await?;
    let refused = api.ask(Method::POST, "/chat/task-failure", Some(report.clone())).await?;
    ensure!(refused.status == 404, "{refused:?}");
    let socket = reqwest::Client::builder().unix_socket(leo.home.http_socket()).no_proxy().build()?;
    let url = "http://localhost/chat/task-failure";
    let answer: Value = socket.post(url).json(&report).send().await?.json().await?;
    ensure!(answer["ok"] == true && answer["data"]["agent"] == AGENT, "{answer}");
    let card = api.message(AGENT, answer["data"]["id"].as_str().unwrap_or_default()).await?;
    ensure!(
        card["text"] == "**Task failed: bad**\nRun `r1` · 2 attempt(s)\n```\naway\n```\nLog: `/l`",
        "{card}"
    );
    let bad = socket.post(url).json(&json!({ "task": "bad" })).send().await?;
    ensure!(bad.status() == 400, "{bad:?}");
    Ok(())
}

/// A persistent task is a turn of its agent: what the agent posts and asks in it is filed under the run.
#[tokio::test]
async fn a_persistent_task_is_filed_under_its_run() -> Result<()> {
    let leo = Leo::builder()
        .config(
            "agents: { assistant: { harness: demo, workspace: $WORK }, worker: { harness: demo, workspace: $WORK } }\n\
             tasks:\n  \
             own: { runtime: persistent, prompt: \">>tool leo_chat_post {\\\"text\\\": \\\"mine\\\"}\\n>>say done\" }\n  \
             foreign: { runtime: persistent, agent: worker, owner: assistant, prompt: \">>tool leo_chat_post {\\\"text\\\": \\\"theirs\\\"}\\n>>ask {\\\"question\\\": \\\"Ship it?\\\", \\\"options\\\": [\\\"Yes\\\", \\\"No\\\"]}\\n>>say done\" }\n",
        )
        .start()
        .await?;
    leo.agent_idle("assistant").await?;
    leo.agent_idle("worker").await?;
    let api = leo.api().await?;
    let out = leo.run_task("own")?.end().await?;
    ensure!(out.status.success(), "{}\n{}", text(&out), leo.log());
    let run = api.runs("own").await?.remove(0);
    let thread = api.thread(AGENT).await?;
    let of_run: Vec<&Value> = thread.iter().filter(|m| m["run_id"] == run["id"]).collect();
    ensure!(of_run.len() == 2, "the prompt and the post: {thread:#?}");
    ensure!(of_run[0]["direction"] == "in" && of_run[1]["text"] == "mine", "{of_run:#?}");

    let running = leo.run_task("foreign")?;
    let ask = api.message_where("the ask", AGENT, |m| m["kind"] == "ask" && m["state"] == "open").await?;
    let open_for = seconds(&ask["deadline"])? - seconds(&ask["ts"])?;
    ensure!((299..=301).contains(&open_for), "{ask}");
    let answer = format!("/api/v1/chat/{AGENT}/messages/{}/answer", ask["id"].as_str().unwrap_or_default());
    api.post(&answer, json!({ "values": ["Yes"], "text": "" })).await?;
    let out = running.end().await?;
    ensure!(out.status.success(), "{}\n{}", text(&out), leo.log());
    let card = api.message_where("the card", AGENT, |m| m["text"] == "theirs").await?;
    ensure!(card["run_id"] == ask["run_id"] && card["kind"] == "task", "{card}");
    let own = api.thread("worker").await?;
    ensure!(own.iter().all(|m| m["text"] != "theirs"), "it is in its owner's thread: {own:#?}");
    Ok(())
}

#[tokio::test]
async fn switching_a_task_off() -> Result<()> {
    let leo =
        with_tasks("  t: { harness: demo, schedule: '0 7 * * *', timezone: Europe/Berlin, prompt: x }\n")
            .await?;
    let api = leo.api().await?;
    wait_for("the next run to be known", || async {
        api.get("/api/v1/tasks").await.ok().filter(|d| d["tasks"][0]["next_at"].is_string())
    })
    .await?;
    let off = leo.run(&["task", "disable", "t"])?;
    ensure!(off.status.success() && text(&off).contains("no longer runs by itself"), "{}", text(&off));
    let list = leo.run(&["task", "list"])?;
    ensure!(text(&list).contains(" off "), "{}", text(&list));
    let on = leo.run(&["task", "enable", "t"])?;
    ensure!(text(&on).contains("runs by its schedule again"), "{}", text(&on));
    let json = leo.run(&["task", "list", "--json"])?;
    let json: Value = serde_json::from_slice(&json.stdout)?;
    ensure!(json["tasks"][0]["enabled"] == true, "{json}");
    let unknown = leo.run(&["task", "enable", "nope"])?;
    ensure!(
        unknown.status.code() == Some(1) && text(&unknown).contains("no task `nope`"),
        "{}",
        text(&unknown)
    );
    Ok(())
}
