//! Reminders from outside: left by tools and routes, seen and taken back by people, posted once whatever
//! is killed.

use anyhow::{Context, Result, ensure};
use leo_ipc::Time;
use leo_tests::{
    Api, Leo,
    leo::DEMO,
    mcp::{Harness, launch_token},
    model::Model,
    procs,
    sse::Events,
    wait_for,
};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;

const AGENT: &str = "assistant";

/// Where these Leos live, so that what they say of a time can be known beforehand.
const ZONE: (&str, &str) = ("TZ", "America/New_York");

async fn in_new_york() -> Result<Leo> {
    let leo = Leo::builder().config(DEMO).env(ZONE.0, ZONE.1).start().await?;
    leo.agent_idle(AGENT).await?;
    Ok(leo)
}

/// `ms` from now, as an agent may write it.
fn from_now(ms: i64) -> String {
    Time::from_millis(Time::now().millis() + ms).to_string()
}

fn millis(at: &Value) -> Result<i64> {
    let time: Time = serde_json::from_value(at.clone()).with_context(|| at.to_string())?;
    Ok(time.millis())
}

async fn schedule(api: &Api, text: &str, at: &str) -> Result<Value> {
    api.post(&format!("/api/agent/{AGENT}/chat/schedule"), json!({ "text": text, "at": at })).await
}

async fn open(api: &Api) -> Result<Vec<Value>> {
    let list = api.get(&format!("/api/v1/chat/{AGENT}/reminders")).await?;
    Ok(list["reminders"].as_array().cloned().unwrap_or_default())
}

/// The messages of the thread with this text.
async fn posts(api: &Api, starts: &str) -> Result<Vec<Value>> {
    let thread = api.thread(AGENT).await?;
    Ok(thread.into_iter().filter(|m| m["text"].as_str().is_some_and(|t| t.starts_with(starts))).collect())
}

async fn posted(api: &Api, text: &str) -> Result<Value> {
    wait_for(&format!("the reminder {text:?}"), || async { posts(api, text).await.ok()?.pop() }).await
}

/// The daemon sleeps through `seconds`: what was left before is that much older when it wakes.
fn sleep_through(db: &Path, seconds: i64) -> Result<()> {
    let db = rusqlite::Connection::open(db)?;
    db.execute("UPDATE reminders SET due = due - ?1", [seconds * 1000])?;
    Ok(())
}

#[tokio::test]
async fn an_agents_reminder_fires_at_its_time_once() -> Result<()> {
    let leo = in_new_york().await?;
    let api = leo.api().await?;
    let mut events = Events::open(&api, None).await?;
    // Time enough for the agent's turn on a busy machine.
    let at = from_now(6000);
    let call = json!({ "text": "Stand-up", "at": at });
    api.send(AGENT, &format!(">>tool leo_chat_schedule {call}")).await?;
    let message = posted(&api, "Stand-up").await?;
    let late = millis(&message["ts"])? - millis(&json!(at))?;
    println!("posted {late} ms after its time");
    ensure!((0..5000).contains(&late), "{late} ms after its time");
    ensure!(
        message["kind"] == "text" && message["direction"] == "out" && message["state"] == "",
        "{message}"
    );
    ensure!(message["text"] == "Stand-up", "on time, so nothing about lateness: {message}");
    ensure!(message.get("sender").is_none() && message.get("task").is_none(), "{message}");

    let mut seen = Vec::new();
    while seen.last() != Some(&"fired".to_owned()) {
        let event = events.next().await?.context("an open stream")?;
        match event.kind.as_str() {
            "reminder.changed" => {
                ensure!(event.data["agent"] == AGENT && event.data["id"].is_string(), "{event:?}");
                seen.push(event.data["state"].as_str().unwrap_or_default().to_owned());
            }
            "chat.message" if event.data["message"]["text"] == "Stand-up" => seen.push("posted".to_owned()),
            _ => {}
        }
    }
    ensure!(seen == ["scheduled", "posted", "fired"], "{seen:?}");
    ensure!(open(&api).await?.is_empty());
    let unread = api.get("/api/v1/chat/threads").await?["threads"][0]["unread"].as_u64();
    ensure!(unread >= Some(1), "it counts as unread: {unread:?}");
    Ok(())
}

