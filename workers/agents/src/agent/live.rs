//! Carrying out what an agent's life decides: launching, adopting, stopping, and saying so.

use super::{
    bridge::{Line, Tools},
    context,
    idle::Idle,
    life::{self, Action, Death, Event, Phase, Seen, Stage},
    shared::{Told, is_alive},
    task::{Agent, Live},
    words::{death_note, last_words},
};
use crate::{
    harness::{
        Composer, Dialog, LaunchContext, Place, PlanError, Resume, Status, launch_dir, observe, write_plan,
    },
    tmux::{NewSession, PaneInfo, TmuxError},
};
use leo_ipc::{
    CallKey, LaunchId,
    agent::{
        Activity, AgentPatch, BeginLaunch, Desired, EndLaunch, RemoveAgent, ReportAgent, SetDesired,
        Status as Shown,
    },
    chat::PostNote,
    chat::Route,
    id::{fresh_token, token_hash},
};
use leo_launch::{Ties, for_agent};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    collections::VecDeque,
    future::Future,
    path::Path,
    pin::Pin,
    time::{Duration, Instant},
};

/// tmux learns the exit status a little after it sees the pane's end.
const STATUS_SOON: Duration = Duration::from_millis(300);
const STATUS_LOOK: Duration = Duration::from_millis(50);

/// Lines of history that last words are taken from.
const WORDS_FROM: u32 = 200;

/// Pause before asking tmux again about what must be known.
const TMUX_AGAIN: Duration = Duration::from_secs(1);

impl Agent {
    /// Looks for the recorded launch and takes it over. Nothing else happens before.
    pub(super) async fn adopt(&mut self) {
        let seen = loop {
            match self.find_recorded().await {
                Ok(seen) => break seen,
                // Without tmux nothing runs in it.
                Err(TmuxError::NotInstalled) => {
                    break self.record.launch.as_ref().map_or(Seen::Nothing, |l| Seen::Absent(l.id.clone()));
                }
                Err(e) => {
                    tracing::warn!(agent = %self.name, error = %e, "tmux cannot be asked; trying again")
                }
            }
            tokio::time::sleep(TMUX_AGAIN).await;
        };
        tracing::info!(agent = %self.name, found = seen_name(&seen), "looked for the recorded launch");
        self.live_on(Event::Looked(seen)).await;
        if matches!(self.life.phase, Phase::Stopped | Phase::GaveUp | Phase::Gone) {
            self.need_mcp(false).await;
        }
    }

    async fn find_recorded(&mut self) -> Result<Seen, TmuxError> {
        let Some(launch) = self.record.launch.clone() else { return Ok(Seen::Nothing) };
        let Some(pane) = self.find_pane(&launch.id, launch.pane.as_deref()).await? else {
            return Ok(Seen::Absent(launch.id));
        };
        if pane.dead {
            let death = self.death_of(pane).await;
            return Ok(Seen::Dead(launch.id, death));
        }
        // Whether that launch brought the mod is not known; one that did greets within a second.
        let line = if self.brings_mod() { Line::adopted(Instant::now()) } else { Line::default() };
        self.set_live(launch.id.clone(), pane.id, pane.pid, line);
        Ok(Seen::Alive(launch.id))
    }

    /// The pane of a launch: the recorded one, or the first of its session.
    async fn find_pane(
        &self,
        launch: &LaunchId,
        recorded: Option<&str>,
    ) -> Result<Option<PaneInfo>, TmuxError> {
        let panes = self.shared.tmux.panes().await?;
        let mut ours =
            panes.into_iter().filter(|p| p.launch == launch.as_str() && p.session == self.name.as_str());
        match recorded {
            Some(id) => Ok(ours.find(|p| p.id == id)),
            None => Ok(ours.next()),
        }
    }

    fn set_live(&mut self, launch: LaunchId, pane: String, pid: u32, line: Line) {
        let env = for_agent(&self.shared.base, &self.record.config.env);
        let harness_dir = self.harness().map(|h| h.harness_dir(&env)).unwrap_or_default();
        let place = Place { pid, agent_dir: self.shared.home.agent_dir(&self.name), harness_dir };
        self.shared.pids.watch(&self.name, pid, &pane);
        self.idle = Idle::default();
        self.live = Some(Live {
            launch,
            pane,
            place,
            since: Instant::now(),
            dialog: None,
            noted: None,
            captured: None,
            exit_asked: false,
            line,
            tools: Tools::Listed,
            shown: Some(Route::Paste),
            in_inbox: None,
            inbox_again: None,
        });
    }

