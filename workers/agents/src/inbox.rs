//! Claude's peer inbox: a socket of Claude's own that takes messages of other sessions, and the receipts
//! that it sends back to a socket of ours.
//!
//! Measured (2.1.332): a message that is taken has no receipt; one that is held or dropped has. What
//! Claude takes for the same message is the same text within half a minute, whatever ids it carries.

use crate::fleet::Event;
use leo_ipc::{AgentName, paths::Home};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::mpsc,
    time::timeout,
};

/// Longest line that Claude takes (measured: at 1 MB it resets the connection and tells nobody).
const MAX_LINE: usize = 900 * 1024;

/// Within this time Claude drops a message with the text of an earlier one (measured: 13 s yes, 40 s no).
pub(crate) const SAME_TEXT: Duration = Duration::from_secs(35);

/// Claude takes some 30 messages at once and one every two seconds after that, and drops the others
/// (measured). After this time it takes one again.
pub(crate) const AFTER_TOO_MANY: Duration = Duration::from_secs(4);

/// Connecting to a local socket and writing to it.
const WITHIN: Duration = Duration::from_secs(5);

/// A receipt has less than 1 KiB.
const MAX_RECEIPT: u64 = 64 * 1024;

/// Why a message was not given to the inbox: nothing of it was read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InboxError {
    /// It is longer than Claude takes.
    #[error("the message has {0} bytes on the wire")]
    TooLarge(usize),
    /// Nobody listens, or not in time.
    #[error("the inbox cannot be connected to: {0}")]
    Connect(std::io::Error),
}

/// Where receipts go, and which agent an inbox belongs to.
#[derive(Debug)]
pub(crate) struct Inboxes {
    from: PathBuf,
    agents: Mutex<HashMap<PathBuf, AgentName>>,
}

/// What Claude says of a message that it did not take at once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Receipt {
    /// `held`, `delivered`, `denied`, `expired`, `dropped`.
    pub(crate) status: String,
    /// The message.
    pub(crate) orig_msg_id: String,
    /// The inbox.
    from: String,
    /// Why it was dropped, in a word.
    #[serde(default)]
    drop_reason: Option<String>,
}

impl Receipt {
    /// Whether the message will never be read.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self.status.as_str(), "denied" | "expired" | "dropped")
    }

    /// Whether it was dropped only because too many came before it: it may come again in a while, and is
    /// not taken for one that was there before.
    pub(crate) fn is_too_many(&self) -> bool {
        self.drop_reason.as_deref() == Some("rate-limited")
    }
}

impl Inboxes {
    /// The receipts' socket lies in the home.
    pub(crate) fn new(home: &Home) -> Inboxes {
        Inboxes { from: home.run().join("receipts.sock"), agents: Mutex::default() }
    }

    /// Whether a prompt is short enough. JSON may double it.
    pub(crate) fn takes(text: &str) -> bool {
        serde_json::to_string(text).is_ok_and(|json| json.len() < MAX_LINE - 1024)
    }

    /// Gives a message to an inbox. `Ok` says that it may have been taken.
    ///
    /// # Errors
    /// When it was not.
    pub(crate) async fn write(
        &self,
        agent: &AgentName,
        inbox: &Path,
        sessions: &Path,
        pid: u32,
        (id, text): (&str, &str),
    ) -> Result<(), InboxError> {
        let message = json!({
            "msgV": 1, "msg_id": id, "type": "user", "message": { "role": "user", "content": text },
            "priority": "next", "from": format!("uds:{}", self.from.display()),
        });
        let mut lines = match token(sessions, pid, inbox) {
            Some(token) => json!({ "type": "auth", "token": token }).to_string() + "\n",
            None => String::new(),
        };
        lines.push_str(&message.to_string());
        lines.push('\n');
        if lines.len() > MAX_LINE {
            return Err(InboxError::TooLarge(lines.len()));
        }
        self.agents.lock().unwrap_or_else(PoisonError::into_inner).insert(inbox.to_owned(), agent.clone());
        let late = |_| InboxError::Connect(std::io::ErrorKind::TimedOut.into());
        let mut socket =
            timeout(WITHIN, UnixStream::connect(inbox)).await.map_err(late)?.map_err(InboxError::Connect)?;
        let written = timeout(WITHIN, async {
            socket.write_all(lines.as_bytes()).await?;
            socket.shutdown().await
        });
        match written.await {
            Ok(Ok(())) => {}
            // A part of it was read, perhaps all of it.
            Ok(Err(e)) => tracing::warn!(agent = %agent, error = %e, "the inbox broke off"),
            Err(_) => tracing::warn!(agent = %agent, "the inbox takes long"),
        }
        Ok(())
    }

