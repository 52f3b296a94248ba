//! P8: how long pages, lists and the start take when a database holds a million messages.

use crate::{Samples, say};
use anyhow::{Context, Result};
use leo_tests::{Api, Leo, wait_for};
use std::time::{Duration, Instant};

const MESSAGES: usize = 1_000_000;
const THREADS: usize = 20;
const ROUNDS: usize = 200;
const TEXT: usize = 200;

/// When the oldest message was written, in milliseconds since 1970, and how far apart they are.
const SINCE: u64 = 1_790_000_000_000;
const APART: u64 = 5_000;

pub(crate) async fn run() -> Result<()> {
    say(&format!("history: P8, {MESSAGES} messages in {THREADS} threads"));
    let agent = |n: usize| format!("a{n}: {{ harness: demo, workspace: $WORK, autostart: false }}");
    let agents: Vec<String> = (0..THREADS).map(agent).collect();
    let mut leo = Leo::builder().config(&format!("agents: {{ {} }}\n", agents.join(", "))).start().await?;
    all_are_known(&leo).await?;
    leo.stop().await?;
    let begun = Instant::now();
    fill(&leo.home.database())?;
    say(&format!("  written in {:.0} s", begun.elapsed().as_secs_f64()));

    let mut starts = Vec::new();
    for round in 0..5 {
        if round > 0 {
            leo.stop().await?;
        }
        let begun = Instant::now();
        leo.start().await?;
        starts.push(begun.elapsed());
    }
    say(&format!("  start to ready:  {}", Samples::new(starts).show()));
    let api = leo.api().await?;
    all_are_known(&leo).await?;
    measure(&api, "newest page", |n| format!("/api/v1/chat/a{}/messages", n % THREADS)).await?;
    measure(&api, "older page", |n| {
        // A message of that thread, anywhere in it.
        let place = (n * 7_919 % (MESSAGES / THREADS)) * THREADS + n % THREADS;
        format!("/api/v1/chat/a{}/messages?before={}", n % THREADS, id(place))
    })
    .await?;
    measure(&api, "thread list", |_| "/api/v1/chat/threads".to_owned()).await?;
    measure(&api, "state", |_| "/api/v1/state".to_owned()).await
}

async fn all_are_known(leo: &Leo) -> Result<()> {
    let api = leo.api().await?;
    wait_for("all agents to be defined", || async {
        let agents = api.get("/api/v1/agents").await.ok()?;
        (agents["agents"].as_array()?.len() == THREADS).then_some(())
    })
    .await
}

async fn measure(api: &Api, what: &str, path: impl Fn(usize) -> String) -> Result<()> {
    let mut times = Vec::new();
    for n in 0..ROUNDS {
        let path = path(n);
        let begun = Instant::now();
        api.get(&path).await.with_context(|| path.clone())?;
        times.push(begun.elapsed());
    }
    say(&format!("  {:<16} {}", format!("{what}:"), Samples::new(times).show()));
    Ok(())
}

fn id(n: usize) -> String {
    let ms = SINCE + n as u64 * APART;
    format!("{:08x}-{:04x}-7000-8000-{n:012x}", ms >> 16, ms & 0xffff)
}

/// Messages in turn by thread and by direction; every fourth thread was read to its end.
fn fill(path: &std::path::Path) -> Result<()> {
    let mut db = rusqlite::Connection::open(path)?;
    db.busy_timeout(Duration::from_secs(5))?;
    let tx = db.transaction()?;
    {
        let mut insert = tx.prepare(
            "INSERT INTO messages (id, agent, direction, kind, text, state, ts) VALUES (?1, ?2, ?3, 'text', ?4, ?5, ?6)",
        )?;
        let text = "some words of a message ".repeat(TEXT / 24 + 1);
        for n in 0..MESSAGES {
            let inbound = (n / THREADS).is_multiple_of(2);
            let (direction, state) = if inbound { ("in", "delivered") } else { ("out", "none") };
            let ts = SINCE + n as u64 * APART;
            insert.execute(rusqlite::params![
                id(n),
                format!("a{}", n % THREADS),
                direction,
                text,
                state,
                ts
            ])?;
        }
        // The hub keeps the number of unread messages with the agent.
        let mut read = tx.prepare("UPDATE agents SET last_read = ?2, unread = ?3 WHERE name = ?1")?;
        for thread in 0..THREADS {
            let (mark, unread) = match thread % 4 {
                0 => (Some(id(MESSAGES - THREADS + thread)), 0),
                _ => (None, MESSAGES / THREADS / 2),
            };
            read.execute(rusqlite::params![format!("a{thread}"), mark, unread])?;
        }
    }
    tx.commit()?;
    Ok(())
}
