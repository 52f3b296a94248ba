//! What is shown of an agent, and when its turn is taken to be over although no hook said so. Pure.

use crate::harness::{Gate, Status};
use leo_ipc::agent::{Activity, AgentPatch, Status as Shown};
use std::time::{Duration, Instant};

/// An idle session whose turn the hub still takes to be running was interrupted. A Stop hook is slower
/// than the session file by at most a second.
const INTERRUPTED_AFTER: Duration = Duration::from_millis(1500);

/// A turn of which the transcript shows neither prompt nor refusal is looked for again this often. Claude
/// writes either within half a second; of a prompt that was taken back at once it writes none.
const MAX_RECHECKS: u8 = 2;

/// Looks while a turn runs.
const TURN_LOOK: Duration = Duration::from_millis(500);

/// Looks while a person is waited for.
const PERSON_LOOK: Duration = Duration::from_secs(1);

/// Looks while a known obstacle stands in an idle session, which only a captured pane shows.
const OBSTACLE_LOOK: Duration = Duration::from_secs(5);

/// What a look showed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Look {
    /// The session's state.
    pub(crate) status: Status,
    /// Whether the launch has become ready at some time.
    pub(crate) ready: bool,
    /// The gate.
    pub(crate) gate: Gate,
    /// The harness's session.
    pub(crate) session_id: Option<String>,
    /// When the session's state became what it is.
    pub(crate) changed_at_ms: Option<i64>,
}

/// What was told and what is being waited for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Watch {
    told: AgentPatch,
    turn_open: bool,
    /// A hook said that a turn began, and none said that it ended.
    unfinished: bool,
    idle_since: Option<Instant>,
    rechecks: u8,
    last: Option<Look>,
}

/// What is to be done about a look.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Findings {
    /// Tell the hub; absent when nothing changed.
    pub(crate) patch: Option<AgentPatch>,
    /// The session has been idle for a while after a turn: ask the hub whether it knows that.
    pub(crate) check_turns: bool,
}

impl Watch {
    /// A watch on a new or adopted launch. A turn may have been interrupted while nobody looked.
    pub(crate) fn new() -> Watch {
        Watch { turn_open: true, ..Watch::default() }
    }

    /// A hook said that a turn began.
    pub(crate) fn turn_began(&mut self) {
        self.unfinished = true;
        self.turn_moved();
    }

    /// The hub knows of a turn that runs.
    pub(crate) fn turn_runs(&mut self) {
        if !self.unfinished {
            self.turn_began();
        }
    }

    /// A hook said that a turn ended; another may follow at once.
    pub(crate) fn turn_ended(&mut self) {
        self.unfinished = false;
        self.turn_moved();
    }

    /// A turn began, ended or was interrupted: what was seen before says nothing of what runs now.
    pub(crate) fn turn_moved(&mut self) {
        self.turn_open = true;
        self.idle_since = None;
        self.rechecks = 0;
    }

    /// The transcript does not show yet what became of the turn that seems to be over. Says whether it
    /// is to be looked for again; until then the session is not believed.
    pub(crate) fn check_again(&mut self) -> bool {
        if self.rechecks == MAX_RECHECKS {
            return false;
        }
        self.rechecks += 1;
        self.turn_open = true;
        self.unfinished = true;
        self.idle_since = None;
        true
    }

    /// Whether an idle session is not to be believed yet: its turn began a moment ago, which the session
    /// shows only later, or was interrupted, after which the terminal still rearranges its composer. A
    /// paste in that moment is wiped out, or left in the composer of a running turn.
    pub(crate) fn is_settling(&self, now: Instant) -> bool {
        let quiet = self.idle_since.map(|since| now.saturating_duration_since(since));
        self.unfinished && quiet.is_none_or(|quiet| quiet < INTERRUPTED_AFTER)
    }

    /// Whether a turn may be running, as far as hooks and looks have shown.
    pub(crate) fn turn_is_open(&self) -> bool {
        self.turn_open
    }

    /// The hub took the agent to be working because of a hook. While a dialog is open that is wrong, and
    /// what was told is told again.
    pub(crate) fn hub_guessed(&mut self) {
        if self.told.activity == Some(Activity::NeedsInput) {
            self.told.activity = None;
        }
    }