    fn agent(&self, receipt: &Receipt) -> Option<AgentName> {
        let path = receipt.from.strip_prefix("uds:")?;
        self.agents.lock().unwrap_or_else(PoisonError::into_inner).get(Path::new(path)).cloned()
    }

    /// Reads receipts for ever. Without its socket the inbox still works, and says less.
    pub(crate) async fn receive(&self, fleet: mpsc::Sender<Event>) {
        // Left by an earlier worker; the folder is ours alone.
        let _ = std::fs::remove_file(&self.from);
        let listener = match UnixListener::bind(&self.from) {
            Ok(listener) => listener,
            Err(e) => return tracing::warn!(error = %e, "no receipts from peer inboxes"),
        };
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            };
            let mut line = Vec::new();
            let mut reader = BufReader::new(socket.take(MAX_RECEIPT));
            // One after the other: they are rare, and each is a line that is there already.
            if !matches!(timeout(WITHIN, reader.read_until(b'\n', &mut line)).await, Ok(Ok(_))) {
                continue;
            }
            let Ok(receipt) = serde_json::from_slice::<Receipt>(&line) else { continue };
            tracing::info!(status = receipt.status, message = receipt.orig_msg_id, "a receipt");
            if let Some(agent) = self.agent(&receipt)
                && fleet.send(Event::Receipt(agent, receipt)).await.is_err()
            {
                return;
            }
        }
    }
}

/// The token of an inbox, from the file that Claude keeps beside the session's. Linux takes messages
/// without one as well, but then does not say who sent them.
fn token(sessions: &Path, pid: u32, inbox: &Path) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Key {
        peer_token: String,
    }
    use std::os::unix::ffi::OsStrExt;
    let hash = leo_ipc::id::hex(&Sha256::digest(inbox.as_os_str().as_bytes()));
    let bytes = std::fs::read(sessions.join(format!("{pid}.{hash}.key"))).ok()?;
    serde_json::from_slice::<Key>(&bytes).ok().map(|key| key.peer_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_message_is_two_lines_and_its_receipt_finds_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("h")).unwrap();
        std::fs::create_dir_all(home.run()).unwrap();
        let agent: AgentName = "a".parse().unwrap();
        let inbox = home.inbox_socket(&agent);
        let listener = UnixListener::bind(&inbox).unwrap();
        let key = leo_ipc::id::hex(&Sha256::digest(inbox.to_str().unwrap().as_bytes()));
        std::fs::write(dir.path().join(format!("7.{key}.key")), r#"{"peerToken":"secret","procStart":"1"}"#)
            .unwrap();
        let inboxes = std::sync::Arc::new(Inboxes::new(&home));
        let (fleet, mut events) = mpsc::channel(4);
        let receiving = inboxes.clone();
        tokio::spawn(async move { receiving.receive(fleet).await });

        inboxes.write(&agent, &inbox, dir.path(), 7, ("m1", "[Leo Chat] \"hi\"\n!")).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let mut lines = BufReader::new(socket).lines();
        let mut next = async || -> serde_json::Value {
            serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap()
        };
        assert_eq!(next().await, json!({ "type": "auth", "token": "secret" }));
        let message = next().await;
        assert_eq!(message["message"]["content"], "[Leo Chat] \"hi\"\n!");
        let from = message["from"].as_str().unwrap().strip_prefix("uds:").unwrap().to_owned();
        let mut answer = UnixStream::connect(from).await.unwrap();
        let receipt =
            json!({ "status": "dropped", "orig_msg_id": "m1", "from": format!("uds:{}", inbox.display()) });
        answer.write_all(format!("{receipt}\n").as_bytes()).await.unwrap();
        match events.recv().await.unwrap() {
            Event::Receipt(to, receipt) => {
                assert!(to == agent && receipt.is_final() && !receipt.is_too_many());
            }
            other => panic!("{other:?}"),
        }
        let gone = inboxes.write(&agent, Path::new("/no/such.sock"), dir.path(), 7, ("m1", "x")).await;
        assert!(matches!(gone, Err(InboxError::Connect(_))));
        assert!(!Inboxes::takes(&"x".repeat(MAX_LINE)) && Inboxes::takes(&"x".repeat(300 * 1024)));
    }
}
