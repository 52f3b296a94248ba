//! The event stream: resuming with any id, and a reader that does not read.

use anyhow::{Context, Result, ensure};
use leo_tests::{Api, Leo, procs, sse::Events, wait_for};
use rand::RngExt;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const AGENT: &str = "assistant";

/// What an app knows: messages by id.
type Model = BTreeMap<String, Value>;

fn apply(model: &mut Model, kind: &str, data: &Value) {
    if kind == "chat.message" || kind == "chat.updated" {
        let message = data["message"].clone();
        model.insert(message["id"].as_str().unwrap_or_default().to_owned(), message);
    }
}

async fn refetch(api: &Api) -> Result<(Model, String)> {
    let state = api.get("/api/v1/state").await?;
    let place = format!("{}:{}", state["meta"]["epoch"].as_str().unwrap_or_default(), state["meta"]["seq"]);
    let thread = api.thread(AGENT).await?;
    let model = thread.into_iter().map(|m| (m["id"].as_str().unwrap_or_default().to_owned(), m)).collect();
    Ok((model, place))
}

/// A client that comes and goes with good, stale, foreign, future and broken places: after `ok` its
/// model equals the thread, after `gap` it does once it has fetched the state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gap_fuzz() -> Result<()> {
    let leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let stop = Arc::new(AtomicBool::new(false));
    let producer = tokio::spawn({
        let (api, stop) = (api.clone(), stop.clone());
        async move {
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                let _ = api.send(AGENT, &format!("event maker {n}")).await;
                n += 1;
                // Paced by the agent: the outbox is bounded.
                let _ = wait_for("room", || async {
                    let thread = api.thread(AGENT).await.ok()?;
                    (thread.iter().filter(|m| m["state"] == "pending").count() < 5).then_some(())
                })
                .await;
            }
        }
    });
    let (mut model, mut place) = refetch(&api).await?;
    let (mut oks, mut gaps) = (0, 0);
    for round in 0..40 {
        let (epoch, seq) = place.rsplit_once(':').context("a place")?;
        let seq: u64 = seq.parse()?;
        let given = match round % 8 {
            4 => format!("another-epoch:{seq}"),
            5 => format!("{epoch}:{}", seq + 1_000_000),
            6 => format!("{epoch}:0"),
            7 => "nonsense".to_owned(),
            _ => place.clone(),
        };
        let opened = Events::open(&api, Some(&given)).await;
        if round % 8 == 7 && opened.is_err() {
            continue;
        }
        let mut events = opened?;
        let hello = events.next().await?.context("a hello first")?;
        ensure!(hello.kind == "hello", "{hello:?}");
        match hello.data["resume"].as_str() {
            Some("ok") => {
                oks += 1;
                ensure!(given.starts_with(epoch), "resumed another epoch");
                let mut last: u64 = given.rsplit_once(':').context("a place")?.1.parse()?;
                let take = rand::rng().random_range(1..12);
                for _ in 0..take {
                    let Ok(Ok(Some(event))) =
                        tokio::time::timeout(Duration::from_secs(5), events.next()).await
                    else {
                        break;
                    };
                    let seq = event.data["seq"].as_u64().context("a seq")?;
                    ensure!(seq == last + 1, "{seq} after {last} in round {round}");
                    apply(&mut model, &event.kind, &event.data);
                    last = seq;
                }
                place = format!("{epoch}:{last}");
            }
            Some("gap") => {
                gaps += 1;
                ensure!(round % 8 >= 4, "a good place is no gap: {given}");
                (model, place) = refetch(&api).await?;
            }
            other => anyhow::bail!("round {round} with {given}: resume {other:?}"),
        }
    }
    stop.store(true, Ordering::Relaxed);
    producer.await?;
    ensure!(oks > 10 && gaps > 5, "both were met: {oks} ok, {gaps} gap");

    // Catch up and compare with the thread.
    wait_for("the agent to be done", || async {
        let thread = api.thread(AGENT).await.ok()?;
        (!thread.iter().any(|m| m["state"] == "pending")).then_some(())
    })
    .await?;
    leo.agent_idle(AGENT).await?;
    let head = api.get("/api/v1/state").await?["meta"]["seq"].as_u64().context("a head")?;
    let mut events = Events::open(&api, Some(&place)).await?;
    events.next().await?;
    let mut last: u64 = place.rsplit_once(':').context("a place")?.1.parse()?;
    while last < head {
        let event = events.next().await?.context("the stream goes on")?;
        apply(&mut model, &event.kind, &event.data);
        last = event.data["seq"].as_u64().context("a seq")?;
    }
    for message in api.thread(AGENT).await? {
        let known = &model[message["id"].as_str().unwrap_or_default()];
        ensure!(
            known["state"] == message["state"] && known["text"] == message["text"],
            "{known} is not {message}"
        );
    }
    Ok(())
}

