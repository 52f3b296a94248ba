use super::*;
use proptest::prelude::*;

fn id(n: u32) -> LaunchId {
    LaunchId(format!("l{n}"))
}

fn dead(status: i32) -> Death {
    Death { status: Some(status), ..Death::default() }
}

/// Plays events one second apart and returns the end and the actions of the last.
fn play(events: &[Event]) -> (State, Vec<Action>) {
    let start = Instant::now();
    let mut state = State::new();
    let mut actions = Vec::new();
    for (n, event) in (0..).zip(events) {
        (state, actions) = step(state, event.clone(), start + Duration::from_secs(n));
    }
    (state, actions)
}

fn running(n: u32) -> Vec<Event> {
    vec![Event::Looked(Seen::Nothing), Event::Wanted(true), Event::Launched(id(n)), Event::Ready]
}

#[test]
fn a_wanted_agent_is_launched_once() {
    let (state, actions) = play(&[Event::Wanted(true), Event::Looked(Seen::Nothing)]);
    assert_eq!(actions, [Action::Launch { crash: false, wake: false, resume: true }]);
    let (_, actions) = step(state, Event::Start, Instant::now());
    assert_eq!(actions, [], "one launch at a time");
}

#[test]
fn adoption_never_restarts() {
    let (state, actions) = play(&[Event::Wanted(true), Event::Looked(Seen::Alive(id(1)))]);
    assert_eq!(actions, [Action::Adopt(id(1))]);
    assert_eq!(state.launch(), Some(&id(1)));
    // Not even when it is not wanted any more: somebody may be working in it.
    let (_, actions) = play(&[Event::Wanted(false), Event::Looked(Seen::Alive(id(1)))]);
    assert_eq!(actions, [Action::Adopt(id(1))]);
}

#[test]
fn an_idle_agent_rests_and_a_message_wakes_it() {
    let base = [running(1), vec![Event::Rest]].concat();
    let (state, actions) = play(&base);
    assert_eq!(actions, [Action::AskToRest(id(1))]);
    assert!(!state.wanted, "a crash on the way is no reason to start it");
    let (asleep, actions) = step(state, Event::Died(dead(0)), Instant::now());
    assert_eq!(
        actions,
        [Action::Clear(id(1)), Action::End { launch: id(1), resumable: true, needs_person: None }]
    );
    assert_eq!(asleep.phase, Phase::Stopped);
    let wake = [Action::SetDesired(true), Action::Launch { crash: false, wake: true, resume: true }];
    assert_eq!(step(asleep, Event::Message, Instant::now()).1, wake);
    // A message that comes while it is ending starts it as soon as it has ended.
    let (state, actions) = play(&[base.clone(), vec![Event::Message]].concat());
    assert_eq!(actions, [Action::SetDesired(true)]);
    assert_eq!(step(state, Event::Died(dead(0)), Instant::now()).1.last(), Some(&wake[1]));
    // A person's stop in between counts, and so does a person who came to its terminal.
    let (state, _) = play(&[base.clone(), vec![Event::Stop]].concat());
    assert!(matches!(state.phase, Phase::Stopping { then: Then::Stay, .. }));
    let (state, actions) = play(&[base, vec![Event::StayAwake]].concat());
    assert_eq!(actions, [Action::SetDesired(true)]);
    assert!(matches!(state.phase, Phase::Running { .. }) && state.wanted);
}

#[test]
fn an_agent_that_was_about_to_rest_is_adopted_awake() {
    let state = State { resting: true, ..State::new() };
    let (state, actions) = step(state, Event::Looked(Seen::Alive(id(1))), Instant::now());
    assert_eq!(actions, [Action::Adopt(id(1)), Action::SetDesired(true)]);
    assert!(state.wanted);
}

#[test]
fn a_launch_that_vanished_is_ended_and_made_again() {
    let (_, actions) = play(&[Event::Wanted(true), Event::Looked(Seen::Absent(id(1)))]);
    assert_eq!(
        actions,
        [
            Action::Clear(id(1)),
            Action::End { launch: id(1), resumable: true, needs_person: None },
            Action::Launch { crash: false, wake: false, resume: true },
        ]
    );
    let (state, actions) = play(&[Event::Wanted(false), Event::Looked(Seen::Absent(id(1)))]);
    assert_eq!(actions.len(), 2);
    assert_eq!(state.phase, Phase::Stopped);
}

