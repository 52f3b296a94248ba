//! The times of reminders: reading what an agent wrote, and showing one as the machine's clock on the
//! wall does. Pure; an instant is UTC milliseconds everywhere else.

use crate::error::Outcome;
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use leo_ipc::{Fault, Time, reminder::LATE_MS};

/// Longest text that is quoted back.
const QUOTE: usize = 60;

/// The instant that `at` names: RFC 3339 with an offset, strictly after `now`, at most a year later.
///
/// # Errors
/// 400 `bad_time`, which says what is wrong with it and what time it is.
pub(super) fn due(at: &str, now: Time, zone: &TimeZone) -> Outcome<Time> {
    let bad = |what: String| Fault::new("bad_time", format!("at $.at: {what}"));
    let shown: String = at.chars().take(QUOTE).collect();
    let timestamp: Option<Timestamp> = has_the_shape(at).then(|| at.parse().ok()).flatten();
    let Some(timestamp) = timestamp else {
        let example = local(now.timestamp() + 1.hour(), zone);
        return Err(bad(format!(
            "expected an RFC 3339 time with an offset, such as {example}, found {shown:?}"
        ))
        .into());
    };
    let due = Time::from_millis(timestamp.as_millisecond());
    if due <= now {
        let is = local(now.timestamp(), zone);
        return Err(bad(format!("{shown} is not in the future: it is {is} now")).into());
    }
    if timestamp > year_after(now) {
        let last = local(year_after(now), zone);
        return Err(bad(format!("{shown} is more than a year away: the latest is {last}")).into());
    }
    Ok(due)
}

/// The same date and time of the next year, in UTC.
fn year_after(now: Time) -> Timestamp {
    let now = now.timestamp();
    now.to_zoned_datetime(TimeZone::UTC).checked_add(1.year()).map_or(now, |later| later.timestamp())
}

/// Whether a text has the form of RFC 3339, section 5.6. The parser takes more than that: times without
/// seconds, names of zones, dates by week.
fn has_the_shape(text: &str) -> bool {
    let bytes = text.as_bytes();
    let fits = |part: &[u8], form: &[u8]| {
        part.len() == form.len()
            && part.iter().zip(form).all(|(b, f)| if *f == b'0' { b.is_ascii_digit() } else { b == f })
    };
    let Some((date_time, rest)) = bytes.split_at_checked(19) else { return false };
    let separated = matches!(date_time[10], b'T' | b't');
    let rest = match rest.split_first() {
        Some((b'.', fraction)) => {
            let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
            if digits == 0 {
                return false;
            }
            &fraction[digits..]
        }
        _ => rest,
    };
    let offset = matches!(rest, b"Z" | b"z") || fits(rest, b"+00:00") || fits(rest, b"-00:00");
    separated && fits(&date_time[..10], b"0000-00-00") && fits(&date_time[11..], b"00:00:00") && offset
}

/// An instant as RFC 3339 in the machine's own offset at that instant, without a fraction that is zero.
pub(super) fn local(at: Timestamp, zone: &TimeZone) -> String {
    let at = at.to_zoned_datetime(zone.clone());
    let form = if at.subsec_nanosecond() == 0 { "%Y-%m-%dT%H:%M:%S%:z" } else { "%Y-%m-%dT%H:%M:%S%.3f%:z" };
    at.strftime(form).to_string()
}

