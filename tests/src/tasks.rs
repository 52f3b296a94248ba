//! Tasks and their runs, seen from outside.

use crate::{Api, Leo, model::Model, wait_for};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::process::{Child, Output, Stdio};

/// A `leo run` in the background. Dropping it kills it.
pub struct Running(Option<Child>);

impl Running {
    /// Its process.
    ///
    /// # Errors
    /// When it was waited for already.
    pub fn pid(&self) -> Result<i32> {
        Ok(i32::try_from(self.0.as_ref().context("it was waited for")?.id())?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn end(mut self) -> Result<Output> {
        let mut child = self.0.take().context("it was waited for")?;
        let status = wait_for("`leo run` to end", || {
            let ended = child.try_wait().ok().flatten();
            async move { ended }
        })
        .await;
        if status.is_err() {
            let _ = child.kill();
        }
        Ok(child.wait_with_output()?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Leo {
    /// Starts `leo run TASK`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run_task(&self, task: &str) -> Result<Running> {
        let mut command = self.command(&["run", task]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Running(Some(command.spawn()?)))
    }

    /// A home in which `harness` runs as a task and talks to `model`, with an agent `assistant` that does
    /// not run itself; `None` when this machine does not have the harness. `prompt` is the task's, whose
    /// name is `news`.
    ///
    /// # Errors
    /// When the home cannot be made.
    pub fn prepare_headless(model: &Model, harness: &str, test: &str, prompt: &str) -> Result<Option<Leo>> {
        let Some(bin) = crate::agents::bin_dir_or_skip(test) else { return Ok(None) };
        let config = json!({
            "agents": { "assistant": { "harness": "demo", "workspace": "$WORK", "autostart": false } },
            "tasks": { "news": { "harness": harness, "prompt": prompt, "notify_on_fail": true, "timeout": "5m" } },
        });
        let url = model.url();
        let leo = Leo::builder()
            .config(&lines(&config))
            .path(&bin)
            .env("ANTHROPIC_BASE_URL", &url)
            .env("ANTHROPIC_API_KEY", "sk-fake")
            .env("CLAUDE_CODE_MAX_RETRIES", "0")
            .env("OPENAI_API_KEY", "sk-fake")
            .env("DISABLE_TELEMETRY", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .prepare()?;
        let home = leo.user_home();
        let claude = json!({
            "hasCompletedOnboarding": true,
            "customApiKeyResponses": { "approved": ["sk-fake"], "rejected": [] },
        });
        std::fs::write(home.join(".claude.json"), claude.to_string())?;
        std::fs::create_dir_all(home.join(".codex"))?;
        std::fs::write(
            home.join(".codex/config.toml"),
            format!(
                "model = \"fake\"\nmodel_provider = \"fake\"\n[model_providers.fake]\nname = \"fake\"\n\
                 base_url = \"{url}/v1\"\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n\
                 request_max_retries = 0\nstream_max_retries = 0\n"
            ),
        )?;
        std::fs::create_dir_all(home.join(".config/opencode"))?;
        let opencode = json!({
            "model": "fake/fake",
            "provider": { "fake": {
                "npm": "@ai-sdk/openai-compatible", "name": "fake",
                "options": { "baseURL": format!("{url}/v1"), "apiKey": "x" },
                "models": { "fake": { "name": "fake" } },
            } },
        });
        std::fs::write(home.join(".config/opencode/opencode.json"), opencode.to_string())?;
        Ok(Some(leo))
    }
}

/// The sections of a configuration, each on a line of its own: JSON is YAML.
fn lines(config: &Value) -> String {
    let sections = config.as_object().into_iter().flatten();
    sections.map(|(key, value)| format!("{key}: {value}\n")).collect()
}

impl Api {
    /// The newest runs of a task.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn runs(&self, task: &str) -> Result<Vec<Value>> {
        let data = self.get(&format!("/api/v1/tasks/{task}/runs")).await?;
        Ok(data["runs"].as_array().cloned().unwrap_or_default())
    }

    /// Waits for a message of a thread that `look` picks.
    ///
    /// # Errors
    /// When none comes.
    pub async fn message_where(
        &self,
        what: &str,
        agent: &str,
        look: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        wait_for(what, || async { self.thread(agent).await.ok()?.into_iter().find(|m| look(m)) }).await
    }
}
