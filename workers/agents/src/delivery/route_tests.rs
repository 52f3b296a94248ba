use super::*;
use leo_ipc::MessageId;
use proptest::prelude::*;

fn message(attempt: u32) -> Delivery {
    Delivery {
        agent: "a".parse().unwrap(),
        message_id: MessageId::from("m1"),
        attempt,
        prompt: "[Leo Chat] hi".to_owned(),
        launch: None,
        handed_ms_ago: None,
        handed_prompt: None,
        route: None,
    }
}

fn pending(attempt: u32) -> Event {
    Event::Next { pending: Some(message(attempt)), in_doubt: None }
}

fn doubt(ago_ms: i64) -> Event {
    Event::Next { pending: None, in_doubt: Some(Delivery { handed_ms_ago: Some(ago_ms), ..message(1) }) }
}

fn view(gate: Gate, holding: Holding) -> Event {
    let idle = !matches!(gate, Gate::Turn | Gate::Dialog(_) | Gate::Starting);
    Event::Seen(View {
        live: true,
        idle,
        launch: Some("l1".into()),
        linked: false,
        route: Choice::Use(Route::Paste),
        gate,
        holding,
    })
}

fn open() -> Event {
    view(Gate::Open, Holding::Nothing)
}

fn ours() -> Event {
    view(Gate::Draft, Holding::Ours)
}

fn dialog(holding: Holding) -> Event {
    view(Gate::Dialog("d".to_owned()), holding)
}

fn gone() -> Event {
    Event::Seen(View {
        live: false,
        idle: false,
        launch: None,
        linked: false,
        route: Choice::Wait,
        gate: Gate::Starting,
        holding: Holding::Unseen,
    })
}

fn begun() -> Event {
    Event::Begun(message(1))
}

const BUSY: fn() -> Event = || view(Gate::Turn, Holding::Nothing);

/// Plays (milliseconds since the last, event) pairs; returns the end and the last actions.
fn play(events: &[(u64, Event)]) -> (State, Vec<Action>) {
    let (mut state, mut actions, mut now) = (State::Quiet, Vec::new(), Instant::now());
    for (ms, event) in events {
        now += Duration::from_millis(*ms);
        (state, actions) = step(state, event.clone(), now);
    }
    (state, actions)
}

fn until_pasted() -> Vec<(u64, Event)> {
    vec![(0, pending(1)), (0, open()), (0, begun()), (0, open()), (0, Event::Pasted)]
}

fn until_entered() -> Vec<(u64, Event)> {
    [until_pasted(), vec![(200, ours()), (0, Event::EnterPressed)]].concat()
}

fn after(mut events: Vec<(u64, Event)>, more: &[(u64, Event)]) -> (State, Vec<Action>) {
    events.extend_from_slice(more);
    play(&events)
}

fn reported(actions: &[Action]) -> Option<&Outcome> {
    actions.iter().find_map(|a| match a {
        Action::Report(_, outcome) => Some(outcome),
        _ => None,
    })
}

#[test]
fn the_happy_path() {
    for (upto, action) in
        [(2, Action::Begin(message(1), Route::Paste)), (3, Action::Look), (4, Action::Paste)]
    {
        assert_eq!(play(&until_pasted()[..upto]).1, [action]);
    }
    let (_, early) = after(until_pasted(), &[(100, ours())]);
    assert_eq!(early, [], "not before the pause");
    let (_, actions) = after(until_pasted(), &[(150, ours())]);
    assert_eq!(actions, [Action::Enter]);
    // The hook reached the hub: nothing is in doubt any more.
    let done = Event::Next { pending: None, in_doubt: None };
    let (state, actions) = after(until_entered(), &[(100, done)]);
    assert_eq!((state, actions), (State::Quiet, vec![Action::Waiting(None)]));
}

#[test]
fn a_closed_gate_holds_and_says_why() {
    for (gate, reason) in [
        (Gate::Starting, WaitingFor::Start),
        (Gate::Turn, WaitingFor::Turn),
        (Gate::Dialog(String::new()), WaitingFor::Dialog),
        (Gate::Draft, WaitingFor::Draft),
        (Gate::Person(String::new()), WaitingFor::Person),
    ] {
        let (state, actions) = play(&[(0, pending(1)), (0, view(gate, Holding::Other))]);
        assert_eq!(actions, [Action::Waiting(Some(reason))]);
        assert_eq!(state, State::Held(message(1)));
    }
    let (_, actions) = play(&[(0, pending(1)), (0, gone())]);
    assert_eq!(actions, [Action::Waiting(Some(WaitingFor::Start)), Action::WakeAgent]);
}

