//! How a receiver does, in one word. The words and their bounds are Sparrow's, so that what watches
//! them there reads them here.

use serde::{Deserialize, Serialize};

/// Failures in a row from which a receiver is unhealthy, whatever came before.
const UNHEALTHY_IN_A_ROW: u32 = 5;
/// Attempts that each judgement by rate needs.
const UNHEALTHY_ATTEMPTS_MIN: u64 = 10;
const DEGRADED_ATTEMPTS_MIN: u64 = 5;
const HEALTHY_ATTEMPTS_MIN: u64 = 3;
/// Shares of successes, in percent.
const UNHEALTHY_BELOW: u64 = 80;
const DEGRADED_BELOW: u64 = 90;

/// How a receiver does; each is worse than the one before.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// At least 9 of 10 attempts succeed.
    Healthy,
    /// Too few attempts to tell.
    #[default]
    Unknown,
    /// Fewer than 9 of 10 succeed.
    Degraded,
    /// Fewer than 8 of 10 succeed, or the last five have failed.
    Unhealthy,
}

impl Health {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Healthy,
        Self::Unknown,
        Self::Degraded,
        Self::Unhealthy,
    ];

    /// Judges the attempts of a window and the failures in a row at its end.
    #[must_use]
    pub fn of(successes: u64, failures: u64, failures_in_a_row: u32) -> Self {
        let attempts = successes + failures;
        let is_below = |percent: u64| successes * 100 < attempts * percent;
        let by_rate = attempts >= UNHEALTHY_ATTEMPTS_MIN && is_below(UNHEALTHY_BELOW);
        if failures_in_a_row >= UNHEALTHY_IN_A_ROW || by_rate {
            Self::Unhealthy
        } else if attempts >= DEGRADED_ATTEMPTS_MIN && is_below(DEGRADED_BELOW) {
            Self::Degraded
        } else if attempts >= HEALTHY_ATTEMPTS_MIN && !is_below(DEGRADED_BELOW) {
            Self::Healthy
        } else {
            Self::Unknown
        }
    }

    /// The word of answers and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unknown => "unknown",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_its_bounds() {
        let table = [
            // Too few to tell.
            ((0, 0, 0), Health::Unknown),
            ((2, 0, 0), Health::Unknown),
            ((2, 2, 2), Health::Unknown),
            // From three on, nine of ten.
            ((3, 0, 0), Health::Healthy),
            ((9, 1, 1), Health::Healthy),
            ((18, 2, 2), Health::Healthy),
            // From five on, fewer than nine of ten.
            ((4, 1, 0), Health::Degraded),
            ((89, 11, 1), Health::Degraded),
            ((8, 2, 0), Health::Degraded),
            ((1, 8, 4), Health::Degraded),
            // From ten on, fewer than eight of ten.
            ((7, 3, 0), Health::Unhealthy),
            ((799, 201, 0), Health::Unhealthy),
            ((800, 200, 0), Health::Degraded),
            // Five in a row, however many have gone well.
            ((0, 5, 5), Health::Unhealthy),
            ((10_000, 5, 5), Health::Unhealthy),
            ((10_000, 4, 4), Health::Healthy),
        ];
        for ((successes, failures, in_a_row), expected) in table {
            let found = Health::of(successes, failures, in_a_row);
            assert_eq!(found, expected, "{successes} {failures} {in_a_row}");
        }
    }
}
