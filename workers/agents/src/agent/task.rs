//! The task of one agent: waits for mail and for time, and feeds both to the deciders.

use super::{
    bridge::{Line, Tools},
    command::{Command, Mail, Reply},
    context::{self, Asked},
    idle::Idle,
    life,
    shared::Shared,
    watch::Watch,
};
use crate::{
    delivery::route,
    harness::{Dialog, Harness, Place, adapter},
};
use leo_ipc::{
    AgentName, Done, Fault, LaunchId, MessageId,
    agent::{AgentRecord, Desired, GetAgent, SetDesired},
    agents::{AttachCommand, LogText},
    chat::{Route, WaitingFor},
    hook::{HookEvent, TURN_ABORTED},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

/// Mail waiting for a task. Beyond it mail is dropped and the task looks at everything instead.
const MAILBOX: usize = 64;

/// Claude's reason for the end of a session when a person typed its exit command.
const EXIT_TYPED: &str = "prompt_input_exit";

/// After a turn's end, a message that waits is looked after this often for so long: the session shows
/// that it is idle a moment after its Stop hook.
const TURN_OVER_LOOK: Duration = Duration::from_millis(40);
const TURN_OVER: Duration = Duration::from_secs(1);

/// While an agent is being stopped, its process is looked at this often.
const STOP_LOOK: Duration = Duration::from_millis(100);

/// A wake-up this soon after an outcome of ours is its echo.
const OWN_ECHO: Duration = Duration::from_millis(500);

/// Most lines of `leo agent logs`.
const MAX_LOG_LINES: u32 = 5000;

/// An answer must fit into a frame.
const MAX_LOG_BYTES: usize = 768 * 1024;

/// The fleet's end of a task.
pub(crate) struct Handle {
    mail: mpsc::Sender<Mail>,
    missed: Arc<AtomicBool>,
    /// Ends the task where it stands; start is recovery.
    pub(crate) abort: AbortHandle,
}

impl Handle {
    /// Puts mail into the mailbox. A command that finds it full is refused; other mail is replaced by
    /// a look at everything.
    pub(crate) fn send(&self, mail: Mail) {
        match self.mail.try_send(mail) {
            Ok(()) => {}
            Err(
                mpsc::error::TrySendError::Full(Mail::Command(command))
                | mpsc::error::TrySendError::Closed(Mail::Command(command)),
            ) => {
                command.refuse(Fault::unavailable("the agent's task is busy; try again"));
            }
            Err(_) => self.missed.store(true, Ordering::Release),
        }
    }
}

/// Starts the task of an agent, after a pause.
pub(crate) fn spawn(
    pause: Duration,
    name: AgentName,
    shared: Arc<Shared>,
    tasks: &mut JoinSet<AgentName>,
) -> Handle {
    let (mail, mailbox) = mpsc::channel(MAILBOX);
    let missed = Arc::new(AtomicBool::new(false));
    let seen = missed.clone();
    let abort = tasks.spawn(async move {
        tokio::time::sleep(pause).await;
        run(name.clone(), shared, mailbox, seen).await;
        name
    });
    Handle { mail, missed, abort }
}

async fn run(
    name: AgentName,
    shared: Arc<Shared>,
    mut mailbox: mpsc::Receiver<Mail>,
    missed: Arc<AtomicBool>,
) {
    let record = match shared.hub.ask(GetAgent { name: name.clone() }).await {
        Ok(record) => record,
        Err(fault) => {
            tracing::info!(agent = %name, code = fault.code, "no such agent");
            return refuse_all(&mut mailbox, &fault);
        }
    };
    let mut agent = Agent::new(shared, record);
    agent.adopt().await;
    agent.settle = true;
    while agent.life.phase != life::Phase::Gone {
        agent.settle().await;
        agent.answer_waiters(None).await;
        let due = agent.due();
        let mail = tokio::select! {
            biased;
            mail = mailbox.recv() => match mail {
                Some(mail) => Some(mail),
                // The fleet is gone, and this process with it.
                None => return,
            },
            () = sleep_until(due) => None,
        };
        match mail {
            Some(mail) => agent.receive(mail).await,
            None => agent.time_passed().await,
        }
        if missed.swap(false, Ordering::AcqRel) {
            // A hook may have been among it.
            agent.watch.turn_moved();
            agent.changed().await;
            agent.deliver(route::Event::Wake).await;
        }
    }
    agent.gone().await;
    let fault = Fault::new("unknown_agent", format!("there is no agent {name}"));
    refuse_all(&mut mailbox, &fault);
}

fn refuse_all(mailbox: &mut mpsc::Receiver<Mail>, fault: &Fault) {
    mailbox.close();
    while let Ok(mail) = mailbox.try_recv() {
        if let Mail::Command(command) = mail {
            command.refuse(fault.clone());
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// A launch in its pane.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) launch: LaunchId,
    pub(super) pane: String,
    pub(super) place: Place,
    /// When it was started or adopted.
    pub(super) since: Instant,
    /// The dialog that the last captured screen showed.
    pub(super) dialog: Option<Dialog>,
    /// The dialog that the thread was told about.
    pub(super) noted: Option<Dialog>,
    /// When the pane was last captured.
    pub(super) captured: Option<Instant>,
    /// Whether a hook said that a person typed the harness's exit command.
    pub(super) exit_asked: bool,
    /// What is known of its mod.
    pub(super) line: Line,
    /// Whether its harness has our tools.
    pub(super) tools: Tools,
    /// The route that the hub was told.
    pub(super) shown: Option<Route>,
    /// The last text that went into its peer inbox, and when.
    pub(super) in_inbox: Option<(String, Instant)>,
    /// When it takes messages again, after it dropped one since too many had come.
    pub(super) inbox_again: Option<Instant>,
}

/// Who waits for a stop or start to be over.
pub(super) enum Waiter {
    Record(Reply<AgentRecord>),
    Gone(Reply<Done>),
}

/// The text under way, and since when (milliseconds since 1970).
#[derive(Debug, Clone)]
pub(super) struct UnderWay {
    pub(super) key: (MessageId, u32),
    pub(super) text: String,
    pub(super) handed_ms: i64,
}

/// Everything about one agent.
pub(super) struct Agent {
    pub(super) shared: Arc<Shared>,
    pub(super) name: AgentName,
    pub(super) record: AgentRecord,
    pub(super) life: life::State,
    pub(super) route: route::State,
    pub(super) watch: Watch,
    /// Since when it has had nothing to do.
    pub(super) idle: Idle,
    pub(super) live: Option<Live>,
    pub(super) under_way: Option<UnderWay>,
    /// The hand-over beside the queue, to the turn that runs, and its text.
    pub(super) steering: route::State,
    pub(super) steered: Option<UnderWay>,
    /// Whether `route` and `under_way` are that hand-over's at the moment.
    pub(super) in_steering: bool,
    /// Whether the hub has a message for it.
    pub(super) steer_waits: bool,
    /// The routes that refused a message.
    pub(super) refused: Option<(MessageId, Vec<Route>)>,
    /// What the hub was last told about pending messages; nothing yet at the start.
    pub(super) waiting: Option<Option<WaitingFor>>,
    /// A person stopped it: what waits now is no reason to start it again, only a new message is.
    pub(super) asleep: bool,
    /// When an outcome was reported last; the hub's wake-up that follows is not a new message's.
    pub(super) reported: Option<Instant>,
    /// When a turn ended last.
    pub(super) turn_over: Option<Instant>,
    /// The launch changed: what is under way and what waits is looked at before anything else. Only the
    /// task's loop does it, so that a failing launch never leads to the next from inside itself.
    pub(super) settle: bool,
    /// All that waits is to fail, for this reason.
    pub(super) fail_pending: Option<String>,
    /// Why the last launch could not be made.
    pub(super) launch_error: Option<String>,
    /// Who waits for a stop or start to be over.
    pub(super) waiters: Vec<Waiter>,
    /// What is being done to its context.
    pub(super) asked: Option<Asked>,
}

impl Agent {
    fn new(shared: Arc<Shared>, record: AgentRecord) -> Agent {
        Agent {
            shared,
            name: record.agent.name.clone(),
            life: life::State {
                wanted: record.desired == Desired::Running,
                resting: record.desired == Desired::Suspended,
                ..life::State::new()
            },
            record,
            route: route::State::Quiet,
            watch: Watch::new(),
            idle: Idle::default(),
            live: None,
            under_way: None,
            steering: route::State::Quiet,
            steered: None,
            in_steering: false,
            steer_waits: false,
            refused: None,
            waiting: None,
            asleep: false,
            reported: None,
            turn_over: None,
            settle: false,
            fail_pending: None,
            launch_error: None,
            waiters: Vec::new(),
            asked: None,
        }
    }

    pub(super) fn harness(&self) -> Option<&'static dyn Harness> {
        adapter(self.record.config.harness)
    }

    pub(super) fn title(&self) -> &'static str {
        self.harness().map_or("The agent", Harness::title)
    }

    /// When to look again, if nothing comes by mail.
    fn due(&self) -> Option<Instant> {
        let now = Instant::now();
        let after = |pause: Option<Duration>| pause.map(|p| now + p);
        let stopping = matches!(self.life.phase, life::Phase::Stopping { .. }).then_some(STOP_LOOK);
        let live = self.live.is_some();
        let watch = if live { self.watch.pause() } else { None };
        // Without a process a message waits for mail, not for time; one under way is settled at once.
        let held = matches!(self.route, route::State::Held(_));
        let route = if live || !held { self.route.pause(now) } else { None };
        let steering = if live { self.steering.pause(now) } else { None };
        let soon = (held && live && self.turn_is_just_over()).then_some(TURN_OVER_LOOK);
        let rest = if live { self.idle.due(self.rest_after()) } else { None };
        let context = after(self.asked.is_some().then_some(context::LOOK));
        let life = self.life.due();
        [life, after(stopping), after(watch), after(route), after(steering), after(soon), rest, context]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether a turn has ended a moment ago, which the session may not show yet.
    pub(super) fn turn_is_just_over(&self) -> bool {
        self.turn_over.is_some_and(|at| at.elapsed() < TURN_OVER)
    }

    async fn settle(&mut self) {
        while std::mem::take(&mut self.settle) {
            self.look_and_deliver().await;
            self.deliver(route::Event::Wake).await;
        }
    }

    async fn receive(&mut self, mail: Mail) {
        match mail {
            Mail::Changed => {
                self.changed().await;
                self.deliver(route::Event::Wake).await;
            }
            Mail::Outbox => {
                if self.reported.is_none_or(|at| at.elapsed() > OWN_ECHO) {
                    self.asleep = false;
                }
                self.deliver(route::Event::Wake).await;
            }
            Mail::Tools { launch } => {
                if let Some(live) = self.live.as_mut().filter(|live| live.launch == launch) {
                    live.tools = Tools::Listed;
                }
                self.look_and_deliver().await;
            }
            Mail::Bridge { launch, news } => self.bridge(&launch, news).await,
            Mail::Receipt(receipt) => self.receipt(&receipt).await,
            Mail::Hook { launch, event } => self.hook(&launch, &event).await,
            Mail::PaneGone => self.check_pane().await,
            Mail::Command(command) => self.command(command).await,
        }
    }

    async fn time_passed(&mut self) {
        if self.life.due().is_some_and(|due| due <= Instant::now()) {
            self.live_on(life::Event::Tick).await;
        }
        if matches!(self.life.phase, life::Phase::Stopping { .. }) {
            self.check_pane().await;
        }
        self.look_and_deliver().await;
        self.rest_if_due().await;
    }

    /// The record may have changed. It is read now, not taken from the mail: what the mail was about
    /// may be older than what this task itself has written since.
    async fn changed(&mut self) {
        match self.shared.hub.ask(GetAgent { name: self.name.clone() }).await {
            Ok(record) => {
                let wanted = record.desired == Desired::Running;
                self.record = record;
                if wanted != self.life.wanted {
                    self.live_on(life::Event::Wanted(wanted)).await;
                }
            }
            Err(fault) if fault.code == "unknown_agent" => self.live_on(life::Event::Remove).await,
            Err(fault) => tracing::warn!(agent = %self.name, code = fault.code, "the record cannot be read"),
        }
    }

    async fn hook(&mut self, launch: &LaunchId, event: &HookEvent) {
        if self.live.as_ref().is_none_or(|live| live.launch != *launch) {
            return;
        }
        match event.name.as_str() {
            "UserPromptSubmit" => {
                self.live_on(life::Event::Turn).await;
                self.watch.turn_began();
            }
            "Stop" | "StopFailure" => {
                self.watch.turn_ended();
                self.turn_over = Some(Instant::now());
            }
            // How the interrupted turn leaves the terminal is seen there.
            TURN_ABORTED => self.turn_over = Some(Instant::now()),
            "PreToolUse" | "PostToolUse" | "PostToolUseFailure" => self.watch.hub_guessed(),
            "SessionStart" => {
                // A session that begins has another transcript.
                self.changed().await;
                let source = event.source.as_deref().unwrap_or_default();
                self.context_event(context::Event::Session(source)).await;
            }
            "SessionEnd" => {
                let asked = event.reason.as_deref() == Some(EXIT_TYPED);
                if let Some(live) = &mut self.live {
                    live.exit_asked = asked;
                }
                self.check_pane().await;
            }
            _ => {}
        }
        self.look_and_deliver().await;
        if matches!(event.name.as_str(), "UserPromptSubmit" | "Stop" | "StopFailure" | "SessionStart") {
            self.deliver(route::Event::Wake).await;
        }
        if matches!(event.name.as_str(), "Stop" | "StopFailure") {
            self.bind_turns(false).await;
        }
    }

    async fn command(&mut self, command: Command) {
        tracing::info!(agent = %self.name, command = command_name(&command), "asked");
        match command {
            Command::Start(reply) => {
                self.asleep = false;
                self.launch_error = None;
                self.waiters.push(Waiter::Record(reply));
                self.live_on(life::Event::Start).await;
            }
            Command::Restart(reply) => {
                self.asleep = false;
                self.launch_error = None;
                self.waiters.push(Waiter::Record(reply));
                self.live_on(life::Event::Restart).await;
            }
            Command::Stop(reply) => {
                self.asleep = true;
                self.launch_error = None;
                self.waiters.push(Waiter::Record(reply));
                // Only a person's stop closes what the agent has asked (seed 001, "Ask lifecycle").
                let (name, desired) = (self.name.clone(), Desired::Stopped);
                self.shared.hub.tell("a person's stop", SetDesired { name, desired, by_person: true }).await;
                self.live_on(life::Event::Stop).await;
            }
            Command::Delete(reply) => {
                self.waiters.push(Waiter::Gone(reply));
                self.live_on(life::Event::Remove).await;
            }
            Command::Interrupt(reply) => {
                let result = self.interrupt().await;
                drop(reply.send(result));
            }
            Command::Context(change, key, reply) => self.change_context(change, &key, reply).await,
            Command::Logs(lines, reply) => {
                let result = self.logs(lines).await;
                drop(reply.send(result));
            }
            Command::Attach(reply) => {
                let argv = self.shared.tmux.attach_argv(self.name.as_str());
                let result = self.running().map(|_| AttachCommand { argv });
                drop(reply.send(result));
            }
        }
        self.look_and_deliver().await;
    }

    /// The launch in its pane, or the refusal of what needs one.
    pub(super) fn running(&self) -> Result<&Live, Fault> {
        self.live.as_ref().ok_or_else(|| {
            let name = &self.name;
            Fault::new(
                "agent_not_running",
                format!("{name} is not running: start it with `leo agent start {name}`"),
            )
        })
    }

    async fn logs(&self, lines: u32) -> Result<LogText, Fault> {
        let live = self.running()?;
        let lines = lines.clamp(1, MAX_LOG_LINES);
        let history = self.shared.tmux.history(&live.pane, lines).await;
        let text = history.map_err(|e| Fault::unavailable(e.to_string()))?;
        let clean = crate::tmux::clean_words(&text);
        // A pane ends in the blank lines below its program.
        let all: Vec<&str> = clean.trim_end().lines().map(str::trim_end).collect();
        let from = all.len().saturating_sub(usize::try_from(lines).unwrap_or(usize::MAX));
        let mut text = all.get(from..).unwrap_or_default().join("\n");
        while text.len() > MAX_LOG_BYTES {
            text = text.split_once('\n').map_or(String::new(), |(_, rest)| rest.to_owned());
        }
        Ok(LogText { text })
    }

    /// Answers those who waited, once nothing is in between any more.
    pub(super) async fn answer_waiters(&mut self, gone: Option<Result<Done, Fault>>) {
        let between = matches!(
            self.life.phase,
            life::Phase::Stopping { .. } | life::Phase::Launching { .. } | life::Phase::Looking
        );
        if self.waiters.is_empty() || (between && gone.is_none()) {
            return;
        }
        let record = match (&gone, &self.launch_error) {
            (Some(_), _) => Err(Fault::new("unknown_agent", format!("{} was removed", self.name))),
            (None, Some(why)) => Err(Fault::new("agent_failed_to_start", why.clone())),
            (None, None) => self.shared.hub.ask(GetAgent { name: self.name.clone() }).await,
        };
        for waiter in std::mem::take(&mut self.waiters) {
            match waiter {
                Waiter::Record(reply) => drop(reply.send(record.clone())),
                Waiter::Gone(reply) => match &gone {
                    Some(result) => drop(reply.send(result.clone())),
                    None => self.waiters.push(Waiter::Gone(reply)),
                },
            }
        }
    }

    async fn gone(&mut self) {
        self.answer_waiters(Some(Ok(Done {}))).await;
    }
}

fn command_name(command: &Command) -> &'static str {
    match command {
        Command::Start(_) => "start",
        Command::Stop(_) => "stop",
        Command::Restart(_) => "restart",
        Command::Interrupt(_) => "interrupt",
        Command::Context(change, ..) => change.verb(),
        Command::Delete(_) => "delete",
        Command::Logs(..) => "logs",
        Command::Attach(_) => "attach",
    }
}
