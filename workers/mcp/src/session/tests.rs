//! A session over a real socket, with a hub that only remembers.

use super::*;
use interprocess::{
    local_socket::{GenericFilePath, ListenerOptions, ToFsName, traits::tokio::Listener as _},
    os::unix::uds_local_socket::tokio::Listener,
};
use leo_ipc::{
    Fault, Generation,
    chat::{AgentPost, ListMessages, MessagePage, Posted},
    client::connect,
    hello::Role,
    server::{Answer, Handler, Peer, serve as serve_hub},
};
use serde_json::json;
use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Nothing here takes as long, unless it is broken.
const SOON: Duration = Duration::from_secs(20);

mod asks;

#[derive(Default)]
struct Hub {
    posts: Mutex<Vec<AgentPost>>,
    lists: Mutex<Vec<ListMessages>>,
    hangs: bool,
    hanging: AtomicUsize,
    asks: asks::Asks,
}

struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Counted<'a> {
        count.fetch_add(1, Ordering::SeqCst);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Handler for Hub {
    type Request = HubRequest;

    async fn handle(&self, _peer: Peer, request: HubRequest) -> Answer {
        match request {
            HubRequest::AuthAgent(AuthAgent { token_hash: hash }) => {
                let owner = ["a", "b"].into_iter().find(|name| hash == token_hash(&format!("token-{name}")));
                Answer::of(owner.map_or_else(
                    || Err(Fault::new("unauthorized", "unknown token")),
                    |name| Ok(AgentIdentity { name: name.parse().unwrap(), launch: "l1".into(), run: None }),
                ))
            }
            HubRequest::AgentPost(post) => {
                self.posts.lock().unwrap().push(post);
                if self.hangs {
                    let _hanging = Counted::new(&self.hanging);
                    std::future::pending::<()>().await;
                }
                Answer::of(Ok(Posted { message_id: "m1".into() }))
            }
            HubRequest::ListMessages(list) => {
                self.lists.lock().unwrap().push(list);
                Answer::of(Ok(MessagePage { messages: Vec::new(), has_more: false }))
            }
            other => self.asks.handle(other).await,
        }
    }
}

fn listen(path: &Path) -> Listener {
    ListenerOptions::new()
        .name(path.to_fs_name::<GenericFilePath>().unwrap())
        .create_tokio_as::<Listener>()
        .unwrap()
}

struct Scene {
    dir: tempfile::TempDir,
    hub: Arc<Hub>,
    stop: CancellationToken,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Scene {
    /// A hub and the worker of agent `a`.
    fn new(hub: Hub) -> Scene {
        let scene =
            Scene { dir: tempfile::tempdir().unwrap(), hub: Arc::new(hub), stop: CancellationToken::new() };
        let hub_socket = scene.dir.path().join("hub");
        tokio::spawn(serve_hub(listen(&hub_socket), scene.hub.clone(), scene.stop.clone()));
        let client = Client::new(hub_socket, Role::Worker, Generation(1));
        let (listener, stop) = (listen(&scene.dir.path().join("mcp")), scene.stop.clone());
        tokio::spawn(async move {
            loop {
                let socket = listener.accept().await.unwrap();
                tokio::spawn(serve(socket, "a".parse().unwrap(), client.clone(), stop.clone()));
            }
        });
        scene
    }

    async fn shim(&self, token: &str, dispatched: bool) -> Shim {
        let socket = connect(&self.dir.path().join("mcp"), Role::Shim, Generation(0)).await.unwrap();
        let shim = Shim { socket };
        let cwd = self.dir.path().to_str().map(str::to_owned);
        shim.send(&FromShim::Token { token: token.to_owned(), cwd, dispatched, run: None }).await;
        shim
    }

    /// A shim whose session is open.
    async fn session(&self) -> Shim {
        let shim = self.shim("token-a", false).await;
        assert_eq!(shim.frame().await, Some(ToShim::Welcome {}));
        shim.initialize().await;
        shim
    }
}

struct Shim {
    socket: Socket,
}

impl Shim {
    async fn send(&self, frame: &FromShim) {
        let mut writer = &self.socket;
        frame::write(&mut writer, &codec::encode(frame).unwrap(), MAX_LINE_FRAME).await.unwrap();
    }

