//! The frames about reminders.

use super::Golden;
use leo_ipc::{
    hub::HubRequest,
    reminder::{CancelledReminder, Fired, NextReminder, Reminder, Reminders},
};
use serde_json::{Value, json};

fn reminder() -> Value {
    json!({
        "id": "01a4", "agent": "a", "text": "Stand-up", "at": "2026-10-14T09:00:00-04:00", "task": "news",
        "run_id": "r1"
    })
}

pub(crate) fn reminders() -> Vec<Golden> {
    let hub = Golden::new::<HubRequest>;
    vec![
        hub(
            "hub.reminder.schedule",
            json!({
                "op": "reminder.schedule", "agent": "a", "launch": "l1", "call_key": "k", "text": "Stand-up",
                "at": "2026-10-14T09:00:00-04:00", "run": {"task": "news", "run_id": "r1"}
            }),
        ),
        hub(
            "hub.reminder.schedule.least",
            json!({
                "op": "reminder.schedule", "agent": "a", "call_key": "k", "text": "x", "at": "2026-10-14T13:00:00Z"
            }),
        ),
        hub("hub.reminder.list", json!({"op": "reminder.list", "agent": "a"})),
        hub("hub.reminder.cancel", json!({"op": "reminder.cancel", "agent": "a", "id": "01a4", "key": "k"})),
        hub(
            "hub.reminder.list.by_agent",
            json!({
                "op": "reminder.list", "agent": "a", "by_agent": true, "run": {"task": "news", "run_id": "r1"}
            }),
        ),
        hub(
            "hub.reminder.cancel.by_agent",
            json!({
                "op": "reminder.cancel", "agent": "a", "by_agent": true, "run": {"task": "news", "run_id": "r1"},
                "id": "01a4", "key": "k"
            }),
        ),
        hub("hub.reminder.fire", json!({"op": "reminder.fire"})),
        hub("hub.reminder.prune", json!({"op": "reminder.prune"})),
        hub("hub.reminder.watch", json!({"op": "reminder.watch"})),
        Golden::new::<Reminder>("reminder", reminder()),
        Golden::new::<Reminder>(
            "reminder.least",
            json!({"id": "01a4", "agent": "a", "text": "x", "at": "2026-10-14T09:00:00-04:00"}),
        ),
        Golden::new::<Reminders>("reminders", json!({"reminders": [reminder()]})),
        Golden::new::<CancelledReminder>("reminder.cancelled", json!({"id": "01a4", "cancelled": true})),
        Golden::new::<Fired>("reminder.fired", json!({"fired": 2, "next": "2026-10-14T13:00:00.000Z"})),
        Golden::new::<Fired>("reminder.fired.least", json!({"fired": 0})),
        Golden::new::<NextReminder>("reminder.next", json!({"next": "2026-10-14T13:00:00.000Z"})),
        Golden::new::<NextReminder>("reminder.next.none", json!({})),
    ]
}