#[test]
fn a_crash_is_told_and_repaired() {
    let mut events = running(1);
    events.extend([Event::Turn, Event::Died(dead(1))]);
    let (state, actions) = play(&events);
    assert_eq!(
        actions,
        [
            Action::NoteDeath { launch: id(1), death: dead(1), next: Next::Restart(MIN_BACKOFF) },
            Action::Clear(id(1)),
            Action::End { launch: id(1), resumable: true, needs_person: None },
        ]
    );
    let Phase::Backoff { until } = state.phase else { panic!("{state:?}") };
    let (_, actions) = step(state, Event::Tick, until);
    assert_eq!(actions, [Action::Launch { crash: true, wake: false, resume: true }]);
}

#[test]
fn an_early_end_with_status_0_is_a_failure_and_does_not_resume_again() {
    let mut events = running(1);
    events.push(Event::Died(dead(0)));
    let (state, actions) = play(&events);
    assert!(matches!(&actions[0], Action::NoteDeath { next: Next::Restart(_), .. }));
    assert!(actions.contains(&Action::End { launch: id(1), resumable: false, needs_person: None }));
    let (_, actions) = step(state, Event::Tick, Instant::now() + Duration::from_secs(3600));
    assert_eq!(actions, [Action::Launch { crash: true, wake: false, resume: false }]);
}

#[test]
fn a_person_who_exits_in_the_terminal_means_it() {
    let mut events = running(1);
    events.extend([Event::Turn, Event::Died(dead(0))]);
    let (state, actions) = play(&events);
    assert!(matches!(&actions[0], Action::NoteDeath { next: Next::Ended, .. }));
    assert_eq!(actions.last(), Some(&Action::SetDesired(false)));
    assert_eq!(state.phase, Phase::Stopped);
}

#[test]
fn a_no_at_the_start_is_taken_for_an_answer() {
    let mut events = running(1)[..3].to_vec();
    events.push(Event::Died(Death { at_dialog: true, ..dead(1) }));
    let (state, actions) = play(&events);
    assert_eq!(state.phase, Phase::GaveUp);
    assert!(state.crashes.is_empty());
    let order: Vec<_> =
        actions.iter().filter(|a| matches!(a, Action::FailPending(_) | Action::End { .. })).collect();
    assert!(matches!(order[..], [Action::FailPending(_), Action::End { needs_person: Some(_), .. }]));
}

#[test]
fn five_crashes_are_enough_until_somebody_asks() {
    let now = Instant::now();
    let mut state = play(&running(1)).0;
    let mut launches = 0;
    let mut actions;
    for _ in 0..20 {
        (state, actions) = step(state, Event::Died(dead(1)), now);
        let Phase::Backoff { until } = state.phase else {
            assert!(actions.iter().any(|a| matches!(a, Action::FailPending(_))));
            assert!(actions.iter().any(|a| matches!(a, Action::End { needs_person: Some(_), .. })));
            break;
        };
        (state, _) = step(state, Event::Tick, until);
        (state, _) = step(state, Event::Launched(id(launches)), until);
        launches += 1;
    }
    assert_eq!(launches as usize, MAX_CRASHES - 1);
    assert_eq!(state.phase, Phase::GaveUp);
    let (_, nothing) = step(state.clone(), Event::Tick, now + Duration::from_secs(1000));
    assert_eq!(nothing, []);
    let (state, actions) = step(state, Event::Message, now);
    assert!(actions.contains(&Action::Launch { crash: false, wake: true, resume: false }));
    assert_eq!(state.crashes.len(), 0);
}

#[test]
fn what_cannot_be_launched_is_told_and_not_tried_again() {
    let why = "no claude".to_owned();
    for launch in [None, Some(id(1))] {
        let failed = Event::LaunchFailed { launch: launch.clone(), why: why.clone() };
        let (state, actions) = play(&[Event::Looked(Seen::Nothing), Event::Start, failed]);
        assert_eq!(state.phase, Phase::GaveUp);
        assert!(matches!(actions[0], Action::FailPending(_)));
        assert_eq!(actions.iter().any(|a| matches!(a, Action::End { .. })), launch.is_some());
    }
}