#[tokio::test]
async fn people_see_reminders_and_take_them_back() -> Result<()> {
    let leo = in_new_york().await?;
    let api = leo.api().await?;
    let soon = schedule(&api, "Lunch\nwith Ada", "2099-01-01T00:00:00Z").await;
    ensure!(soon.is_err(), "more than a year away");
    let (day, hour) = (24 * 3600 * 1000, 3600 * 1000);
    let second = schedule(&api, "Tomorrow", &from_now(day)).await?;
    let first = schedule(&api, "Lunch\nwith Ada", &from_now(hour)).await?;
    let at = first["at"].as_str().unwrap_or_default();
    ensure!(at.ends_with("-05:00") || at.ends_with("-04:00"), "in the daemon's own offset: {first}");
    let ids: Vec<Value> = open(&api).await?.into_iter().map(|r| r["id"].clone()).collect();
    ensure!(ids == [first["id"].clone(), second["id"].clone()], "the next one first: {ids:?}");

    let listed = leo.run(&["reminder", "list"])?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    ensure!(text.contains("Lunch") && text.contains("Tomorrow") && !text.contains("with Ada"), "{text}");
    let json: Value = serde_json::from_slice(&leo.run(&["reminder", "list", AGENT, "--json"])?.stdout)?;
    ensure!(json["reminders"].as_array().is_some_and(|r| r.len() == 2), "{json}");

    let id = first["id"].as_str().unwrap_or_default();
    let end = &id[id.len() - 8..];
    let cancelled = leo.run(&["reminder", "cancel", end])?;
    let said = String::from_utf8_lossy(&cancelled.stdout).into_owned();
    ensure!(cancelled.status.success() && said.contains("will not remind you: Lunch"), "{said}");
    let again = leo.run(&["reminder", "cancel", end])?;
    ensure!(again.status.code() == Some(1), "{again:?}");

    let path = |agent: &str, id: &str| format!("/api/v1/chat/{agent}/reminders/{id}");
    for (path, status, code) in [
        (path(AGENT, id), 409, "reminder_cancelled"),
        (path(AGENT, "01a"), 404, "unknown_reminder"),
        (path(AGENT, "a.b"), 404, "unknown_reminder"),
        (path("nobody", id), 400, "not_your_reminder"),
    ] {
        let answer = api.ask(Method::DELETE, &path, None).await?;
        ensure!(answer.status == status && answer.code() == code, "{path}: {answer:?}");
    }
    let done = api.ask(Method::DELETE, &path(AGENT, second["id"].as_str().unwrap_or_default()), None).await?;
    ensure!(done.data()["cancelled"] == true, "{done:?}");
    ensure!(leo.run(&["reminder", "list"])?.stdout.starts_with(b"No reminders."));
    Ok(())
}