#[test]
fn what_changed_before_the_paste_costs_an_attempt_and_nothing_else() {
    for changed in [dialog(Holding::Unseen), view(Gate::Draft, Holding::Other), BUSY(), gone()] {
        let (state, actions) = after(until_pasted()[..3].to_vec(), &[(0, changed)]);
        assert_eq!(reported(&actions), Some(&Outcome::NotApplied {}));
        assert_eq!(state, State::Quiet);
    }
    let last =
        [(0, pending(MAX_ATTEMPTS)), (0, open()), (0, Event::Begun(message(MAX_ATTEMPTS))), (0, BUSY())];
    assert!(matches!(
        reported(&play(&last).1),
        Some(Outcome::Failed { reason: FailedReason::Transport, .. })
    ));
}

#[test]
fn enter_is_never_pressed_in_a_dialog() {
    let (_, actions) =
        after(until_pasted(), &[(200, dialog(Holding::Unseen)), (5_000, dialog(Holding::Unseen))]);
    assert_eq!(actions, [Action::Waiting(Some(WaitingFor::Dialog))]);
    // It closed again: our text is still there.
    let (_, actions) = after(until_pasted(), &[(200, dialog(Holding::Unseen)), (60_000, ours())]);
    assert_eq!(actions, [Action::Enter]);
    let (_, actions) =
        after(until_pasted(), &[(700_000, dialog(Holding::Unseen)), (0, Event::Searched(None))]);
    assert!(matches!(reported(&actions), Some(Outcome::Unproven { .. })));
}

/// A paste that Escape had wiped out of the composer was once given up as unproven.
#[test]
fn a_paste_that_vanished_before_enter_is_made_again() {
    let (_, early) = after(until_pasted(), &[(200, open()), (9_000, open())]);
    assert_eq!(early, []);
    let (state, actions) = after(until_pasted(), &[(10_000, open()), (0, Event::Searched(None))]);
    assert_eq!((state, reported(&actions)), (State::Quiet, Some(&Outcome::NotApplied {})));
    let sent = Event::Searched(Some(Found::Absorbed));
    let (_, actions) = after(until_pasted(), &[(10_000, open()), (0, sent)]);
    assert_eq!(reported(&actions), Some(&Outcome::Delivered { prompt_id: None }), "a person sent it");
    let changed = view(Gate::Draft, Holding::Other);
    let (_, actions) = after(until_pasted(), &[(10_000, changed), (0, Event::Searched(None))]);
    assert!(matches!(reported(&actions), Some(Outcome::Unproven { .. })));
}

#[test]
fn a_second_enter_only_while_our_text_is_there() {
    let (_, actions) = after(until_entered(), &[(1_400, ours())]);
    assert_eq!(actions, []);
    let (_, actions) = after(until_entered(), &[(1_500, ours())]);
    assert_eq!(actions, [Action::Enter]);
    for other in [open(), BUSY(), dialog(Holding::Ours), view(Gate::Draft, Holding::Mixed)] {
        assert!(!after(until_entered(), &[(1_500, other)]).1.contains(&Action::Enter));
    }
}

#[test]
fn what_is_not_taken_after_three_enters_is_taken_out_and_was_not_applied() {
    let mut events = until_entered();
    for _ in 0..2 {
        events.extend([(1_500, ours()), (0, Event::EnterPressed)]);
    }
    let (_, actions) = after(events.clone(), &[(1_500, ours())]);
    assert_eq!(actions, [Action::Clear]);
    events.push((1_500, ours()));
    let (_, actions) = after(events.clone(), &[(50, ours())]);
    assert_eq!(actions, [Action::Clear], "one press a line");
    let (_, actions) = after(events.clone(), &[(50, open()), (0, Event::Searched(None))]);
    assert_eq!(reported(&actions), Some(&Outcome::NotApplied {}));
    // The transcript has the last word.
    let found = Event::Searched(Some(Found::Turn { prompt_id: Some("p".to_owned()) }));
    let (_, actions) = after(events.clone(), &[(50, open()), (0, found)]);
    assert_eq!(reported(&actions), Some(&Outcome::Delivered { prompt_id: Some("p".to_owned()) }));
    let (_, actions) = after(events, &[(50, view(Gate::Draft, Holding::Other)), (0, Event::Searched(None))]);
    assert!(matches!(reported(&actions), Some(Outcome::Unproven { .. })));
}