/// Resident memory of a process in bytes.
fn rss(pid: i32) -> Result<u64> {
    let out = std::process::Command::new("ps").args(["-o", "rss=", "-p", &pid.to_string()]).output()?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().parse::<u64>()? * 1024)
}

/// A reader of one byte at a time is closed, costs no memory, and disturbs nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_reader() -> Result<()> {
    let leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let http = leo.worker_pid("http").await?;
    let address = api.base.trim_start_matches("http://").to_owned();
    let mut socket = tokio::net::TcpStream::connect(&address).await?;
    let request = format!(
        "GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n",
        api.token
    );
    socket.write_all(request.as_bytes()).await?;
    let mut first = [0u8; 1];
    socket.read_exact(&mut first).await?;
    let mut good = Events::open(&api, None).await?;
    let hello = good.next().await?.context("a hello")?;
    let before = rss(http)?;
    let first: u64 = hello.id.rsplit_once(':').context("an id")?.1.parse()?;
    let stop = Arc::new(std::sync::atomic::AtomicU64::new(u64::MAX));
    let reader = tokio::spawn({
        let stop = stop.clone();
        async move {
            let mut last = first;
            while last < stop.load(Ordering::Relaxed) {
                let event = good.next().await?.context("the good reader goes on")?;
                let seq = event.data["seq"].as_u64().context("a seq")?;
                ensure!(seq == last + 1, "{seq} after {last}");
                last = seq;
            }
            anyhow::Ok(())
        }
    });
    // 40 MiB of events, cancelled at once so that the outbox has room.
    let text = "x".repeat(200 * 1024);
    for n in 0..100 {
        let body = json!({ "text": format!("{n} {text}") });
        let sent = api.post(&format!("/api/v1/chat/{AGENT}/messages"), body).await?;
        let id = sent["id"].as_str().unwrap_or_default().to_owned();
        let cancel = format!("/api/v1/chat/{AGENT}/messages/{id}/cancel");
        api.ask(reqwest::Method::POST, &cancel, Some(json!({}))).await?;
    }
    // The good reader has everything, in order. One event more ends its wait.
    let head = api.get("/api/v1/state").await?["meta"]["seq"].as_u64().context("a head")?;
    stop.store(head, Ordering::Relaxed);
    api.send(AGENT, "the last one").await?;
    reader.await??;
    // The slow one is closed: reading on, it comes to an end instead of to the newest event.
    let mut taken = 0usize;
    let mut buffer = vec![0u8; 64 * 1024];
    loop {
        match tokio::time::timeout(Duration::from_secs(30), socket.read(&mut buffer))
            .await
            .context("still open")?
        {
            Ok(0) | Err(_) => break,
            Ok(n) => taken += n,
        }
    }
    ensure!(taken < 30 * 1024 * 1024, "it was closed, not served {taken} bytes");
    let after = rss(http)?;
    let grown = after.saturating_sub(before);
    // The ring of the newest events is bounded by 16 MiB; the slow reader may not add to it.
    ensure!(grown < 48 * 1024 * 1024, "the http worker grew by {grown} bytes");
    ensure!(procs::alive(http), "the http worker is the same");
    Ok(())
}
