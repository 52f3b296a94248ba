//! Peers that break the rules lose their connection, and nobody else loses anything.

use crate::support::{ITEM, Raw, SOON, Scene, wait_until};
use leo_ipc::{
    Envelope, Generation, Kind, codec,
    event::SubscribeEvents,
    frame::{FRAME_DEADLINE, MAX_BEFORE_HELLO, MAX_FRAME},
    hello::{Hello, HelloReply, Role},
    hub::HubRequest,
    server::{MAX_CONNECTIONS, MAX_IN_FLIGHT, MAX_WAITING},
    version,
};
use serde_json::json;
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::Instant;

fn head(size: usize) -> [u8; 4] {
    u32::try_from(size).unwrap().to_be_bytes()
}

fn list_threads() -> Vec<u8> {
    codec::encode(&json!({"op": "chat.threads"})).unwrap()
}

#[tokio::test]
async fn half_frames_end_their_connection() {
    let scene = Scene::served();
    for bytes in [&[][..], &[0], &[0, 0, 0], &head(100), &[head(100).as_slice(), b"abc"].concat()] {
        for mut raw in [scene.stranger().await, scene.raw().await] {
            raw.bytes(bytes).await;
            raw.0.shutdown_write().await;
            assert_eq!(raw.closed().await, 0, "{bytes:?}");
        }
    }
    scene.assert_alive().await;
}

#[tokio::test]
async fn a_frame_that_is_too_large_is_refused_by_its_length_alone() {
    let scene = Scene::served();
    for size in [MAX_BEFORE_HELLO + 1, MAX_FRAME, u32::MAX as usize] {
        let mut stranger = scene.stranger().await;
        stranger.bytes(&head(size)).await;
        assert_eq!(stranger.closed().await, 0, "{size}");
    }
    for size in [MAX_FRAME + 1, u32::MAX as usize] {
        let mut raw = scene.raw().await;
        raw.bytes(&head(size)).await;
        assert_eq!(raw.closed().await, 0, "{size}");
    }
    scene.assert_alive().await;
}

#[tokio::test]
async fn what_does_not_decode_ends_the_connection() {
    let scene = Scene::served();
    let hello = codec::encode(&Hello::new(Role::Cli, Generation(0))).unwrap();
    let trailing = [hello.as_slice(), &[0xc0]].concat();
    let nested = vec![0x91; 60_000];
    for body in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[0xc1], &trailing, &nested, &[]] {
        let mut stranger = scene.stranger().await;
        stranger.bytes(&[&head(body.len()), body].concat()).await;
        assert_eq!(stranger.closed().await, 0, "{:?}", &body[..body.len().min(20)]);
    }
    let envelope = codec::encode(&Envelope { kind: Kind::Request, id: 1, body: list_threads() }).unwrap();
    let trailing = [envelope.as_slice(), &[0xc0]].concat();
    let nested = vec![0x91; 200_000];
    let answer = codec::encode(&Envelope { kind: Kind::Reply, id: 1, body: Vec::new() }).unwrap();
    for body in [b"garbage".as_slice(), &trailing, &nested, &answer, &[]] {
        let mut raw = scene.raw().await;
        raw.bytes(&[&head(body.len()), body].concat()).await;
        assert_eq!(raw.closed().await, 0, "{:?}", &body[..body.len().min(20)]);
    }
    scene.assert_alive().await;
}

#[tokio::test]
async fn a_request_that_cannot_be_read_costs_only_its_answer() {
    let scene = Scene::served();
    let mut raw = scene.raw().await;
    let nested = [codec::encode("x").unwrap(), vec![0x91; 200_000]].concat();
    let deep_field = {
        // {"op": "chat.threads", "x": [[[[…]]]]}: unknown fields are skipped, but not without end.
        let mut map = vec![0x82];
        map.extend(codec::encode("op").unwrap());
        map.extend(codec::encode("chat.threads").unwrap());
        map.extend(nested);
        map
    };
    let bad = |value| codec::encode::<serde_json::Value>(&value).unwrap();
    for (body, code, says) in [
        (
            bad(json!({"op": "of.tomorrow", "x": [1, {"y": 2}]})),
            "unknown_request",
            "restart the older process",
        ),
        (bad(json!({"op": "chat.send", "agent": "a", "text": 7, "key": "k"})), "bad_request", "integer `7`"),
        (bad(json!({"op": "chat.send", "agent": "a", "key": "k"})), "bad_request", "missing field `text`"),
        (
            bad(json!({"op": "chat.send", "agent": "A!", "text": "", "key": "k"})),
            "bad_request",
            "agent's name",
        ),
        (bad(json!({"agent": "a"})), "bad_request", "op"),
        (bad(json!([1, 2])), "bad_request", "HubRequest"),
        (vec![0x91; 200_000], "bad_request", "HubRequest"),
        (deep_field, "bad_request", "depth"),
        (vec![0xc1], "bad_request", "HubRequest"),
        (Vec::new(), "bad_request", "HubRequest"),
        ([list_threads().as_slice(), &[0xc0]].concat(), "bad_request", "1 trailing bytes"),
    ] {
        raw.request(9, body).await;
        let fault = raw.fault(9).await;
        assert_eq!(fault.code, code, "{says}: {fault}");
        assert!(fault.message.contains(says), "{says}: {fault}");
    }
    raw.request(10, list_threads()).await;
    let envelope: Envelope = codec::decode(&raw.frame().await.unwrap()).unwrap();
    assert_eq!((envelope.kind, envelope.id), (Kind::Reply, 10));
}

