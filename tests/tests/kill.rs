//! SIGKILL at any moment: no connection refused, nothing acknowledged lost or doubled, agents
//! untouched.

use anyhow::{Context, Result, ensure};
use leo_tests::{Leo, procs, sse::Events, wait_for};
use nix::sys::signal::Signal;
use rand::RngExt;
use reqwest::Method;
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

const AGENT: &str = "assistant";
const PANE: &str = "=assistant:";

/// Clients of the load.
const CLIENTS: usize = 8;

/// What the load has seen.
#[derive(Default)]
struct Seen {
    served: AtomicU64,
    refused: AtomicU64,
    cut: AtomicU64,
}

/// Kills a worker at random moments while clients ask on fresh connections.
async fn kill_under_load(worker: &str, kills: usize) -> Result<Arc<Seen>> {
    let leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let seen = Arc::new(Seen::default());
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let (api, seen, stop) = (api.without_reuse()?, seen.clone(), stop.clone());
        clients.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let asked = api.request(Method::GET, "/api/v1/chat/threads").send().await;
                let counter = match asked {
                    Ok(_) => &seen.served,
                    Err(e) if e.is_connect() => &seen.refused,
                    Err(_) => &seen.cut,
                };
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for _ in 0..kills {
        let pid = leo.worker_pid(worker).await?;
        let pause = rand::rng().random_range(20..150);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        procs::signal(pid, Signal::SIGKILL);
        leo.worker_replaced(worker, pid).await.with_context(|| leo.log())?;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await?;
    }
    let answer = api.ask(Method::GET, "/api/v1/chat/threads", None).await?;
    ensure!(answer.status == 200, "it still answers: {answer:?}");
    Ok(seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_http_worker_refuses_no_connection() -> Result<()> {
    let seen = kill_under_load("http", 25).await?;
    let (served, refused) = (seen.served.load(Ordering::Relaxed), seen.refused.load(Ordering::Relaxed));
    ensure!(refused == 0, "{refused} refused of {served}");
    ensure!(served > 200, "a load worth the name: {served}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_hub_is_a_delay_not_an_error() -> Result<()> {
    let seen = kill_under_load("hub", 15).await?;
    let (refused, cut) = (seen.refused.load(Ordering::Relaxed), seen.cut.load(Ordering::Relaxed));
    ensure!(refused == 0 && cut == 0, "{refused} refused, {cut} cut");
    Ok(())
}

/// Every worker killed while messages are sent: each acknowledged one is there once, and the event
/// stream goes on where it stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_or_doubled() -> Result<()> {
    let leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let first = Events::open(&api, None).await?.next().await?.context("a hello")?;
    ensure!(first.kind == "hello" && first.data["resume"] == "none", "{first:?}");
    let since = first.id.clone();

    let sender = {
        let api = api.clone();
        tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            for n in 0..60 {
                let body = json!({ "text": format!(">>say reply {n}"), "client_msg_id": format!("c{n}") });
                // The app's own retry: the same id until there is an answer.
                let id = wait_for("an acknowledgement", || async {
                    let path = format!("/api/v1/chat/{AGENT}/messages");
                    let answer = api.ask(Method::POST, &path, Some(body.clone())).await.ok()?;
                    answer.status.is_success().then(|| answer.data()["id"].as_str().map(str::to_owned))?
                })
                .await?;
                acknowledged.push(id);
            }
            anyhow::Ok(acknowledged)
        })
    };
    for worker in ["http", "hub", "agents", "mcp:assistant", "reminders", "http", "hub", "agents", "hub"] {
        let pid = leo.worker_pid(worker).await?;
        tokio::time::sleep(Duration::from_millis(rand::rng().random_range(30..250))).await;
        procs::signal(pid, Signal::SIGKILL);
        leo.worker_replaced(worker, pid).await.with_context(|| format!("{worker}\n{}", leo.log()))?;
    }
    let acknowledged = sender.await??;
    for id in &acknowledged {
        wait_for("every message to have an outcome", || async {
            (api.message(AGENT, id).await.ok()?["state"] != "pending").then_some(())
        })
        .await
        .with_context(|| leo.log())?;
    }
    let thread = api.thread(AGENT).await?;
    for (n, id) in acknowledged.iter().enumerate() {
        let rows = thread.iter().filter(|m| m["client_msg_id"] == format!("c{n}")).count();
        ensure!(rows == 1, "c{n} is there {rows} times");
        let replies = thread.iter().filter(|m| m["reply_to"] == **id).count();
        ensure!(replies <= 1, "c{n} was answered {replies} times");
    }

    // The stream as an app sees it: from before the kills to now, without a hole.
    let mut events = Events::open(&api, Some(&since)).await?;
    let hello = events.next().await?.context("a hello")?;
    ensure!(hello.data["resume"] == "ok", "{hello:?}");
    let state = api.get("/api/v1/state").await?;
    let head = state["meta"]["seq"].as_u64().context("a head")?;
    let mut last = since.rsplit_once(':').context("an id")?.1.parse::<u64>()?;
    while last < head {
        let event = events.next().await?.context("the stream goes on")?;
        let seq = event.data["seq"].as_u64().context("a seq")?;
        ensure!(seq == last + 1, "{seq} after {last}");
        last = seq;
    }
    Ok(())
}

