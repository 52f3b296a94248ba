//! The frames about API clients.

use super::Golden;
use leo_ipc::{
    api_client::{ApiClient, ClientIdentity, Clients, Permissions},
    hub::HubRequest,
};
use serde_json::{Value, json};

fn permissions() -> Value {
    json!({"can_message": ["assistant", "build-*"], "can_post": ["*"]})
}

fn client() -> Value {
    json!({
        "name": "ci", "configured": true, "has_token": true, "permissions": permissions(),
        "since": "2026-11-29T21:14:30.706Z"
    })
}

pub(crate) fn clients() -> Vec<Golden> {
    let hub = Golden::new::<HubRequest>;
    vec![
        hub(
            "hub.client.add",
            json!({
                "op": "client.add", "name": "ci", "permissions": permissions(), "token_hash": "ab", "key": "k"
            }),
        ),
        hub(
            "hub.client.add.least",
            json!({"op": "client.add", "name": "ci", "token_hash": "ab", "key": "k"}),
        ),
        hub("hub.client.list", json!({"op": "client.list"})),
        hub("hub.client.remove", json!({"op": "client.remove", "name": "ci", "key": "k"})),
        hub("hub.client.auth", json!({"op": "client.auth", "token_hash": "ab"})),
        hub(
            "hub.client.message",
            json!({
                "op": "client.message", "client": "ci", "agent": "a", "text": "built", "client_msg_id": "c1",
                "key": "k"
            }),
        ),
        hub(
            "hub.client.message.least",
            json!({"op": "client.message", "client": "ci", "agent": "a", "text": "built", "key": "k"}),
        ),
        hub(
            "hub.chat.thread_post",
            json!({
                "op": "chat.thread_post", "client": "ci", "agent": "a", "text": "built", "client_msg_id": "c1",
                "key": "k"
            }),
        ),
        hub(
            "hub.chat.thread_post.least",
            json!({"op": "chat.thread_post", "agent": "a", "text": "built", "key": "k"}),
        ),
        Golden::new::<ApiClient>("client", client()),
        Golden::new::<ApiClient>(
            "client.least",
            json!({"name": "ci", "configured": false, "has_token": false, "permissions": {}}),
        ),
        Golden::new::<Clients>("clients", json!({"clients": [client()]})),
        Golden::new::<ClientIdentity>("client_identity", json!({"name": "ci"})),
        Golden::new::<Permissions>("client.permissions", permissions()),
    ]
}
