//! Looking at a running agent: its session file, its pane where that is needed, its transcript.

use super::{
    life, steer,
    task::{Agent, Live, UnderWay},
    watch::{Findings, Look, Watch},
};
use crate::{
    delivery::{order::Choice, route},
    harness::{
        Composer, Gate, Harness, Holding, Screen, Session, Status, observe,
        transcript::{Found, Search},
    },
    tmux::{Key, for_paste},
};
use leo_ipc::{
    Done, Fault, LaunchId, MessageId,
    agent::{AgentPatch, ListSessions, ReportAgent, Sessions},
    chat::Route,
    delivery::{BindTurn, OpenTurns, PromptRefused, Started, TurnInterrupted, Unbound},
};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// A start-up dialog is looked for when a launch shows no session for so long.
const DIALOG_AFTER: Duration = Duration::from_secs(1);

/// Captures cost a process each; while only a dialog or obstacle is looked for, this is often enough.
const CAPTURE_EVERY: Duration = Duration::from_secs(1);

/// A dialog that is known stays until a person acts.
const KNOWN_EVERY: Duration = Duration::from_secs(3);

/// While a person is waited for, the screen tells little more than the session does.
const RECAPTURE: Duration = Duration::from_secs(10);

/// After Escape, the interrupted prompt may come back into the composer within this time.
const AFTER_ESCAPE: Duration = Duration::from_secs(2);
const ESCAPE_LOOK: Duration = Duration::from_millis(100);

/// A refused prompt is back in the composer before its refusal is in the transcript; a busy terminal may
/// show it later.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// A press that clears shows within this time.
const AFTER_CLEAR: Duration = Duration::from_millis(500);

/// A turn that began shows in the session within this time.
const TURN_SHOWS: Duration = Duration::from_secs(1);

/// Presses that clear a prompt of ours out of the composer.
const MAX_CLEARS: u32 = 40;

/// One look.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) session: Session,
    pub(super) screen: Option<Screen>,
    pub(super) gate: Gate,
    pub(super) choice: Choice,
}

impl Agent {
    /// Looks, reports what changed, and lets the delivery go on.
    pub(super) async fn look_and_deliver(&mut self) {
        let view = self.look().await;
        self.steer_on().await;
        self.look_at_context().await;
        if matches!(self.route, route::State::Quiet) {
            return;
        }
        if matches!(self.route, route::State::Held(_)) && self.is_going_to_rest() {
            self.live_on_boxed(life::Event::Message).await;
        }
        self.deliver(route::Event::Seen(view)).await;
    }

    /// Looks at the agent and reports what changed about it.
    pub(super) async fn look(&mut self) -> route::View {
        let Some(seen) = self.see().await else {
            return route::View {
                live: false,
                idle: false,
                launch: None,
                linked: false,
                route: Choice::Wait,
                gate: Gate::Starting,
                holding: Holding::Unseen,
            };
        };
        if !matches!(seen.session.status, Status::Absent | Status::Starting) {
            self.live_on_boxed(life::Event::Ready).await;
        }
        if seen.session.status == Status::Busy {
            self.live_on_boxed(life::Event::Turn).await;
        }
        let ready = matches!(self.life.phase, life::Phase::Running { .. });
        let look = Look {
            status: seen.session.status.clone(),
            ready,
            gate: seen.gate.clone(),
            session_id: seen.session.id.clone(),
            changed_at_ms: seen.session.changed_at_ms,
        };
        let now = Instant::now();
        let findings = self.watch.seen(look, now);
        let quiet = seen.session.status == Status::Idle
            && matches!(self.route, route::State::Quiet)
            && !self.watch.turn_is_open();
        self.idle.seen(quiet, now);
        self.tell(findings).await;
        let settling = seen.session.status == Status::Idle && self.watch.is_settling(now);
        if let Gate::Person(sentence) = &seen.gate {
            self.note_dialog(sentence.clone()).await;
        }
        let composer = observe::composer(&seen.session, seen.screen.as_ref());
        let text = self.under_way.as_ref().map_or("", |u| u.text.as_str());
        let holding = observe::holding(composer.as_ref(), text);
        let idle =
            seen.session.status == Status::Idle || observe::is_resting(&seen.session, seen.screen.as_ref());
        let route = if self.in_steering { Choice::Use(Route::Inbox) } else { seen.choice };
        self.show_route(seen.choice).await;
        let gate = match self.way(route) {
            Some(Route::Bridge | Route::Inbox) => observe::gate_for_data(seen.gate, &seen.session),
            _ => seen.gate,
        };
        let gate = match gate {
            _ if self.in_steering => steer::gate(&seen.session),
            // What ends takes nothing more; the next launch does.
            Gate::Open if self.is_ending() => Gate::Starting,
            // Nor what begins anew; that takes no longer than a turn.
            Gate::Open if settling || self.asked.is_some() => Gate::Turn,
            gate => gate,
        };
        let launch = self.live.as_ref().map(|live| live.launch.clone());
        let linked = launch.as_ref().is_some_and(|launch| self.shared.links.is_up(launch));
        route::View { live: true, idle, launch, linked, route, gate, holding }
    }