#[tokio::test]
async fn a_peer_of_another_protocol_or_version_is_told_why() {
    let scene = Scene::served();
    let ours = Hello::new(Role::Cli, Generation(0));
    let max = version::MAX;
    for (hello, says) in [
        (Hello { magic: "lea".into(), ..ours.clone() }, "does not speak its protocol"),
        (Hello { min: max + 1, max: max + 9, build: "9.9".into(), ..ours.clone() }, "the caller (9.9)"),
        (Hello { min: 0, max: 0, ..ours.clone() }, "restart the older one"),
    ] {
        let mut stranger = scene.stranger().await;
        stranger.send(&hello).await;
        let reply: HelloReply = codec::decode(&stranger.frame().await.unwrap()).unwrap();
        assert_eq!(reply.version, 0);
        assert!(reply.reason.contains(says), "{}", reply.reason);
        assert_eq!(stranger.closed().await, 0);
    }
    // A newer peer that still speaks our version is served with it.
    let mut newer = scene.stranger().await;
    newer.send(&Hello { max: max + 9, role: Role::Worker, ..ours }).await;
    let reply: HelloReply = codec::decode(&newer.frame().await.unwrap()).unwrap();
    assert_eq!(reply.accept().unwrap(), max);
}

/// The clock is tokio's own and jumps whenever nothing else is to be done, so these take no time.
#[tokio::test(start_paused = true)]
async fn one_byte_a_second_is_not_a_frame() {
    let scene = Scene::served();
    let raw = scene.raw().await;
    let envelope = codec::encode(&Envelope { kind: Kind::Request, id: 1, body: list_threads() }).unwrap();
    let frame = [&head(envelope.len()), envelope.as_slice()].concat();
    let start = Instant::now();
    let mut drip = frame.iter().cycle();
    while raw.try_write(&[*drip.next().unwrap()]) && start.elapsed() < FRAME_DEADLINE * 3 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let lasted = start.elapsed();
    assert!(lasted >= FRAME_DEADLINE && lasted < FRAME_DEADLINE * 2, "{lasted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_says_hello_is_let_go_and_one_that_did_may_be_silent() {
    let scene = Scene::served();
    let mut silent = scene.raw().await;
    let mut stranger = scene.stranger().await;
    stranger.bytes(&[0]).await;
    let start = Instant::now();
    assert_eq!(stranger.closed().await, 0);
    assert!(start.elapsed() < Duration::from_secs(20));
    tokio::time::sleep(FRAME_DEADLINE * 100).await;
    silent.request(1, list_threads()).await;
    assert!(silent.frame().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_connections_is_bounded_and_passes() {
    let (soft, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    let needed = (MAX_CONNECTIONS as u64 + 64) * 2 + 64;
    if hard < needed {
        println!("skipped: {needed} descriptors are needed and {hard} are allowed");
        return;
    }
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, soft.max(needed), hard)
        .unwrap();
    let scene = Scene::served();
    let mut flood = Vec::new();
    for _ in 0..MAX_CONNECTIONS + 32 {
        flood.push(scene.stranger().await);
    }
    // Behind all of them, somebody with something to say: served as soon as those have had their time.
    scene.assert_alive().await;
    // A server whose slots are all taken still stops.
    scene.stop.cancel();
}

#[tokio::test]
async fn a_peer_that_does_not_read_costs_a_bounded_amount() {
    let scene = Scene::served();
    let mut deaf = scene.raw().await;
    let subscribe = HubRequest::SubscribeEvents(SubscribeEvents { since: None });
    deaf.request(1, codec::encode(&subscribe).unwrap()).await;
    let items = || scene.odd.counts.items.load(Ordering::SeqCst);
    wait_until("the first items", || items() > 8).await;
    // While others are served, the stream has every chance to go on.
    for _ in 0..200 {
        scene.assert_alive().await;
    }
    let (made, bound) = (items(), (8 * 1024 * 1024) / ITEM);
    assert!(made < bound, "{made} items of {ITEM} bytes were made for a peer that reads none");
    // It reads on, and misses nothing.
    for seq in 0..made as u64 * 2 {
        let envelope: Envelope = codec::decode(&deaf.frame().await.unwrap()).unwrap();
        let leo_ipc::event::EventItem::Events { events } = codec::decode(&envelope.body).unwrap() else {
            panic!("not events")
        };
        assert_eq!(events[0].seq, seq);
    }
}

#[tokio::test]
async fn the_requests_of_a_peer_that_leaves_are_cancelled() {
    let scene = Scene::served();
    let mut raw = scene.raw().await;
    let hang = codec::encode(&json!({"op": "chat.message", "agent": "a", "id": "m"})).unwrap();
    // More than one connection may have in progress: the rest waits, and nobody else does.
    let most = most_in_flight();
    for id in 0..most + 100 {
        raw.request(id, hang.clone()).await;
    }
    let hanging = || scene.odd.counts.hanging.load(Ordering::SeqCst);
    wait_until("as many as may be in progress", || hanging() == MAX_IN_FLIGHT).await;
    scene.assert_alive().await;
    // It can still take requests back, running and waiting ones, and a place is free for the next.
    for id in (0..most - 10).chain(most..most + 90) {
        raw.send(&Envelope { kind: Kind::Cancel, id, body: Vec::new() }).await;
    }
    wait_until("the cancelled are gone, and those behind them run", || hanging() == 20).await;
    raw.request(1, list_threads()).await;
    assert!(raw.frame().await.is_some());
    drop(raw);
    wait_until("all are gone", || hanging() == 0).await;
}

#[tokio::test]
async fn requests_without_end_are_refused_and_not_kept() {
    let scene = Scene::served();
    let mut raw = scene.raw().await;
    let hang = codec::encode(&json!({"op": "chat.message", "agent": "a", "id": "m"})).unwrap();
    let kept = u64::try_from(MAX_IN_FLIGHT + MAX_WAITING).unwrap();
    for id in 0..kept + 3 {
        raw.request(id, hang.clone()).await;
    }
    for id in kept..kept + 3 {
        assert_eq!(raw.fault(id).await.code, "unavailable");
    }
    // Large ones are fewer.
    let large =
        codec::encode(&json!({"op": "chat.message", "agent": "a", "id": "x".repeat(900_000)})).unwrap();
    let mut raw = scene.raw().await;
    for id in 0..most_in_flight() {
        raw.request(id, hang.clone()).await;
    }
    for id in 1000..1006 {
        raw.request(id, large.clone()).await;
    }
    assert_eq!(raw.fault(1004).await.code, "unavailable");
    scene.assert_alive().await;
}

fn most_in_flight() -> u64 {
    u64::try_from(MAX_IN_FLIGHT).unwrap()
}

impl Raw {
    fn try_write(&self, bytes: &[u8]) -> bool {
        self.0.try_write(bytes).is_ok()
    }
}

trait ShutdownWrite {
    async fn shutdown_write(&mut self);
}

impl ShutdownWrite for tokio::net::UnixStream {
    async fn shutdown_write(&mut self) {
        tokio::io::AsyncWriteExt::shutdown(self).await.unwrap();
    }
}

const CHILD_SOCKET: &str = "LEO_TEST_OTHER_USER_SOCKET";

/// Not a test by itself: what the test below runs as another user.
#[test]
fn as_another_user() {
    let Some(socket) = std::env::var_os(CHILD_SOCKET) else { return };
    let refused = leo_ipc::blocking::connect_to(socket.as_ref(), Role::Cli, SOON);
    let error = refused.expect_err("another user was let in");
    // Connected, and closed without a word: not kept out by the file system.
    assert!(!matches!(error, leo_ipc::IpcError::Connect { .. }), "{error}");
}

#[tokio::test]
async fn another_user_is_turned_away() {
    use std::os::unix::fs::PermissionsExt;
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root can be another user for a moment");
        return;
    }
    let scene = Scene::served();
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(scene.path().parent().unwrap(), 0o755);
    open(&scene.path(), 0o777);
    // The other user may not be able to reach this program where it is.
    let program = scene.path().with_file_name("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    open(&program, 0o755);
    let child = tokio::process::Command::new(&program)
        .args(["--exact", "abuse::as_another_user"])
        .env(CHILD_SOCKET, scene.path())
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output();
    let output = tokio::time::timeout(SOON, child).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    scene.assert_alive().await;
}
