//! Clearing and compacting an agent's context for a person: asked of the mod where it is connected, else
//! typed into the terminal. That it was done is seen at the session that begins, never taken from our own
//! doing. Nothing is handed over meanwhile. Nothing of it is kept: should this process end, whoever asked
//! asks again, which the mod knows by its key and a terminal does not; the thread shows each change.

use super::{
    command::Reply,
    task::{Agent, Live},
};
use crate::{
    bridge::{Ack, AckOutcome, Command, Op},
    delivery::route::State,
    harness::{Composer, Harness, Status},
    tmux::{Key, TmuxError, for_paste},
};
use leo_ipc::{CallKey, Done, Fault};
use std::time::{Duration, Instant};

/// While a change is made, the session is looked at this often.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// A session that stays idle for so long has not taken the change. Measured: a new session shows within
/// 0.2 s, and a compaction makes it busy at once.
const IDLE_WITHOUT: Duration = Duration::from_secs(3);

/// A compaction that is refused is refused soon (measured: 0.1 s, and up to 2 s in a session that has just
/// begun). One that lasts longer is under way; it may take as long as a turn, so nobody is made to wait
/// for its end.
const COMPACTION_REFUSED_WITHIN: Duration = Duration::from_secs(3);

/// Clearing takes no time. Where it does, a turn came first, and it is done behind that.
const CLEARED_WITHIN: Duration = Duration::from_secs(10);

/// A session that is idle right after a turn is believed to be after this time (`watch::is_settling`), and
/// the mod of one that has just begun is there.
const FREE_WITHIN: Duration = Duration::from_secs(3);

/// No change takes longer.
const MOST: Duration = Duration::from_secs(30 * 60);

/// Text shows in a composer within this time.
const SHOWS_WITHIN: Duration = Duration::from_secs(2);

/// What a person wants of the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A new session.
    Clear,
    /// A summary in its place, which keeps what is named here.
    Compact(Option<String>),
}

impl Change {
    /// Its name.
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Change::Clear => "clear",
            Change::Compact(_) => "compact",
        }
    }

    fn done(&self) -> &'static str {
        match self {
            Change::Clear => "cleared",
            Change::Compact(_) => "compacted",
        }
    }

    fn op(&self) -> Op {
        match self {
            Change::Clear => Op::Clear,
            Change::Compact(instructions) => Op::Compact { instructions: instructions.clone() },
        }
    }
}

/// What is seen of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// A session began, for this reason.
    Session(&'a str),
    /// The mod has made it, now or when it was asked before.
    Made,
    /// The harness refused, in its words.
    Refused(&'a str),
    /// A look at the session.
    Seen { idle: bool },
    /// The process ended.
    Ended,
}

/// What that means.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Wait,
    UnderWay,
    Done,
    Failed(String),
}

/// How far a change is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Progress {
    since: Instant,
    idle_since: Option<Instant>,
    made: bool,
}

impl Progress {
    fn new(now: Instant) -> Progress {
        Progress { since: now, idle_since: None, made: false }
    }
}

impl Progress {
    fn step(&mut self, change: &Change, event: Event<'_>, now: Instant) -> Verdict {
        let asked_ago = now.saturating_duration_since(self.since);
        match event {
            // The harness names the reason as its own command.
            Event::Session(source) if source == change.verb() => Verdict::Done,
            Event::Session(_) => Verdict::Wait,
            // The session that it began is told of as well, unless another process was.
            Event::Made => {
                self.made = true;
                Verdict::Wait
            }
            Event::Refused(why) => Verdict::Failed(why.trim_end_matches('.').to_owned()),
            Event::Ended => Verdict::Failed("the agent's process ended".to_owned()),
            Event::Seen { idle: true } => {
                let since = *self.idle_since.get_or_insert(now);
                if now.saturating_duration_since(since) < IDLE_WITHOUT {
                    return Verdict::Wait;
                }
                if self.made {
                    return Verdict::Done;
                }
                Verdict::Failed("it went on without; its terminal may say why".to_owned())
            }
            Event::Seen { idle: false } => {
                self.idle_since = None;
                let soon = match change {
                    Change::Clear => CLEARED_WITHIN,
                    Change::Compact(_) => COMPACTION_REFUSED_WITHIN,
                };
                match asked_ago {
                    ago if ago >= MOST => Verdict::Failed("it shows no end of it".to_owned()),
                    ago if ago >= soon => Verdict::UnderWay,
                    _ => Verdict::Wait,
                }
            }
        }
    }
}

/// A change that is being made, or about to be.
#[derive(Debug)]
pub(super) struct Asked {
    change: Change,
    id: String,
    way: Way,
    progress: Progress,
    reply: Option<Reply<Done>>,
}

/// How a change is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Not yet: the last turn may not be over, the mod not be there.
    Waits,
    /// By the mod.
    Mod,
    /// Typed.
    Terminal,
}