/// What a reminder posts: its text, with a line that says so when it is late.
pub(super) fn posted(text: &str, due: Time, now: Time, zone: &TimeZone) -> String {
    if now.millis() - due.millis() <= LATE_MS {
        return text.to_owned();
    }
    let at = due.timestamp().to_zoned_datetime(zone.clone());
    let scheduled = at.strftime("%a %-d %b %Y %H:%M %Z");
    format!("{}\n\n_(late — scheduled for {scheduled})_", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Refusal;
    use proptest::prelude::*;

    fn at(text: &str) -> Time {
        Time::from_millis(text.parse::<Timestamp>().unwrap().as_millisecond())
    }

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).unwrap()
    }

    fn read(text: &str) -> Result<Time, String> {
        due(text, at("2026-10-13T12:00:00Z"), &zone("America/New_York")).map_err(|refusal| match refusal {
            Refusal::Fault(fault) => {
                assert_eq!(fault.code, "bad_time");
                fault.message
            }
            Refusal::Db(error) => panic!("{error}"),
        })
    }

    #[test]
    fn good_times() {
        for (text, instant) in [
            ("2026-10-14T09:00:00-04:00", "2026-10-14T13:00:00Z"),
            ("2026-10-14T09:00:00.250-04:00", "2026-10-14T13:00:00.250Z"),
            ("2026-10-14t13:00:00z", "2026-10-14T13:00:00Z"),
            ("2026-10-14T18:45:00+05:45", "2026-10-14T13:00:00Z"),
            ("2026-10-13T12:00:00.001Z", "2026-10-13T12:00:00.001Z"),
            ("2027-10-13T12:00:00Z", "2027-10-13T12:00:00Z"),
        ] {
            assert_eq!(read(text).unwrap(), at(instant), "{text}");
        }
    }

    #[test]
    fn bad_times_say_what_is_wrong() {
        for text in [
            "",
            "tomorrow",
            "2026-10-14",
            "2026-10-14T09:00:00",
            "2026-10-14T09:00-04:00",
            "2026-10-14T09:00:00-04",
            "2026-10-14T09:00:00-0400",
            "2026-10-14 09:00:00-04:00",
            "2026-10-14T09:00:00-04:00[America/New_York]",
            "2026-10-14T09:00:00.-04:00",
            "2026-10-14T09:00:00 EST",
            "2026-02-30T09:00:00Z",
            "2026-10-14T25:00:00Z",
            "20261014T090000Z",
            "+002026-10-14T09:00:00Z",
            "1791979200",
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains("at $.at: expected an RFC 3339 time with an offset"), "{text}: {said}");
            assert!(said.contains("such as 2026-10-13T09:00:00-04:00"), "{said}");
        }
        let past = read("2026-10-13T08:00:00-04:00").unwrap_err();
        assert!(past.contains("is not in the future: it is 2026-10-13T08:00:00-04:00 now"), "{past}");
        let far = read("2027-10-13T12:00:00.001Z").unwrap_err();
        assert!(far.contains("more than a year away: the latest is 2027-10-13T08:00:00-04:00"), "{far}");
    }

    #[test]
    fn a_year_has_its_leap_day() {
        let zone = TimeZone::UTC;
        assert!(due("2028-03-01T00:00:00Z", at("2027-03-01T00:00:00Z"), &zone).is_ok());
        assert!(due("2029-03-01T00:00:00Z", at("2028-02-29T00:00:00Z"), &zone).is_err());
        assert!(due("2029-02-28T00:00:00Z", at("2028-02-29T00:00:00Z"), &zone).is_ok());
    }

    #[test]
    fn late_is_more_than_a_minute_and_says_when_by_the_clock_on_the_wall() {
        let due = at("2026-10-14T13:00:00Z");
        let said = |seconds: i64, zone: &TimeZone| {
            posted("Stand-up\n", due, Time::from_millis(due.millis() + seconds * 1000), zone)
        };
        let new_york = zone("America/New_York");
        assert_eq!(said(0, &new_york), "Stand-up\n");
        assert_eq!(said(60, &new_york), "Stand-up\n");
        let late = "Stand-up\n\n_(late — scheduled for Wed 14 Oct 2026 09:00 EDT)_";
        assert_eq!(said(61, &new_york), late);
        // In winter the same wall clock says when it had been meant in summer time.
        assert_eq!(said(90 * 86_400, &new_york), late);
        assert!(said(61, &zone("Europe/Berlin")).contains("Wed 14 Oct 2026 15:00 CEST"));
        assert!(said(61, &zone("Australia/Lord_Howe")).contains("Thu 15 Oct 2026 00:00 +11"));
    }

    proptest! {
        #[test]
        fn nothing_breaks_the_reader(text in "\\PC{0,40}") {
            let _ = read(&text);
        }

        #[test]
        fn what_is_shown_reads_back(ms in 1i64..31_000_000_000) {
            let now = at("2026-10-13T12:00:00Z");
            let due = Time::from_millis(now.millis() + ms);
            for name in ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe"] {
                let shown = local(due.timestamp(), &zone(name));
                prop_assert_eq!(read(&shown).unwrap(), due, "{}", shown);
            }
        }
    }
}
