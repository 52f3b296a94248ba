//! The one time type of the wire: RFC 3339 text with millisecond precision.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A wall-clock instant, shown as RFC 3339 in UTC (`2026-11-29T21:16:09.123Z`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// Now, by the machine's wall clock.
    pub fn now() -> Time {
        Time(jiff::Timestamp::now().as_millisecond())
    }

    /// From milliseconds since 1970 (UTC).
    pub fn from_millis(ms: i64) -> Time {
        Time(ms)
    }

    /// Milliseconds since 1970 (UTC).
    pub fn millis(self) -> i64 {
        self.0
    }

    /// The same instant as a [`jiff::Timestamp`]; clamped to its range.
    pub fn timestamp(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0).unwrap_or(if self.0 < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        })
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.timestamp())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        let ts: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        Ok(Time(ts.as_millisecond()))
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Time {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(utoipa::openapi::KnownFormat::DateTime)))
            .into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Time {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_milliseconds_and_reads_any_offset() {
        let t = Time::from_millis(1_795_986_870_706);
        assert_eq!(t.to_string(), "2026-11-29T21:14:30.706Z");
        let read: Time = serde_json::from_str("\"2026-11-29T16:14:30.706-05:00\"").unwrap();
        assert_eq!(read, t);
    }
}
