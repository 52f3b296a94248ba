//! Putting an agent that has nothing to do to rest: what its terminal shows, and who looks at it.
//!
//! Three must agree, in this order: the terminal (idle, an empty composer, nobody attached), the hub
//! (no turn, no message, no waiting call) and, right before the exit command is typed, the terminal
//! again. A message that comes in between wakes the agent as soon as it has ended.

use super::{
    life::{Event, Phase, Then},
    task::{Agent, Live},
};
use crate::harness::{Composer, Status};
use leo_ipc::{LaunchId, agent::SuspendAgent};
use std::time::{Duration, Instant};

impl Agent {
    /// After what time without work the agent may rest.
    pub(super) fn rest_after(&self) -> Option<Duration> {
        let running = matches!(self.life.phase, Phase::Running { .. });
        self.record.config.idle_suspend_after_s.filter(|_| running).map(Duration::from_secs)
    }

    /// Puts the agent to rest if its time has come and nothing is in the way.
    pub(super) async fn rest_if_due(&mut self) {
        let now = Instant::now();
        let Some(after) = self.rest_after() else { return };
        if self.idle.due(Some(after)).is_none_or(|due| due > now) {
            return;
        }
        let Some(live) = self.live.clone() else { return };
        if self.is_attached(&live).await {
            return self.idle.in_use(now);
        }
        if !self.terminal_rests(&live).await {
            return self.idle.kept_awake(after, now);
        }
        let suspend = SuspendAgent { name: self.name.clone(), launch: live.launch.clone() };
        match self.shared.hub.ask(suspend).await {
            Ok(record) => {
                tracing::info!(agent = %self.name, idle_s = after.as_secs(), "nothing to do; it may rest");
                self.record = record;
                self.live_on_boxed(Event::Rest).await;
            }
            Err(fault) => {
                tracing::debug!(agent = %self.name, code = fault.code, "it is kept awake");
                self.idle.kept_awake(after, now);
            }
        }
    }

    /// Types the exit command, unless somebody has begun to use the terminal.
    pub(super) async fn ask_to_rest(&mut self, launch: &LaunchId) -> Option<Event> {
        let live = self.live.clone().filter(|live| live.launch == *launch)?;
        let harness = self.harness()?;
        if self.is_attached(&live).await || !self.terminal_rests(&live).await {
            self.idle.in_use(Instant::now());
            return Some(Event::StayAwake);
        }
        match harness.exit_command() {
            Some(exit) => {
                if let Err(e) = self.shared.tmux.type_command(&live.pane, exit).await {
                    tracing::warn!(agent = %self.name, error = %e, "the exit command cannot be typed");
                }
            }
            // It has nothing to lose; its end is a hang-up.
            None => {
                let ended = self.shared.tmux.kill_session(self.name.as_str(), launch.as_str()).await;
                if let Err(e) = ended {
                    tracing::warn!(agent = %self.name, error = %e, "the session cannot be ended");
                }
            }
        }
        None
    }

    /// Whether the agent's process is about to end, so that nothing is handed to it. A message that
    /// waits then wakes one that was only put to rest.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.life.phase, Phase::Stopping { .. })
    }

    /// Whether it is being put to rest.
    pub(super) fn is_going_to_rest(&self) -> bool {
        matches!(self.life.phase, Phase::Stopping { then: Then::Rest, .. })
    }

    // What cannot be asked is taken for a reason to let it run.
    async fn is_attached(&self, live: &Live) -> bool {
        match self.shared.tmux.is_attached(&live.pane).await {
            Ok(attached) => attached,
            Err(e) => {
                tracing::debug!(agent = %self.name, error = %e, "who is attached is not known");
                true
            }
        }
    }

    /// Whether the terminal waits for a prompt and holds none.
    pub(super) async fn terminal_rests(&self, live: &Live) -> bool {
        let Some(harness) = self.harness() else { return false };
        if harness.session(&live.place).status != Status::Idle {
            return false;
        }
        let composer = if harness.needs_screen() {
            let Ok(capture) = self.shared.tmux.capture(&live.pane).await else { return false };
            let screen = harness.screen(&capture);
            if screen.dialog.is_some() {
                return false;
            }
            Some(screen.composer)
        } else {
            harness.session(&live.place).composer
        };
        // A dialog may have come up, or a turn begun, while the pane was read.
        composer == Some(Composer::Empty) && harness.session(&live.place).status == Status::Idle
    }
}