#[test]
fn silence_after_enter_is_unproven() {
    for seen in [open(), BUSY(), dialog(Holding::Unseen)] {
        let (state, actions) = after(until_entered(), &[(9_900, seen.clone())]);
        assert!(!matches!(state, State::Deciding(..)), "{actions:?}");
        let (state, actions) = after(until_entered(), &[(10_000, seen.clone())]);
        assert_eq!(actions, [Action::Search]);
        let (_, actions) = step(state, Event::Searched(None), Instant::now());
        assert!(matches!(reported(&actions), Some(Outcome::Unproven { .. })));
    }
}

#[test]
fn death_before_enter_is_not_applied_and_after_it_unproven() {
    assert_eq!(reported(&after(until_pasted(), &[(50, gone())]).1), Some(&Outcome::NotApplied {}));
    let (_, actions) = after(until_entered(), &[(50, gone()), (0, Event::Searched(None))]);
    assert!(matches!(reported(&actions), Some(Outcome::Unproven { .. })));
}

#[test]
fn an_earlier_workers_hand_over_is_settled_first() {
    let (_, actions) = play(&[(0, doubt(100))]);
    assert_eq!(actions, [Action::Search, Action::Look]);
    let found = Event::Searched(Some(Found::Turn { prompt_id: None }));
    assert!(matches!(reported(&play(&[(0, doubt(100)), (0, found)]).1), Some(Outcome::Delivered { .. })));
    // Our text lies in an idle composer: it is taken out, not sent.
    let (_, actions) = play(&[(0, doubt(100)), (0, Event::Searched(None)), (1_500, ours())]);
    assert_eq!(actions, [Action::Clear]);
    let (_, actions) = play(&[(0, doubt(100)), (1_500, ours()), (50, open()), (0, Event::Searched(None))]);
    assert_eq!(reported(&actions), Some(&Outcome::NotApplied {}));
    // Nothing to see: time decides.
    let (state, _) = play(&[(0, doubt(100)), (9_000, open())]);
    assert!(matches!(state, State::Entered(_)));
    let (_, actions) = play(&[(0, doubt(9_000)), (1_500, open()), (0, Event::Searched(None))]);
    assert!(matches!(reported(&actions), Some(Outcome::Unproven { .. })));
    let (_, actions) = play(&[(0, doubt(100)), (0, gone()), (0, Event::Searched(None))]);
    assert!(matches!(reported(&actions), Some(Outcome::Unproven { .. })));
}

#[test]
fn a_refused_hand_over_is_asked_for_again_after_a_pause() {
    let refused = vec![(0, pending(1)), (0, open()), (0, Event::BeginRefused)];
    assert_eq!(after(refused.clone(), &[(100, open())]).1, []);
    assert_eq!(after(refused, &[(500, open())]).1, [Action::Ask]);
}

#[test]
fn giving_up_fails_what_waits() {
    let (state, actions) = play(&[(0, pending(1)), (0, Event::FailPending("gone".to_owned()))]);
    assert!(matches!(
        reported(&actions),
        Some(Outcome::Failed { reason: FailedReason::AgentUnreachable, .. })
    ));
    assert_eq!(state, State::Quiet);
    assert_eq!(
        after(until_entered(), &[(0, Event::FailPending(String::new()))]).1,
        [],
        "not what is under way"
    );
}

/// A harness and a hub, reduced to what the route can see and do.
#[derive(Debug, Default)]
struct World {
    composer: String,
    draft: bool,
    busy: bool,
    dialog: bool,
    dead: bool,
    recorded: bool,
    outcome: Option<Outcome>,
    submitted: u32,
    handovers: u32,
}

impl World {
    fn see(&self) -> Event {
        let holding = match (self.composer.as_str(), self.draft) {
            _ if self.dialog || self.dead => Holding::Unseen,
            ("", false) => Holding::Nothing,
            ("", true) => Holding::Other,
            (_, false) => Holding::Ours,
            (_, true) => Holding::Mixed,
        };
        let gate = match holding {
            _ if self.dialog => Gate::Dialog(String::new()),
            _ if self.busy => Gate::Turn,
            Holding::Nothing => Gate::Open,
            Holding::Unseen => Gate::Starting,
            _ => Gate::Draft,
        };
        Event::Seen(View {
            live: !self.dead,
            idle: !self.dead && !self.dialog && !self.busy,
            launch: Some("l1".into()),
            linked: false,
            route: Choice::Use(Route::Paste),
            gate,
            holding,
        })
    }

