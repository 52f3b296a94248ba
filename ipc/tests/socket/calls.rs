//! The client: answers, refusals, deadlines, cancellation, and servers that are replaced under it.

use crate::support::{Endless, NoPage, SOON, Scene, item, wait_until};
use leo_ipc::{
    AgentName, CallKey, IpcError,
    agent::RemoveAgent,
    chat::{GetMessage, ListMessages, ListThreads, MAX_TEXT, SendMessage},
    event::{GetState, SubscribeEvents},
    server::serve,
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

fn agent() -> AgentName {
    "a".parse().unwrap()
}

fn hang() -> GetMessage {
    GetMessage { agent: agent(), id: "m".into() }
}

fn send(text: String) -> SendMessage {
    SendMessage {
        steer: false,
        agent: agent(),
        text,
        reply_to: None,
        attachments: Vec::new(),
        client_msg_id: None,
        key: CallKey::fresh(),
    }
}

#[tokio::test]
async fn answers_and_refusals_reach_their_callers() {
    let scene = Scene::served();
    let client = scene.client();
    client.call(ListThreads {}, SOON).await.unwrap();
    client.call(RemoveAgent { name: agent() }, SOON).await.unwrap();
    let refused = client.call(send("x".into()), SOON).await.unwrap_err();
    assert!(matches!(refused, IpcError::Fault(fault) if fault.code == "too_large" && fault.message == "No."));
    let panicked = client.call(GetState {}, SOON).await.unwrap_err();
    assert!(matches!(panicked, IpcError::Fault(fault) if fault.code == "internal"));
    // Too large to be answered, too large to be asked: said at once, by whichever side knows.
    let page = ListMessages { agent: agent(), before: None, after: None, limit: 1 };
    let page: NoPage = client.call(page, SOON).await;
    assert!(matches!(page.unwrap_err(), IpcError::Fault(fault) if fault.code == "too_large"));
    let error = client.call(send("x".repeat(MAX_TEXT * 5)), SOON).await.unwrap_err();
    assert!(matches!(error, IpcError::TooLarge { .. }), "{error}");
    client.call(ListThreads {}, SOON).await.unwrap();
}

#[tokio::test]
async fn many_calls_share_a_connection() {
    let scene = Scene::served();
    let client = scene.client();
    let calls = (0..500).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.call(ListThreads {}, SOON).await.map(drop) })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    assert_eq!(scene.odd.counts.answered.load(Ordering::SeqCst), 500);
}

#[tokio::test]
async fn a_deadline_is_kept_and_named() {
    let scene = Scene::served();
    let start = Instant::now();
    let error = scene.client().call(hang(), Duration::from_millis(70)).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer within 70 ms");
    assert!(start.elapsed() < SOON / 2);
    wait_until("the server has heard of it", || scene.odd.counts.hanging.load(Ordering::SeqCst) == 0).await;

    // A socket that is held and not served is a slow one, not a missing one.
    let held = Scene::held();
    let error = held.client().call(ListThreads {}, Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer within 50 ms");
    let nobody = leo_ipc::client::Client::<leo_ipc::hub::HubRequest>::new(
        "/nowhere/s".into(),
        leo_ipc::hello::Role::Cli,
        leo_ipc::Generation(0),
    );
    let error = nobody.call(ListThreads {}, Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot connect to /nowhere/s");
}

#[tokio::test]
async fn a_caller_that_no_longer_waits_is_heard() {
    let scene = Scene::served();
    let client = scene.client();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call(hang(), SOON).await.map(drop) }
    });
    let hanging = || scene.odd.counts.hanging.load(Ordering::SeqCst);
    wait_until("the call is in progress", || hanging() == 1).await;
    call.abort();
    wait_until("the call is dropped", || hanging() == 0).await;
    client.call(ListThreads {}, SOON).await.unwrap();
}

#[tokio::test]
async fn streams_come_in_order_and_end() {
    let scene = Scene::served();
    let client = scene.client();
    let mut items = client.stream(SubscribeEvents { since: None }, SOON).await.unwrap();
    for seq in 0..200 {
        assert_eq!(items.next().await.unwrap(), Some(item(seq)));
    }
    assert_eq!(scene.odd.counts.streaming.load(Ordering::SeqCst), 1);
    drop(items);
    wait_until("the server has ended it", || scene.odd.counts.streaming.load(Ordering::SeqCst) == 0).await;
    client.call(ListThreads {}, SOON).await.unwrap();
}

/// A server in a runtime of its own, which can be killed as a process is: without a word.
fn spawn_server(scene: &Scene) -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = {
        let _in = runtime.enter();
        scene.listener()
    };
    runtime.spawn(serve(listener, Arc::new(Endless(scene.odd.clone())), scene.stop.clone()));
    runtime
}

#[tokio::test]
async fn a_call_outlives_servers_that_are_killed_under_it() {
    let scene = Scene::held();
    let client = scene.client();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call(ListThreads {}, SOON).await.map(drop) }
    });
    // Nobody serves yet; the call waits in the backlog.
    tokio::task::yield_now().await;
    assert!(!call.is_finished());
    let mut server = spawn_server(&scene);
    call.await.unwrap().unwrap();

    for round in 1..=5 {
        let hanging = client.clone();
        let call = tokio::spawn(async move { hanging.call(hang(), SOON).await.map(drop) });
        wait_until("the call is in progress", || scene.odd.counts.hanging.load(Ordering::SeqCst) == 1).await;
        server.shutdown_background();
        wait_until("the server is dead", || scene.odd.counts.hanging.load(Ordering::SeqCst) == 0).await;
        server = spawn_server(&scene);
        // Asked again of the next server, without the caller noticing.
        wait_until("the call is made again", || scene.odd.counts.hanging.load(Ordering::SeqCst) == 1).await;
        assert!(!call.is_finished(), "round {round}");
        call.abort();
        wait_until("the call is dropped", || scene.odd.counts.hanging.load(Ordering::SeqCst) == 0).await;
        client.call(ListThreads {}, SOON).await.unwrap();
    }
    server.shutdown_background();
}

#[tokio::test]
async fn a_stream_says_that_its_server_died() {
    let scene = Scene::held();
    let server = spawn_server(&scene);
    let client = scene.client();
    let mut items = client.stream(SubscribeEvents { since: None }, SOON).await.unwrap();
    assert_eq!(items.next().await.unwrap(), Some(item(0)));
    server.shutdown_background();
    let error = loop {
        match tokio::time::timeout(SOON, items.next()).await.unwrap() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a dead server does not end a stream well"),
            Err(e) => break e,
        }
    };
    assert!(matches!(error, IpcError::Closed), "{error}");
    let server = spawn_server(&scene);
    let mut items = client.stream(SubscribeEvents { since: None }, SOON).await.unwrap();
    assert_eq!(items.next().await.unwrap(), Some(item(0)));
    server.shutdown_background();
}

#[tokio::test]
async fn a_draining_server_answers_what_it_has_and_accepts_nothing_more() {
    let scene = Scene::served();
    let client = scene.client();
    client.call(ListThreads {}, SOON).await.unwrap();
    scene.stop.cancel();
    // The next server, on the same listener.
    let server = spawn_server_fresh(&scene);
    client.call(ListThreads {}, SOON).await.unwrap();
    server.cancel();
}

fn spawn_server_fresh(scene: &Scene) -> tokio_util::sync::CancellationToken {
    let stop = tokio_util::sync::CancellationToken::new();
    tokio::spawn(serve(scene.listener(), Arc::new(Endless(scene.odd.clone())), stop.clone()));
    stop
}
