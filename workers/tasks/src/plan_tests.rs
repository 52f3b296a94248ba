use super::*;
use jiff::Timestamp;
use leo_ipc::task::TaskRun;
use proptest::prelude::*;

fn utc(text: &str) -> Time {
    Time::from_millis(text.parse::<Timestamp>().unwrap().as_millisecond())
}

fn name() -> TaskName {
    "t".parse().unwrap()
}

fn tracked(pattern: &str, zone: &str, catch_up_h: i64) -> BTreeMap<TaskName, Tracked> {
    let schedule = Some(Schedule::parse(pattern, Some(zone)).unwrap());
    let tracked =
        Tracked { schedule, enabled: true, catch_up_ms: catch_up_h * 3_600_000, timeout_ms: 60_000 };
    [(name(), tracked)].into()
}

fn open_run(state: RunState, trigger: Trigger) -> TaskRun {
    TaskRun {
        id: "0123456789ab".to_owned(),
        task: name(),
        trigger,
        state,
        agent: None,
        due_at: Some(Time::from_millis(0)),
        started_at: Some(Time::from_millis(0)),
        ended_at: None,
        attempts: 1,
        exit_code: None,
        error: None,
        log_path: None,
        message_id: None,
    }
}

/// What the hub keeps, as far as schedules need it: the cursor and the runs, each made once for its due
/// time. The walk drives it and the decisions through time.
struct World {
    tasks: BTreeMap<TaskName, Tracked>,
    cursor: Time,
    /// Runs by their due times, and whether they were started.
    runs: BTreeMap<Time, Option<Time>>,
    skipped: Vec<Time>,
    held: BTreeSet<String>,
    now: Time,
}

impl World {
    fn new(pattern: &str, zone: &str, catch_up_h: i64, from: &str) -> World {
        let now = utc(from);
        let tasks = tracked(pattern, zone, catch_up_h);
        World { tasks, cursor: now, runs: BTreeMap::new(), skipped: Vec::new(), held: BTreeSet::new(), now }
    }

    fn seen(&self) -> Schedules {
        let queued = |(due, started): (&Time, &Option<Time>)| {
            started.is_none().then(|| TaskRun {
                id: format!("{:012x}", due.millis()),
                due_at: Some(*due),
                ..open_run(RunState::Queued, Trigger::Schedule)
            })
        };
        Schedules {
            tasks: vec![Followup { name: name(), cursor: self.cursor, enabled: true }],
            open: self.runs.iter().filter_map(queued).collect(),
        }
    }