#[tokio::test]
async fn the_tools_say_what_is_wrong() -> Result<()> {
    let leo = in_new_york().await?;
    let api = leo.api().await?;
    let token = launch_token(&leo).await?;
    let mut harness = Harness::shim(&leo, &token)?;
    harness.initialize()?;
    let future = from_now(3_600_000);
    let left = harness.tool(1, "leo_chat_schedule", &json!({ "text": "x", "at": future }))?;
    let left = left.map_err(anyhow::Error::msg)?;
    let list = harness.tool(2, "leo_chat_schedule_list", &json!({}))?.map_err(anyhow::Error::msg)?;
    ensure!(list["reminders"] == json!([{ "id": left["id"], "text": "x", "at": left["at"] }]), "{list}");
    let id = left["id"].clone();
    let done = harness.tool(3, "leo_chat_schedule_cancel", &json!({ "id": id }))?;
    ensure!(done == Ok(json!({ "id": id, "cancelled": true })), "{done:?}");

    let soon = schedule(&api, "fires", &from_now(3000)).await?;
    posted(&api, "fires").await?;
    api.post(
        "/api/v1/agents",
        json!({ "name": "b", "harness": "demo", "workspace": leo.work(), "autostart": false }),
    )
    .await?;
    let body = json!({ "text": "foreign", "at": future });
    let foreign = api.post("/api/agent/b/chat/schedule", body).await?;
    let text = |text: &str, at: &str| json!({ "text": text, "at": at });
    let with = |id: &Value| json!({ "id": id });
    let (schedule, cancel) = ("leo_chat_schedule", "leo_chat_schedule_cancel");
    for (number, (tool, arguments, says)) in [
        (
            schedule,
            text("x", "2026-12-24T09:00:00"),
            "bad_time: at $.at: expected an RFC 3339 time with an offset",
        ),
        (schedule, text("x", "2020-01-01T00:00:00Z"), "is not in the future: it is 20"),
        (schedule, text("x", "2100-01-01T00:00:00Z"), "more than a year away"),
        (schedule, text(" ", &future), "at $.text"),
        (schedule, text(&"x".repeat(65_537), &future), "at $.text: 65537 bytes"),
        (schedule, json!({ "text": "x" }), "at $.at: expected a time"),
        (cancel, with(&json!("nothing")), "unknown_reminder: there is no reminder `nothing`"),
        (cancel, with(&foreign["id"]), "not_your_reminder: the reminder"),
        (cancel, with(&soon["id"]), "reminder_fired: the reminder"),
        (cancel, with(&id), "reminder_cancelled: the reminder"),
        (cancel, json!({}), "at $.id"),
    ]
    .into_iter()
    .enumerate()
    {
        let said = harness.tool(10 + number as u64, tool, &arguments)?.err().unwrap_or_default();
        ensure!(said.contains(says), "{says:?}: {said:?}");
    }

    let mut sub = Harness::shim_with(&leo, &token, &[("LEO_DISPATCH_ID", "d1")])?;
    sub.initialize()?;
    for (number, (tool, arguments)) in
        [(schedule, text("x", &future)), ("leo_chat_schedule_list", json!({})), (cancel, with(&id))]
            .into_iter()
            .enumerate()
    {
        let refused = sub.tool(number as u64 + 1, tool, &arguments)?;
        ensure!(refused.as_ref().is_err_and(|said| said.starts_with("not allowed: ")), "{tool}: {refused:?}");
    }
    let dispatched = api
        .request(Method::POST, &format!("/api/agent/{AGENT}/chat/schedule"))
        .header("x-leo-dispatch-id", "d1")
        .json(&text("x", &future))
        .send()
        .await?;
    ensure!(dispatched.status() == 403, "{dispatched:?}");
    Ok(())
}

#[tokio::test]
async fn reminders_fire_once_whoever_is_killed() -> Result<()> {
    let mut leo = in_new_york().await?;
    let api = leo.api().await?;
    let mut due = Vec::new();
    // Some are due while nobody is killed yet, most in the middle of it.
    for i in 0..40 {
        due.push(schedule(&api, &format!("r{i:02}"), &from_now(6000 + i * 100)).await?);
    }
    for round in 0..12 {
        let worker = if round % 3 == 2 { "hub" } else { "reminders" };
        let pid = leo.worker_pid(worker).await?;
        procs::signal(pid, Signal::SIGKILL);
        leo.worker_replaced(worker, pid).await.with_context(|| leo.log())?;
    }
    leo.kill_supervisor()?;
    leo.start().await?;
    let api = leo.api().await?;
    wait_for("all reminders", || async { open(&api).await.ok()?.is_empty().then_some(()) }).await?;
    for (i, reminder) in due.iter().enumerate() {
        let found = posts(&api, &format!("r{i:02}")).await?;
        ensure!(found.len() == 1, "r{i:02} was posted {} times", found.len());
        let late = millis(&found[0]["ts"])? - millis(&reminder["at"])?;
        ensure!(late >= 0, "r{i:02} was posted {late} ms too early");
    }
    Ok(())
}

