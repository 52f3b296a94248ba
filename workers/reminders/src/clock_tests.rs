use super::*;
use proptest::prelude::*;

const START: i64 = 1_796_000_000_000;

fn at(wall_ms: i64, mono_ms: u64) -> Now {
    Now { wall: Time::from_millis(START + wall_ms), mono: Duration::from_millis(mono_ms) }
}

fn due(ms: i64) -> Event {
    Event::Next(Some(Time::from_millis(START + ms)))
}

fn pause(ms: u64) -> Action {
    Action::Pause(Some(Duration::from_millis(ms)))
}

/// Each line: what happens, the two clocks, and what is to be done about it.
#[test]
fn steps() {
    type Line = (Event, Now, Action);
    let cases: [(&str, &[Line]); 7] = [
        ("nothing is open", &[(Event::Next(None), at(0, 0), Action::Pause(None))]),
        (
            "due in two seconds",
            &[(due(2000), at(0, 0), pause(2000)), (Event::Tick, at(2000, 2000), Action::Fire)],
        ),
        (
            "due in a year: the pause is capped",
            &[(due(31_536_000_000), at(0, 0), pause(5000)), (Event::Tick, at(5000, 5000), pause(5000))],
        ),
        ("due while it was down", &[(due(-3_600_000), at(0, 0), Action::Fire)]),
        (
            "eight hours of sleep: the monotonic clock stood still",
            &[(due(3_600_000), at(0, 0), pause(5000)), (Event::Tick, at(28_800_000, 5000), Action::Fire)],
        ),
        (
            "an hour back, and on: nothing early, nothing forgotten",
            &[
                (due(4000), at(0, 0), pause(4000)),
                // The jump makes it ask; the hub knows that nothing is due, and says so.
                (Event::Tick, at(-3_596_000, 4000), Action::Fire),
                (due(4000), at(-3_596_000, 4010), pause(5000)),
                (Event::Tick, at(4000, 3_604_000), Action::Fire),
            ],
        ),
        (
            "a hub that is gone is asked again",
            &[
                (due(0), at(0, 0), Action::Fire),
                (Event::Failed, at(10_000, 10_000), pause(500)),
                (Event::Tick, at(10_500, 10_500), Action::Fire),
                (Event::Next(None), at(10_510, 10_510), Action::Pause(None)),
            ],
        ),
    ];
    for (what, lines) in cases {
        let mut clock = Clock::default();
        for (event, now, action) in lines {
            assert_eq!(clock.step(*event, *now).0, *action, "{what}: {event:?}");
        }
    }
}

#[test]
fn a_jump_is_told_from_a_slow_machine() {
    for (wall, mono, jumped) in [
        (28_800_000, 5000, Some(28_795_000)),
        (-3_600_000, 5000, Some(-3_605_000)),
        (60_000, 60_000, None),
        (61_000, 60_000, None),
        (0, 0, None),
    ] {
        assert_eq!(jump(at(0, 0), at(wall, mono)), jumped, "{wall} {mono}");
    }
}

proptest! {
    /// However the clocks walk: it never rests longer than the cap while something is open, never spins,
    /// and asks as soon as the wall clock says that something is due.
    #[test]
    fn pauses_are_short_and_nothing_due_is_left(
        walk in proptest::collection::vec((-40_000_000i64..40_000_000, 0u64..10_000), 1..50),
        next in -1_000_000i64..100_000_000,
    ) {
        let mut clock = Clock::default();
        let (mut wall, mut mono) = (0, 0);
        let mut event = due(next);
        for (jump, passed) in walk {
            let (action, _) = clock.step(event, at(wall, mono));
            match action {
                Action::Fire => {}
                Action::Pause(Some(pause)) => {
                    prop_assert!((MIN_PAUSE..=MAX_PAUSE).contains(&pause));
                    prop_assert!(wall < next);
                }
                Action::Pause(None) => prop_assert!(false, "a reminder is open"),
            }
            event = Event::Tick;
            wall += jump;
            mono += passed;
        }
    }
}
