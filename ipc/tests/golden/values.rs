//! Every kind of frame, as the JSON that it reads from. Where a value leaves out what has a default, it
//! stands for a frame of an older build.

use super::{Golden, asks, tasks};
use leo_ipc::{
    Done, Envelope, Fault,
    agent::{AgentIdentity, AgentRecord, AgentRecords, Sessions, Wake},
    agents::{AgentsRequest, AttachCommand, LogText},
    attachment::{Prunable, UploadBegun, Uploaded},
    chat::{Accepted, AttachmentFile, Message, MessagePage, Posted, ReadMark, Threads},
    control::{ControlRequest, FromWorker, Reloaded, SupervisorStatus, ToWorker},
    delivery::{Delivery, Next, Turns},
    event::{EventItem, EventPage, State},
    hello::{Hello, HelloReply},
    hub::HubRequest,
    mcp::{FromShim, ToShim},
    voice::{Note, Wanted},
};
use serde_json::{Value, json};

/// Every request of every socket: (socket, name on the wire).
pub(crate) fn requests() -> Vec<(&'static str, &'static str)> {
    let of = |socket, ops: &'static [&'static str]| ops.iter().map(move |op| (socket, *op));
    of("hub", HubRequest::OPS)
        .chain(of("agents", AgentsRequest::OPS))
        .chain(of("control", ControlRequest::OPS))
        .collect()
}

fn message() -> Value {
    json!({
        "id": "01a2", "agent": "assistant", "direction": "in", "kind": "file", "text": "Grüße 漢字 😀\n",
        "sender": "client:ci", "transcript": "heard", "reply_to": "01a1", "task": "news", "run_id": "r1",
        "state": "failed",
        "attachments": [{"id": "f1", "filename": "a b.png", "mime": "image/png", "bytes": 12, "available": true}],
        "ts": "2026-11-29T21:14:30.706Z", "client_msg_id": "c1", "failed_reason": "unproven",
        "delivery": {"route": "paste", "attempts": 2, "at": "2026-11-29T21:14:31.000Z", "waiting_for": "turn"}
    })
}

pub(crate) fn least_message() -> Value {
    json!({
        "id": "01a3", "agent": "a", "direction": "out", "kind": "text", "text": "", "state": "",
        "ts": "1970-01-01T00:00:00.000Z"
    })
}

fn agent() -> Value {
    json!({
        "name": "assistant", "harness": "claude", "workspace": "/w", "model": "m", "status": "running",
        "wake_on_message": true, "activity": "needs_input", "waiting_for": "Trust the folder",
        "session_id": "s1", "tmux_socket": "leo", "tmux_pane": "%3", "restarts": 1,
        "started_at": "2026-11-29T21:00:00.000Z", "last_activity_at": "2026-11-29T21:01:00.000Z",
        "route": "paste", "unread": 4
    })
}

fn least_agent() -> Value {
    json!({
        "name": "a", "harness": "demo", "workspace": "/w", "status": "stopped", "wake_on_message": false,
        "activity": "unknown", "tmux_socket": "leo", "tmux_pane": "", "restarts": 0, "unread": 0
    })
}

fn config() -> Value {
    json!({
        "harness": "claude", "workspace": "/w", "model": "m", "env": {"A": "b"}, "args": ["--x"],
        "autostart": false, "permission_mode": "plan"
    })
}

fn record() -> Value {
    let launch = json!({
        "id": "l1", "tmux_session": "assistant", "pane": "%3", "pid": 77, "at": "2026-11-29T21:00:00.000Z"
    });
    json!({
        "agent": agent(), "config": config(), "source": "config", "desired": "running", "launch": launch,
        "transcript_path": "/t.jsonl", "resume_session": "s0"
    })
}

fn delivery() -> Value {
    json!({
        "agent": "a", "message_id": "01a2", "attempt": 1, "prompt": "[Leo Chat] hi", "launch": "l1",
        "handed_ms_ago": 12, "handed_prompt": "[Leo Chat] Read /f"
    })
}

