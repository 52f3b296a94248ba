//! Frames about tasks and their runs.

use super::Golden;
use leo_ipc::{
    agent::AgentIdentity,
    config::Config,
    hub::HubRequest,
    task::{Begun, Runs, Schedules, TaskFailureCard, TaskInfo, TaskRun, Tasks, TasksChanged},
};
use serde_json::{Value, json};

const AT: &str = "2026-11-29T21:14:30.706Z";

fn run() -> Value {
    json!({
        "id": "r1", "task": "daily-news", "trigger": "schedule", "state": "failed", "agent": "assistant",
        "due_at": AT, "started_at": AT, "ended_at": AT, "attempts": 2, "exit_code": 1, "error": "it broke",
        "log_path": "/l/r1.log", "message_id": "01a2"
    })
}

fn least_run() -> Value {
    json!({"id": "r2", "task": "t", "trigger": "manual", "state": "queued", "attempts": 0})
}

fn info() -> Value {
    json!({
        "name": "daily-news", "schedule": "0 7 * * *", "timezone": "Europe/Berlin", "enabled": true,
        "runtime": "persistent", "agent": "assistant", "next_at": AT, "failures": 3, "last_run": run()
    })
}

fn config() -> Value {
    json!({"tasks": {
        "least": {},
        "daily-news": {
            "owner": "assistant", "agent": "news", "schedule": "0 7 * * *", "timezone": "Europe/Berlin",
            "prompt": "What is new?", "prompt_file": "/p", "harness": "codex", "model": "m", "workspace": "/w",
            "env": {"A": "1"}, "args": ["--x"], "permission_mode": "plan", "runtime": "persistent", "timeout_s": 60,
            "retries": 2, "notify_on_fail": true, "enabled": false, "catch_up_s": 0
        }
    }})
}

pub(crate) fn all() -> Vec<Golden> {
    let hub = Golden::new::<HubRequest>;
    vec![
        Golden::new::<Config>("config.tasks", config()),
        Golden::new::<AgentIdentity>(
            "agent_identity.run",
            json!({"name": "a", "launch": "r1", "run": {"task": "daily-news", "run_id": "r1"}}),
        ),
        hub(
            "hub.chat.post.run",
            json!({
                "op": "chat.post", "agent": "a", "call_key": "k", "text": "hi",
                "run": {"task": "daily-news", "run_id": "r1"}
            }),
        ),
        hub("hub.task.list", json!({"op": "task.list"})),
        hub("hub.task.runs", json!({"op": "task.runs", "task": "t", "limit": 20})),
        hub("hub.task.enable", json!({"op": "task.enable", "task": "t", "enabled": false})),
        hub(
            "hub.task.sync",
            json!({"op": "task.sync", "tasks": [
                {"name": "t", "schedule": "0 7 * * *|UTC", "next_at": AT}, {"name": "u", "schedule": "x"}
            ]}),
        ),
        hub(
            "hub.task.claim",
            json!({
                "op": "task.claim", "task": "t", "run_id": "r1", "trigger": "schedule", "due_at": AT,
                "skipped": "too late"
            }),
        ),
        hub(
            "hub.task.claim.least",
            json!({"op": "task.claim", "task": "t", "run_id": "r1", "trigger": "manual"}),
        ),
        hub(
            "hub.task.begin",
            json!({"op": "task.begin", "run_id": "r1", "token_hash": "h", "log_path": "/l", "prompt": "hi"}),
        ),
        hub("hub.task.begin.least", json!({"op": "task.begin", "run_id": "r1", "token_hash": "h"})),
        hub("hub.task.attempt", json!({"op": "task.attempt", "run_id": "r1", "attempt": 2})),
        hub(
            "hub.task.end",
            json!({"op": "task.end", "run_id": "r1", "state": "failed", "exit_code": 1, "error": "it broke"}),
        ),
        hub("hub.task.end.least", json!({"op": "task.end", "run_id": "r1", "state": "succeeded"})),
        hub(
            "hub.task.failure",
            json!({
                "op": "task.failure", "task": "t", "run_id": "r1", "attempts": 1, "error": "it broke",
                "log_path": "/l"
            }),
        ),
        hub("hub.task.watch", json!({"op": "task.watch"})),
        Golden::new::<TaskRun>("task_run", run()),
        Golden::new::<TaskRun>("task_run.least", least_run()),
        Golden::new::<TaskInfo>("task_info", info()),
        Golden::new::<TaskInfo>(
            "task_info.least",
            json!({"name": "t", "enabled": false, "runtime": "oneshot", "failures": 0}),
        ),
        Golden::new::<Tasks>("tasks", json!({"tasks": [info()]})),
        Golden::new::<Runs>("runs", json!({"runs": [run(), least_run()]})),
        Golden::new::<Schedules>(
            "schedules",
            json!({"tasks": [{"name": "t", "cursor": AT, "enabled": true}], "open": [least_run()]}),
        ),
        Golden::new::<Begun>("begun", json!({"run": run(), "agent": "assistant", "workspace": "/w"})),
        Golden::new::<TaskFailureCard>("task_failure_card", json!({"id": "01a2", "agent": "assistant"})),
        Golden::new::<TasksChanged>("tasks_changed", json!({})),
    ]
}
