//! The worker: what the hub and the clock say goes into `plan.rs`, and what comes out is carried out
//! beside the loop, which never waits, so that its heartbeat is honest.

use crate::{
    hold::{self, Hold},
    plan::{self, Action, Tracked},
    run::{Ended, Lock, LockError},
    schedule::Schedule,
};
use leo_ipc::TaskName;
use leo_ipc::{
    AgentName, ExitCode, Time,
    client::Client,
    config::{Config, TaskConfig},
    control::FromWorker,
    hub::HubRequest,
    task::{ClaimRun, Followed, RunState, Schedules, SyncTasks, TaskRun, Trigger, WatchTasks, fresh_run_id},
};
use leo_runtime::{Threads, Worker, WorkerError};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Events waiting for the loop; beyond them whoever reports waits.
const QUEUE: usize = 64;

/// Time to start the stream, connections that fail included.
const SUBSCRIBE: Duration = Duration::from_secs(5);

/// Pause before subscribing again: a hub that is being replaced is back within milliseconds.
const AGAIN: Duration = Duration::from_millis(50);

/// How long runs have to end when the worker drains; a little less than the drain itself.
const LAST_RUNS: Duration = Duration::from_millis(4500);

/// A wall clock that went so far from the other one within a sleep has jumped, or the machine slept.
const JUMP_MS: i64 = 5000;

/// What reaches the loop.
enum Event {
    /// A task or a run changed.
    Changed,
    /// What the hub says.
    Synced(Box<Schedules>),
    /// A run that was held here is over.
    Over(String),
    /// The heartbeat comes round.
    Ping(oneshot::Sender<()>),
}

/// Runs the worker process to its end.
pub fn worker() -> ExitCode {
    leo_runtime::run("tasks", Threads::One, run)
}

async fn run(mut worker: Worker) -> Result<(), WorkerError> {
    let (events, queue) = mpsc::channel(QUEUE);
    let hold = Hold {
        home: worker.home.clone(),
        hub: worker.hub(),
        leo: worker.start.program.clone(),
        base: leo_launch::ours(),
        patience: None,
    };
    tokio::spawn(follow(worker.hub(), events.clone()));
    let probe = events.clone();
    worker.ready(move || {
        let probe = probe.clone();
        async move {
            let (ping, pong) = oneshot::channel();
            if probe.send(Event::Ping(ping)).await.is_ok() {
                // No answer means no heartbeat, which is the truth.
                let _ = pong.await;
            }
        }
    })?;
    let tasks = Tasks {
        hold: Arc::new(hold),
        config: worker.config(),
        supervisor: worker.supervisor(),
        stop: CancellationToken::new(),
        events,
        tracked: BTreeMap::new(),
        seen: None,
        held: BTreeSet::new(),
        running: JoinSet::new(),
        syncing: false,
        again: false,
        served: BTreeSet::new(),
    };
    tasks.run(queue, worker.drain.clone()).await;
    Ok(())
}