    /// The route of what is under way, else of what comes next.
    fn way(&self, choice: Choice) -> Option<Route> {
        let under_way = self.route.job().and_then(|job| job.delivery.route);
        match choice {
            Choice::Use(route) => under_way.or(Some(route)),
            // Only the mod is waited for.
            Choice::Wait => under_way.or(Some(Route::Bridge)),
            Choice::Nothing => under_way,
        }
    }

    /// One look without consequences; `None` when there is no process.
    async fn see(&mut self) -> Option<Seen> {
        let harness = self.harness()?;
        let mut session = harness.session(&self.live.as_ref()?.place);
        let before = observe::gate(&self.name, self.title(), &session, None);
        let choice = self.choice(&session, &before);
        let pasting = !matches!(self.way(choice), Some(Route::Bridge | Route::Inbox));
        let live = self.live.as_mut()?;
        let now = Instant::now();
        let age = live.captured.map(|at| now.saturating_duration_since(at));
        let every = if live.dialog.is_some() { KNOWN_EVERY } else { CAPTURE_EVERY };
        let fresh = age.is_some_and(|age| age < every);
        let handing = !matches!(self.route, route::State::Quiet | route::State::Refused { .. });
        // A composer matters to a paste alone.
        let composing = handing && pasting;
        let wanted = harness.needs_screen()
            && match session.status {
                // What the composer holds decides about every step of a hand-over, so it is never old.
                Status::Idle => composing || (live.dialog.is_some() && !fresh) || live.captured.is_none(),
                Status::Absent | Status::Starting => {
                    now.saturating_duration_since(live.since) > DIALOG_AFTER && !fresh
                }
                Status::Waiting(_) => live.dialog.is_none() && age.is_none_or(|age| age >= RECAPTURE),
                // Background agents keep it busy while it takes prompts.
                Status::Busy => handing,
            };
        let mut screen = None;
        if wanted {
            match self.shared.tmux.capture(&live.pane).await {
                Ok(capture) => {
                    let seen = harness.screen(&capture);
                    live.dialog = seen.dialog;
                    live.captured = Some(now);
                    screen = Some(seen);
                }
                Err(e) => tracing::debug!(agent = %self.name, error = %e, "the pane cannot be captured"),
            }
            // A dialog may have come up while the pane was read; the newer state counts.
            session = harness.session(&live.place);
        }
        let remembered = live.dialog.map(|dialog| Screen {
            composer: Composer::Absent,
            dialog: Some(dialog),
            resting: false,
        });
        let shown = screen.clone().or_else(|| remembered.filter(|_| session.status != Status::Busy));
        let mut gate = observe::gate(&self.name, self.title(), &session, shown.as_ref());
        if session.status == Status::Idle && screen.is_none() && harness.needs_screen() && shown.is_none() {
            // Nobody asked for the composer, so nothing was seen in the way.
            gate = Gate::Open;
        }
        Some(Seen { session, screen, gate, choice })
    }

    /// Says in the thread, once for each launch and dialog, what a person has to do.
    async fn note_dialog(&mut self, sentence: String) {
        let Some(live) = &mut self.live else { return };
        let Some(dialog) = live.dialog.filter(|dialog| live.noted != Some(*dialog)) else { return };
        live.noted = Some(dialog);
        let key = format!("dialog:{}:{dialog:?}", live.launch);
        self.note(key, sentence).await;
    }

