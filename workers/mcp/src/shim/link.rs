//! The shim's connection to its agent's worker, made again for as long as the shim lives.

use super::{Input, state::Event};
use leo_ipc::{
    IpcError, blocking, codec,
    frame::{self, MAX_FRAME},
    hello::Role,
    mcp::{FromShim, MAX_LINE_FRAME, ToShim},
};
use std::{
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{Arc, mpsc::SyncSender},
    time::Duration,
};

/// How long a worker may take to accept. Long, because the supervisor holds the socket of a worker that
/// is being replaced, and waiting there is cheaper than asking again.
const ACCEPT_WITHIN: Duration = Duration::from_secs(30);

/// How long a worker may take to check the token, over the hub's restarts.
const WELCOME_WITHIN: Duration = Duration::from_secs(15);

/// A worker that reads nothing for this long is stuck; the shim must go on answering its client.
const WRITE_WITHIN: Duration = Duration::from_secs(2);

/// First and longest pause before connecting again while nobody holds the socket.
const MIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Where to connect and what to say first.
pub(crate) struct Link {
    /// The worker's socket.
    pub(crate) socket: PathBuf,
    /// The first frame, a [`FromShim::Token`].
    pub(crate) token: FromShim,
}

/// The writing half, held by the main loop.
#[derive(Clone)]
pub(crate) struct Writer(Arc<UnixStream>);

impl Writer {
    /// Sends a line. When it cannot be sent the connection ends, which the reading half reports.
    pub(crate) fn line(&self, json: String, call_key: Option<String>, age_ms: u64) {
        let frame = codec::encode(&FromShim::Line { json, call_key, age_ms });
        let written = frame.and_then(|f| frame::write_blocking(&mut &*self.0, &f, MAX_LINE_FRAME));
        if written.is_err() {
            self.close();
        }
    }

    /// Ends the connection.
    pub(crate) fn close(&self) {
        // An error means that it has ended already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Connects and reads until the worker refuses us for good, or the main loop is gone.
pub(crate) fn run(link: &Link, events: &SyncSender<Input>) {
    let mut pause = MIN_PAUSE;
    loop {
        match session(link, events) {
            Ok(Ended::Denied(reason)) => {
                let _ = events.send(Input::Event(Event::Denied(reason)));
                return;
            }
            Ok(Ended::Unwanted) => return,
            Ok(Ended::AfterWelcome) => pause = MIN_PAUSE,
            Err(_) => pause = (pause * 2).min(MAX_PAUSE),
        }
        std::thread::sleep(pause);
    }
}

enum Ended {
    /// The worker was there and is gone.
    AfterWelcome,
    /// The worker has refused the token.
    Denied(String),
    /// The main loop has ended.
    Unwanted,
}

fn session(link: &Link, events: &SyncSender<Input>) -> Result<Ended, IpcError> {
    let io = |source| IpcError::Io { doing: "setting a timeout", source };
    let socket = Arc::new(blocking::connect_to(&link.socket, Role::Shim, ACCEPT_WITHIN)?);
    let mut stream = &*socket;
    stream.set_write_timeout(Some(WRITE_WITHIN)).map_err(io)?;
    stream.set_read_timeout(Some(WELCOME_WITHIN)).map_err(io)?;
    frame::write_blocking(&mut stream, &codec::encode(&link.token)?, MAX_FRAME)?;
    let first = frame::read_blocking(&mut stream, MAX_FRAME)?.ok_or(IpcError::Closed)?;
    match codec::decode(&first)? {
        ToShim::Welcome {} => {}
        ToShim::Denied { reason } => return Ok(Ended::Denied(reason)),
        _ => return Err(IpcError::Undecodable { what: "the first frame is no welcome".to_owned() }),
    }
    stream.set_read_timeout(None).map_err(io)?;
    if events.send(Input::Up(Writer(socket.clone()))).is_err() {
        return Ok(Ended::Unwanted);
    }
    while let Ok(Some(bytes)) = frame::read_blocking(&mut stream, MAX_LINE_FRAME) {
        let event = match codec::decode(&bytes) {
            Ok(ToShim::Line { json }) => Input::Event(Event::Worker(json)),
            Ok(_) => continue,
            Err(_) => break,
        };
        if events.send(event).is_err() {
            return Ok(Ended::Unwanted);
        }
    }
    let down = events.send(Input::Event(Event::LinkDown));
    Ok(if down.is_ok() { Ended::AfterWelcome } else { Ended::Unwanted })
}
