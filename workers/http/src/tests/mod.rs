//! The router as its peers see it: real sockets, a scripted hub behind it.

mod api;
mod asks;
mod fake;
mod openapi;
mod stream;

use crate::{
    app::{App, Parts},
    auth::{Identities, Operator, Trust},
    live::Live,
    routes, serve,
};
use fake::FakeHub;
use leo_ipc::{Generation, client::Client, config::Config, hello::Role, paths::Home};
use serde_json::Value;
use std::{net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::{mpsc, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A running http worker without its process.
pub(super) struct Bed {
    pub(super) home: Home,
    pub(super) tcp: SocketAddr,
    pub(super) token: String,
    pub(in crate::tests) hub: Arc<FakeHub>,
    pub(super) drain: CancellationToken,
    pub(super) tasks: TaskTracker,
    pub(super) config: watch::Sender<Config>,
    _dir: tempfile::TempDir,
}

/// The state of a worker of `home`, without anything behind it.
pub(super) fn app(home: &Home, config: watch::Receiver<Config>, drain: CancellationToken) -> App {
    let live = Live::new();
    tokio::spawn(live.clone().feed(Client::new(home.hub_socket(), Role::Worker, Generation(1))));
    tokio::spawn(live.clone().sweep_for_ever());
    App::new(Parts {
        home: home.clone(),
        boot_id: "boot".into(),
        supervisor_pid: 1,
        hub: Client::new(home.hub_socket(), Role::Worker, Generation(1)),
        agents: Client::new(home.agents_socket(), Role::Worker, Generation(1)),
        live,
        operator: Operator::new(home.operator_token()),
        identities: Identities::new(),
        rates: crate::rate::Rates::default(),
        config,
        workers: watch::Sender::new(Vec::new()).subscribe(),
        drain,
    })
}

impl Bed {
    pub(super) async fn new() -> Bed {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().to_owned()).unwrap();
        std::fs::create_dir_all(home.state()).unwrap();
        std::fs::create_dir_all(home.run()).unwrap();
        let token = leo_ipc::id::fresh_token();
        std::fs::write(home.operator_token(), &token).unwrap();
        let hub = FakeHub::start(&home);
        let (drain, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (config, config_rx) = watch::channel(Config::default());
        let app = app(&home, config_rx, drain.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = listener.local_addr().unwrap();
        let socket = UnixListener::bind(home.http_socket()).unwrap();
        let probe = || mpsc::channel(1).1;
        let router = |trust| routes::router(&app, trust);
        tasks.spawn(serve::serve(listener, router(Trust::Network), drain.clone(), tasks.clone(), probe()));
        tasks.spawn(serve::serve(socket, router(Trust::Socket), drain.clone(), tasks.clone(), probe()));
        Bed { home, tcp, token, hub, drain, tasks, config, _dir: dir }
    }

    /// One request over TCP with the operator's token.
    pub(super) async fn operator(&self, request: &str, body: &[u8]) -> Reply {
        let auth = format!("authorization: Bearer {}\r\n", self.token);
        self.tcp(request, &auth, body).await
    }

    /// One request over TCP, with headers (each line ended) and no token unless they hold one.
    pub(super) async fn tcp(&self, request: &str, headers: &str, body: &[u8]) -> Reply {
        let host = if headers.contains("host:") { String::new() } else { format!("host: {}\r\n", self.tcp) };
        let mut stream = TcpStream::connect(self.tcp).await.unwrap();
        exchange(&mut stream, &head(request, &format!("{host}{headers}"), body), body).await
    }

    /// One request over the unix socket.
    pub(super) async fn socket(&self, request: &str, body: &[u8]) -> Reply {
        let mut stream = UnixStream::connect(self.home.http_socket()).await.unwrap();
        exchange(&mut stream, &head(request, "host: leo\r\n", body), body).await
    }
}

fn head(request: &str, headers: &str, body: &[u8]) -> String {
    let kind = if body.is_empty() || headers.contains("content-type:") {
        ""
    } else {
        "content-type: application/json\r\n"
    };
    format!(
        "{request} HTTP/1.1\r\nconnection: close\r\n{headers}{kind}content-length: {}\r\n\r\n",
        body.len()
    )
}

async fn exchange<S>(stream: &mut S, head: &str, body: &[u8]) -> Reply
where
    S: AsyncReadExt + AsyncWriteExt + Unpin,
{
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    Reply::parse(&bytes)
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Reply {
    fn parse(bytes: &[u8]) -> Reply {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        Reply { status, headers, body: bytes[end + 4..].to_vec() }
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// Status and code of a refusal, which must be in the envelope.
    pub(super) fn refusal(&self) -> (u16, String) {
        let json = self.json();
        assert_eq!(json["ok"], false, "{json}");
        assert!(json["error"].as_str().is_some_and(|e| !e.is_empty()), "{json}");
        assert_eq!(self.header("content-type"), "application/json");
        (self.status, json["code"].as_str().unwrap().to_owned())
    }

    /// The data of a good answer.
    pub(super) fn data(&self) -> Value {
        let json = self.json();
        assert_eq!(json["ok"], true, "{json}");
        json["data"].clone()
    }
}
