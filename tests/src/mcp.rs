//! The MCP server as a harness sees it: a process with JSON-RPC on its standard input and output.

use crate::{Leo, wait_for};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

/// The agent whose tools are used.
const AGENT: &str = "assistant";

/// Longest wait for a line; a shim without a worker takes ten seconds to say so.
const PATIENCE: Duration = Duration::from_secs(60);

/// A harness's end of the conversation.
pub struct Harness {
    /// The server.
    pub child: Child,
    /// Its input; closed when there is none.
    pub stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl Harness {
    /// Starts a program that speaks JSON lines.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command) -> Result<Harness> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start a server")?;
        let stdout = child.stdout.take().context("a pipe")?;
        let (tx, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // What is not JSON-RPC shows as a null, which no test expects.
                if tx.send(serde_json::from_str(&line).unwrap_or_default()).is_err() {
                    return;
                }
            }
        });
        Ok(Harness { stdin: child.stdin.take(), child, lines })
    }

    /// The shim in an environment of its own, as for a launch of `leo`'s agent with this token.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn shim(leo: &Leo, token: &str) -> Result<Harness> {
        Harness::shim_with(leo, token, &[])
    }

    /// The same with more in its environment: a task's run, or a dispatched subagent.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn shim_with(leo: &Leo, token: &str, env: &[(&str, &str)]) -> Result<Harness> {
        let mut command = leo.command(&["mcp-server"]);
        command.env("LEO_AGENT", AGENT).env("LEO_LAUNCH", "test").env("LEO_API_TOKEN", token);
        command.envs(env.iter().copied());
        Harness::start(command)
    }

    /// Writes a line.
    ///
    /// # Errors
    /// When its input is closed.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("an open input")?;
        Ok(stdin.write_all(format!("{line}\n").as_bytes())?)
    }

    /// The next line.
    ///
    /// # Errors
    /// When none comes.
    pub fn hear(&self) -> Result<Value> {
        self.lines.recv_timeout(PATIENCE).context("a line from the server")
    }

    /// Sends a request.
    ///
    /// # Errors
    /// As [`Harness::say`].
    pub fn send(&mut self, id: u64, method: &str, params: &Value) -> Result<()> {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())
    }

    /// Sends a request and returns its answer, which must be the next line.
    ///
    /// # Errors
    /// When another line comes, or none.
    pub fn ask(&mut self, id: u64, method: &str, params: &Value) -> Result<Value> {
        self.send(id, method, params)?;
        let answer = self.hear()?;
        ensure!(answer["id"] == id, "{answer}");
        Ok(answer)
    }

    /// Begins the session.
    ///
    /// # Errors
    /// As [`Harness::ask`].
    pub fn initialize(&mut self) -> Result<Value> {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let answer = self.ask(0, "initialize", &params)?;
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())?;
        Ok(answer)
    }

    /// Sends a call of `leo_chat_post`.
    ///
    /// # Errors
    /// As [`Harness::say`].
    pub fn post(&mut self, id: u64, text: &str) -> Result<()> {
        self.send(id, "tools/call", &json!({"name": "leo_chat_post", "arguments": {"text": text}}))
    }

    /// Calls a tool: its structured result, or its error's text.
    ///
    /// # Errors
    /// As [`Harness::ask`].
    pub fn tool(&mut self, id: u64, name: &str, arguments: &Value) -> Result<Result<Value, String>> {
        let answer = self.ask(id, "tools/call", &json!({"name": name, "arguments": arguments}))?;
        let result = &answer["result"];
        if result["isError"] == true {
            return Ok(Err(result["content"][0]["text"].as_str().unwrap_or_default().to_owned()));
        }
        Ok(Ok(result["structuredContent"].clone()))
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A Leo with a demo agent, and the token of its launch.
///
/// # Errors
/// When the agent does not start, or does not tell it.
pub async fn with_token() -> Result<(Leo, String)> {
    let leo = Leo::with_demo().await?;
    let token = launch_token(&leo).await?;
    Ok((leo, token))
}

/// The token of the running launch of the demo agent. It tells it as it tells anything that is in its
/// environment: by a command, once a person has allowed it.
///
/// # Errors
/// When it does not.
pub async fn launch_token(leo: &Leo) -> Result<String> {
    let api = leo.api().await?;
    let file = leo.work().join("token");
    let ask = api.send(AGENT, &format!(">>run printf %s \"$LEO_API_TOKEN\" > {}", file.display())).await?;
    // On the screen, not in the agent's state: that is known before the dialog takes keys.
    wait_for("the permission dialog", || async {
        leo.tmux.screen("=assistant:").ok()?.contains("Run this command?").then_some(())
    })
    .await?;
    ensure!(!file.exists(), "nothing runs before it is allowed");
    leo.tmux.keys("=assistant:", &["Enter"])?;
    leo.reply(AGENT, &ask).await?;
    Ok(std::fs::read_to_string(file)?)
}
