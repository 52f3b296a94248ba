use super::*;
use proptest::prelude::*;

fn utc(text: &str) -> Time {
    Time::from_millis(text.parse::<Timestamp>().unwrap().as_millisecond())
}

fn all(pattern: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
    let schedule = Schedule::parse(pattern, Some(zone)).unwrap();
    let (mut at, end) = (utc(from), utc(to));
    let mut found = Vec::new();
    while let Some(next) = schedule.next_after(at).filter(|next| *next <= end) {
        found.push(next.timestamp().to_string());
        at = next;
    }
    found
}

/// Both changes of the clock in three zones. (what, pattern, zone, from, to, instants)
#[test]
fn changes_of_the_clock() {
    type Case =
        (&'static str, &'static str, &'static str, &'static str, &'static str, &'static [&'static str]);
    let cases: &[Case] = &[
        (
            "New York, forward: 02:30 does not exist and runs once, at 03:00 EDT",
            "30 2 * * *",
            "America/New_York",
            "2026-03-07T12:00:00Z",
            "2026-03-09T12:00:00Z",
            &["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"],
        ),
        (
            "New York, back: 01:30 comes twice and runs once, at the first",
            "30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00:00Z",
            "2026-11-02T12:00:00Z",
            &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
        ),
        (
            "Berlin, forward",
            "15 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            "2026-03-30T12:00:00Z",
            &["2026-03-29T01:00:00Z", "2026-03-30T00:15:00Z"],
        ),
        (
            "Berlin, back",
            "45 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            "2026-10-26T12:00:00Z",
            &["2026-10-25T00:45:00Z", "2026-10-26T01:45:00Z"],
        ),
        (
            "Lord Howe, forward by half an hour",
            "10 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T00:00:00Z",
            "2026-10-05T00:00:00Z",
            &["2026-10-03T15:30:00Z", "2026-10-04T15:10:00Z"],
        ),
        (
            "Lord Howe, back by half an hour",
            "40 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T00:00:00Z",
            "2026-04-06T00:00:00Z",
            &["2026-04-04T14:40:00Z", "2026-04-05T15:10:00Z"],
        ),
        (
            "an hourly pattern goes on through a repeated hour",
            "0 * * * *",
            "Europe/Berlin",
            "2026-10-24T23:30:00Z",
            "2026-10-25T02:30:00Z",
            &["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"],
        ),
        (
            "and through a skipped one",
            "0 * * * *",
            "Europe/Berlin",
            "2026-03-28T23:30:00Z",
            "2026-03-29T02:30:00Z",
            &["2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"],
        ),
    ];
    for (what, pattern, zone, from, to, expected) in cases {
        assert_eq!(all(pattern, zone, from, to), *expected, "{what}");
    }
}

#[test]
fn mistakes_say_what_to_do() {
    let cases = [
        ("every day", None, "no cron pattern"),
        ("* * * *", None, "minute, hour, day, month and weekday"),
        ("0 0 7 * * *", None, "no cron pattern"),
        ("61 * * * *", None, "no cron pattern"),
        ("", None, "no cron pattern"),
        ("0 0 30 2 *", None, "`0 0 30 2 *` never comes"),
        ("0 7 * * *", Some("Europe/Berln"), "did you mean `Europe/Berlin`?"),
        ("0 7 * * *", Some("qqqq"), "use a name such as Europe/Berlin"),
    ];
    for (pattern, zone, says) in cases {
        let error = Schedule::parse(pattern, zone).expect_err(pattern).to_string();
        assert!(error.contains(says), "{pattern}: {error}");
    }
    for good in ["*/5 * * * *", "0 7 * * 1-5", "0 9 1 * *", "@daily", "0 9 * * MON"] {
        assert!(Schedule::parse(good, Some("UTC")).is_ok(), "{good}");
    }
}

#[test]
fn words() {
    let zone = TimeZone::get("America/New_York").unwrap();
    assert_eq!(in_words(utc("2026-10-14T13:00:00Z"), &zone), "Wed 14 Oct 2026 09:00 EDT");
}

proptest! {
    /// Searching back from an occurrence, or from anywhere before the next one, finds that occurrence.
    #[test]
    fn forward_and_back_agree(minute in 0u32..60, hour in 0u32..24, at in 1_735_689_600i64..1_830_000_000, zone in 0usize..3) {
        let zone = ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe"][zone];
        let schedule = Schedule::parse(&format!("{minute} {hour} * * *"), Some(zone)).unwrap();
        let next = schedule.next_after(Time::from_millis(at * 1000)).unwrap();
        prop_assert!(next > Time::from_millis(at * 1000));
        prop_assert_eq!(schedule.last_until(next), Some(next));
        let after = schedule.next_after(next).unwrap();
        // A day and what a change of the clock may add or take.
        prop_assert!((22 * 3_600_000..=26 * 3_600_000).contains(&(after.millis() - next.millis())));
        prop_assert_eq!(schedule.last_until(Time::from_millis(after.millis() - 1)), Some(next));
    }
}
