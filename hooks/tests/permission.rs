//! The hook of a permission prompt as a process of its own, with a hub that a test plays.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use leo_ipc::{
    Done, Envelope, Kind,
    ask::{AskPermission, Decision, PermissionGone},
    codec,
    frame::{self, MAX_FRAME},
    hello::Hello,
    hub::HubRequest,
    paths::Home,
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    os::{
        fd::AsFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Nothing here takes as long, unless it is broken.
const SOON: Duration = Duration::from_secs(30);

/// Not a test but the hook's process, which the tests start: the crate itself has no program.
#[test]
fn the_hook() {
    // Run with the other tests, it is nobody's hook and has nothing to do.
    if std::env::var_os("LEO_API_TOKEN").is_none() {
        return;
    }
    #[expect(clippy::exit, reason = "a hook ends its process")]
    std::process::exit(leo_hooks::main() as i32);
}

struct Scene {
    dir: tempfile::TempDir,
}

/// A prompt that a hub has taken.
struct Asked {
    socket: UnixStream,
    id: u64,
    ask: AskPermission,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("run")).unwrap();
        Scene { dir }
    }

    fn socket(&self) -> PathBuf {
        Home::at(self.dir.path().to_owned()).unwrap().hub_socket()
    }

    fn listen(&self) -> UnixListener {
        let path = self.socket();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // A hub that was there has left its socket.
        let _ = std::fs::remove_file(&path);
        UnixListener::bind(path).unwrap()
    }

    fn hook(&self, fields: &Value) -> Child {
        let mut input = json!({
            "hook_event_name": "PermissionRequest", "session_id": "s1", "prompt_id": "p1",
            "permission_mode": "default", "tool_name": "Bash", "tool_input": {"command": "ls"}
        });
        input.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_hook", "--nocapture", "--quiet"])
            .env_clear()
            .env("LEO_HOME", self.dir.path())
            .env("LEO_API_TOKEN", "token")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
        child
    }
}

fn take(listener: &UnixListener) -> (UnixStream, u64, HubRequest) {
    // Given up on a listener that nobody comes to: a test that hangs says nothing.
    let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let soon = PollTimeout::try_from(SOON).unwrap();
    assert_eq!(poll(&mut fds, soon).unwrap(), 1, "nobody has connected");
    let (mut socket, _) = listener.accept().unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    let read = |socket: &mut UnixStream| frame::read_blocking(socket, MAX_FRAME).unwrap().unwrap();
    let hello: Hello = codec::decode(&read(&mut socket)).unwrap();
    frame::write_blocking(&mut socket, &codec::encode(&hello.answer()).unwrap(), MAX_FRAME).unwrap();
    let request: Envelope = codec::decode(&read(&mut socket)).unwrap();
    (socket, request.id, codec::decode(&request.body).unwrap())
}

fn take_ask(listener: &UnixListener) -> Asked {
    match take(listener) {
        (socket, id, HubRequest::AskPermission(ask)) => Asked { socket, id, ask },
        (_, _, other) => panic!("{other:?}"),
    }
}

impl Asked {
    fn answer(mut self, decision: &Decision) -> UnixStream {
        let reply = Envelope { kind: Kind::Reply, id: self.id, body: codec::encode(decision).unwrap() };
        frame::write_blocking(&mut self.socket, &codec::encode(&reply).unwrap(), MAX_FRAME).unwrap();
        self.socket
    }
}

/// Waits for the hook's success and returns what it printed.
fn printed(mut hook: Child) -> String {
    let deadline = Instant::now() + SOON;
    let status = loop {
        if let Some(status) = hook.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            hook.kill().unwrap();
            panic!("the hook does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{status}");
    let mut text = String::new();
    hook.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    // What the test runner itself says before it runs the hook.
    text.trim_start().strip_prefix("running 1 test\n").unwrap_or(&text).to_owned()
}

#[test]
fn a_decision_is_printed_once_and_nothing_else() {
    let scene = Scene::new();
    let hub = scene.listen();
    let hook = scene.hook(&json!({}));
    let asked = take_ask(&hub);
    assert_eq!((asked.ask.token.as_str(), asked.ask.tool_name.as_str()), ("token", "Bash"));
    assert_eq!(asked.ask.tool_input, json!({"command": "ls"}));
    asked.answer(&Decision::Deny { message: Some("not now".into()) });
    let text = printed(hook);
    assert_eq!(text.lines().count(), 1, "{text:?}");
    let decision = json!({"behavior": "deny", "message": "not now"});
    let expected =
        json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}});
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);

    let hook = scene.hook(&json!({}));
    take_ask(&hub).answer(&Decision::Nothing {});
    assert_eq!(printed(hook), "");
}