    async fn tell(&mut self, findings: Findings) {
        if let (Some(patch), Some(live)) = (findings.patch, &self.live) {
            let report = ReportAgent { name: self.name.clone(), launch: live.launch.clone(), patch };
            self.shared.hub.tell("report of an agent", report).await;
        }
        if findings.check_turns {
            self.bind_turns(true).await;
        }
    }

    /// Starts to watch a launch; what is known of its pane is reported at once.
    pub(super) async fn begin_watch(&mut self, patch: AgentPatch) {
        self.watch = Watch::new();
        self.tell(Findings { patch: Some(patch), check_turns: false }).await;
    }

    /// Finds the turns of delivered messages that the hub cannot tell, and, when the session has been
    /// idle for a while, says so of a turn that the hub takes to be running.
    pub(super) async fn bind_turns(&mut self, idle: bool) {
        let Some(launch) = self.live.as_ref().map(|live| live.launch.clone()) else { return };
        let turns = match self.shared.hub.ask(OpenTurns { agent: self.name.clone() }).await {
            Ok(turns) => turns,
            Err(fault) => return tracing::warn!(agent = %self.name, code = fault.code, "no open turns"),
        };
        for Unbound { message_id, prompt } in turns.unbound {
            let Some(found) = self.search(prompt.clone(), None).await else { continue };
            let prompt_id = match found {
                Found::Turn { prompt_id } => prompt_id,
                Found::Absorbed => None,
                Found::Refused { why } => {
                    self.refused(launch.clone(), message_id, &prompt, None, why).await;
                    continue;
                }
            };
            let bind = BindTurn { agent: self.name.clone(), message_id, prompt_id };
            self.shared.hub.tell("turn of a message", bind).await;
        }
        for Started { message_id, prompt, handed_ms } in turns.doubtful {
            match self.search(prompt.clone(), Some(handed_ms)).await {
                Some(Found::Refused { why }) => {
                    self.refused(launch.clone(), message_id, &prompt, None, why).await;
                }
                Some(Found::Turn { .. } | Found::Absorbed) => self.was_a_turn(message_id).await,
                None => {}
            }
        }
        if let (true, Some(prompt_id)) = (idle, turns.running) {
            self.turn_is_over(launch, prompt_id, turns.running_message).await;
        }
    }

    /// The session has been idle for a while, and the hub takes a turn to be running: it was
    /// interrupted, or its prompt was refused.
    async fn turn_is_over(&mut self, launch: LaunchId, prompt_id: String, started: Option<Started>) {
        let mut proven = None;
        if let Some(Started { message_id, prompt, handed_ms }) = started {
            match self.search(prompt.clone(), Some(handed_ms)).await {
                Some(Found::Refused { why }) => {
                    return self.refused(launch, message_id, &prompt, Some(prompt_id), why).await;
                }
                Some(Found::Turn { .. } | Found::Absorbed) => proven = Some(message_id),
                None if self.watch.check_again() => return,
                None => {}
            }
        }
        let interrupted = TurnInterrupted { agent: self.name.clone(), launch, prompt_id };
        self.shared.hub.tell("interrupted turn", interrupted).await;
        if let Some(message_id) = proven {
            self.was_a_turn(message_id).await;
        }
    }

    /// The transcript shows the prompt of a message whose turn is over.
    async fn was_a_turn(&self, message_id: MessageId) {
        let bind = BindTurn { agent: self.name.clone(), message_id, prompt_id: None };
        self.shared.hub.tell("turn of a message", bind).await;
    }

    /// A hook of the person's own refused a prompt after ours had told of it.
    async fn refused(
        &self,
        launch: LaunchId,
        message_id: MessageId,
        prompt: &str,
        prompt_id: Option<String>,
        why: String,
    ) {
        tracing::info!(agent = %self.name, message = %message_id, why, "a hook refused it");
        let refused = PromptRefused { agent: self.name.clone(), launch, message_id, prompt_id, why };
        self.shared.hub.tell("refused prompt", refused).await;
        self.take_out(&for_paste(prompt)).await;
    }