    /// [`Agent::live_on`] for callers that it calls itself.
    pub(super) fn live_on_boxed(&mut self, event: Event) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.live_on(event))
    }

    /// Feeds the agent's life and carries out its actions.
    pub(super) async fn live_on(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let state = std::mem::replace(&mut self.life, life::State::new());
            let (state, actions) = life::step(state, event, Instant::now());
            self.life = state;
            for action in actions {
                if let Some(event) = self.perform(action).await {
                    events.push_back(event);
                }
            }
        }
    }

    async fn perform(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Launch { crash, wake, resume } => Some(self.launch(crash, wake, resume).await),
            Action::Adopt(launch) => {
                tracing::info!(agent = %self.name, %launch, "adopted");
                self.need_mcp(true).await;
                let live = self.live.as_ref()?;
                let patch = pane_patch(&live.pane, live.place.pid);
                self.begin_watch(patch).await;
                None
            }
            Action::End { launch, resumable, needs_person } => {
                self.shared.pids.forget(&self.name);
                self.shared.links.forget(&launch);
                self.context_event(context::Event::Ended).await;
                self.live = None;
                // Between a crash and the next start its MCP worker stays, and with it what waits there.
                self.need_mcp(!matches!(self.life.phase, Phase::Stopped | Phase::GaveUp | Phase::Gone)).await;
                let end = EndLaunch { name: self.name.clone(), launch, resumable, needs_person };
                match self.shared.hub.ask(end).await {
                    Ok(record) => self.record = record,
                    Err(fault) => {
                        tracing::warn!(agent = %self.name, code = fault.code, "the end of a launch was refused")
                    }
                }
                self.settle = true;
                None
            }
            Action::Clear(launch) | Action::EndSession(launch) => {
                if let Err(e) = self.shared.tmux.kill_session(self.name.as_str(), launch.as_str()).await {
                    tracing::warn!(agent = %self.name, error = %e, "the session cannot be ended");
                }
                None
            }
            Action::AskToExit(launch) => {
                self.ask_to_exit(&launch).await;
                None
            }
            Action::AskToRest(launch) => self.ask_to_rest(&launch).await,
            Action::Kill(_) => {
                if let Some(pid) = self.live.as_ref().and_then(|live| i32::try_from(live.place.pid).ok()) {
                    tracing::warn!(agent = %self.name, pid, "it does not end; killing it");
                    // It may have ended this instant, which is all that was wanted.
                    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                }
                None
            }
            Action::NoteDeath { launch, death, next } => {
                tracing::warn!(agent = %self.name, %launch, status = death.status, signal = death.signal, next = ?next, "the process ended");
                self.note(format!("end:{launch}"), death_note(&death, next)).await;
                None
            }
            Action::NoteFailure { launch, why } => {
                self.note(format!("failed:{launch}"), why).await;
                None
            }
            Action::ShowSlow(launch) => {
                let sentence =
                    format!("It has been starting for a minute. {}", observe::attach_hint(&self.name));
                let patch = AgentPatch {
                    activity: Some(Activity::NeedsInput),
                    waiting_for: Some(sentence),
                    ..AgentPatch::default()
                };
                let report = ReportAgent { name: self.name.clone(), launch, patch };
                self.shared.hub.tell("report of an agent", report).await;
                None
            }
            Action::FailPending(note) => {
                self.fail_pending = Some(note.clone());
                self.launch_error.get_or_insert(note);
                self.settle = true;
                None
            }
            Action::SetDesired(running) => {
                let desired = if running { Desired::Running } else { Desired::Stopped };
                match self
                    .shared
                    .hub
                    .ask(SetDesired { name: self.name.clone(), desired, by_person: false })
                    .await
                {
                    Ok(record) => self.record = record,
                    Err(fault) => {
                        tracing::warn!(agent = %self.name, code = fault.code, "the wish was refused")
                    }
                }
                None
            }
            Action::Forget => {
                self.forget().await;
                None
            }
        }
    }

    /// Makes a launch: recorded in the hub, then written to files, then started in tmux.
    async fn launch(&mut self, crash: bool, wake: bool, resume: bool) -> Event {
        self.launch_error = None;
        let launch = LaunchId::fresh();
        let token = fresh_token();
        let begin = BeginLaunch {
            name: self.name.clone(),
            launch: launch.clone(),
            token_hash: token_hash(&token),
            tmux_session: self.name.to_string(),
            crash_restart: crash,
        };
        match self.shared.hub.ask(begin).await {
            Ok(record) => self.record = record,
            Err(fault) => return Event::LaunchFailed { launch: None, why: fault.message },
        }
        if wake {
            self.note(format!("start:{launch}"), "Starting…".to_owned()).await;
        }
        self.need_mcp(true).await;
        match self.start(&launch, token, resume).await {
            Ok((pane, pid)) => {
                tracing::info!(agent = %self.name, %launch, pane, pid, "launched");
                let line = if self.brings_mod() { Line::launched() } else { Line::default() };
                self.set_live(launch.clone(), pane.clone(), pid, line);
                let awaits = self.harness().is_some_and(|harness| harness.lists_tools_late());
                if let Some(live) = self.live.as_mut().filter(|_| awaits) {
                    live.tools = Tools::Awaited { until: None };
                }
                let patch = AgentPatch {
                    status: Some(Shown::Starting),
                    activity: Some(Activity::Unknown),
                    waiting_for: Some(String::new()),
                    ..pane_patch(&pane, pid)
                };
                self.begin_watch(patch).await;
                Event::Launched(launch)
            }
            Err(why) => {
                tracing::error!(agent = %self.name, %launch, why, "not launched");
                self.launch_error = Some(why.clone());
                Event::LaunchFailed { launch: Some(launch), why }
            }
        }
    }

    async fn start(&self, launch: &LaunchId, token: String, resume: bool) -> Result<(String, u32), String> {
        let harness = self.harness().ok_or_else(|| sentence(PlanError::UnknownHarness))?;
        let ties = Ties {
            agent: self.name.clone(),
            launch: launch.clone(),
            token,
            program: self.shared.program.clone(),
            home: self.shared.home.clone(),
            run: None,
        };
        let resume = self.record.resume_session.clone().filter(|_| resume).map(|session| Resume {
            session,
            transcript: self.record.transcript_path.as_ref().map(Into::into),
        });
        let context = LaunchContext {
            ties: &ties,
            config: &self.record.config,
            base: &self.shared.base,
            routes: &self.routes(),
            resume: resume.as_ref(),
        };
        let plan = harness.plan(&context).map_err(sentence)?;
        let argv = write_plan(&self.shared.home.agent_dir(&self.name), &plan).map_err(sentence)?;
        let new = NewSession {
            name: self.name.as_str(),
            launch: launch.as_str(),
            folder: &plan.folder,
            argv: &argv,
        };
        match self.shared.tmux.new_session(new).await {
            Ok(made) => Ok(made),
            Err(e) if e.is_duplicate() => Err(format!(
                "A tmux session named {0} that this launch did not make is in the way. End it with `tmux -L {1} kill-session -t ={0}` or rename it, then start the agent again.",
                self.name,
                self.shared.tmux.server()
            )),
            Err(e) if e.may_have_applied() => match self.find_pane(launch, None).await {
                Ok(Some(pane)) => Ok((pane.id, pane.pid)),
                _ => Err(format!("The agent could not be started: {e}.")),
            },
            Err(e) => Err(format!("The agent could not be started: {e}.")),
        }
    }

    async fn need_mcp(&self, needed: bool) {
        // A send error means that the fleet is gone, and this process with it.
        let _ = self.shared.fleet.send(Told::Mcp { name: self.name.clone(), needed }).await;
    }

    pub(super) async fn note(&self, key: String, text: String) {
        let note = PostNote { agent: self.name.clone(), key: CallKey(key), text };
        self.shared.hub.tell("note", note).await;
    }

    /// Types the harness's exit command where that cannot hurt, else ends the session.
    async fn ask_to_exit(&mut self, launch: &LaunchId) {
        let Some(live) = self.live.clone() else { return };
        if let Some(harness) = self.harness()
            && let Some(exit) = harness.exit_command()
            && harness.session(&live.place).status == Status::Idle
            && let Ok(capture) = self.shared.tmux.capture(&live.pane).await
            && harness.screen(&capture).composer == Composer::Empty
            && harness.session(&live.place).status == Status::Idle
            && self.shared.tmux.type_command(&live.pane, exit).await.is_ok()
        {
            return;
        }
        if let Err(e) = self.shared.tmux.kill_session(self.name.as_str(), launch.as_str()).await {
            tracing::warn!(agent = %self.name, error = %e, "the session cannot be ended");
        }
    }

    /// Finds out whether the process in the pane has ended.
    pub(super) async fn check_pane(&mut self) {
        let Some(live) = self.live.clone() else { return };
        if matches!(
            self.life.phase,
            Phase::Stopping { stage: Stage::Polite | Stage::Hangup | Stage::Killed, .. }
        ) {
            // Its session may be gone while it still saves what it has; a pane that is dead is over.
            let pane = self.find_pane(&live.launch, Some(&live.pane)).await.ok().flatten();
            if pane.is_none() && is_alive(live.place.pid) {
                self.shared.tmux.collect().await;
            }
            if !is_alive(live.place.pid) || pane.is_some_and(|pane| pane.dead) {
                self.live_on(Event::Died(Death::default())).await;
            }
            return;
        }
        let mut death = match self.find_pane(&live.launch, Some(&live.pane)).await {
            Ok(Some(pane)) if !pane.dead => return,
            Ok(Some(pane)) => self.death_of(pane).await,
            Ok(None) => Death::default(),
            Err(e) => return tracing::warn!(agent = %self.name, error = %e, "tmux cannot be asked"),
        };
        death.at_dialog = live.dialog.is_some_and(Dialog::is_question);
        if live.exit_asked && death.signal.is_none() {
            // It said itself that it was asked to exit; tmux may not know its status yet.
            death.status = death.status.or(Some(0));
        }
        self.live_on(Event::Died(death)).await;
    }

    async fn death_of(&self, mut pane: PaneInfo) -> Death {
        let until = Instant::now() + STATUS_SOON;
        while pane.exit_status.is_none() && pane.signal.is_none() && Instant::now() < until {
            tokio::time::sleep(STATUS_LOOK).await;
            self.shared.tmux.collect().await;
            match self.shared.tmux.panes().await {
                Ok(panes) => match panes.into_iter().find(|p| p.id == pane.id) {
                    Some(newer) => pane = newer,
                    None => break,
                },
                Err(_) => break,
            }
        }
        let words =
            self.shared.tmux.history(&pane.id, WORDS_FROM).await.map(|h| last_words(&h)).unwrap_or_default();
        Death { status: pane.exit_status, signal: pane.signal, words, at_dialog: false }
    }

    async fn forget(&mut self) {
        self.shared.pids.forget(&self.name);
        self.live = None;
        self.need_mcp(false).await;
        remove_launch_files(&self.shared.home.agent_dir(&self.name));
        match self.shared.hub.ask(RemoveAgent { name: self.name.clone() }).await {
            Ok(_) => {}
            Err(fault) if fault.code == "unknown_agent" => {}
            Err(fault) => tracing::warn!(agent = %self.name, code = fault.code, "it cannot be removed"),
        }
    }
}

/// The launch files hold the environment; a forgotten agent leaves none behind.
fn remove_launch_files(agent_dir: &Path) {
    match std::fs::remove_dir_all(launch_dir(agent_dir)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(error = %e, "launch files stay behind")
        }
        _ => {}
    }
}

fn pane_patch(pane: &str, pid: u32) -> AgentPatch {
    AgentPatch {
        pane: Some(pane.to_owned()),
        pid: Some(pid),
        route: Some(Route::Paste),
        ..AgentPatch::default()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "used as map_err(sentence)")]
fn sentence(error: PlanError) -> String {
    format!("The agent cannot be started: {error}.")
}

fn seen_name(seen: &Seen) -> &'static str {
    match seen {
        Seen::Nothing => "nothing recorded",
        Seen::Alive(_) => "alive",
        Seen::Dead(..) => "dead",
        Seen::Absent(_) => "absent",
    }
}