/// Follows the hub's changes for ever. `watching` is a client of its own, so that its stream never holds
/// calls back.
async fn follow(watching: Client<HubRequest>, events: mpsc::Sender<Event>) {
    loop {
        if let Ok(mut changes) = watching.stream(WatchTasks {}, SUBSCRIBE).await {
            while let Ok(Some(_)) = changes.next().await {
                if events.send(Event::Changed).await.is_err() {
                    return;
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

struct Tasks {
    hold: Arc<Hold>,
    config: watch::Receiver<Config>,
    supervisor: mpsc::Sender<FromWorker>,
    /// Cancelled when every run should end.
    stop: CancellationToken,
    events: mpsc::Sender<Event>,
    tracked: BTreeMap<TaskName, Tracked>,
    seen: Option<Schedules>,
    /// Runs that were started here and are not over.
    held: BTreeSet<String>,
    running: JoinSet<()>,
    /// The hub is being asked; another change meanwhile asks again.
    syncing: bool,
    again: bool,
    /// Agents whose MCP worker runs need, as the supervisor was last told.
    served: BTreeSet<AgentName>,
}

impl Tasks {
    async fn run(mut self, mut queue: mpsc::Receiver<Event>, drain: CancellationToken) {
        self.tracked = track(&self.config.borrow_and_update());
        self.sync();
        let mut clock = Clock::now();
        let mut next = Instant::now() + plan::MAX_PAUSE;
        loop {
            tokio::select! {
                () = drain.cancelled() => break,
                Some(event) = queue.recv() => match event {
                    Event::Ping(pong) => drop(pong.send(())),
                    Event::Changed => self.sync(),
                    Event::Over(run_id) => {
                        self.held.remove(&run_id);
                        self.sync();
                    }
                    Event::Synced(seen) => {
                        self.syncing = false;
                        self.synced(*seen);
                        if std::mem::take(&mut self.again) {
                            self.sync();
                        }
                        next = self.next();
                    }
                },
                Ok(()) = self.config.changed() => {
                    self.tracked = track(&self.config.borrow_and_update());
                    self.sync();
                }
                () = tokio::time::sleep_until(next) => {
                    if let Some(jump) = clock.jump() {
                        tracing::info!(jump_ms = jump, "the clock jumped, or the machine slept");
                    }
                    self.sync();
                    next = Instant::now() + plan::MAX_PAUSE;
                }
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => {
                    if let Err(e) = ended
                        && e.is_panic()
                    {
                        tracing::error!(error = %e, "the holder of a run ended abnormally");
                    }
                }
            }
        }
        self.stop.cancel();
        let last = async { while self.running.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_RUNS, last).await.is_err() {
            tracing::warn!("runs do not end; their guards end them");
        }
    }

    /// When to decide again by the clock alone.
    fn next(&self) -> Instant {
        let pause = match &self.seen {
            Some(seen) => plan::pause(&self.tracked, seen, Time::now()),
            None => plan::MAX_PAUSE,
        };
        Instant::now() + pause
    }

    /// Asks the hub how things stand.
    fn sync(&mut self) {
        if self.syncing {
            self.again = true;
            return;
        }
        self.syncing = true;
        let now = Time::now();
        let cursor = |name: &TaskName| {
            self.seen.iter().flat_map(|seen| &seen.tasks).find(|t| t.name == *name).map(|t| t.cursor)
        };
        let tasks = self.tracked.iter().filter_map(|(name, tracked)| {
            let schedule = tracked.schedule.as_ref()?;
            let after = cursor(name).map_or(now, |cursor| cursor.max(now));
            Some(Followed {
                name: name.clone(),
                // Switched on in the configuration, it counts from then on.
                schedule: format!("{}{}", schedule.text(), if tracked.enabled { "" } else { "|off" }),
                next_at: schedule.next_after(after),
            })
        });
        let request = SyncTasks { tasks: tasks.collect() };
        let (hold, events) = (self.hold.clone(), self.events.clone());
        tokio::spawn(async move {
            let seen = match hold.ask(request).await {
                Ok(seen) => seen,
                Err(e) => {
                    tracing::error!(error = %e, "the hub refuses to say how tasks stand");
                    Schedules { tasks: Vec::new(), open: Vec::new() }
                }
            };
            let _ = events.send(Event::Synced(Box::new(seen))).await;
        });
    }

    fn synced(&mut self, seen: Schedules) {
        self.serve(&seen);
        for action in plan::decide(&self.tracked, &seen, &self.held, Time::now()) {
            self.perform(action);
        }
        self.seen = Some(seen);
    }

    /// Tells the supervisor whose tools are needed, when that changed.
    fn serve(&mut self, seen: &Schedules) {
        let of_run = |run: &TaskRun| match run.state {
            RunState::Running if run.message_id.is_none() => run.agent.clone(),
            _ => None,
        };
        let served: BTreeSet<AgentName> = seen.open.iter().filter_map(of_run).collect();
        if self.seen.is_some() && served == self.served {
            return;
        }
        let agents = served.iter().cloned().collect();
        // A full queue means a supervisor that does not read; it is told at the next change.
        if self.supervisor.try_send(FromWorker::McpAgents { agents }).is_ok() {
            self.served = served;
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Claim { task, due, skipped } => {
                tracing::info!(%task, %due, skipped, "due");
                let run_id = fresh_run_id();
                let claim = ClaimRun { task, run_id, trigger: Trigger::Schedule, due_at: Some(due), skipped };
                let hold = self.hold.clone();
                tokio::spawn(async move {
                    if let Err(e) = hold.ask(claim).await {
                        tracing::warn!(error = %e, "a run was not made");
                    }
                });
            }
            Action::Start(run) => self.start(run),
            Action::CheckHolder(run) => {
                let hold = self.hold.clone();
                tokio::spawn(async move { check_holder(&hold, &run).await });
            }
            Action::Give { run, state, why } => {
                let hold = self.hold.clone();
                let ended = Ended { state, exit_code: None, error: Some(why), attempts: run.attempts };
                tokio::spawn(async move { give(&hold, &run, &ended).await });
            }
        }
    }

    fn start(&mut self, run: TaskRun) {
        let Some(config) = self.config.borrow().tasks.get(&run.task).cloned() else { return };
        self.held.insert(run.id.clone());
        let (hold, events, stop) = (self.hold.clone(), self.events.clone(), self.stop.clone());
        self.running.spawn(async move {
            start(&hold, &run, &config, &stop).await;
            let _ = events.send(Event::Over(run.id)).await;
        });
    }
}

/// Holds a scheduled run.
async fn start(hold: &Hold, run: &TaskRun, config: &TaskConfig, stop: &CancellationToken) {
    let ended = match Lock::take(&hold.home, &run.task).await {
        Ok(_lock) => {
            tracing::info!(task = %run.task, run = run.id, "run starts");
            let outcome = hold::hold(hold, run, config, None, stop).await;
            tracing::info!(task = %run.task, run = run.id, state = ?outcome.ended.state, "run is over, or delivered");
            return;
        }
        Err(busy @ LockError::Busy(_)) => {
            Ended { state: RunState::Skipped, error: Some(busy.to_string()), ..Ended::not_started("") }
        }
        Err(e) => Ended::not_started(e.to_string()),
    };
    give(hold, run, &ended).await;
}

async fn give(hold: &Hold, run: &TaskRun, ended: &Ended) {
    if let Err(e) = hold.end(&run.id, ended).await {
        tracing::warn!(run = run.id, error = %e, "a run's end was not recorded");
    }
}

/// Records the end of a run whose holder is gone: then its task's lock is free.
async fn check_holder(hold: &Hold, run: &TaskRun) {
    if !Lock::is_free(&hold.home, &run.task) {
        return;
    }
    tracing::info!(task = %run.task, run = run.id, "nobody holds this run any more");
    crate::run::clean_up(&hold.home, &run.task, &run.id);
    let error = Some("what watched over it ended, and the run with it".to_owned());
    let ended = Ended { state: RunState::Interrupted, exit_code: None, error, attempts: run.attempts };
    give(hold, run, &ended).await;
}

/// The tasks of a configuration, as they are followed. The supervisor has checked their schedules; one
/// that this machine cannot read any more is not followed, and says so in the log.
fn track(config: &Config) -> BTreeMap<TaskName, Tracked> {
    let ms = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX / 1000).saturating_mul(1000);
    let tracked = config.tasks.iter().map(|(name, task)| {
        let schedule = task.schedule.as_ref().and_then(|pattern| {
            Schedule::parse(pattern, task.timezone.as_deref())
                .inspect_err(|e| tracing::error!(task = %name, error = %e, "its schedule is not followed"))
                .ok()
        });
        let tracked = Tracked {
            schedule,
            enabled: task.enabled,
            catch_up_ms: ms(task.catch_up_s),
            timeout_ms: ms(task.timeout_s),
        };
        (name.clone(), tracked)
    });
    tracked.collect()
}

/// The two clocks at one moment.
struct Clock {
    wall: Time,
    steady: Instant,
}

impl Clock {
    fn now() -> Clock {
        Clock { wall: Time::now(), steady: Instant::now() }
    }

    /// How far the wall clock went from the steady one since the last look, when that is far.
    fn jump(&mut self) -> Option<i64> {
        let now = Clock::now();
        let steady = i64::try_from((now.steady - self.steady).as_millis()).unwrap_or(i64::MAX);
        let jump = now.wall.millis() - self.wall.millis() - steady;
        *self = now;
        (jump.abs() > JUMP_MS).then_some(jump)
    }
}