#[test]
fn a_hub_that_comes_back_is_asked_with_the_same_key() {
    let scene = Scene::new();
    let hub = scene.listen();
    let hook = scene.hook(&json!({}));
    let first = take_ask(&hub);
    drop(hub);
    std::fs::remove_file(scene.socket()).unwrap();
    let key = first.ask.hook_key.clone();
    drop(first);
    let hub = scene.listen();
    let second = take_ask(&hub);
    assert_eq!(second.ask.hook_key, key);
    second.answer(&Decision::Allow { updated_input: Some(json!({"a": 1})) });
    let text = printed(hook);
    assert!(text.contains(r#""behavior":"allow""#) && text.contains(r#""updatedInput":{"a":1}"#), "{text}");
}

#[test]
fn without_a_hub_the_terminal_decides() {
    let scene = Scene::new();
    // A subagent's prompt, which is the quicker to give up.
    let hook = scene.hook(&json!({"agent_id": "sub"}));
    assert_eq!(printed(hook), "");
}

#[test]
fn a_hub_that_is_not_back_in_time_leaves_it_to_the_terminal() {
    let scene = Scene::new();
    let hub = scene.listen();
    let hook = scene.hook(&json!({}));
    let asked = take_ask(&hub);
    drop(hub);
    let lost = Instant::now();
    drop(asked);
    assert_eq!(printed(hook), "");
    assert!(lost.elapsed() > Duration::from_secs(10), "{:?}", lost.elapsed());
}

#[test]
fn the_harness_ends_the_hook_and_the_hub_hears_of_it() {
    let scene = Scene::new();
    let hub = scene.listen();
    let hook = scene.hook(&json!({}));
    let asked = take_ask(&hub);
    kill(Pid::from_raw(i32::try_from(hook.id()).unwrap()), Signal::SIGTERM).unwrap();
    let (mut socket, id, request) = take(&hub);
    let gone = PermissionGone { hook_key: asked.ask.hook_key, token: "token".into() };
    assert_eq!(request, HubRequest::PermissionGone(gone));
    let reply = Envelope { kind: Kind::Reply, id, body: codec::encode(&Done {}).unwrap() };
    frame::write_blocking(&mut socket, &codec::encode(&reply).unwrap(), MAX_FRAME).unwrap();
    assert_eq!(printed(hook), "");
}

#[test]
fn the_harness_ends_the_hook_while_there_is_no_hub() {
    let scene = Scene::new();
    let hub = scene.listen();
    let hook = scene.hook(&json!({}));
    let asked = take_ask(&hub);
    drop(hub);
    drop(asked);
    let ended = Instant::now();
    kill(Pid::from_raw(i32::try_from(hook.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(printed(hook), "");
    assert!(ended.elapsed() < Duration::from_secs(5), "{:?}", ended.elapsed());
}

#[test]
fn a_hook_whose_harness_is_gone_ends() {
    let scene = Scene::new();
    let hub = scene.listen();
    let mut hook = scene.hook(&json!({}));
    let mut asked = take_ask(&hub);
    drop(hook.stdout.take());
    // The connection ends with the process, and nothing was said on it.
    assert_eq!(asked.socket.read(&mut [0]).unwrap(), 0);
    assert!(hook.wait().unwrap().success());
}

#[test]
fn who_bypasses_permissions_is_not_asked() {
    let scene = Scene::new();
    let hub = scene.listen();
    let bypass = |tool: &str| scene.hook(&json!({"permission_mode": "bypassPermissions", "tool_name": tool}));
    assert_eq!(printed(bypass("Bash")), "");
    let hook = bypass("AskUserQuestion");
    // The first who comes is the second.
    let asked = take_ask(&hub);
    assert_eq!(asked.ask.tool_name, "AskUserQuestion");
    asked.answer(&Decision::Nothing {});
    assert_eq!(printed(hook), "");
}
