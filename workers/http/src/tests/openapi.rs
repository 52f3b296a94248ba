//! The committed OpenAPI document is the one that the routes make.

use super::app;
use crate::routes;
use leo_ipc::{config::Config, paths::Home};
use std::path::Path;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// With `LEO_WRITE_OPENAPI=1` in the environment the file is written instead of compared.
#[tokio::test]
async fn the_document_is_current() {
    let home = Home::at("/nowhere".into()).unwrap();
    let config = watch::Sender::new(Config::default()).subscribe();
    let document = routes::document(&app(&home, config, CancellationToken::new()));
    let made = document.to_pretty_json().unwrap() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    if std::env::var_os("LEO_WRITE_OPENAPI").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(made == committed, "openapi.json is not current: run this test with LEO_WRITE_OPENAPI=1");
}

/// What a generator of clients needs: ids that differ and references that lead somewhere.
#[tokio::test]
async fn the_document_is_usable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut ids = Vec::new();
    for operations in document["paths"].as_object().unwrap().values() {
        ids.extend(operations.as_object().unwrap().values().map(|o| o["operationId"].as_str().unwrap()));
    }
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
}

/// Every path of WIRE.md that this build serves is in the document, and nothing else is.
#[tokio::test]
async fn the_document_lists_every_route() {
    let home = Home::at("/nowhere".into()).unwrap();
    let config = watch::Sender::new(Config::default()).subscribe();
    let document = routes::document(&app(&home, config, CancellationToken::new()));
    let mut paths: Vec<&str> = document.paths.paths.keys().map(String::as_str).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            "/api/agent/{agent}/chat/ask",
            "/api/agent/{agent}/chat/ask/withdraw",
            "/api/agent/{agent}/chat/history",
            "/api/agent/{agent}/chat/post",
            "/api/agent/{agent}/chat/schedule",
            "/api/agent/{agent}/chat/schedule/cancel",
            "/api/agent/{agent}/chat/schedule/list",
            "/api/v1/agents",
            "/api/v1/agents/{agent}",
            "/api/v1/agents/{agent}/attach",
            "/api/v1/agents/{agent}/clear",
            "/api/v1/agents/{agent}/compact",
            "/api/v1/agents/{agent}/interrupt",
            "/api/v1/agents/{agent}/logs",
            "/api/v1/agents/{agent}/message",
            "/api/v1/agents/{agent}/restart",
            "/api/v1/agents/{agent}/start",
            "/api/v1/agents/{agent}/stop",
            "/api/v1/chat/attachments/{id}",
            "/api/v1/chat/threads",
            "/api/v1/chat/uploads",
            "/api/v1/chat/{agent}/messages",
            "/api/v1/chat/{agent}/messages/{id}",
            "/api/v1/chat/{agent}/messages/{id}/answer",
            "/api/v1/chat/{agent}/messages/{id}/cancel",
            "/api/v1/chat/{agent}/messages/{id}/dismiss",
            "/api/v1/chat/{agent}/messages/{id}/retry",
            "/api/v1/chat/{agent}/post",
            "/api/v1/chat/{agent}/read",
            "/api/v1/chat/{agent}/reminders",
            "/api/v1/chat/{agent}/reminders/{id}",
            "/api/v1/clients",
            "/api/v1/clients/{name}",
            "/api/v1/events",
            "/api/v1/state",
            "/api/v1/tasks",
            "/api/v1/tasks/{task}/disable",
            "/api/v1/tasks/{task}/enable",
            "/api/v1/tasks/{task}/runs",
            "/health",
            "/login",
            "/logout",
            "/version",
        ]
    );
}
