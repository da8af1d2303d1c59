//! Points in time as the contract carries them: seconds and nanoseconds, no clock.

/// 0001-01-01T00:00:00Z in seconds since the epoch, protobuf's earliest.
const SECONDS_MIN: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z in seconds since the epoch, protobuf's latest.
const SECONDS_MAX: i64 = 253_402_300_799;

/// A point in time: whole seconds since the Unix epoch (UTC) and the nanoseconds after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z; negative before it.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, 0 to 999,999,999 in a valid timestamp. A negative count
    /// on the wire is kept as its 32 bits, which is out of that range too.
    pub nanos: u32,
}

impl Timestamp {
    /// From milliseconds since the epoch.
    pub fn from_millis(millis: i64) -> Self {
        let nanos = millis.rem_euclid(1_000) as u32 * 1_000_000;
        Self {
            seconds: millis.div_euclid(1_000),
            nanos,
        }
    }

    /// Milliseconds since the epoch, rounded down. A timestamp in protobuf's range fits;
    /// others are held at the ends of `i64`.
    pub fn as_millis(self) -> i64 {
        let millis = i64::from(self.nanos / 1_000_000);
        self.seconds.saturating_mul(1_000).saturating_add(millis)
    }

    /// True in protobuf's range: years 1 to 9999, nanoseconds under 10^9.
    #[inline]
    pub fn is_valid(self) -> bool {
        self.seconds >= SECONDS_MIN && self.seconds <= SECONDS_MAX && self.nanos < 1_000_000_000
    }

    /// This point moved by `seconds`, held at the ends of `i64`.
    #[inline]
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self {
            seconds: self.seconds.saturating_add(seconds),
            nanos: self.nanos,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn millis_round_down_on_both_sides_of_the_epoch() {
        let before = Timestamp {
            seconds: -1,
            nanos: 999_999_999,
        };
        assert_eq!(before.as_millis(), -1);
        assert_eq!(
            Timestamp::from_millis(-1),
            Timestamp {
                seconds: -1,
                nanos: 999_000_000
            }
        );
        assert_eq!(
            Timestamp {
                seconds: 1,
                nanos: 999_999
            }
            .as_millis(),
            1_000
        );
        assert_eq!(Timestamp::from_millis(1_234).as_millis(), 1_234);
    }

    #[test]
    fn range_is_years_one_to_9999() {
        let valid = |seconds, nanos| Timestamp { seconds, nanos }.is_valid();
        assert!(valid(SECONDS_MIN, 0) && valid(SECONDS_MAX, 999_999_999));
        assert!(!valid(SECONDS_MIN - 1, 0) && !valid(SECONDS_MAX + 1, 0));
        assert!(!valid(0, 1_000_000_000));
    }
}