    /// One look; `crash_after_claim` stands for a process that ends before it starts what it made.
    fn look(&mut self, crash_after_claim: bool) {
        for _ in 0..3 {
            let seen = self.seen();
            for action in decide(&self.tasks, &seen, &self.held, self.now) {
                match action {
                    Action::Claim { due, skipped, .. } => {
                        assert!(due <= self.now, "none early");
                        assert!(due > self.cursor || self.runs.contains_key(&due));
                        self.cursor = self.cursor.max(due);
                        match skipped {
                            Some(_) => self.skipped.push(due),
                            None => {
                                self.runs.entry(due).or_insert(None);
                            }
                        }
                        if crash_after_claim {
                            self.held.clear();
                            return;
                        }
                    }
                    Action::Start(run) => {
                        let due = run.due_at.unwrap();
                        let started = self.runs.insert(due, Some(self.now));
                        assert_eq!(started, Some(None), "each is started once");
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// Goes on by the worker's own sleeps until an instant.
    fn walk(&mut self, until: &str) {
        let until = utc(until);
        while self.now < until {
            let pause = pause(&self.tasks, &self.seen(), self.now);
            let step = i64::try_from(pause.as_millis()).unwrap();
            self.now = Time::from_millis((self.now.millis() + step).min(until.millis()));
            self.look(false);
        }
    }

    fn started(&self) -> Vec<String> {
        self.runs.values().filter_map(|at| Some(at.as_ref()?.timestamp().to_string())).collect()
    }
}

/// Both changes of the clock in three zones, walked by the worker's own sleeps: each run once, on time.
#[test]
fn clock_walk_over_changes_of_the_clock() {
    let cases = [
        ("30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", "2026-03-08T07:00:00Z"),
        ("30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z", "2026-11-01T05:30:00Z"),
        ("15 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
        ("45 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:45:00Z"),
        ("10 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-03T15:30:00Z"),
        ("40 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "2026-04-04T14:40:00Z"),
    ];
    for (pattern, zone, from, due) in cases {
        let mut world = World::new(pattern, zone, 1, from);
        let until = Time::from_millis(utc(from).millis() + 20 * 3_600_000);
        world.walk(&until.timestamp().to_string());
        assert_eq!(world.started(), [due], "{zone} {pattern}");
        assert!(world.skipped.is_empty());
    }
}

/// A laptop that slept through the time: it runs once at wake where it may be that late, else it is
/// skipped, which is recorded.
#[test]
fn clock_walk_eight_hours_ahead() {
    let sleep = |catch_up| {
        let mut world = World::new("0 3 * * *", "UTC", catch_up, "2026-05-01T22:00:00Z");
        world.walk("2026-05-02T00:00:00Z");
        world.now = utc("2026-05-02T08:00:00Z");
        world.look(false);
        world.walk("2026-05-02T20:00:00Z");
        (world.started(), world.skipped)
    };
    assert_eq!(sleep(12), (vec!["2026-05-02T08:00:00Z".to_owned()], vec![]));
    assert_eq!(sleep(1), (vec![], vec![utc("2026-05-02T03:00:00Z")]));
}

/// An hour back fires nothing again.
#[test]
fn clock_walk_an_hour_back() {
    let mut world = World::new("0 3 * * *", "UTC", 1, "2026-05-01T22:00:00Z");
    world.walk("2026-05-02T03:10:00Z");
    world.now = utc("2026-05-02T02:10:00Z");
    world.look(false);
    world.walk("2026-05-02T12:00:00Z");
    assert_eq!(world.started(), ["2026-05-02T03:00:00Z"]);
}

/// Nearly a year of waiting is no longer than a timer can count.
#[test]
fn clock_walk_364_days() {
    let mut world = World::new("0 0 31 12 *", "UTC", 1, "2026-01-01T00:00:00Z");
    let sleep = pause(&world.tasks, &world.seen(), world.now);
    assert_eq!(sleep, MAX_PAUSE, "sleeps are short, however far the next run is");
    world.now = utc("2026-12-30T23:59:50Z");
    world.look(false);
    assert!(world.started().is_empty(), "none early");
    world.walk("2026-12-31T00:10:00Z");
    assert_eq!(world.started(), ["2026-12-31T00:00:00Z"]);
}

#[test]
fn clock_walk_over_a_crash_between_claim_and_start() {
    let mut world = World::new("0 3 * * *", "UTC", 1, "2026-05-02T02:59:00Z");
    world.now = utc("2026-05-02T03:00:00Z");
    world.look(true);
    assert!(world.started().is_empty());
    // The next process finds the run that was made, and starts it once.
    world.now = utc("2026-05-02T03:20:00Z");
    world.look(false);
    world.walk("2026-05-02T12:00:00Z");
    assert_eq!(world.started(), ["2026-05-02T03:20:00Z"]);
}

#[test]
fn clock_walk_over_a_restart_after_it_was_due() {
    let mut world = World::new("*/10 * * * *", "UTC", 1, "2026-05-02T02:55:00Z");
    // Nothing ran from here to there: of the many times that passed only the last counts.
    world.now = utc("2026-05-02T06:35:00Z");
    world.look(false);
    world.walk("2026-05-02T06:45:00Z");
    assert_eq!(world.started(), ["2026-05-02T06:35:00Z", "2026-05-02T06:40:00Z"]);
}

#[test]
fn decisions() {
    let tasks = tracked("0 3 * * *", "UTC", 1);
    let now = utc("2026-05-02T03:00:05Z");
    let due = utc("2026-05-02T03:00:00Z");
    let seen = |open: Vec<TaskRun>, enabled| Schedules {
        tasks: vec![Followup { name: name(), cursor: utc("2026-05-02T02:00:00Z"), enabled }],
        open,
    };
    let none = BTreeSet::new();
    let of = |seen: &Schedules| decide(&tasks, seen, &none, now);
    assert_eq!(of(&seen(vec![], true)), [Action::Claim { task: name(), due, skipped: None }]);
    assert!(of(&seen(vec![], false)).is_empty(), "a disabled one is left alone");

    let running = TaskRun { started_at: Some(now), ..open_run(RunState::Running, Trigger::Manual) };
    let actions = of(&seen(vec![running.clone()], true));
    assert_eq!(actions[0], Action::CheckHolder(running.clone()));
    assert!(
        matches!(&actions[1], Action::Claim { skipped: Some(why), .. } if why.contains("had not ended")),
        "a task does not overlap with itself: {actions:?}"
    );
    let ours = BTreeSet::from([running.id.clone()]);
    assert!(decide(&tasks, &seen(vec![running], false), &ours, now).is_empty(), "what we hold we watch");

    let prompt = |started: Time| TaskRun {
        message_id: Some("m".into()),
        started_at: Some(started),
        ..open_run(RunState::Running, Trigger::Schedule)
    };
    assert!(of(&seen(vec![prompt(now)], false)).is_empty(), "an agent's turn has its time");
    let late = of(&seen(vec![prompt(due), prompt(Time::from_millis(0))], false));
    assert!(matches!(&late[..], [Action::Give { state: RunState::Failed, .. }]), "{late:?}");

    let made_now =
        TaskRun { id: format!("{:012x}", now.millis()), ..open_run(RunState::Queued, Trigger::Manual) };
    assert!(of(&seen(vec![made_now], false)).is_empty(), "whoever has just made it begins it");
    let stale = open_run(RunState::Queued, Trigger::Manual);
    assert_eq!(of(&seen(vec![stale.clone()], false)), [Action::CheckHolder(stale)]);
}

#[test]
fn at_most_so_many_at_once() {
    let tasks: BTreeMap<TaskName, Tracked> = (0..9)
        .map(|n| (format!("t{n}").parse().unwrap(), tracked("0 3 * * *", "UTC", 1)[&name()].clone()))
        .collect();
    let now = utc("2026-05-02T03:00:05Z");
    let open: Vec<TaskRun> = (0..9)
        .map(|n| TaskRun {
            id: format!("r{n}"),
            task: format!("t{n}").parse().unwrap(),
            due_at: Some(now),
            ..open_run(RunState::Queued, Trigger::Schedule)
        })
        .collect();
    let seen = Schedules { tasks: vec![], open };
    let starts = |held: &BTreeSet<String>| {
        let actions = decide(&tasks, &seen, held, now);
        assert!(actions.iter().all(|a| matches!(a, Action::Start(_))), "{actions:?}");
        actions.len()
    };
    assert_eq!(starts(&BTreeSet::new()), MAX_RUNS);
    assert_eq!(starts(&["r0".to_owned(), "r1".to_owned()].into()), MAX_RUNS - 2);
}

proptest! {
    /// Whatever the clock does, nothing runs early, nothing twice, and the cursor never goes back.
    #[test]
    fn whatever_the_clock_does(steps in prop::collection::vec((-7_200i64..40_000, any::<bool>()), 1..60)) {
        let mut world = World::new("*/7 * * * *", "Europe/Berlin", 2, "2026-03-28T20:00:00Z");
        let mut cursor = world.cursor;
        for (seconds, crash) in steps {
            world.now = Time::from_millis(world.now.millis() + seconds * 1000);
            // The asserts are in the look: none early, each started once.
            world.look(crash);
            prop_assert!(world.cursor >= cursor);
            cursor = world.cursor;
        }
    }
}