    /// Takes in a look.
    pub(crate) fn seen(&mut self, look: Look, now: Instant) -> Findings {
        let mut findings = Findings::default();
        match look.status {
            Status::Idle => {
                let since = *self.idle_since.get_or_insert(now);
                if self.turn_open && now.saturating_duration_since(since) >= INTERRUPTED_AFTER {
                    self.turn_open = false;
                    self.unfinished = false;
                    findings.check_turns = true;
                }
            }
            Status::Busy | Status::Waiting(_) => {
                self.turn_open = true;
                self.idle_since = None;
            }
            Status::Absent | Status::Starting => self.idle_since = None,
        }
        let (activity, waiting_for) = activity(&look);
        let now_shown = AgentPatch {
            status: Some(if look.ready { Shown::Running } else { Shown::Starting }),
            activity: Some(activity),
            waiting_for: Some(waiting_for),
            session_id: look.session_id.clone(),
            ..AgentPatch::default()
        };
        findings.patch = changes(&self.told, &now_shown);
        // With a change of activity goes its time: a prompt that had opened before a dialog was left is
        // settled, one that opened after it is not.
        if let Some(patch) = &mut findings.patch {
            patch.status_at_ms = look.changed_at_ms.filter(|_| patch.activity.is_some());
        }
        if findings.patch.is_some() {
            let session_id = now_shown.session_id.clone().or_else(|| self.told.session_id.take());
            self.told = AgentPatch { session_id, ..now_shown };
        }
        self.last = Some(look);
        findings
    }

    /// How long until the next look, when there is something to watch.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let last = self.last.as_ref()?;
        match (&last.status, &last.gate) {
            (Status::Waiting(_), _) | (Status::Absent | Status::Starting, Gate::Person(_)) => {
                Some(PERSON_LOOK)
            }
            (Status::Busy, _) => Some(TURN_LOOK),
            (Status::Absent, _) if last.ready => Some(PERSON_LOOK),
            (Status::Absent | Status::Starting, _) => Some(Duration::from_millis(100)),
            (Status::Idle, _) if self.turn_open => Some(TURN_LOOK),
            (Status::Idle, Gate::Person(_)) => Some(OBSTACLE_LOOK),
            (Status::Idle, _) => None,
        }
    }
}

fn activity(look: &Look) -> (Activity, String) {
    match (&look.status, &look.gate) {
        (_, Gate::Person(sentence)) => (Activity::NeedsInput, sentence.clone()),
        (Status::Waiting(_), Gate::Dialog(sentence)) => (Activity::NeedsInput, sentence.clone()),
        (Status::Waiting(_), _) => (Activity::NeedsInput, String::new()),
        (Status::Busy, _) => (Activity::Working, String::new()),
        (Status::Idle, _) => (Activity::Idle, String::new()),
        (Status::Absent | Status::Starting, _) => (Activity::Unknown, String::new()),
    }
}