#[test]
fn stopping_gets_firmer_and_ends() {
    let (mut state, actions) = play(&[running(1), vec![Event::Stop]].concat());
    assert_eq!(actions, [Action::SetDesired(false), Action::AskToExit(id(1))]);
    for expected in [Action::EndSession(id(1)), Action::Kill(id(1))] {
        let due = state.due().unwrap();
        let early = step(state.clone(), Event::Tick, due - Duration::from_millis(1));
        assert_eq!(early, (state.clone(), vec![]));
        let actions;
        (state, actions) = step(state, Event::Tick, due);
        assert_eq!(actions, [expected]);
    }
    let due = state.due().unwrap();
    let (state, actions) = step(state, Event::Tick, due);
    assert_eq!(
        actions,
        [Action::Clear(id(1)), Action::End { launch: id(1), resumable: true, needs_person: None }]
    );
    assert_eq!(state.phase, Phase::Stopped);
}

#[test]
fn the_last_wish_counts_while_stopping() {
    let base = [running(1), vec![Event::Stop]].concat();
    for (wishes, then) in [
        (vec![Event::Start], Then::Start),
        (vec![Event::Restart, Event::Stop], Then::Stay),
        (vec![Event::Remove, Event::Start], Then::Remove),
    ] {
        let (state, _) = play(&[base.clone(), wishes].concat());
        assert!(matches!(state.phase, Phase::Stopping { then: t, .. } if t == then));
        let (state, actions) = step(state, Event::Died(Death::default()), Instant::now());
        match then {
            Then::Start => assert!(matches!(state.phase, Phase::Launching { .. })),
            Then::Stay => assert_eq!(state.phase, Phase::Stopped),
            Then::Remove => assert_eq!(actions.last(), Some(&Action::Forget)),
            Then::Rest | Then::Wake => unreachable!("nobody let it rest"),
        }
    }
}

#[test]
fn a_slow_start_is_told_once() {
    let (state, _) = play(&running(1)[..3]);
    let due = state.due().unwrap();
    let (state, actions) = step(state, Event::Tick, due);
    assert_eq!(actions, [Action::ShowSlow(id(1))]);
    assert_eq!(state.due(), None);
}

fn event() -> impl Strategy<Value = Event> {
    let death = prop_oneof![Just(dead(0)), Just(dead(1)), Just(Death::default())];
    prop_oneof![
        Just(Event::Wanted(true)),
        Just(Event::Wanted(false)),
        Just(Event::Message),
        Just(Event::Start),
        Just(Event::Stop),
        Just(Event::Restart),
        Just(Event::Rest),
        Just(Event::StayAwake),
        Just(Event::Ready),
        Just(Event::Turn),
        death.prop_map(Event::Died),
        Just(Event::Tick),
        Just(Event::Tick),
        Just(Event::Looked(Seen::Nothing)),
        Just(Event::Looked(Seen::Alive(id(0)))),
        Just(Event::Looked(Seen::Absent(id(0)))),
        Just(Event::LaunchFailed { launch: None, why: String::new() }),
    ]
}

proptest! {
    /// Whatever happens in whatever order: at most one launch lives, and every one is ended.
    #[test]
    fn at_most_one_launch(events in prop::collection::vec((event(), 0u64..120), 0..80)) {
        let mut now = Instant::now();
        let mut state = State::new();
        let mut launches = 0;
        let mut open: Option<LaunchId> = None;
        for (event, seconds) in events {
            now += Duration::from_secs(seconds);
            let mut queue = std::collections::VecDeque::from([event]);
            while let Some(event) = queue.pop_front() {
                let (next, actions) = step(state, event, now);
                state = next;
                for action in actions {
                    match action {
                        Action::Adopt(launch) => {
                            prop_assert_eq!(&open, &None);
                            open = Some(launch);
                        }
                        Action::Launch { .. } => {
                            prop_assert_eq!(&open, &None, "a launch while one is open");
                            launches += 1;
                            open = Some(id(launches));
                            queue.push_back(Event::Launched(id(launches)));
                        }
                        Action::End { launch, .. } => {
                            if open.is_some() {
                                prop_assert_eq!(open.as_ref(), Some(&launch));
                            }
                            open = None;
                        }
                        Action::AskToExit(l) | Action::AskToRest(l) | Action::EndSession(l) | Action::Kill(l) => {
                            prop_assert_eq!(Some(&l), open.as_ref(), "only our own launch is touched");
                        }
                        _ => {}
                    }
                }
            }
            prop_assert_eq!(state.launch(), open.as_ref());
            prop_assert!(state.crashes.len() <= MAX_CRASHES);
        }
    }
}
