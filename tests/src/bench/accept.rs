//! P6: messages accepted a second, each on disk before its answer, against a bare group-commit loop on
//! the same file system with as many writers; and how long one takes at half that rate.

use crate::{Samples, say};
use anyhow::Result;
use leo_ipc::{
    Generation,
    agent::{PutAgent, Source},
    chat::SendMessage,
    client::Client,
    config::{AgentConfig, Harness},
    hello::Role,
    hub::HubRequest,
};
use leo_tests::{Leo, procs};
use nix::sys::signal::Signal;
use serde_json::json;
use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

const WRITERS: usize = 64;
/// Rows of the bare loop, and messages of each part.
const MESSAGES: usize = 12_800;
/// Agents, so that no outbox fills up: each takes 256 messages.
const AGENTS: usize = 150;
const TEXT: usize = 300;

pub(crate) async fn run() -> Result<()> {
    say(&format!("accept: P6, {MESSAGES} messages of {TEXT} bytes from {WRITERS} writers, FULL durability"));
    let leo = Leo::with_demo().await?;
    let hub: Client<HubRequest> = Client::new(leo.home.hub_socket(), Role::Cli, Generation(0));
    for n in 0..AGENTS {
        let config = AgentConfig {
            harness: Harness::Demo,
            workspace: leo.work().to_string_lossy().into_owned(),
            autostart: false,
            ..AgentConfig::default()
        };
        let put = PutAgent {
            name: format!("a{n}").parse()?,
            config,
            source: Source::Api,
            must_be_new: false,
            key: None,
        };
        hub.call(put, Duration::from_secs(5)).await?;
    }
    // Messages start agents; this measures acceptance, so the worker that would do it is held still,
    // for less time than its heartbeat has.
    let agents = leo.worker_pid("agents").await?;
    procs::signal(agents, Signal::SIGSTOP);
    let result = measure(&leo, &hub).await;
    procs::signal(agents, Signal::SIGKILL);
    result
}

async fn measure(leo: &Leo, hub: &Client<HubRequest>) -> Result<()> {
    let (bare, bare_times) = bare_loop(&leo.home.state().join("bare.db"))?;
    let text = "x".repeat(TEXT);
    let by_socket = |prefix: &'static str| {
        let (hub, text) = (hub.clone(), text.clone());
        move |n: usize| {
            let (hub, text) = (hub.clone(), text.clone());
            async move {
                let send = SendMessage {
                    steer: false,
                    agent: format!("a{}", n % AGENTS).parse()?,
                    text,
                    reply_to: None,
                    attachments: Vec::new(),
                    client_msg_id: Some(format!("{prefix}{n}")),
                    key: leo_ipc::CallKey::fresh(),
                };
                hub.call(send, Duration::from_secs(10)).await?;
                Ok(())
            }
        }
    };
    let (by_ipc, ipc_times) = load(MESSAGES, by_socket("i")).await?;
    let paced_times = paced(MESSAGES / 2, by_ipc / 2.0, by_socket("p")).await?;
    let api = leo.api().await?;
    let (by_http, http_times) = load(MESSAGES, move |n| {
        let (api, text) = (api.clone(), text.clone());
        async move {
            let body = json!({ "text": text, "client_msg_id": format!("h{n}") });
            api.post(&format!("/api/v1/chat/a{}/messages", n % AGENTS), body).await?;
            Ok(())
        }
    })
    .await?;
    say(&format!(
        "  bare group-commit loop:     {bare:8.0} rows/s; at half that rate: {}",
        bare_times.show()
    ));
    say(&format!(
        "  hub by its own socket:      {by_ipc:8.0} messages/s ({:.0} % of bare), {}",
        by_ipc / bare * 100.0,
        ipc_times.show()
    ));
    say(&format!("  the same at half that rate:  {}", paced_times.show()));
    say(&format!(
        "  through HTTP:               {by_http:8.0} messages/s ({:.0} % of bare), {}",
        by_http / bare * 100.0,
        http_times.show()
    ));
    Ok(())
}

async fn load<F, Fut>(count: usize, ask: F) -> Result<(f64, Samples)>
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<()>> + Send,
{
    let start = Instant::now();
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let ask = ask.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                for n in (writer..count).step_by(WRITERS) {
                    let begun = Instant::now();
                    ask(n).await?;
                    times.push(begun.elapsed());
                }
                anyhow::Ok(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    Ok((count as f64 / start.elapsed().as_secs_f64(), Samples::new(times)))
}

/// Asks at a steady rate, whatever becomes of what was asked before.
async fn paced<F, Fut>(count: usize, a_second: f64, ask: F) -> Result<Samples>
where
    F: Fn(usize) -> Fut,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    let start = Instant::now();
    let mut tasks = Vec::with_capacity(count);
    for n in 0..count {
        tokio::time::sleep_until((start + Duration::from_secs_f64(n as f64 / a_second)).into()).await;
        let asked = ask(n);
        tasks.push(tokio::spawn(async move {
            let begun = Instant::now();
            asked.await?;
            anyhow::Ok(begun.elapsed())
        }));
    }
    let mut times = Vec::with_capacity(count);
    for task in tasks {
        times.push(task.await??);
    }
    Ok(Samples::new(times))
}

/// A row to write: when it was asked for, and whom to tell.
type Row = (Instant, Option<mpsc::SyncSender<()>>);

/// One table, one row a writer and commit, as many writers as the load has: what the disk and SQLite
/// allow with nothing around them. Rows a second, and the times at half that rate.
fn bare_loop(path: &std::path::Path) -> Result<(f64, Samples)> {
    let mut db = rusqlite::Connection::open(path)?;
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)",
    )?;
    let (ask, asked) = mpsc::sync_channel(WRITERS);
    let start = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let ask = ask.clone();
            std::thread::spawn(move || {
                for _ in 0..MESSAGES / WRITERS {
                    let (done, wait) = mpsc::sync_channel(1);
                    if ask.send((Instant::now(), Some(done))).is_err() || wait.recv().is_err() {
                        return;
                    }
                }
            })
        })
        .collect();
    drop(ask);
    commit_groups(&mut db, &asked)?;
    for writer in writers {
        let _ = writer.join();
    }
    let rate = MESSAGES as f64 / start.elapsed().as_secs_f64();

    let (ask, asked) = mpsc::sync_channel(MESSAGES);
    let pace = std::thread::spawn(move || {
        let start = Instant::now();
        for n in 0..MESSAGES / 2 {
            let due = start + Duration::from_secs_f64(n as f64 / (rate / 2.0));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if ask.send((Instant::now(), None)).is_err() {
                return;
            }
        }
    });
    let times = commit_groups(&mut db, &asked)?;
    let _ = pace.join();
    Ok((rate, Samples::new(times)))
}

/// Writes rows until nobody asks any more, all that wait in one commit.
fn commit_groups(db: &mut rusqlite::Connection, asked: &mpsc::Receiver<Row>) -> Result<Vec<Duration>> {
    let text = "x".repeat(TEXT);
    let mut times = Vec::new();
    while let Ok(first) = asked.recv() {
        let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let mut waiting = vec![first];
        waiting.extend(asked.try_iter());
        for _ in &waiting {
            tx.prepare_cached("INSERT INTO rows (text) VALUES (?1)")?.execute([&text])?;
        }
        tx.commit()?;
        for (since, done) in waiting {
            times.push(since.elapsed());
            if let Some(done) = done {
                let _ = done.send(());
            }
        }
    }
    Ok(times)
}
