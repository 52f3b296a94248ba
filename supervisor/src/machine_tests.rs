use super::*;
use proptest::prelude::*;

/// The number of SIGKILL, the same everywhere.
const SIGKILL: i32 = 9;

const LIMITS: Limits = Limits { start: Duration::from_secs(10), drain: Duration::from_secs(5) };

fn secs(s: u64) -> Moment {
    Duration::from_secs(s)
}

/// Plays events at their seconds and returns the machine with all its actions.
fn play(events: &[(u64, Event)]) -> (Machine, Vec<Action>) {
    let mut machine = Machine::new(LIMITS);
    let mut all = Vec::new();
    for (at, event) in events {
        let (next, actions) = machine.step(event.clone(), secs(*at), 0.5);
        machine = next;
        all.extend(actions);
    }
    (machine, all)
}

fn spawn(generation: u64) -> Action {
    Action::Spawn(Generation(generation))
}

/// What happens, with seconds, the actions that follow, and the state at the end.
type Case = (&'static str, Vec<(u64, Event)>, Vec<Action>, WorkerState);

#[test]
fn table() {
    use Action::{Abort, Drain, Kill, SayLate, StandIn, Terminate};
    use Event::{Exited, Heartbeat, Ready, Restart, Tick, Unwant, Want};
    let drain = || Drain(LIMITS.drain);
    let kill9 = || Exited(Ended::Signal(SIGKILL));
    let cases: Vec<Case> = vec![
        ("starts", vec![(0, Want)], vec![spawn(1)], WorkerState::Starting),
        ("is ready", vec![(0, Want), (1, Ready)], vec![spawn(1)], WorkerState::Running),
        ("is wanted twice", vec![(0, Want), (1, Want)], vec![spawn(1)], WorkerState::Starting),
        (
            "comes back at once after a kill",
            vec![(0, Want), (0, Ready), (1, kill9())],
            vec![spawn(1), spawn(2)],
            WorkerState::Starting,
        ),
        (
            "waits when it never was ready",
            vec![(0, Want), (1, Exited(Ended::Code(1)))],
            vec![spawn(1)],
            WorkerState::Backoff,
        ),
        (
            "starts after its pause",
            vec![(0, Want), (1, Exited(Ended::Code(1))), (2, Tick)],
            vec![spawn(1), StandIn(false), spawn(2)],
            WorkerState::Starting,
        ),
        (
            "is given up by a permanent code",
            vec![(0, Want), (1, Exited(Ended::Code(78)))],
            vec![spawn(1), StandIn(true)],
            WorkerState::Failed,
        ),
        (
            "is tried again by a person",
            vec![(0, Want), (1, Exited(Ended::Code(64))), (2, Restart)],
            vec![spawn(1), StandIn(true), StandIn(false), spawn(2)],
            WorkerState::Starting,
        ),
        (
            "is tried again with a new configuration",
            vec![(0, Want), (1, Exited(Ended::Code(78))), (2, Event::ConfigChanged)],
            vec![spawn(1), StandIn(true), StandIn(false), spawn(2)],
            WorkerState::Starting,
        ),
        (
            "goes on through a new configuration",
            vec![(0, Want), (1, Ready), (2, Event::ConfigChanged)],
            vec![spawn(1)],
            WorkerState::Running,
        ),
        (
            "is replaced on request, without blame",
            vec![(0, Want), (1, Ready), (2, Restart), (3, Exited(Ended::Code(0)))],
            vec![spawn(1), drain(), spawn(2)],
            WorkerState::Starting,
        ),
        (
            "is killed when its drain takes too long",
            vec![(0, Want), (1, Ready), (2, Unwant), (8, Tick), (9, kill9())],
            vec![spawn(1), drain(), Kill],
            WorkerState::Stopped,
        ),
        (
            "stop outranks start",
            vec![(0, Want), (1, Unwant), (2, Restart), (3, Exited(Ended::Signal(15)))],
            vec![spawn(1), Terminate],
            WorkerState::Stopped,
        ),
        (
            "is wanted again while it stops",
            vec![(0, Want), (1, Ready), (2, Unwant), (3, Want), (4, Exited(Ended::Code(0)))],
            vec![spawn(1), drain(), spawn(2)],
            WorkerState::Starting,
        ),
        (
            "does not become ready",
            vec![(0, Want), (10, Tick), (12, Tick), (13, kill9())],
            vec![spawn(1), Abort, Kill],
            WorkerState::Backoff,
        ),
        (
            "asks for more time",
            vec![(0, Want), (5, Event::ExtendStart(secs(60))), (10, Tick), (64, Ready)],
            vec![spawn(1)],
            WorkerState::Running,
        ),
        (
            "falls silent",
            vec![(0, Want), (1, Ready), (6, Heartbeat), (17, Tick), (26, Tick), (28, Tick), (28, kill9())],
            vec![spawn(1), SayLate, Abort, Kill, spawn(2)],
            WorkerState::Starting,
        ),
        (
            "is not blamed for the time in which we slept",
            vec![(0, Want), (1, Ready), (500, Tick), (505, Tick)],
            vec![spawn(1)],
            WorkerState::Running,
        ),
        (
            "is killed for a frame that no worker sends",
            vec![(0, Want), (1, Ready), (2, Event::Misbehaved("half a frame".into())), (3, kill9())],
            vec![spawn(1), Kill, spawn(2)],
            WorkerState::Starting,
        ),
        (
            "cannot be spawned",
            vec![(0, Want), (0, Event::SpawnFailed("no such file".into()))],
            vec![spawn(1)],
            WorkerState::Backoff,
        ),
    ];
    for (name, events, actions, state) in cases {
        let (machine, seen) = play(&events);
        assert_eq!(seen, actions, "{name}");
        assert_eq!(machine.state(), state, "{name}");
    }
}

#[test]
fn whose_fault_it_is() {
    let ready = |ms| Some(Duration::from_millis(ms));
    for (how, ready_for, expected) in [
        (Ended::Code(78), ready(99_999), Blame::Permanent),
        (Ended::Code(64), None, Blame::Permanent),
        (Ended::Code(1), ready(99_999), Blame::Worker),
        (Ended::Code(75), ready(10), Blame::Worker),
        (Ended::Code(0), None, Blame::Worker),
        (Ended::Code(0), ready(999), Blame::Worker),
        (Ended::Code(0), ready(1000), Blame::Outside),
        (Ended::Signal(SIGKILL), None, Blame::Outside),
        (Ended::Signal(15), ready(10), Blame::Outside),
        (Ended::Signal(11), ready(99_999), Blame::Worker),
        (Ended::Signal(6), ready(10), Blame::Worker),
    ] {
        assert_eq!(blame(how, ready_for), expected, "{how:?} {ready_for:?}");
    }
}

#[test]
fn says_why_it_failed() {
    let (machine, _) = play(&[
        (0, Event::Want),
        (1, Event::Fatal("chat.db was written by a newer build".into())),
        (1, Event::Exited(Ended::Code(78))),
    ]);
    let reason = machine.reason().unwrap();
    assert!(reason.contains("exited with code 78: chat.db was written by a newer build"), "{reason}");
}

#[test]
fn two_hundred_kills_by_the_benchmark_leave_it_running() {
    let mut events = vec![(0, Event::Want)];
    for i in 0..200 {
        events.push((i, Event::Ready));
        events.push((i, Event::Exited(Ended::Signal(SIGKILL))));
    }
    let (machine, actions) = play(&events);
    assert_eq!(actions.len(), 201, "every kill is followed by a start at once");
    assert_eq!(machine.state(), WorkerState::Starting);
    assert_eq!(machine.restarts(), 200);
}

#[test]
fn a_crash_loop_is_degraded_and_then_failed() {
    let mut machine = Machine::new(LIMITS);
    let mut now = Moment::ZERO;
    let mut states = Vec::new();
    machine = machine.step(Event::Want, now, 0.5).0;
    for _ in 0..12 {
        machine = machine.step(Event::Exited(Ended::Code(101)), now, 0.5).0;
        states.push(machine.state());
        let Some(wake) = machine.next_wake() else { break };
        now = wake;
        machine = machine.step(Event::Tick, now, 0.5).0;
    }
    let expected =
        [vec![WorkerState::Backoff; 5], vec![WorkerState::Degraded; 5], vec![WorkerState::Failed]].concat();
    assert_eq!(states, expected);
}

#[test]
fn a_degraded_worker_that_stays_up_is_forgiven() {
    let mut machine = Machine::new(LIMITS);
    machine = machine.step(Event::Want, Moment::ZERO, 0.5).0;
    for i in 0..6 {
        machine = machine.step(Event::Exited(Ended::Code(1)), secs(i), 0.5).0;
        let wake = machine.next_wake().unwrap();
        machine = machine.step(Event::Tick, wake, 0.5).0;
    }
    assert_eq!(machine.state(), WorkerState::Degraded);
    machine = machine.step(Event::Ready, secs(20), 0.5).0;
    assert_eq!(machine.state(), WorkerState::Running);
    assert!(machine.reason().is_some(), "a person still sees what was wrong");
    for beat in (25..=80).step_by(5) {
        machine = machine.step(Event::Heartbeat, secs(beat), 0.5).0;
    }
    assert_eq!(machine.next_wake(), Some(secs(80)));
    machine = machine.step(Event::Tick, secs(80), 0.5).0;
    assert_eq!(machine.reason(), None);
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Want),
        1 => Just(Event::Unwant),
        1 => Just(Event::Restart),
        1 => Just(Event::ConfigChanged),
        1 => Just(Event::SpawnFailed("no".into())),
        4 => Just(Event::Ready),
        1 => (0u64..100).prop_map(|s| Event::ExtendStart(secs(s))),
        2 => Just(Event::Heartbeat),
        1 => Just(Event::Misbehaved("bad".into())),
        1 => Just(Event::Fatal("why".into())),
        4 => prop_oneof![Just(Ended::Code(0)), Just(Ended::Code(1)), Just(Ended::Code(78)),
            Just(Ended::Signal(SIGKILL)), Just(Ended::Signal(11))].prop_map(Event::Exited),
        6 => Just(Event::Tick),
        1 => Just(Event::KillNow),
    ]
}