    fn next(&self) -> Event {
        let under_way = self.recorded && self.outcome.is_none();
        let pending = (!self.recorded && self.outcome.is_none()).then(|| message(1));
        let in_doubt = under_way.then(|| Delivery { handed_ms_ago: Some(0), ..message(1) });
        Event::Next { pending, in_doubt }
    }

    /// Carries out an action; what it answers with.
    fn act(&mut self, action: Action, hook: bool) -> Result<Vec<Event>, TestCaseError> {
        Ok(match action {
            Action::Ask => vec![self.next()],
            Action::Begin(delivery, _) => {
                prop_assert!(!self.recorded, "one hand-over at a time");
                self.recorded = true;
                self.handovers += 1;
                vec![Event::Begun(delivery)]
            }
            Action::Paste => {
                prop_assert!(
                    self.recorded && !self.dialog && !self.busy && !self.draft && self.composer.is_empty()
                );
                self.composer = "ours".to_owned();
                vec![Event::Pasted]
            }
            Action::Enter => {
                prop_assert!(!self.dialog, "Enter would answer the dialog");
                prop_assert!(!self.draft, "a person's draft would be sent");
                if !self.composer.is_empty() && !self.dead {
                    self.composer.clear();
                    self.submitted += 1;
                    self.busy = true;
                    if hook {
                        self.outcome = Some(Outcome::Delivered { prompt_id: None });
                    }
                }
                vec![Event::EnterPressed]
            }
            Action::Clear => {
                prop_assert!(!self.draft, "a person's draft would be cleared");
                self.composer.clear();
                vec![]
            }
            Action::Search => {
                let found = (self.submitted > 0).then_some(Found::Turn { prompt_id: None });
                vec![Event::Searched(found)]
            }
            Action::Report(_, outcome) => {
                if self.outcome.is_none() {
                    match outcome {
                        Outcome::NotApplied {} => {
                            prop_assert_eq!(self.submitted, 0, "said not applied, but it was");
                            prop_assert!(self.composer.is_empty() || self.dead, "our text would stay behind");
                            self.recorded = false;
                        }
                        Outcome::Delivered { .. } => {
                            prop_assert!(self.submitted > 0);
                            self.outcome = Some(outcome);
                        }
                        outcome => self.outcome = Some(outcome),
                    }
                }
                vec![]
            }
            Action::Look | Action::Waiting(_) | Action::WakeAgent | Action::Send(_) => vec![],
        })
    }
}

proptest! {
    /// The world changes between any two looks, but a look is followed by what it allows at once, as
    /// the task does it. `restart` is this worker's death and the next one's start.
    #[test]
    fn at_most_once_and_no_key_in_a_dialog(
        changes in prop::collection::vec((0u8..10, 0u64..6_000, any::<bool>()), 1..120)
    ) {
        let mut world = World::default();
        let (mut state, mut now) = (State::Quiet, Instant::now());
        for (change, ms, hook) in changes {
            now += Duration::from_millis(ms);
            let mut queue = std::collections::VecDeque::new();
            match change {
                0 => world.dialog = !world.dialog,
                1 => world.busy = !world.busy,
                2 => world.draft = !world.draft,
                3 => { world.dead = true; world.composer.clear(); world.dialog = false; world.busy = false; world.draft = false; }
                4 => world.dead = false,
                5 => state = State::Quiet, // restart
                6 => queue.push_back(Event::Wake),
                _ => {}
            }
            if state == State::Quiet { queue.push_back(Event::Wake); }
            queue.push_back(world.see());
            while let Some(event) = queue.pop_front() {
                // A stale look is never acted on: the task looks again before each step.
                let event = if matches!(event, Event::Seen(_)) { world.see() } else { event };
                let (next, actions) = step(state, event, now);
                state = next;
                for action in actions {
                    queue.extend(world.act(action, hook)?);
                }
            }
            prop_assert!(world.submitted <= 1, "submitted {} times", world.submitted);
        }
    }
}