    async fn frame(&self) -> Option<ToShim> {
        let mut reader = &self.socket;
        let read = tokio::time::timeout(SOON, frame::read(&mut reader, MAX_LINE_FRAME)).await.unwrap();
        read.ok().flatten().map(|bytes| codec::decode(&bytes).unwrap())
    }

    async fn say(&self, json: Value) {
        let call_key = json.get("id").map(|id| format!("key-{id}"));
        self.send(&FromShim::Line { json: json.to_string(), call_key, age_ms: 0 }).await;
    }

    async fn hear(&self) -> Value {
        match self.frame().await {
            Some(ToShim::Line { json }) => serde_json::from_str(&json).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    async fn ask(&self, id: u64, method: &str, params: Value) -> Value {
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        let answer = self.hear().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    async fn call(&self, id: u64, name: &str, arguments: Value) -> Value {
        self.ask(id, "tools/call", json!({"name": name, "arguments": arguments})).await
    }

    async fn initialize(&self) -> Value {
        let client = json!({"name": "claude-code", "version": "2"});
        let params = json!({"protocolVersion": "2026-07-28", "capabilities": {}, "clientInfo": client});
        let answer = self.ask(0, "initialize", params).await;
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test]
async fn only_this_agents_token_is_welcome() {
    let scene = Scene::new(Hub::default());
    for (token, says) in [("token-b", "another agent"), ("nonsense", "started again")] {
        let Some(ToShim::Denied { reason }) = scene.shim(token, false).await.frame().await else {
            panic!("{token} was welcome")
        };
        assert!(reason.contains(says), "{reason}");
    }
    assert_eq!(scene.shim("token-a", false).await.frame().await, Some(ToShim::Welcome {}));
    // Another first frame, and no second chance.
    let socket = connect(&scene.dir.path().join("mcp"), Role::Shim, Generation(0)).await.unwrap();
    let shim = Shim { socket };
    shim.say(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    assert_eq!(shim.frame().await, None);
}

#[tokio::test]
async fn the_session_speaks_the_pinned_version_and_lists_the_tools() {
    let scene = Scene::new(Hub::default());
    let shim = scene.shim("token-a", false).await;
    assert_eq!(shim.frame().await, Some(ToShim::Welcome {}));
    let init = shim.initialize().await;
    assert_eq!(init["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(init["result"]["capabilities"]["tools"]["listChanged"], true);
    let list = shim.ask(1, "tools/list", json!({})).await;
    // The shim gives the same list when no worker is there.
    assert_eq!(list["result"]["tools"], serde_json::to_value(crate::tools::list()).unwrap());
    assert_eq!(shim.ask(2, "ping", json!({})).await["result"], json!({}));
    assert!(shim.ask(3, "no/such", json!({})).await["error"]["code"].is_i64());
    assert!(shim.ask(4, "server/discover", json!({})).await.get("error").is_some());
}

#[tokio::test]
async fn a_post_reaches_the_hub_as_the_agents_with_the_calls_key() {
    let scene = Scene::new(Hub::default());
    std::fs::write(scene.dir.path().join("shot.png"), "x").unwrap();
    let shim = scene.session().await;
    let answer =
        shim.call(1, "leo_chat_post", json!({"text": "hi", "files": ["shot.png"], "reply_to": "m0"})).await;
    assert_eq!(answer["result"]["structuredContent"], json!({"message_id": "m1"}));
    assert_eq!(serde_json::from_str::<Value>(text(&answer)).unwrap(), json!({"message_id": "m1"}));
    let posts = scene.hub.posts.lock().unwrap();
    let expected = AgentPost {
        agent: "a".parse().unwrap(),
        launch: Some("l1".into()),
        call_key: "key-1".into(),
        text: "hi".into(),
        files: vec![scene.dir.path().join("shot.png").to_str().unwrap().to_owned()],
        reply_to: Some("m0".into()),
        run: None,
    };
    assert_eq!(posts[..], [expected]);
}

#[tokio::test]
async fn history_is_asked_within_its_bounds() {
    let scene = Scene::new(Hub::default());
    let shim = scene.session().await;
    let answer = shim.call(1, "leo_chat_history", json!({})).await;
    assert_eq!(answer["result"]["structuredContent"], json!({"messages": [], "has_more": false}));
    shim.call(2, "leo_chat_history", json!({"limit": 5, "before": "m9"})).await;
    let lists = scene.hub.lists.lock().unwrap();
    let asked: Vec<_> = lists.iter().map(|l| (l.agent.as_str(), l.limit, l.before.clone())).collect();
    assert_eq!(asked, [("a", 20, None), ("a", 5, Some("m9".into()))]);
}

#[tokio::test]
async fn mistakes_are_answered_so_that_the_model_can_correct_them() {
    let scene = Scene::new(Hub::default());
    let shim = scene.session().await;
    for (name, arguments, says) in [
        ("leo_chat_post", json!({}), "this message is empty"),
        ("leo_chat_post", json!({"text": 5}), "at $.text: expected a text, found 5"),
        ("leo_chat_post", json!({"text": "x", "file": "y"}), "at $.file: there is no such argument"),
        ("leo_chat_post", json!({"files": ["/no/such"]}), "at $.files[0]: /no/such cannot be read"),
        ("leo_chat_post", json!({"text": "x".repeat(65 * 1024)}), "at $.text"),
        ("leo_chat_post", json!({"files": vec!["x"; 11]}), "at $.files: 11 files"),
        ("leo_chat_history", json!({"limit": 0}), "at $.limit: expected a whole number from 1 to 100"),
        ("leo_chat_history", json!([1]), "at $: expected"),
        ("leo_chat_history", json!("x"), "at $: expected"),
    ] {
        let answer = shim.call(7, name, arguments.clone()).await;
        assert_eq!(answer["result"]["isError"], true, "{arguments}: {answer}");
        assert!(text(&answer).contains(says), "{arguments}: {answer}");
    }
    let unknown = shim.call(8, "leo_nothing", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(unknown["error"]["message"].as_str().unwrap().contains("leo_nothing"));
    assert!(scene.hub.posts.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_dispatched_subagent_is_refused() {
    let scene = Scene::new(Hub::default());
    let shim = scene.shim("token-a", true).await;
    assert_eq!(shim.frame().await, Some(ToShim::Welcome {}));
    shim.initialize().await;
    let answer = shim.call(1, "leo_chat_post", json!({"text": "hi"})).await;
    assert_eq!(answer["result"]["isError"], true);
    assert!(text(&answer).contains("dispatched subagent"), "{answer}");
    assert!(scene.hub.posts.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_cancelled_call_stops_waiting_and_gets_no_answer() {
    let scene = Scene::new(Hub { hangs: true, ..Hub::default() });
    let shim = scene.session().await;
    let post = json!({"name": "leo_chat_post", "arguments": {"text": "x"}});
    shim.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": post})).await;
    wait_until(|| scene.hub.hanging.load(Ordering::SeqCst) == 1).await;
    let params = json!({"requestId": 1});
    shim.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
    wait_until(|| scene.hub.hanging.load(Ordering::SeqCst) == 0).await;
    // The next thing heard is the next answer.
    shim.ask(2, "ping", json!({})).await;

    // A shim that leaves takes its calls along.
    shim.say(json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": post})).await;
    wait_until(|| scene.hub.hanging.load(Ordering::SeqCst) == 1).await;
    drop(shim);
    wait_until(|| scene.hub.hanging.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn what_is_no_request_gets_an_error_and_the_session_goes_on() {
    let scene = Scene::new(Hub::default());
    let shim = scene.session().await;
    for line in [r#"{"id": 9, "method": "tools/call"}"#, r#"{"jsonrpc": "1.0", "id": 9, "method": "ping"}"#] {
        shim.send(&FromShim::Line { json: line.to_owned(), call_key: None, age_ms: 0 }).await;
        let answer = shim.hear().await;
        assert!(answer["id"] == 9 && answer.get("error").is_some(), "{line}: {answer}");
    }
    shim.ask(10, "ping", json!({})).await;
}

async fn wait_until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap();
}
