//! P1 and P2: requests refused while the http worker is killed, and how fast a worker is back.

use crate::{Samples, say};
use anyhow::{Context, Result};
use leo_ipc::control::WorkerState;
use leo_tests::{Leo, procs};
use nix::sys::signal::Signal;
use std::{
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::net::TcpStream;

const CLIENTS: usize = 8;
const KILLS: usize = 200;
/// Pause between a worker's return and its next death.
const BETWEEN: Duration = Duration::from_millis(40);
/// Kills for each worker's latency.
const LATENCY_KILLS: usize = 40;

#[derive(Default)]
struct Load {
    served: AtomicU64,
    refused: AtomicU64,
    cut: AtomicU64,
}

impl Load {
    fn show(&self) -> String {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        format!(
            "{} served, {} refused, {} cut in flight",
            get(&self.served),
            get(&self.refused),
            get(&self.cut)
        )
    }
}

pub(crate) async fn run() -> Result<()> {
    say("restart: P1, requests on fresh connections while the server is killed 200 times under 8 clients");
    let leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let address = api.base.trim_start_matches("http://").to_owned();
    let request = format!(
        "GET /version HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        api.token
    );
    let (load, stop, clients) = start_load(&address, &request);
    for _ in 0..KILLS {
        let pid = leo.worker_pid("http").await?;
        procs::signal(pid, Signal::SIGKILL);
        leo.worker_replaced("http", pid).await?;
        tokio::time::sleep(BETWEEN).await;
    }
    finish(&stop, clients).await;
    say(&format!("  leo, listener held by the supervisor:    {}", load.show()));
    rival().await?;

    say("restart: P2, from SIGKILL to the replacement");
    for worker in ["http", "hub", "agents", "reminders", "mcp:assistant"] {
        let (mut running, mut ready) = (Vec::new(), Vec::new());
        for _ in 0..LATENCY_KILLS {
            let pid = leo.worker_pid(worker).await?;
            let killed = Instant::now();
            procs::signal(pid, Signal::SIGKILL);
            let mut seen_running = None;
            loop {
                let status = leo.status().await?;
                let found = status.workers.iter().find(|w| w.name == worker).context("the worker")?;
                let new = found.pid.is_some_and(|p| i32::try_from(p).is_ok_and(|p| p != pid));
                if new && seen_running.is_none() {
                    seen_running = Some(killed.elapsed());
                }
                if new && found.state == WorkerState::Running {
                    ready.push(killed.elapsed());
                    break;
                }
            }
            running.extend(seen_running);
            tokio::time::sleep(BETWEEN).await;
        }
        say(&format!("  {worker:14} running: {}", Samples::new(running).show()));
        say(&format!("  {worker:14} ready:   {}", Samples::new(ready).show()));
    }
    Ok(())
}

type Clients = Vec<tokio::task::JoinHandle<()>>;

fn start_load(address: &str, request: &str) -> (Arc<Load>, Arc<AtomicBool>, Clients) {
    let (load, stop) = (Arc::new(Load::default()), Arc::new(AtomicBool::new(false)));
    let client = |_| {
        let (load, stop, address, request) =
            (load.clone(), stop.clone(), address.to_owned(), request.to_owned());
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let counter = match ask(&address, &request).await {
                    Asked::Served => &load.served,
                    Asked::Refused => &load.refused,
                    Asked::Cut => &load.cut,
                };
                counter.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let clients = (0..CLIENTS).map(client).collect();
    (load, stop, clients)
}

async fn finish(stop: &AtomicBool, clients: Clients) {
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        let _ = client.await;
    }
}

enum Asked {
    Served,
    Refused,
    Cut,
}

async fn ask(address: &str, request: &str) -> Asked {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let Ok(mut socket) = TcpStream::connect(address).await else { return Asked::Refused };
    let mut answer = Vec::new();
    if socket.write_all(request.as_bytes()).await.is_err() || socket.read_to_end(&mut answer).await.is_err() {
        return Asked::Cut;
    }
    if answer.starts_with(b"HTTP/1.1 200") { Asked::Served } else { Asked::Cut }
}

/// The same load on a server that binds its own listener and is started again at once.
async fn rival() -> Result<()> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let start = || -> Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["self-binding-server", &port.to_string()]).stdin(Stdio::null());
        Ok(command.spawn()?)
    };
    let address = format!("127.0.0.1:{port}");
    let request = format!("GET /version HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut server = start()?;
    let up = async || while !matches!(ask(&address, &request).await, Asked::Served) {};
    up().await;
    let (load, stop, clients) = start_load(&address, &request);
    for _ in 0..KILLS {
        server.kill()?;
        server.wait()?;
        server = start()?;
        up().await;
        tokio::time::sleep(BETWEEN).await;
    }
    finish(&stop, clients).await;
    server.kill()?;
    server.wait()?;
    say(&format!("  the same with a self-binding server:     {}", load.show()));
    Ok(())
}

/// The rival's program.
pub(crate) async fn self_binding_server(port: Option<&String>) -> Result<()> {
    let port: u16 = port.context("a port")?.parse()?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let router = axum::Router::new().route("/version", axum::routing::get(|| async { "{\"ok\":true}" }));
    Ok(axum::serve(listener, router).await?)
}
