//! The client of `leo mcp-server`: a child process, JSON-RPC lines, and nothing that starts it again
//! when it dies, which is how the real harnesses are.

use crate::turn::Stop;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

/// Longest call, as the daemon tells Claude (WIRE.md §3).
const CALL_WITHIN: Duration = Duration::from_secs(32 * 60);

/// Pause between looks at whether the turn was interrupted.
const PAUSE: Duration = Duration::from_millis(50);

type Waiting = Arc<Mutex<HashMap<u64, SyncSender<Value>>>>;

/// A running server.
pub(crate) struct Mcp {
    child: Child,
    stdin: Mutex<Option<ChildStdin>>,
    waiting: Waiting,
    next: AtomicU64,
}

/// Why a tool gave no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum CallError {
    /// The server said no, or the tool failed.
    #[error("{0}")]
    Failed(String),
    /// The server has ended.
    #[error("the MCP server is gone; restart this agent to have its tools again")]
    Gone,
    /// Nothing came back for too long.
    #[error("no answer within 32 minutes")]
    TimedOut,
    /// A person interrupted the turn.
    #[error("interrupted")]
    Interrupted,
}

impl Mcp {
    /// Starts the server and opens the session; the answers are not waited for.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(program: &Path) -> std::io::Result<Mcp> {
        let mut child = Command::new(program)
            .arg("mcp-server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let waiting = Waiting::default();
        if let Some(stdout) = child.stdout.take() {
            let waiting = waiting.clone();
            std::thread::Builder::new().name("mcp".to_owned()).spawn(move || {
                let lines = BufReader::new(stdout).lines().map_while(Result::ok);
                lines.for_each(|line| deliver(&waiting, &line));
                // Whoever still waits hears that the server is gone.
                lock(&waiting).clear();
            })?;
        }
        let stdin = Mutex::new(child.stdin.take());
        let mcp = Mcp { child, stdin, waiting, next: AtomicU64::new(1) };
        let init = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "leo-demo", "version": env!("CARGO_PKG_VERSION") },
        });
        // A server that takes nothing shows in the first call.
        let _ = mcp.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": init }));
        let _ = mcp.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        Ok(mcp)
    }

    fn send(&self, message: &Value) -> Result<(), CallError> {
        let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pipe) = stdin.as_mut() else { return Err(CallError::Gone) };
        pipe.write_all(format!("{message}\n").as_bytes()).map_err(|_| CallError::Gone)
    }

    fn request(&self, method: &str, params: &Value) -> Result<(u64, Receiver<Value>), CallError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (tx, rx) = sync_channel(1);
        lock(&self.waiting).insert(id, tx);
        let sent = self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        if let Err(e) = sent {
            lock(&self.waiting).remove(&id);
            return Err(e);
        }
        Ok((id, rx))
    }

    fn wait(&self, id: u64, answer: &Receiver<Value>, stop: &Stop) -> Result<Value, CallError> {
        let start = Instant::now();
        loop {
            match answer.recv_timeout(PAUSE) {
                Ok(message) => return Ok(message),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Err(CallError::Gone),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            }
            let ended = if stop.is_set() {
                CallError::Interrupted
            } else if start.elapsed() > CALL_WITHIN {
                CallError::TimedOut
            } else {
                continue;
            };
            lock(&self.waiting).remove(&id);
            let params = json!({ "requestId": id, "reason": ended.to_string() });
            let _ = self
                .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
            return Err(ended);
        }
    }

    /// Names of the tools that there are.
    ///
    /// # Errors
    /// When the server does not say.
    pub(crate) fn tools(&self, stop: &Stop) -> Result<Vec<String>, CallError> {
        let (id, answer) = self.request("tools/list", &json!({}))?;
        let message = self.wait(id, &answer, stop)?;
        let tools = message.pointer("/result/tools").and_then(Value::as_array);
        let names = tools.into_iter().flatten().filter_map(|tool| tool["name"].as_str());
        Ok(names.map(str::to_owned).collect())
    }

    /// Calls a tool and returns its result's text.
    ///
    /// # Errors
    /// When it failed, or gave none.
    pub(crate) fn call(&self, name: &str, arguments: &Value, stop: &Stop) -> Result<String, CallError> {
        let token = self.next.load(Ordering::Relaxed);
        let params = json!({ "name": name, "arguments": arguments, "_meta": { "progressToken": token } });
        let (id, answer) = self.request("tools/call", &params)?;
        read_result(&self.wait(id, &answer, stop)?)
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        // The server ends with its input.
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = self.child.try_wait();
    }
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, HashMap<u64, SyncSender<Value>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

fn deliver(waiting: &Waiting, line: &str) {
    let Ok(message) = serde_json::from_str::<Value>(line) else { return };
    if message.get("method").is_some() {
        return;
    }
    if let Some(waiter) = message["id"].as_u64().and_then(|id| lock(waiting).remove(&id)) {
        let _ = waiter.send(message);
    }
}

fn read_result(message: &Value) -> Result<String, CallError> {
    if let Some(error) = message.get("error") {
        let text = error["message"].as_str().unwrap_or("the server refused the call");
        return Err(CallError::Failed(text.to_owned()));
    }
    let result = &message["result"];
    let blocks = result["content"].as_array().into_iter().flatten();
    let text: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    let text = text.join("\n");
    if result["isError"] == true { Err(CallError::Failed(text)) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results() {
        let ok =
            json!({"result": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}});
        assert_eq!(read_result(&ok), Ok("a\nb".into()));
        let failed = json!({"result": {"content": [{"type": "text", "text": "no"}], "isError": true}});
        assert_eq!(read_result(&failed), Err(CallError::Failed("no".into())));
        let refused = json!({"error": {"code": -32602, "message": "unknown tool: x"}});
        assert_eq!(read_result(&refused), Err(CallError::Failed("unknown tool: x".into())));
    }
}