#[tokio::test]
async fn the_shim_survives_its_worker_and_the_supervisor() -> Result<()> {
    let mut leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let shim = || -> Result<i32> {
        let agent = leo.tmux.pane_pid(PANE)?;
        let all = procs::list()?;
        let shim = all.iter().find(|p| p.parent == agent && p.command.contains("mcp-server"));
        Ok(shim.context("a shim below the agent")?.pid)
    };
    let before = wait_for("a shim", || async { shim().ok() }).await?;
    let post = |n: u32| format!(">>tool leo_chat_post {{\"text\":\"post {n}\"}}\n>>say done {n}");
    let posted = async |api: &leo_tests::Api, n: u32| {
        wait_for("the post", || async {
            let thread = api.thread(AGENT).await.ok()?;
            thread.iter().any(|m| m["text"] == format!("post {n}")).then_some(())
        })
        .await
    };
    api.send(AGENT, &post(1)).await?;
    posted(&api, 1).await?;
    for n in 2..5 {
        let pid = leo.worker_pid("mcp:assistant").await?;
        procs::signal(pid, Signal::SIGKILL);
        api.send(AGENT, &post(n)).await?;
        posted(&api, n).await.with_context(|| leo.log())?;
    }
    ensure!(shim()? == before, "the same shim after its worker was killed");
    leo.kill_supervisor()?;
    leo.start().await?;
    let api = leo.api().await?;
    api.send(AGENT, &post(9)).await?;
    posted(&api, 9).await.with_context(|| leo.log())?;
    let agent = leo.tmux.pane_pid(PANE)?;
    let again = procs::list()?.into_iter().find(|p| p.parent == agent && p.command.contains("mcp-server"));
    ensure!(again.is_some_and(|p| p.pid == before), "the same shim after the supervisor was killed");
    Ok(())
}

#[tokio::test]
async fn a_killed_supervisor_leaves_nothing_but_the_agents() -> Result<()> {
    let mut leo = Leo::with_demo().await?;
    for round in 0..3 {
        let supervisor = leo.supervisor_pid()?;
        let agent = leo.tmux.pane_pid(PANE)?;
        let workers: Vec<i32> = leo.workers_of(supervisor)?.into_iter().map(|p| p.pid).collect();
        ensure!(workers.len() >= 4, "hub, http, agents, mcp: {workers:?}");
        leo.kill_supervisor()?;
        let patience = Duration::from_secs(10);
        leo_tests::wait::wait_within(patience, "all our processes to be gone", || async {
            workers.iter().all(|pid| !procs::alive(*pid)).then_some(())
        })
        .await?;
        ensure!(leo.tmux.pane_pid(PANE)? == agent, "the agent goes on");
        leo.start().await?;
        leo.agent_idle(AGENT).await?;
        ensure!(leo.tmux.pane_pid(PANE)? == agent, "adopted, not started again (round {round})");
        ensure!(leo.tmux.sessions()?.len() == 1, "one session per agent");
        let api = leo.api().await?;
        let id = api.send(AGENT, &format!(">>say round {round}")).await?;
        ensure!(leo.reply(AGENT, &id).await?.trim() == format!("round {round}"));
    }
    Ok(())
}

/// A turn that ends while nobody of ours is there still gives its reply.
#[tokio::test]
async fn a_reply_given_while_we_were_down_is_posted() -> Result<()> {
    let mut leo = Leo::with_demo().await?;
    let id = leo.api().await?.send(AGENT, ">>sleep 2\n>>say while you were away").await?;
    leo.message_state(AGENT, &id, "delivered").await?;
    leo.kill_supervisor()?;
    wait_for("the turn to end", || async {
        leo.tmux.screen(PANE).ok()?.contains("while you were away").then_some(())
    })
    .await?;
    // The text is on the screen before its hook has run and been kept.
    wait_for("the hook to be kept", || async {
        std::fs::read_dir(leo.home.spool()).ok()?.next().map(|_| ())
    })
    .await?;
    leo.start().await?;
    ensure!(leo.reply(AGENT, &id).await?.trim() == "while you were away");
    Ok(())
}

/// Ctrl-C stops our processes, leaves the agents, and the next start adopts them.
#[tokio::test]
async fn ctrl_c_leaves_the_agents() -> Result<()> {
    let mut leo = Leo::with_demo().await?;
    let supervisor = leo.supervisor_pid()?;
    let agent = leo.tmux.pane_pid(PANE)?;
    let workers: Vec<i32> = leo.workers_of(supervisor)?.into_iter().map(|p| p.pid).collect();
    leo.stop().await?;
    ensure!(workers.iter().all(|pid| !procs::alive(*pid)), "no worker is left");
    ensure!(!leo.home.http_socket().exists(), "the sockets are gone");
    leo.start().await?;
    leo.agent_idle(AGENT).await?;
    ensure!(leo.tmux.pane_pid(PANE)? == agent);
    Ok(())
}

/// A worker that stands still is replaced when its heartbeats stay away, and only that one: the others
/// have been asked as often, and have answered.
#[tokio::test]
async fn a_worker_that_stands_still_is_replaced_and_the_others_stay() -> Result<()> {
    let leo = Leo::with_demo().await?;
    leo.agent_idle(AGENT).await?;
    let workers = |status: leo_ipc::control::SupervisorStatus| {
        status.workers.into_iter().map(|w| (w.name, w.pid)).collect::<Vec<_>>()
    };
    let before = workers(leo.status().await?);
    ensure!(before.len() >= 7, "{before:?}");
    let still = leo.worker_pid("reminders").await?;
    procs::signal(still, Signal::SIGSTOP);
    leo.worker_replaced("reminders", still).await.with_context(|| leo.log())?;
    ensure!(leo.log().contains("the heartbeat is late"), "it was said first: {}", leo.log());
    let others = |all: Vec<(String, Option<u32>)>| {
        all.into_iter().filter(|(name, _)| name != "reminders").collect::<Vec<_>>()
    };
    ensure!(others(before) == others(workers(leo.status().await?)), "{}", leo.log());
    Ok(())
}
