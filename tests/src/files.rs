//! Files as an app sends and fetches them.

use crate::{Api, http::Answer};
use anyhow::{Context, Result, ensure};
use reqwest::{Method, header};
use serde_json::{Value, json};

impl Api {
    /// Uploads bytes under a name, and reads the envelope.
    ///
    /// # Errors
    /// When there is no answer, or it is not JSON.
    pub async fn upload(&self, agent: Option<&str>, name: &str, mime: &str, bytes: &[u8]) -> Result<Answer> {
        let agent = agent.map(|agent| ("agent", agent));
        let request = self
            .request(Method::POST, "/api/v1/chat/uploads")
            .query(&[("filename", name)])
            .query(&agent.into_iter().collect::<Vec<_>>())
            .header(header::CONTENT_TYPE, mime)
            .body(bytes.to_vec());
        let response = request.send().await.with_context(|| format!("upload {name:?}"))?;
        let status = response.status();
        Ok(Answer { status, body: response.json().await? })
    }

    /// Uploads bytes that must be taken, and returns the file's id.
    ///
    /// # Errors
    /// When they are not taken.
    pub async fn uploaded(&self, agent: &str, name: &str, mime: &str, bytes: &[u8]) -> Result<String> {
        let answer = self.upload(Some(agent), name, mime, bytes).await?;
        ensure!(answer.status == 201, "{name:?}: {answer:?}");
        answer.data()["id"].as_str().map(str::to_owned).context("an upload has an id")
    }

    /// Sends a message with files, and returns it.
    ///
    /// # Errors
    /// When it is not accepted.
    pub async fn send_files(&self, agent: &str, text: &str, ids: &[&str]) -> Result<Value> {
        let body = json!({ "text": text, "attachments": ids });
        self.post(&format!("/api/v1/chat/{agent}/messages"), body).await
    }

    /// A file's bytes with the head of their answer.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn download(&self, id: &str, range: Option<&str>) -> Result<(http::response::Parts, Vec<u8>)> {
        let mut request = self.request(Method::GET, &format!("/api/v1/chat/attachments/{id}"));
        if let Some(range) = range {
            request = request.header(header::RANGE, range);
        }
        let response: http::Response<reqwest::Body> = request.send().await?.into();
        let (head, body) = response.into_parts();
        let bytes = http_body_util::BodyExt::collect(body).await?.to_bytes();
        Ok((head, bytes.to_vec()))
    }
}
