//! The reminders worker: the clock on the wall. It watches when the next reminder is due, over sleep and
//! clocks that are set, and has the hub post it; once a day it has old things removed.
//!
//! It must not decide what is due, nor keep anything: whatever it knows it is told again at its next
//! start.

mod attachments;
mod clock;
mod daily;

use clock::{Action, Clock, Event, Now};
use leo_ipc::{
    ExitCode, Time,
    client::Client,
    hub::HubRequest,
    reminder::{FireReminders, Fired, WatchReminders},
};
use leo_runtime::{Threads, Worker, WorkerError};
use std::{future::pending, time::Duration};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};

/// Time to start the stream, connections that fail included.
const SUBSCRIBE: Duration = Duration::from_secs(5);

/// Pause before subscribing again: a hub that is being replaced is back within milliseconds.
const AGAIN: Duration = Duration::from_millis(50);

/// How long the hub may take to post what is due, over its restarts.
const FIRE_WITHIN: Duration = Duration::from_secs(10);

/// Runs the worker to its end.
pub fn worker() -> ExitCode {
    leo_runtime::run("reminders", Threads::One, run)
}

async fn run(mut worker: Worker) -> Result<(), WorkerError> {
    let (heard, next) = watch::channel(None);
    // A client of its own: the stream and the calls must not wait for each other.
    tokio::spawn(listen(worker.hub(), heard));
    tokio::spawn(daily::run(worker.home.clone(), worker.hub()));
    let (probe, probes) = mpsc::channel::<oneshot::Sender<()>>(1);
    worker.ready(move || {
        let probe = probe.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            // A loop that has ended drops both ends, and the process ends with it.
            if probe.send(answer).await.is_ok() {
                let _ = answered.await;
            }
        }
    })?;
    tokio::select! {
        () = worker.drain.cancelled() => {}
        () = keep_time(worker.hub(), next, probes) => {}
    }
    Ok(())
}

/// Keeps `heard` at what the hub last said of the next due time, for ever.
async fn listen(hub: Client<HubRequest>, heard: watch::Sender<Option<Time>>) {
    loop {
        match hub.stream(WatchReminders {}, SUBSCRIBE).await {
            Ok(mut items) => loop {
                match items.next().await {
                    // Said again is news as well: it may be the answer to what could not be done.
                    Ok(Some(item)) => {
                        heard.send_replace(item.next);
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::info!(%error, "the hub's stream ended; subscribing again");
                        break;
                    }
                }
            },
            Err(error) => tracing::warn!(%error, "no stream from the hub; trying again"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Has the hub post what is due, for ever.
async fn keep_time(
    hub: Client<HubRequest>,
    mut next: watch::Receiver<Option<Time>>,
    mut probes: mpsc::Receiver<oneshot::Sender<()>>,
) {
    let started = Instant::now();
    let mut clock = Clock::default();
    let mut event = Event::Next(*next.borrow_and_update());
    loop {
        let now = Now { wall: Time::now(), mono: started.elapsed() };
        let (action, jumped) = clock.step(event, now);
        if let Some(ms) = jumped {
            tracing::info!(ms, "the clock jumped, or the machine slept; looking at the reminders again");
        }
        event = match action {
            Action::Fire => fire(&hub).await,
            Action::Pause(pause) => {
                let over = async {
                    match pause {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => pending().await,
                    }
                };
                tokio::select! {
                    () = over => Event::Tick,
                    changed = next.changed() => match changed {
                        Ok(()) => Event::Next(*next.borrow_and_update()),
                        Err(_) => return,
                    },
                    Some(probe) = probes.recv() => {
                        let _ = probe.send(());
                        Event::Tick
                    }
                }
            }
        };
    }
}

async fn fire(hub: &Client<HubRequest>) -> Event {
    match hub.call(FireReminders {}, FIRE_WITHIN).await {
        Ok(Fired { fired, next }) => {
            if fired > 0 {
                tracing::info!(fired, "reminders posted");
            }
            Event::Next(next)
        }
        Err(error) => {
            tracing::warn!(%error, "what is due could not be posted; trying again");
            Event::Failed
        }
    }
}