impl Agent {
    /// Begins a change of the context, if the agent has nothing else to do.
    pub(super) async fn change_context(&mut self, change: Change, key: &CallKey, reply: Reply<Done>) {
        let id = format!("{}:{}", change.verb(), key.as_str());
        if let Some(asked) = self.asked.as_mut().filter(|asked| asked.id == id) {
            // Whoever asked first has left.
            asked.reply = Some(reply);
            return;
        }
        if let Err(fault) = self.can_change(&change) {
            return drop(reply.send(Err(fault)));
        }
        let progress = Progress::new(Instant::now());
        self.asked = Some(Asked { change, id, way: Way::Waits, progress, reply: Some(reply) });
        self.look_at_context().await;
    }

    fn can_change(&self, change: &Change) -> Result<(), Fault> {
        let live = self.running()?;
        let harness =
            self.harness().ok_or_else(|| Fault::unavailable("this build cannot run the agent's harness"))?;
        if command_of(harness, change).is_none() {
            let text = format!("{} has no context that could be {}", self.title(), change.done());
            return Err(Fault::new("unsupported", text));
        }
        let taken = self.asked.is_some();
        if taken || !(self.has_nothing_to_do(harness, live) || self.turn_is_just_over()) {
            return Err(self.is_busy());
        }
        Ok(())
    }

    fn has_nothing_to_do(&self, harness: &dyn Harness, live: &Live) -> bool {
        let quiet = self.route == State::Quiet && self.steering == State::Quiet;
        quiet && harness.session(&live.place).status == Status::Idle
    }

    fn is_busy(&self) -> Fault {
        let text = format!("{} has something to do: wait until it is idle, or interrupt it", self.name);
        Fault::new("agent_busy", text)
    }

    /// Makes the change once the last turn is over for certain.
    async fn begin_change(&mut self, way: Way) -> Result<(), Fault> {
        let (Some(asked), Some(live), Some(harness)) = (&self.asked, &self.live, self.harness()) else {
            return Ok(());
        };
        let now = Instant::now();
        let free = self.has_nothing_to_do(harness, live);
        let waited = now.saturating_duration_since(asked.progress.since);
        if way != Way::Terminal && waited < FREE_WITHIN && self.awaits_mod(harness, live) {
            return Ok(());
        }
        if !free || self.watch.is_settling(now) {
            return if waited < FREE_WITHIN && (free || self.turn_is_just_over()) {
                Ok(())
            } else {
                Err(self.is_busy())
            };
        }
        let command = Command { id: asked.id.clone(), op: asked.change.op() };
        let taken = if way != Way::Terminal && self.shared.links.give(&live.launch, command) {
            Way::Mod
        } else if self.terminal_rests(live).await {
            let rest = match &asked.change {
                Change::Compact(instructions) => instructions.as_deref(),
                Change::Clear => None,
            };
            let Some(word) = command_of(harness, &asked.change) else { return Ok(()) };
            self.type_change(live, word, rest).await.map_err(|e| Fault::unavailable(e.to_string()))?;
            Way::Terminal
        } else {
            let text = format!(
                "something is written or open in the terminal of {0}: look at it with `leo agent attach {0}`",
                self.name
            );
            return Err(Fault::new("agent_busy", text));
        };
        if let Some(asked) = &mut self.asked {
            asked.way = taken;
            asked.progress = Progress::new(now);
        }
        Ok(())
    }

    /// Types the command. What the summary is to keep is pasted behind it: a long paste is shown as a
    /// placeholder, in which the command itself would not be found.
    async fn type_change(
        &self,
        live: &Live,
        word: &'static str,
        rest: Option<&str>,
    ) -> Result<(), TmuxError> {
        let tmux = &self.shared.tmux;
        let Some(rest) = rest else { return tmux.type_command(&live.pane, word).await };
        tmux.type_word(&live.pane, word).await?;
        tmux.paste(&live.pane, &for_paste(rest)).await?;
        let until = Instant::now() + SHOWS_WITHIN;
        while Instant::now() < until {
            let capture = tmux.capture(&live.pane).await?;
            let composer = self.harness().map(|harness| harness.screen(&capture).composer);
            let shown = match composer {
                Some(Composer::Text(text)) => {
                    text.trim().strip_prefix(word).is_some_and(|rest| !rest.is_empty())
                }
                _ => false,
            };
            if shown {
                return tmux.press(&live.pane, Key::Enter).await;
            }
            tokio::time::sleep(LOOK).await;
        }
        tmux.press(&live.pane, Key::ClearLine).await?;
        Err(TmuxError::Failed {
            command: "paste-buffer".to_owned(),
            stderr: "the text did not show in the composer".to_owned(),
        })
    }

    /// The mod says what became of a command; true when it was a change of the context.
    pub(super) async fn context_acked(&mut self, ack: &Ack) -> bool {
        if self.asked.as_ref().is_none_or(|asked| asked.id != ack.id) {
            return false;
        }
        let why = ack.why.as_deref();
        match ack.outcome {
            AckOutcome::Started => {
                self.context_event(Event::Made).await;
                return true;
            }
            // What the session shows decides.
            AckOutcome::Unsure => return true,
            AckOutcome::Refused => {}
        }
        // After an Esc Claude runs nothing for a mod until a person has typed (measured).
        if self.asked.as_ref().is_some_and(|asked| asked.way == Way::Mod && asked.change == Change::Clear) {
            tracing::info!(agent = %self.name, why, "the mod may not; typing it");
            self.begin_or_refuse(Way::Terminal).await;
        } else {
            self.context_event(Event::Refused(why.unwrap_or("it gave no reason"))).await;
        }
        true
    }