    /// Takes a pasted prompt of ours out of the composer, into which Claude puts back what a hook refused.
    pub(super) async fn take_out(&self, text: &str) {
        let (Some(live), Some(harness)) = (&self.live, self.harness()) else { return };
        let until = Instant::now() + AFTER_REFUSAL;
        if let Err(fault) = self.clear_ours(live, harness, text, until).await {
            tracing::warn!(agent = %self.name, code = fault.code, "the composer cannot be cleared");
        }
    }

    /// Looks for a prompt in the transcript, and in those of the sessions before: a `/clear` or a fresh
    /// start may have come between the prompt and this look.
    pub(super) async fn search(&self, prompt: String, since_ms: Option<i64>) -> Option<Found> {
        let sessions = match self.shared.hub.ask(ListSessions { name: self.name.clone() }).await {
            Ok(Sessions { sessions }) => sessions,
            Err(fault) => {
                tracing::warn!(agent = %self.name, code = fault.code, "earlier sessions are not known");
                Vec::new()
            }
        };
        let mut paths: Vec<PathBuf> = self.transcript().into_iter().collect();
        for session in sessions {
            let path = PathBuf::from(session.transcript_path);
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        let searched = tokio::task::spawn_blocking(move || {
            paths.iter().find_map(|path| Search { prompt: &prompt, since_ms }.run(path))
        });
        searched.await.unwrap_or_default()
    }

    fn transcript(&self) -> Option<PathBuf> {
        let named = self.live.as_ref().and_then(|live| self.harness()?.session(&live.place).transcript);
        named.or_else(|| self.record.transcript_path.as_ref().map(PathBuf::from))
    }

    /// Interrupts the running turn as a person does. A prompt of ours that comes back into the
    /// composer is taken out again, since the next one would be appended to it; a person's is left.
    pub(super) async fn interrupt(&mut self) -> Result<Done, Fault> {
        let live = self.running()?.clone();
        let harness =
            self.harness().ok_or_else(|| Fault::unavailable("this build cannot run the agent's harness"))?;
        // A hook says that a turn begins a moment before the session shows it.
        let soon = Instant::now() + TURN_SHOWS;
        while !matches!(harness.session(&live.place).status, Status::Busy | Status::Waiting(_)) {
            if !self.watch.turn_is_open() || Instant::now() >= soon {
                return Ok(Done {});
            }
            tokio::time::sleep(ESCAPE_LOOK).await;
        }
        let failed = |e: crate::tmux::TmuxError| Fault::unavailable(e.to_string());
        self.shared.tmux.press(&live.pane, Key::Escape).await.map_err(failed)?;
        self.watch.turn_moved();
        if let Some(UnderWay { text, .. }) = &self.under_way {
            self.clear_ours(&live, harness, text, Instant::now() + AFTER_ESCAPE).await?;
        }
        Ok(Done {})
    }

    /// Clears a prompt of ours out of the composer, where it shows until then; a person's text stays.
    async fn clear_ours(
        &self,
        live: &Live,
        harness: &dyn Harness,
        text: &str,
        mut until: Instant,
    ) -> Result<(), Fault> {
        let failed = |e: crate::tmux::TmuxError| Fault::unavailable(e.to_string());
        let mut clears = 0;
        while harness.needs_screen() && Instant::now() < until && clears < MAX_CLEARS {
            tokio::time::sleep(ESCAPE_LOOK).await;
            if harness.session(&live.place).status != Status::Idle {
                continue;
            }
            let screen = harness.screen(&self.shared.tmux.capture(&live.pane).await.map_err(failed)?);
            match observe::holding(Some(&screen.composer), text) {
                Holding::Ours => {
                    clears += 1;
                    // A prompt of many lines takes a press for each.
                    until = until.max(Instant::now() + AFTER_CLEAR);
                    self.shared.tmux.press(&live.pane, Key::ClearLine).await.map_err(failed)?;
                }
                Holding::Nothing if clears > 0 => break,
                Holding::Other | Holding::Mixed => break,
                Holding::Nothing | Holding::Unseen => {}
            }
        }
        Ok(())
    }
}