fn hook_event() -> Value {
    json!({
        "name": "Stop", "session_id": "s1", "transcript_path": "/t.jsonl", "prompt_id": "p1", "prompt": "hi",
        "last_assistant_message": "done", "error": "e", "source": "startup", "reason": "clear",
        "tool_name": "Bash", "tool_use_id": "u1", "agent_id": "sub", "message": "m",
        "notification_type": "idle_prompt", "permission_mode": "default", "truncated": true, "input_hash": "cd"
    })
}

fn worker_status() -> Value {
    json!({
        "name": "mcp:a", "pid": 9, "state": "running", "restarts": 2, "since": "2026-11-29T21:00:00.000Z",
        "reason": "r", "rss_bytes": 1_000_000, "cpu_percent": 0.5
    })
}

fn whole_config() -> Value {
    json!({
        "web": {"enabled": false, "bind": "0.0.0.0", "port": 1, "allowed_hosts": ["h"]},
        "chat": {"enabled": false, "permission_timeout_s": 60, "question_timeout_s": 600,
            "whisper_model": "/m.bin", "whisper_language": "de"}, "agents": {"assistant": config()}
    })
}

/// Every golden value.
pub(crate) fn all() -> Vec<Golden> {
    [
        hello(),
        hub_requests(),
        sessions(),
        attachments(),
        asks::asks(),
        crate::reminders::reminders(),
        crate::clients::clients(),
        hub_replies(),
        agents_socket(),
        control_socket(),
        workers(),
        shims(),
        tasks::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn hello() -> Vec<Golden> {
    let envelope = |kind: &str, body: Value| json!({"kind": kind, "id": 7, "body": body});
    vec![
        Golden::new::<Hello>(
            "hello",
            json!({"magic": "leo", "min": 1, "max": 1, "build": "0.1.0", "role": "shim", "generation": 3}),
        ),
        Golden::new::<HelloReply>(
            "hello.reply",
            json!({"magic": "leo", "version": 1, "build": "0.1.0", "reason": ""}),
        ),
        Golden::new::<HelloReply>(
            "hello.refusal",
            json!({"magic": "leo", "version": 0, "build": "0.1.0", "reason": "restart the older one"}),
        ),
        Golden::new::<Envelope>("envelope.request", envelope("request", json!([0, 1, 255]))),
        Golden::new::<Envelope>("envelope.reply", envelope("reply", json!([]))),
        Golden::new::<Envelope>("envelope.fault", envelope("fault", json!([1]))),
        Golden::new::<Envelope>("envelope.item", envelope("item", json!([1]))),
        Golden::new::<Envelope>("envelope.cancel", json!({"kind": "cancel", "id": 7})),
        Golden::new::<Fault>("fault", json!({"code": "unknown_agent", "message": "There is no agent a."})),
        Golden::new::<Fault>(
            "fault.data",
            json!({"code": "already_settled", "message": "Too late.", "data": {"message": {"id": "m", "n": 1.5}}}),
        ),
        Golden::new::<Done>("done", json!({})),
    ]
}

fn attachments() -> Vec<Golden> {
    let hub = Golden::new::<HubRequest>;
    let end = |name, end: Value| {
        hub(name, json!({"op": "voice.end", "message_id": "01a2", "attempt": 1, "end": end}))
    };
    let file =
        json!({"id": "f1", "filename": "a b.png", "mime": "image/png", "bytes": 12, "available": true});
    vec![
        hub("hub.attachment.begin", json!({"op": "attachment.begin", "key": "k", "agent": "a"})),
        hub("hub.attachment.begin.least", json!({"op": "attachment.begin", "key": "k"})),
        hub(
            "hub.attachment.add",
            json!({
                "op": "attachment.add", "id": "f1", "key": "k", "agent": "a", "filename": "a b.png",
                "mime": "image/png", "bytes": 12, "sha256": "cd"
            }),
        ),
        hub("hub.attachment.prune", json!({"op": "attachment.prune", "removed": ["f1"]})),
        hub("hub.attachment.prune.least", json!({"op": "attachment.prune"})),
        Golden::new::<UploadBegun>("reply.upload_begun", json!({"existing": file})),
        Golden::new::<UploadBegun>("reply.upload_begun.least", json!({})),
        Golden::new::<Uploaded>("reply.uploaded", json!({"attachment": file, "created": true})),
        hub("hub.voice.take", json!({"op": "voice.take", "key": "k"})),
        hub("hub.voice.check", json!({"op": "voice.check", "message_id": "01a2", "attempt": 1})),
        end("hub.voice.end", json!({"end": "speech", "text": "Grüße"})),
        end("hub.voice.end.silence", json!({"end": "silence"})),
        end("hub.voice.end.failed", json!({"end": "failed", "why": "No model."})),
        Golden::new::<Note>(
            "reply.note",
            json!({"agent": "a", "message_id": "01a2", "attempt": 1, "recordings": ["/h/state/chat/x.m4a"]}),
        ),
        Golden::new::<Wanted>("reply.wanted", json!({"wanted": true})),
        Golden::new::<Prunable>(
            "reply.prunable",
            json!({"folders": [{"id": "f1", "path": "/h/state/chat/x/f1"}]}),
        ),
    ]
}

fn sessions() -> Vec<Golden> {
    let mut resting = record();
    resting["agent"]["suspended"] = true.into();
    resting["desired"] = "suspended".into();
    resting["config"]["idle_suspend_after_s"] = 1800.into();
    let session = json!({
        "session_id": "s1", "transcript_path": "/t.jsonl", "launch": "l1", "since": "2026-11-29T21:00:00.000Z"
    });
    vec![
        Golden::new::<Wake>("wake.tools", json!({"what": "tools", "name": "a", "launch": "l1"})),
        Golden::new::<Sessions>("sessions", json!({"sessions": [session]})),
        Golden::new::<AgentRecord>("agent.record.suspended", resting),
    ]
}

fn hub_requests() -> Vec<Golden> {
    let hub = Golden::new::<HubRequest>;
    vec![
        hub("hub.chat.threads", json!({"op": "chat.threads"})),
        hub(
            "hub.chat.messages",
            json!({"op": "chat.messages", "agent": "a", "before": "01a2", "after": "01a1", "limit": 50}),
        ),
        hub("hub.chat.messages.least", json!({"op": "chat.messages", "agent": "a", "limit": 50})),
        hub("hub.chat.message", json!({"op": "chat.message", "agent": "a", "id": "01a2"})),
        hub(
            "hub.chat.send",
            json!({
                "op": "chat.send", "agent": "a", "text": "hi", "reply_to": "01a1", "client_msg_id": "c1", "key": "k"
            }),
        ),
        hub(
            "hub.chat.send.files",
            json!({"op": "chat.send", "agent": "a", "text": "", "attachments": ["f1", "f2"], "key": "k"}),
        ),
        hub("hub.chat.send.least", json!({"op": "chat.send", "agent": "a", "text": "hi", "key": "k"})),
        hub("hub.chat.retry", json!({"op": "chat.retry", "agent": "a", "id": "01a2", "key": "k"})),
        hub(
            "hub.chat.retry.file",
            json!({"op": "chat.retry", "agent": "a", "id": "01a2", "key": "k", "as_file": true}),
        ),
        hub("hub.chat.cancel", json!({"op": "chat.cancel", "agent": "a", "id": "01a2"})),
        hub("hub.chat.read", json!({"op": "chat.read", "agent": "a", "message_id": "01a2"})),
        hub(
            "hub.chat.post",
            json!({
                "op": "chat.post", "agent": "a", "launch": "l1", "call_key": "k", "text": "t", "files": ["/f"],
                "reply_to": "01a1"
            }),
        ),
        hub("hub.chat.post.least", json!({"op": "chat.post", "agent": "a", "call_key": "k"})),
        hub("hub.chat.note", json!({"op": "chat.note", "agent": "a", "key": "k", "text": "Starting…"})),
        hub("hub.chat.attachment", json!({"op": "chat.attachment", "id": "f1"})),
        hub(
            "hub.agent.put",
            json!({"op": "agent.put", "name": "a", "config": config(), "source": "api", "must_be_new": true}),
        ),
        hub("hub.agent.put.least", json!({"op": "agent.put", "name": "a", "config": {}, "source": "config"})),
        hub("hub.agent.list", json!({"op": "agent.list"})),
        hub("hub.agent.get", json!({"op": "agent.get", "name": "a"})),
        hub("hub.agent.remove", json!({"op": "agent.remove", "name": "a"})),
        hub(
            "hub.agent.desired",
            json!({"op": "agent.desired", "name": "a", "desired": "stopped", "by_person": true}),
        ),
        hub(
            "hub.agent.launch",
            json!({
                "op": "agent.launch", "name": "a", "launch": "l1", "token_hash": "ab", "tmux_session": "a",
                "crash_restart": false
            }),
        ),
        hub(
            "hub.agent.report",
            json!({
                "op": "agent.report", "name": "a", "launch": "l1", "patch": {
                    "status": "starting", "activity": "idle", "waiting_for": "", "pane": "%3", "pid": 7,
                    "session_id": "s1", "route": "paste", "status_at_ms": 1
                }
            }),
        ),
        hub(
            "hub.agent.report.least",
            json!({"op": "agent.report", "name": "a", "launch": "l1", "patch": {}}),
        ),
        hub("hub.agent.end", json!({"op": "agent.end", "name": "a", "launch": "l1", "resumable": true})),
        hub("hub.agent.suspend", json!({"op": "agent.suspend", "name": "a", "launch": "l1"})),
        hub("hub.agent.tools", json!({"op": "agent.tools", "name": "a", "launch": "l1"})),
        hub("hub.agent.sessions", json!({"op": "agent.sessions", "name": "a"})),
        hub("hub.agent.waiting", json!({"op": "agent.waiting", "agent": "a", "waiting_for": "dialog"})),
        hub("hub.agent.waiting.none", json!({"op": "agent.waiting", "agent": "a", "waiting_for": null})),
        hub("hub.agent.auth", json!({"op": "agent.auth", "token_hash": "ab"})),
        hub("hub.delivery.next", json!({"op": "delivery.next", "agent": "a"})),
        hub(
            "hub.delivery.begin",
            json!({
                "op": "delivery.begin", "agent": "a", "message_id": "01a2", "attempt": 1, "launch": "l1",
                "route": "paste", "handed_prompt": "p"
            }),
        ),
        hub(
            "hub.delivery.outcome",
            json!({
                "op": "delivery.outcome", "agent": "a", "message_id": "01a2", "attempt": 1,
                "outcome": {"outcome": "delivered", "prompt_id": "p1"}
            }),
        ),
        hub(
            "hub.delivery.outcome.not_applied",
            json!({
                "op": "delivery.outcome", "agent": "a", "message_id": "01a2", "attempt": 1,
                "outcome": {"outcome": "not_applied"}
            }),
        ),
        hub(
            "hub.delivery.outcome.failed",
            json!({
                "op": "delivery.outcome", "agent": "a", "message_id": "01a2", "attempt": 1,
                "outcome": {"outcome": "failed", "reason": "too_large", "note": "n"}
            }),
        ),
        hub(
            "hub.delivery.outcome.unproven",
            json!({
                "op": "delivery.outcome", "agent": "a", "message_id": "01a2", "attempt": 1,
                "outcome": {"outcome": "unproven", "note": "n"}
            }),
        ),
        hub("hub.turn.open", json!({"op": "turn.open", "agent": "a"})),
        hub(
            "hub.turn.bind",
            json!({"op": "turn.bind", "agent": "a", "message_id": "01a2", "prompt_id": "p1"}),
        ),
        hub("hub.turn.bind.none", json!({"op": "turn.bind", "agent": "a", "message_id": "01a2"})),
        hub(
            "hub.turn.refused",
            json!({"op": "turn.refused", "agent": "a", "launch": "l1", "message_id": "m1", "prompt_id": "p1", "why": "no"}),
        ),
        hub(
            "hub.turn.interrupted",
            json!({"op": "turn.interrupted", "agent": "a", "launch": "l1", "prompt_id": "p1"}),
        ),
        hub(
            "hub.hook",
            json!({"op": "hook", "hook_key": "k", "token": "t", "at_ms": 17, "event": hook_event()}),
        ),
        hub(
            "hub.hook.least",
            json!({"op": "hook", "hook_key": "k", "token": "t", "at_ms": 17, "event": {"name": "Stop"}}),
        ),
        hub("hub.event.list", json!({"op": "event.list", "after": 5, "limit": 100})),
        hub("hub.state", json!({"op": "state"})),
        hub("hub.event.subscribe", json!({"op": "event.subscribe", "since": "e1:42"})),
        hub("hub.event.subscribe.least", json!({"op": "event.subscribe"})),
        hub("hub.agent.watch", json!({"op": "agent.watch"})),
    ]
}

fn hub_replies() -> Vec<Golden> {
    let thread = json!({
        "agent": "a", "last_message": message(), "unread": 1, "pinned": true, "harness": "claude",
        "status": "running", "activity": "working"
    });
    let least_thread = json!({"agent": "b", "last_message": null, "unread": 0, "pinned": false});
    let events = json!([{"seq": 4, "kind": "chat.message", "data": "{\"seq\":4}"}]);
    vec![
        Golden::new::<Threads>("threads", json!({"threads": [thread, least_thread]})),
        Golden::new::<MessagePage>(
            "message_page",
            json!({"messages": [message(), least_message()], "has_more": true}),
        ),
        Golden::new::<Message>("message", message()),
        Golden::new::<Message>("message.least", least_message()),
        Golden::new::<Accepted>("accepted", json!({"message": message(), "created": true})),
        Golden::new::<ReadMark>("read_mark", json!({"agent": "a", "unread": 3, "last_read": "01a2"})),
        Golden::new::<Posted>("posted", json!({"message_id": "01a2"})),
        Golden::new::<AttachmentFile>(
            "attachment_file",
            json!({
                "attachment": {"id": "f1", "filename": "a", "mime": "text/plain", "bytes": 1, "available": false},
                "path": "/f"
            }),
        ),
        Golden::new::<AgentRecord>("agent_record", record()),
        Golden::new::<AgentRecord>(
            "agent_record.least",
            json!({"agent": least_agent(), "config": {}, "source": "api", "desired": "stopped"}),
        ),
        Golden::new::<AgentRecords>("agent_records", json!({"agents": [record()]})),
        Golden::new::<AgentIdentity>("agent_identity", json!({"name": "a", "launch": "l1"})),
        Golden::new::<Delivery>("delivery", delivery()),
        Golden::new::<Next>("next", json!({"delivery": delivery(), "in_doubt": null})),
        Golden::new::<Turns>(
            "turns",
            json!({"running": "p1", "unbound": [{"message_id": "01a2", "prompt": "[Leo Chat] hi"}]}),
        ),
        Golden::new::<Turns>("turns.least", json!({})),
        Golden::new::<EventPage>(
            "event_page",
            json!({"epoch": "e1", "oldest": 1, "head": 4, "events": events}),
        ),
        Golden::new::<State>(
            "state",
            json!({"meta": {"epoch": "e1", "seq": 4}, "agents": [agent(), least_agent()], "threads": [thread]}),
        ),
        Golden::new::<EventItem>(
            "event_item.start",
            json!({"item": "start", "epoch": "e1", "head": 4, "resume": "gap"}),
        ),
        Golden::new::<EventItem>("event_item.events", json!({"item": "events", "events": events})),
        Golden::new::<Wake>("wake.all", json!({"what": "all"})),
        Golden::new::<Wake>("wake.agent", json!({"what": "agent", "name": "a"})),
        Golden::new::<Wake>("wake.outbox", json!({"what": "outbox", "name": "a"})),
        Golden::new::<Wake>(
            "wake.hook",
            json!({"what": "hook", "name": "a", "launch": "l1", "event": hook_event()}),
        ),
    ]
}

fn agents_socket() -> Vec<Golden> {
    let agents = Golden::new::<AgentsRequest>;
    vec![
        agents("agents.start", json!({"op": "start", "name": "a"})),
        agents("agents.stop", json!({"op": "stop", "name": "a"})),
        agents("agents.restart", json!({"op": "restart", "name": "a"})),
        agents("agents.interrupt", json!({"op": "interrupt", "name": "a"})),
        agents("agents.clear", json!({"op": "clear", "name": "a", "key": "k1"})),
        agents(
            "agents.compact",
            json!({"op": "compact", "name": "a", "instructions": "keep the plan", "key": "k1"}),
        ),
        agents("agents.delete", json!({"op": "delete", "name": "a"})),
        agents("agents.logs", json!({"op": "logs", "name": "a", "lines": 200})),
        agents("agents.attach", json!({"op": "attach", "name": "a"})),
        Golden::new::<LogText>("log_text", json!({"text": "a\nb"})),
        Golden::new::<AttachCommand>("attach_command", json!({"argv": ["tmux", "-L", "leo", "attach"]})),
    ]
}

fn control_socket() -> Vec<Golden> {
    let control = Golden::new::<ControlRequest>;
    vec![
        control("control.status", json!({"op": "status", "measure": true})),
        control("control.status.least", json!({"op": "status"})),
        control("control.worker.restart", json!({"op": "worker.restart", "name": "all"})),
        control("control.reload", json!({"op": "reload"})),
        control("control.shutdown", json!({"op": "shutdown"})),
        Golden::new::<SupervisorStatus>(
            "supervisor_status",
            json!({
                "version": "0.1.0", "pid": 3, "boot_id": "b", "since": "2026-11-29T21:00:00.000Z",
                "tcp": "127.0.0.1:8370", "config_error": "line 3", "rss_bytes": 5, "cpu_percent": 0.25,
                "workers": [worker_status(), {"name": "hub", "state": "backoff", "restarts": 0}]
            }),
        ),
        Golden::new::<SupervisorStatus>(
            "supervisor_status.least",
            json!({
                "version": "0.1.0", "pid": 3, "boot_id": "b", "since": "2026-11-29T21:00:00.000Z", "workers": []
            }),
        ),
        Golden::new::<Reloaded>("reloaded", json!({"needs_restart": ["web.port"]})),
    ]
}

fn workers() -> Vec<Golden> {
    let to = Golden::new::<ToWorker>;
    let from = Golden::new::<FromWorker>;
    vec![
        to(
            "to_worker.start",
            json!({
                "t": "start", "worker": "mcp:a", "generation": 3, "home": "/h", "boot_id": "b",
                "supervisor_pid": 2, "program": "/bin/leo", "listeners": ["mcp"], "heartbeat_s": 5,
                "config": whole_config()
            }),
        ),
        to("to_worker.config", json!({"t": "config", "config": whole_config()})),
        to("to_worker.config.least", json!({"t": "config", "config": {}})),
        to("to_worker.workers", json!({"t": "workers", "workers": [worker_status()]})),
        to("to_worker.ping", json!({"t": "ping", "turn": 7})),
        to("to_worker.drain", json!({"t": "drain", "within_ms": 5000})),
        from("from_worker.heartbeat", json!({"t": "heartbeat", "turn": 9})),
        from("from_worker.extend_start", json!({"t": "extend_start", "ms": 1000, "why": "migration"})),
        from("from_worker.mcp_agents", json!({"t": "mcp_agents", "agents": ["a", "b"]})),
        from("from_worker.fatal", json!({"t": "fatal", "reason": "r"})),
    ]
}

fn shims() -> Vec<Golden> {
    let from = Golden::new::<FromShim>;
    let to = Golden::new::<ToShim>;
    vec![
        from("from_shim.token", json!({"t": "token", "token": "t", "cwd": "/w", "dispatched": true})),
        from("from_shim.token.least", json!({"t": "token", "token": "t"})),
        from("from_shim.line", json!({"t": "line", "json": "{\"jsonrpc\":\"2.0\"}", "call_key": "k"})),
        from("from_shim.line.again", json!({"t": "line", "json": "{}", "call_key": "k", "age_ms": 61_000})),
        from("from_shim.line.least", json!({"t": "line", "json": "{}"})),
        to("to_shim.welcome", json!({"t": "welcome"})),
        to("to_shim.denied", json!({"t": "denied", "reason": "r"})),
        to("to_shim.line", json!({"t": "line", "json": "{}"})),
    ]
}