    async fn begin_or_refuse(&mut self, way: Way) {
        if let Err(fault) = self.begin_change(way).await
            && let Some(reply) = self.forget_change().and_then(|asked| asked.reply)
        {
            // A send error means that the caller has left.
            drop(reply.send(Err(fault)));
        }
    }

    /// Looks at the session while a change is made.
    pub(super) async fn look_at_context(&mut self) {
        match &self.asked {
            None => return,
            Some(Asked { way: Way::Waits, .. }) => return self.begin_or_refuse(Way::Mod).await,
            Some(_) => {}
        }
        let session = self.live.as_ref().and_then(|live| Some(self.harness()?.session(&live.place)));
        if let Some(session) = session {
            self.context_event(Event::Seen { idle: session.status == Status::Idle }).await;
        }
    }

    /// Takes in what is seen of a change.
    pub(super) async fn context_event(&mut self, event: Event<'_>) {
        let Some(asked) = &mut self.asked else { return };
        let verdict = asked.progress.step(&asked.change, event, Instant::now());
        // A send error means that the caller has left.
        match verdict {
            Verdict::Wait => {}
            Verdict::UnderWay => {
                if let Some(reply) = asked.reply.take() {
                    drop(reply.send(Ok(Done {})));
                }
            }
            Verdict::Done => {
                tracing::info!(agent = %self.name, change = asked.change.verb(), "the context was changed");
                if let Some(reply) = asked.reply.take() {
                    drop(reply.send(Ok(Done {})));
                }
                self.forget_change();
            }
            Verdict::Failed(why) => {
                let (id, done) = (asked.id.clone(), asked.change.done());
                tracing::info!(agent = %self.name, change = asked.change.verb(), why, "the context was not changed");
                let reply = asked.reply.take();
                self.forget_change();
                let text = format!("The context of {} was not {done}: {why}.", self.name);
                match reply {
                    Some(reply) => drop(reply.send(Err(Fault::new("agent_refused", text)))),
                    // Whoever asked was told that it is under way.
                    None => self.note(format!("context:{id}"), text).await,
                }
            }
        }
    }

    fn forget_change(&mut self) -> Option<Asked> {
        let asked = self.asked.take()?;
        if let Some(live) = &self.live {
            self.shared.links.done(&live.launch, &asked.id);
        }
        Some(asked)
    }
}

fn command_of(harness: &dyn Harness, change: &Change) -> Option<&'static str> {
    let commands = harness.context_commands();
    match change {
        Change::Clear => commands.clear,
        Change::Compact(_) => commands.compact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_judged_by_what_the_session_shows() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let seen = |idle| Event::Seen { idle };
        let (clear, compact) = (Change::Clear, Change::Compact(None));
        let failed = |why: &str| Verdict::Failed(why.to_owned());
        let silent = failed("it went on without; its terminal may say why");
        let cases = [
            (&clear, vec![(seen(true), 0), (Event::Session("clear"), 200)], Verdict::Done),
            (&clear, vec![(Event::Session("compact"), 200)], Verdict::Wait),
            (&clear, vec![(seen(true), 0), (seen(true), 2_999)], Verdict::Wait),
            (&clear, vec![(seen(true), 0), (seen(true), 3_000)], silent.clone()),
            (&clear, vec![(seen(false), 9_999)], Verdict::Wait),
            (&clear, vec![(seen(false), 10_000)], Verdict::UnderWay),
            (&compact, vec![(seen(true), 0), (seen(false), 2_999)], Verdict::Wait),
            (&compact, vec![(seen(false), 2_999), (seen(false), 3_000)], Verdict::UnderWay),
            (&compact, vec![(seen(true), 0), (seen(false), 2_000), (seen(true), 4_000)], Verdict::Wait),
            (&compact, vec![(seen(false), 2_000), (seen(true), 4_000), (seen(true), 7_000)], silent),
            (&compact, vec![(seen(false), 2_000), (Event::Session("compact"), 90_000)], Verdict::Done),
            (&compact, vec![(seen(false), 30 * 60_000)], failed("it shows no end of it")),
            (&compact, vec![(Event::Refused("Not enough."), 100)], failed("Not enough")),
            (&clear, vec![(Event::Made, 0), (seen(true), 0), (seen(true), 2_999)], Verdict::Wait),
            (&clear, vec![(Event::Made, 0), (seen(true), 0), (seen(true), 3_000)], Verdict::Done),
            (&compact, vec![(Event::Ended, 100)], failed("the agent's process ended")),
        ];
        for (change, events, verdict) in cases {
            let mut progress = Progress::new(start);
            let last =
                events.iter().map(|(event, ms)| progress.step(change, *event, at(*ms))).last().unwrap();
            assert_eq!(last, verdict, "{change:?} {events:?}");
        }
    }
}