/// The fields that differ from what was told.
fn changes(told: &AgentPatch, shown: &AgentPatch) -> Option<AgentPatch> {
    fn differing<T: Clone + PartialEq>(told: &Option<T>, shown: &Option<T>) -> Option<T> {
        shown.clone().filter(|_| told != shown)
    }
    let patch = AgentPatch {
        status: differing(&told.status, &shown.status),
        activity: differing(&told.activity, &shown.activity),
        waiting_for: differing(&told.waiting_for, &shown.waiting_for),
        session_id: differing(&told.session_id, &shown.session_id),
        ..AgentPatch::default()
    };
    (patch != AgentPatch::default()).then_some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(status: Status, gate: Gate) -> Look {
        Look { status, ready: true, gate, session_id: None, changed_at_ms: None }
    }

    fn idle() -> Look {
        look(Status::Idle, Gate::Open)
    }

    /// A message that came right after another's delivery was once pasted into its running turn.
    #[test]
    fn an_idle_session_is_not_believed_right_after_a_turn_began() {
        let now = Instant::now();
        let at = |ms| now + Duration::from_millis(ms);
        let mut watch = Watch::new();
        watch.seen(idle(), now);
        assert!(!watch.is_settling(now));
        watch.turn_began();
        assert!(watch.is_settling(now));
        watch.seen(idle(), at(10));
        assert!(watch.is_settling(at(20)), "the session file is later than the hook");
        watch.seen(look(Status::Busy, Gate::Turn), at(50));
        watch.seen(idle(), at(5_000));
        assert!(watch.is_settling(at(5_100)), "interrupted: no hook said that it ended");
        watch.seen(idle(), at(6_600));
        assert!(!watch.is_settling(at(6_600)));
        watch.turn_began();
        watch.turn_ended();
        assert!(!watch.is_settling(at(7_000)), "a turn that ended well holds nothing up");
        watch.turn_runs();
        assert!(watch.is_settling(at(7_100)), "the hub heard of the next one first");
        watch.seen(idle(), at(7_200));
        watch.turn_runs();
        watch.seen(idle(), at(8_800));
        assert!(!watch.is_settling(at(8_800)), "that is no other turn");
    }

    #[test]
    fn only_changes_are_told() {
        let now = Instant::now();
        let mut watch = Watch::new();
        let first = watch.seen(idle(), now).patch.unwrap();
        assert_eq!((first.status, first.activity), (Some(Shown::Running), Some(Activity::Idle)));
        assert_eq!(watch.seen(idle(), now).patch, None);
        let with_session = Look { session_id: Some("s".to_owned()), ..idle() };
        let second = watch.seen(with_session, now).patch.unwrap();
        assert_eq!(second, AgentPatch { session_id: Some("s".to_owned()), ..AgentPatch::default() });
        assert_eq!(watch.seen(idle(), now).patch, None, "an unreadable file forgets no session");
        let asks = look(Status::Waiting(String::new()), Gate::Dialog("allow?".to_owned()));
        let third = watch.seen(asks, now).patch.unwrap();
        assert_eq!(
            (third.activity, third.waiting_for),
            (Some(Activity::NeedsInput), Some("allow?".to_owned()))
        );
        let fourth = watch.seen(look(Status::Busy, Gate::Turn), now).patch.unwrap();
        assert_eq!((fourth.activity, fourth.waiting_for), (Some(Activity::Working), Some(String::new())));
    }

    #[test]
    fn an_interrupt_is_noticed_once_and_only_after_a_while() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut watch = Watch::new();
        watch.seen(look(Status::Busy, Gate::Turn), start);
        assert!(!watch.seen(idle(), at(100)).check_turns);
        assert!(!watch.seen(idle(), at(1_599)).check_turns);
        assert!(watch.seen(idle(), at(1_600)).check_turns);
        assert!(!watch.seen(idle(), at(9_000)).check_turns);
        assert_eq!(watch.pause(), None, "nothing is watched while idle");
        // The next turn starts it again, and a short idle between two turns is none.
        watch.turn_moved();
        assert!(watch.pause().is_some());
        watch.seen(idle(), at(10_000));
        watch.seen(look(Status::Busy, Gate::Turn), at(11_000));
        assert!(!watch.seen(idle(), at(12_000)).check_turns);
        assert!(watch.seen(idle(), at(13_500)).check_turns);
    }

    /// The row of a refused prompt may be later than the look for it.
    #[test]
    fn a_turn_without_evidence_is_checked_again_but_not_for_ever() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut watch = Watch::new();
        watch.turn_began();
        watch.seen(idle(), start);
        for round in 1..=u64::from(MAX_RECHECKS) {
            assert!(watch.seen(idle(), at(round * 2_000)).check_turns);
            assert!(watch.check_again());
            assert!(watch.is_settling(at(round * 2_000)));
            assert!(!watch.seen(idle(), at(round * 2_000 + 100)).check_turns);
        }
        assert!(watch.seen(idle(), at(60_000)).check_turns);
        assert!(!watch.check_again());
        assert!(!watch.is_settling(at(60_000)));
        watch.turn_began();
        assert!(watch.check_again(), "the next turn is another");
    }

    #[test]
    fn a_dialog_is_told_again_after_the_hub_guessed() {
        let now = Instant::now();
        let asks = || look(Status::Waiting(String::new()), Gate::Dialog("allow?".to_owned()));
        let mut watch = Watch::new();
        watch.seen(asks(), now);
        watch.hub_guessed();
        assert_eq!(watch.seen(asks(), now).patch.unwrap().activity, Some(Activity::NeedsInput));
        watch.seen(idle(), now);
        watch.hub_guessed();
        assert_eq!(watch.seen(idle(), now).patch, None);
    }

    #[test]
    fn a_start_up_dialog_needs_a_person() {
        let mut watch = Watch::new();
        let trust = Look { ready: false, ..look(Status::Absent, Gate::Person("trust?".to_owned())) };
        let patch = watch.seen(trust, Instant::now()).patch.unwrap();
        assert_eq!((patch.status, patch.activity), (Some(Shown::Starting), Some(Activity::NeedsInput)));
        assert_eq!(patch.waiting_for.as_deref(), Some("trust?"));
    }
}