#[tokio::test]
async fn what_came_due_while_the_daemon_was_down_fires_at_its_start_and_says_so() -> Result<()> {
    let mut leo = in_new_york().await?;
    let api = leo.api().await?;
    let hour = 3600;
    schedule(&api, "Late", &from_now(hour * 1000)).await?;
    let later = schedule(&api, "Not yet", &from_now(20 * hour * 1000)).await?;
    leo.stop().await?;
    sleep_through(&leo.home.database(), 8 * hour)?;
    leo.start().await?;
    let api = leo.api().await?;
    let text = posted(&api, "Late").await?["text"].as_str().unwrap_or_default().to_owned();
    let last = text.lines().last().unwrap_or_default();
    ensure!(last.starts_with("_(late — scheduled for ") && last.ends_with(")_"), "{text}");
    ensure!(last.contains(" EST)") || last.contains(" EDT)"), "in the daemon's own time: {text}");
    leo.kill_supervisor()?;
    leo.start().await?;
    let api = leo.api().await?;
    let ids: Vec<Value> = open(&api).await?.into_iter().map(|r| r["id"].clone()).collect();
    ensure!(ids == [later["id"].clone()], "{ids:?}");
    ensure!(posts(&api, "Late").await?.len() == 1 && posts(&api, "Not yet").await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_removed_agents_reminder_still_reaches_the_person() -> Result<()> {
    let leo = in_new_york().await?;
    let api = leo.api().await?;
    schedule(&api, "Renew it", &from_now(4000)).await?;
    let rm = leo.run(&["agent", "rm", AGENT])?;
    ensure!(rm.status.success(), "{rm:?}");
    ensure!(api.ask(Method::GET, &format!("/api/v1/agents/{AGENT}"), None).await?.status == 404);
    posted(&api, "Renew it").await?;
    ensure!(open(&api).await?.is_empty());
    Ok(())
}

/// What a task's run leaves comes back as a card of that run, in the thread of the task's owner.
#[tokio::test]
async fn a_task_runs_reminder_is_its_card() -> Result<()> {
    let leo = in_new_york().await?;
    let api = leo.api().await?;
    let call = json!({ "text": "Read the news", "at": from_now(15_000) });
    let script = leo.work().join("remind.md");
    std::fs::write(&script, format!(">>tool leo_chat_schedule {call}\n>>say done"))?;
    let yaml = std::fs::read_to_string(leo.home.config())?;
    let task = format!(
        "tasks: {{ news: {{ owner: {AGENT}, harness: demo, workspace: {}, prompt_file: {} }} }}\n",
        leo.work().display(),
        script.display()
    );
    std::fs::write(leo.home.config(), yaml + &task)?;
    ensure!(leo.run(&["reload"])?.status.success());
    let ran = leo.run(&["run", "news"])?;
    ensure!(ran.status.success(), "{ran:?}");
    let left = open(&api).await?.pop().context("the reminder outlives its run")?;
    ensure!(left["task"] == "news" && left["run_id"].is_string(), "{left}");
    let card = posted(&api, "Read the news").await?;
    ensure!(card["kind"] == "task" && card["task"] == "news" && card["run_id"] == left["run_id"], "{card}");
    Ok(())
}

/// The real Claude Code calls the tool as it would after "remind me".
#[tokio::test]
async fn claude_leaves_a_reminder() -> Result<()> {
    let model = Model::start().await?;
    let Some(leo) = Leo::with_claude(&model, "claude_leaves_a_reminder").await? else { return Ok(()) };
    let api = leo.api().await?;
    let call = json!({ "text": "Ship it", "at": from_now(3_600_000) });
    let sent = api
        .send(
            AGENT,
            &format!(">>tool leo_chat_schedule {call}\n>>tool leo_chat_schedule_list {{}}\n>>say noted"),
        )
        .await?;
    ensure!(leo.reply(AGENT, &sent).await?.trim() == "noted");
    let left = open(&api).await?.pop().context("a reminder")?;
    let results = model.tool_results();
    let says = |text: &Value| results.iter().any(|r| r.contains(text.as_str().unwrap_or("?")));
    ensure!(left["text"] == "Ship it" && says(&left["id"]) && says(&left["at"]), "{left} {results:?}");
    Ok(())
}
