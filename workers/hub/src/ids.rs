//! Message ids whose order never runs backwards, whatever the clock does: a laptop set back by an hour
//! must not put new messages before old ones.

use leo_ipc::MessageId;
use uuid::Uuid;

/// Makes ids. Lives in the writer thread.
#[derive(Debug)]
pub(crate) struct Ids {
    last_ms: i64,
    counter: u64,
}

/// Ids within one millisecond are numbered in the 74 bits that UUIDv7 leaves; this many of them are
/// used for the counter, the rest is random.
const COUNTER_BITS: u32 = 26;

impl Ids {
    /// Continues after the newest id of the database.
    pub(crate) fn after(last: Option<&MessageId>) -> Ids {
        let last_ms = last
            .and_then(|id| Uuid::parse_str(id.as_str()).ok())
            .and_then(|id| id.get_timestamp())
            .map_or(0, |t| {
                let (seconds, nanos) = t.to_unix();
                i64::try_from(seconds).unwrap_or(0) * 1000 + i64::from(nanos / 1_000_000)
            });
        // One millisecond later than anything stored: the counter within that millisecond is unknown.
        Ids { last_ms, counter: 1 << COUNTER_BITS }
    }

    /// The next id.
    pub(crate) fn next(&mut self, now_ms: i64) -> MessageId {
        if now_ms > self.last_ms {
            self.last_ms = now_ms;
            self.counter = 0;
        } else {
            self.counter += 1;
            if self.counter >= 1 << COUNTER_BITS {
                self.last_ms += 1;
                self.counter = 0;
            }
        }
        // The counter fills the most significant bits after the version, so that text order is it.
        let noise = Uuid::new_v4().as_u128() & ((1 << 48) - 1);
        let mut tail = [0u8; 10];
        let value = (u128::from(self.counter) << 48) | noise;
        tail.copy_from_slice(&rand_fields(value));
        let ms = u64::try_from(self.last_ms).unwrap_or(0);
        MessageId(uuid::Builder::from_unix_timestamp_millis(ms, &tail).into_uuid().hyphenated().to_string())
    }
}

/// Spreads a 74-bit value over the ten bytes that the builder takes, around the six bits that it
/// overwrites with version and variant.
fn rand_fields(value: u128) -> [u8; 10] {
    let high = (value >> 62) & 0xfff;
    let low = value & ((1 << 62) - 1);
    let bits: u128 = (high << 64) | low;
    let bytes = bits.to_be_bytes();
    let mut out = [0u8; 10];
    out.copy_from_slice(&bytes[6..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ids_rise_however_the_clock_jumps(steps in proptest::collection::vec(-4_000_000i64..4_000_000, 1..200)) {
            let mut ids = Ids::after(None);
            let mut now = 1_795_986_870_000i64;
            let mut last = ids.next(now);
            for step in steps {
                now += step;
                let next = ids.next(now);
                prop_assert!(next > last, "{next} after {last}");
                last = next;
            }
            let mut later = Ids::after(Some(&last));
            prop_assert!(later.next(0) > last, "a restart goes on after the newest id");
        }
    }

    #[test]
    fn many_ids_in_one_millisecond_rise() {
        let mut ids = Ids::after(None);
        let mut last = ids.next(5);
        for _ in 0..10_000 {
            let next = ids.next(5);
            assert!(next > last);
            last = next;
        }
        assert_eq!(Uuid::parse_str(last.as_str()).unwrap().get_version_num(), 7);
    }
}