proptest! {
    /// At most one process at a time, the stand-in never answers beside one, generations only grow,
    /// and a wanted worker always has something to wait for.
    #[test]
    fn invariants(events in proptest::collection::vec((event(), 0u64..15_000), 1..200)) {
        let mut machine = Machine::new(LIMITS);
        let mut now = Moment::ZERO;
        let (mut alive, mut stand_in, mut newest) = (false, false, 0);
        for (event, gap) in events {
            now += Duration::from_millis(gap);
            // The keeper reports the end of a process only when there is one, and the failure to start
            // one only right after it tried.
            match event {
                Event::Exited(_) if !alive => continue,
                Event::SpawnFailed(_) if !alive || !matches!(machine.phase, Phase::Starting { .. }) => continue,
                Event::Exited(_) | Event::SpawnFailed(_) => alive = false,
                _ => {}
            }
            let (next, actions) = machine.step(event, now, 0.3);
            machine = next;
            for action in actions {
                match action {
                    Action::Spawn(generation) => {
                        prop_assert!(!alive, "two processes at once");
                        prop_assert!(!stand_in, "the stand-in answers beside a process");
                        prop_assert!(generation.0 > newest);
                        newest = generation.0;
                        alive = true;
                    }
                    Action::StandIn(on) => stand_in = on,
                    Action::Drain(_) | Action::Terminate | Action::Abort | Action::Kill => {
                        prop_assert!(alive, "a signal to nobody");
                    }
                    Action::SayLate => {}
                }
            }
            match machine.state() {
                WorkerState::Failed => prop_assert!(stand_in && machine.next_wake().is_none()),
                WorkerState::Stopped => prop_assert!(!machine.wanted && !alive && !stand_in),
                _ => prop_assert!(machine.next_wake().is_some()),
            }
            if machine.is_over() {
                prop_assert!(!alive);
            }
        }
    }
}
