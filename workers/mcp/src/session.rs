//! One shim's connection: who it is, then an rmcp session over its lines.

use crate::{
    server::Server,
    tools::{CallAge, Caller},
};
use interprocess::os::unix::uds_local_socket::tokio::Stream as Socket;
use leo_ipc::{
    AgentName, CallKey, IpcError,
    agent::{AgentIdentity, AuthAgent},
    client::Client,
    codec,
    frame::{self, MAX_FRAME},
    hub::HubRequest,
    id::token_hash,
    mcp::{FromShim, MAX_LINE_FRAME, ToShim},
    server::handshake,
};
use rmcp::{
    RoleServer, ServiceExt,
    model::{
        ClientJsonRpcMessage, ErrorData, GetExtensions, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    },
    transport::Transport,
};
use serde_json::Value;
use std::{io, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The token must follow the handshake within this time.
const TOKEN_DEADLINE: Duration = Duration::from_secs(5);

/// How long to ask the hub whose token it is, over its restarts. The shim waits as long before it
/// tries again.
const AUTH_WITHIN: Duration = Duration::from_secs(10);

/// Lines waiting for rmcp, and lines waiting to be written. Beyond them the peer waits.
const QUEUE: usize = 64;

/// Serves one accepted connection until either side ends it or `stop` is cancelled.
///
/// # Errors
/// When the peer is not this agent's shim, or the connection broke.
pub(crate) async fn serve(
    socket: Socket,
    agent: AgentName,
    hub: Client<HubRequest>,
    stop: CancellationToken,
) -> Result<(), IpcError> {
    handshake(&socket).await?;
    let Some(caller) = authenticate(&socket, &agent, &hub).await? else { return Ok(()) };
    tracing::info!(launch = %caller.launch, dispatched = caller.dispatched, "shim connected");
    let socket = Arc::new(socket);
    let (inbox_tx, inbox) = mpsc::channel(QUEUE);
    let (out, outbox) = mpsc::channel(QUEUE);
    let gone = CancellationToken::new();
    let writer = tokio::spawn(write_lines(socket.clone(), outbox));
    let reading = async {
        let result = read_lines(&socket, &inbox_tx).await;
        // Calls that wait must not wait on: nobody is left to be answered.
        gone.cancel();
        result
    };
    let server = Server::new(caller, hub, gone.clone());
    let session = async {
        // An error here is a peer that never spoke MCP; its connection ends either way.
        if let Ok(service) = server.serve(Lines { inbox, out }).await {
            let _ = service.waiting().await;
        }
    };
    let result = tokio::select! {
        result = reading => result,
        () = session => Ok(()),
        () = stop.cancelled() => Ok(()),
    };
    gone.cancel();
    writer.abort();
    result
}

/// Reads the token and asks the hub whose it is; `None` when it is not this agent's, which the shim was
/// told.
async fn authenticate(
    socket: &Socket,
    agent: &AgentName,
    hub: &Client<HubRequest>,
) -> Result<Option<Caller>, IpcError> {
    let mut reader = socket;
    let first = tokio::time::timeout(TOKEN_DEADLINE, frame::read(&mut reader, MAX_FRAME))
        .await
        .map_err(|_| IpcError::Deadline { ms: TOKEN_DEADLINE.as_secs() * 1000 })??
        .ok_or(IpcError::Closed)?;
    let FromShim::Token { token, cwd, dispatched, run } = codec::decode(&first)? else {
        return Err(IpcError::Undecodable { what: "the first frame is not a token".to_owned() });
    };
    let denied = match hub.call(AuthAgent { token_hash: token_hash(&token) }, AUTH_WITHIN).await {
        Ok(AgentIdentity { name, launch, run: proven }) if name == *agent => {
            say(socket, &ToShim::Welcome {}).await?;
            let run = proven.or(run);
            return Ok(Some(Caller { agent: name, launch, cwd: cwd.map(PathBuf::from), dispatched, run }));
        }
        Ok(_) => "this token belongs to another agent",
        Err(IpcError::Fault(fault)) if fault.code == "unauthorized" => {
            "this agent was started again or removed since; its tools work in the new session"
        }
        // Not the token's fault: the shim comes again.
        Err(e) => return Err(e),
    };
    tracing::warn!(reason = denied, "shim refused");
    say(socket, &ToShim::Denied { reason: denied.to_owned() }).await?;
    Ok(None)
}

async fn say(socket: &Socket, frame: &ToShim) -> Result<(), IpcError> {
    let mut writer = socket;
    frame::write(&mut writer, &codec::encode(frame)?, MAX_LINE_FRAME).await
}

struct Incoming {
    json: String,
    key: Option<CallKey>,
    age: Duration,
}

async fn read_lines(socket: &Socket, inbox: &mpsc::Sender<Incoming>) -> Result<(), IpcError> {
    let mut reader = socket;
    while let Some(bytes) = frame::read(&mut reader, MAX_LINE_FRAME).await? {
        if let FromShim::Line { json, call_key, age_ms } = codec::decode(&bytes)? {
            let age = Duration::from_millis(age_ms);
            let line = Incoming { json, key: call_key.map(CallKey), age };
            if inbox.send(line).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

async fn write_lines(socket: Arc<Socket>, mut outbox: mpsc::Receiver<String>) -> Result<(), IpcError> {
    while let Some(json) = outbox.recv().await {
        say(&socket, &ToShim::Line { json }).await?;
    }
    Ok(())
}

/// rmcp's transport: JSON-RPC lines in memory. Its messages carry the call's key as an extension.
struct Lines {
    inbox: mpsc::Receiver<Incoming>,
    out: mpsc::Sender<String>,
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let out = self.out.clone();
        async move {
            let json = serde_json::to_string(&message)?;
            out.send(json).await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let Incoming { json, key, age } = self.inbox.recv().await?;
            match serde_json::from_str::<ClientJsonRpcMessage>(&json) {
                Ok(mut message) => {
                    if let (JsonRpcMessage::Request(request), Some(key)) = (&mut message, key) {
                        let extensions = request.request.extensions_mut();
                        extensions.insert(key);
                        extensions.insert(CallAge(age));
                    }
                    return Some(message);
                }
                Err(_) => {
                    let Some(id) = request_id(&json) else { continue };
                    // The shim has checked that it is JSON; what is left is a message of a shape that
                    // the protocol does not have. Its sender must not wait for ever.
                    let error = ErrorData::invalid_request("this is not a request of the protocol", None);
                    let answer = ServerJsonRpcMessage::error(error, Some(id));
                    // Not `send().await`: `receive` may be dropped at any await, and the line with it.
                    let json = serde_json::to_string(&answer).unwrap_or_default();
                    if self.out.try_send(json).is_err() {
                        return None;
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.inbox.close();
        Ok(())
    }
}

fn request_id(json: &str) -> Option<RequestId> {
    let message: Value = serde_json::from_str(json).ok()?;
    serde_json::from_value(message.get("id")?.clone()).ok()
}

#[cfg(test)]
mod tests;
