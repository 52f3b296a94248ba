//! When a task is due: a cron pattern in a time zone. Pure. The pattern is croner's business; a time
//! that a zone skips runs once at the next instant that exists, one that it repeats runs once, and a
//! pattern with wildcards runs whenever its clock shows it.

use croner::{
    Cron,
    errors::CronError,
    parser::{CronParser, Seconds, Year},
    time::{CivilDate, CivilDateTime, CivilTime, CronDateTime, Resolution, Weekday},
};
use jiff::{
    SignedDuration, Timestamp, ZonedDateTime,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};
use leo_ipc::Time;
use std::cmp::Ordering;

/// How alike a known zone must be to be offered for an unknown one (0 to 1).
const ALIKE: f64 = 0.8;

/// A pattern in its zone.
#[derive(Debug, Clone)]
pub struct Schedule {
    cron: Cron,
    zone: TimeZone,
    text: String,
}

/// Why a schedule cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSchedule {
    /// The pattern cannot be read.
    #[error(
        "`{pattern}` is no cron pattern ({why}): write minute, hour, day, month and weekday, such as `0 7 * * 1-5`"
    )]
    Pattern {
        /// As written.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// The pattern names no time that comes.
    #[error("`{0}` never comes")]
    Never(String),
    /// There is no such zone.
    #[error("unknown time zone `{zone}`{}", hint.as_ref().map_or_else(|| ": use a name such as Europe/Berlin".to_owned(), |hint| format!("; did you mean `{hint}`?")))]
    Zone {
        /// As written.
        zone: String,
        /// One that there is.
        hint: Option<String>,
    },
}

impl Schedule {
    /// Reads a pattern with the five fields of cron, in a zone or in this machine's.
    ///
    /// # Errors
    /// As [`BadSchedule`] says.
    pub fn parse(pattern: &str, zone: Option<&str>) -> Result<Schedule, BadSchedule> {
        let shown = |text: &str| text.chars().take(80).flat_map(char::escape_debug).collect::<String>();
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser
            .parse(pattern)
            .map_err(|e| BadSchedule::Pattern { pattern: shown(pattern), why: e.to_string() })?;
        let time_zone = match zone {
            None => TimeZone::system(),
            Some(name) => TimeZone::get(name)
                .map_err(|_| BadSchedule::Zone { zone: shown(name), hint: nearest(name) })?,
        };
        let text = format!("{}|{}", pattern.trim(), zone.unwrap_or("local"));
        let schedule = Schedule { cron, zone: time_zone, text };
        // Any instant will do: a pattern that comes, comes again.
        match schedule.next_after(Time::from_millis(0)) {
            Some(_) => Ok(schedule),
            None => Err(BadSchedule::Never(shown(pattern))),
        }
    }

    /// Pattern and zone in one text: another text is another schedule.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its zone's name, for people.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The first time that it is due after an instant.
    pub fn next_after(&self, after: Time) -> Option<Time> {
        let found = self.cron.find_next_occurrence(&self.at(after), false).ok()?;
        Some(Time::from_millis(found.0.timestamp().as_millisecond()))
    }

    /// The last time that it was due up to an instant, the instant included.
    pub fn last_until(&self, until: Time) -> Option<Time> {
        let found = self.cron.find_previous_occurrence(&self.at(until), true).ok()?;
        let found = Time::from_millis(found.0.timestamp().as_millisecond());
        // The search knows whole seconds only.
        (found <= until).then_some(found)
    }

    fn at(&self, time: Time) -> Local {
        Local(time.timestamp().to_zoned_datetime(self.zone.clone()))
    }
}

/// The known zone that a text is most like.
fn nearest(name: &str) -> Option<String> {
    jiff::tz::db()
        .available()
        .map(|known| known.to_string())
        .map(|known| (strsim::jaro_winkler(&name.to_lowercase(), &known.to_lowercase()), known))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// An instant in a zone, as croner's search needs it.
#[derive(Clone)]
struct Local(ZonedDateTime);

impl CronDateTime for Local {
    fn to_civil(&self) -> CivilDateTime {
        let local = self.0.datetime();
        CivilDateTime::new(
            CivilDate::from_parts_unchecked(
                i32::from(local.year()),
                local.month().unsigned_abs().into(),
                local.day().unsigned_abs().into(),
            ),
            CivilTime::from_parts_unchecked(
                local.hour().unsigned_abs().into(),
                local.minute().unsigned_abs().into(),
                local.second().unsigned_abs().into(),
            ),
        )
    }

    fn civil_weekday(&self) -> Weekday {
        Weekday::from_days_from_sunday(self.0.weekday().to_sunday_zero_offset().unsigned_abs().into())
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        let local = civil_to_jiff(civil).ok_or(CronError::InvalidDate)?;
        let found = self.0.time_zone().to_ambiguous_zoned_datetime(local);
        let time =
            |zoned: Result<ZonedDateTime, jiff::Error>| zoned.map(Local).map_err(|_| CronError::InvalidTime);
        Ok(match found.offset() {
            AmbiguousOffset::Gap { .. } => Resolution::Gap,
            AmbiguousOffset::Fold { .. } => {
                Resolution::Ambiguous(time(found.clone().earlier())?, time(found.later())?)
            }
            AmbiguousOffset::Unambiguous { .. } => Resolution::Single(time(found.unambiguous())?),
        })
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.0.checked_add(SignedDuration::from_secs(seconds)).ok().map(Local)
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.0.timestamp().cmp(&other.0.timestamp())
    }
}

fn civil_to_jiff(civil: CivilDateTime) -> Option<DateTime> {
    let small = |n: u32| i8::try_from(n).ok();
    DateTime::new(
        i16::try_from(civil.year()).ok()?,
        small(civil.month())?,
        small(civil.day())?,
        small(civil.hour())?,
        small(civil.minute())?,
        small(civil.second())?,
        0,
    )
    .ok()
}

/// An instant as a person in a zone reads it, such as `Tue 14 Oct 2026 09:00 EDT`.
pub fn in_words(time: Time, zone: &TimeZone) -> String {
    let time: Timestamp = time.timestamp();
    time.to_zoned_datetime(zone.clone()).strftime("%a %-d %b %Y %H:%M %Z").to_string()
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
