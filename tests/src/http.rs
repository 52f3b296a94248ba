//! The HTTP API as an app uses it.

use anyhow::{Context, Result, ensure};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

/// Longest wait for one answer. The http worker's own deadline towards the hub is shorter.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A client of one running Leo, with a token.
#[derive(Clone)]
pub struct Api {
    /// `http://127.0.0.1:PORT`.
    pub base: String,
    /// The bearer token; empty for none.
    pub token: String,
    client: Client,
}

/// An answer: status and envelope.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: StatusCode,
    /// The whole body as JSON.
    pub body: Value,
}

impl Answer {
    /// The envelope's data.
    pub fn data(&self) -> &Value {
        &self.body["data"]
    }

    /// The envelope's error code, empty when there is none.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }
}

impl Api {
    /// A client for `base` with `token`.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn new(base: impl Into<String>, token: impl Into<String>) -> Result<Api> {
        let client = Client::builder().timeout(TIMEOUT).no_proxy().build()?;
        Ok(Api { base: base.into(), token: token.into(), client })
    }

    /// The same client without connection reuse, for tests that count refused connections.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn without_reuse(&self) -> Result<Api> {
        let client = Client::builder().timeout(TIMEOUT).no_proxy().pool_max_idle_per_host(0).build()?;
        Ok(Api { client, ..self.clone() })
    }

    /// A request to be completed by the caller.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        if self.token.is_empty() { request } else { request.bearer_auth(&self.token) }
    }

    /// Sends a request and reads the envelope.
    ///
    /// # Errors
    /// When there is no answer, or it is not JSON.
    pub async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Answer> {
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.with_context(|| format!("ask {path}"))?;
        let status = response.status();
        let text = response.text().await?;
        let body = serde_json::from_str(&text)
            .with_context(|| format!("{path}: {status}: not JSON: {text:.200}"))?;
        Ok(Answer { status, body })
    }

    /// `GET` with a good answer.
    ///
    /// # Errors
    /// When the answer is not `ok`.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let answer = self.ask(Method::GET, path, None).await?;
        ensure!(answer.body["ok"] == true, "GET {path}: {} {}", answer.status, answer.body);
        Ok(answer.data().clone())
    }

    /// `POST` with a good answer.
    ///
    /// # Errors
    /// When the answer is not `ok`.
    pub async fn post(&self, path: &str, body: Value) -> Result<Value> {
        let answer = self.ask(Method::POST, path, Some(body)).await?;
        ensure!(answer.body["ok"] == true, "POST {path}: {} {}", answer.status, answer.body);
        Ok(answer.data().clone())
    }

    /// Sends a message and returns its id.
    ///
    /// # Errors
    /// When it is not accepted.
    pub async fn send(&self, agent: &str, text: &str) -> Result<String> {
        let data = self.post(&format!("/api/v1/chat/{agent}/messages"), json!({ "text": text })).await?;
        Ok(data["id"].as_str().unwrap_or_default().to_owned())
    }

    /// One message.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn message(&self, agent: &str, id: &str) -> Result<Value> {
        self.get(&format!("/api/v1/chat/{agent}/messages/{id}")).await
    }

    /// The whole thread, oldest first.
    ///
    /// # Errors
    /// When a page cannot be read.
    pub async fn thread(&self, agent: &str) -> Result<Vec<Value>> {
        let mut all: Vec<Value> = Vec::new();
        loop {
            let before = all.first().and_then(|m| m["id"].as_str()).map(|id| format!("&before={id}"));
            let path = format!("/api/v1/chat/{agent}/messages?limit=200{}", before.unwrap_or_default());
            let page = self.get(&path).await?;
            let mut messages = page["messages"].as_array().cloned().unwrap_or_default();
            messages.append(&mut all);
            all = messages;
            if page["has_more"] != true {
                return Ok(all);
            }
        }
    }

    /// The reply to a message, if there is one.
    ///
    /// # Errors
    /// When the thread cannot be read.
    pub async fn reply(&self, agent: &str, to: &str) -> Result<Option<Value>> {
        let thread = self.thread(agent).await?;
        Ok(thread.into_iter().find(|m| m["reply_to"] == to && m["direction"] == "out"))
    }

    /// One agent.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn agent(&self, name: &str) -> Result<Value> {
        self.get(&format!("/api/v1/agents/{name}")).await
    }
}
