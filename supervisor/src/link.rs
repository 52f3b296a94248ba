//! The conversation with one process over its control socket: hello, start, then frames both ways. It
//! decides nothing; what a worker says becomes an event of its keeper.

use crate::{board, board::Entries, machine::Event};
use leo_ipc::{
    AgentName, Generation, IpcError, codec,
    config::Config,
    control::{FromWorker, Start, ToWorker},
    frame::{self, MAX_BEFORE_HELLO, MAX_FRAME},
    hello::{Hello, Role},
};
use std::time::Duration;
use tokio::{
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
};

/// What a process is told while it lives. Every part holds only its newest value, so a worker that does
/// not read makes no queue.
pub(crate) struct Told {
    /// The configuration.
    pub(crate) config: watch::Receiver<Config>,
    /// The state of all workers, for those that are told.
    pub(crate) workers: Option<watch::Receiver<Entries>>,
    /// Counted up whenever it is asked for a heartbeat.
    pub(crate) beat: watch::Receiver<u64>,
    /// Set once, when it should drain.
    pub(crate) drain: watch::Receiver<Option<Duration>>,
}

/// Where what it says goes.
pub(crate) struct Says {
    /// To its keeper, with its generation. Bounded: a worker that floods us waits.
    pub(crate) events: mpsc::Sender<(Generation, Event)>,
    /// Which agents need an MCP worker; the agents worker and the tasks worker each have a say.
    pub(crate) mcp_agents: Option<watch::Sender<Vec<AgentName>>>,
}

/// Talks with a process until its socket ends.
pub(crate) async fn converse(socket: UnixStream, start: Start, told: Told, says: Says) {
    let generation = start.generation;
    let (mut reader, mut writer) = socket.into_split();
    let greeted = greet(&mut reader, &mut writer, start).await;
    let result = match greeted {
        Ok(()) => {
            // One that does not listen may still have something to say; one that has said its last, or
            // what no worker says, needs telling nothing more.
            let told = async {
                tell(writer, told).await;
                std::future::pending().await
            };
            tokio::select! {
                heard = listen(reader, generation, &says) => heard,
                never = told => never,
            }
        }
        Err(e) => Err(e),
    };
    let misdeed = match result {
        Ok(()) => return,
        // The socket ends with the process, which says it better.
        Err(IpcError::Closed | IpcError::Io { .. }) => return,
        Err(e) => format!("it sent what no worker sends: {e}"),
    };
    // The keeper is gone only when the process is.
    let _ = says.events.send((generation, Event::Misbehaved(misdeed))).await;
}

async fn greet(
    reader: &mut OwnedReadHalf,
    writer: &mut OwnedWriteHalf,
    start: Start,
) -> Result<(), IpcError> {
    let bytes = frame::read(reader, MAX_BEFORE_HELLO).await?.ok_or(IpcError::Closed)?;
    let hello: Hello = codec::decode(&bytes)?;
    let mut reply = hello.answer();
    if hello.role != Role::Worker || hello.generation != start.generation {
        reply.version = 0;
        reply.reason = format!("this socket belongs to generation {} of a worker", start.generation.0);
    }
    // Both frames at once: the worker waits for the second anyway.
    let mut frames = frame::seal(&codec::encode(&reply)?, MAX_BEFORE_HELLO)?;
    frames.extend(frame::seal(&codec::encode(&ToWorker::Start(Box::new(start)))?, MAX_FRAME)?);
    write(writer, &frames).await?;
    reply.accept().map(|_| ())
}

async fn listen(mut reader: OwnedReadHalf, generation: Generation, says: &Says) -> Result<(), IpcError> {
    while let Some(bytes) = frame::read(&mut reader, MAX_FRAME).await? {
        let event = match codec::decode::<FromWorker>(&bytes)? {
            FromWorker::Heartbeat { .. } => Event::Heartbeat,
            FromWorker::ExtendStart { ms, why } => {
                tracing::info!(generation = generation.0, ms, why, "a worker asks for more time to start");
                Event::ExtendStart(Duration::from_millis(ms))
            }
            FromWorker::Fatal { reason } => Event::Fatal(reason),
            FromWorker::McpAgents { agents } => {
                if let Some(wanted) = &says.mcp_agents {
                    wanted.send_replace(agents);
                }
                continue;
            }
            FromWorker::Unknown => continue,
        };
        if says.events.send((generation, event)).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Tells the process what changes. Ends quietly when it does not listen any more: its exit, or its
/// silence, will be noticed.
async fn tell(mut writer: OwnedWriteHalf, mut told: Told) {
    let mut workers = told.workers.take();
    if let Some(workers) = &mut workers {
        // The first snapshot is sent without waiting for a change.
        workers.mark_changed();
    }
    // The configuration of the start is the one it has.
    told.config.mark_unchanged();
    told.beat.mark_unchanged();
    loop {
        let frame = tokio::select! {
            changed = told.drain.changed() => match (changed, *told.drain.borrow_and_update()) {
                (Ok(()), Some(within)) => {
                    ToWorker::Drain { within_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX) }
                }
                (Ok(()), None) => continue,
                (Err(_), _) => return,
            },
            changed = told.beat.changed() => match changed {
                Ok(()) => ToWorker::Ping { turn: *told.beat.borrow_and_update() },
                Err(_) => return,
            },
            changed = told.config.changed() => match changed {
                Ok(()) => ToWorker::Config { config: Box::new(told.config.borrow_and_update().clone()) },
                Err(_) => return,
            },
            changed = changed(&mut workers) => match changed {
                Some(workers) => ToWorker::Workers { workers },
                None => return,
            },
        };
        let sealed = codec::encode(&frame).and_then(|bytes| frame::seal(&bytes, MAX_FRAME));
        let sent = match sealed {
            Ok(bytes) => write(&mut writer, &bytes).await,
            Err(e) => Err(e),
        };
        if let Err(e) = sent {
            tracing::debug!(error = %e, "a worker does not listen");
            return;
        }
    }
}

/// The newest snapshot once it changed; never, for a worker that is not told.
async fn changed(
    workers: &mut Option<watch::Receiver<Entries>>,
) -> Option<Vec<leo_ipc::control::WorkerStatus>> {
    match workers {
        Some(workers) => {
            workers.changed().await.ok()?;
            Some(board::statuses(&workers.borrow_and_update()))
        }
        None => std::future::pending().await,
    }
}

async fn write(writer: &mut OwnedWriteHalf, bytes: &[u8]) -> Result<(), IpcError> {
    use tokio::io::AsyncWriteExt;
    writer.write_all(bytes).await.map_err(|source| IpcError::Io { doing: "writing a frame", source })
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
