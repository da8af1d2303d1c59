//! When a failed attempt is made again. Pure: the clock and the dice are the caller's.

use fulmar_registry::RetryPolicy;

/// Longest pause between two attempts, in milliseconds: a day.
const PAUSE_MS_MAX: u64 = 86_400_000;
/// Longest pause that a receiver may ask for, in milliseconds: an hour.
pub const RETRY_AFTER_MS_MAX: u64 = 3_600_000;
/// Pause after a 429 that names none, in milliseconds.
pub const RATE_LIMITED_PAUSE_MS: u64 = 60_000;

/// Milliseconds until the next attempt after `failed` failed ones; none when there is none.
///
/// Half of it is chance: see [`spread_ms`].
#[must_use]
pub fn pause_ms(policy: &RetryPolicy, failed: u32, dice: f64) -> Option<u64> {
    if failed == 0 || failed > policy.retries_max {
        return None;
    }
    let base_ms = match policy.schedule_s.as_slice() {
        [] => {
            let first = u64::from(policy.backoff_s) * 1_000;
            first.saturating_mul(1 << (failed - 1).min(40))
        }
        schedule => {
            let place = (failed as usize - 1).min(schedule.len() - 1);
            u64::from(schedule[place]) * 1_000
        }
    };
    Some(spread_ms(base_ms.min(PAUSE_MS_MAX), dice))
}

/// A pause of which half is certain and half is chance (`dice` in 0 to 1), so that the receivers
/// of one outage are not all asked again at the same moment, and none is asked at once.
#[must_use]
pub fn spread_ms(pause_ms: u64, dice: f64) -> u64 {
    let chance = (pause_ms as f64 / 2.0 * dice.clamp(0.0, 1.0)) as u64;
    pause_ms - pause_ms / 2 + chance
}

/// Milliseconds that a `Retry-After` asks for: seconds, or a date of RFC 9110. At most an hour.
#[must_use]
pub fn retry_after_ms(value: &str, now_ms: i64) -> Option<u64> {
    let value = value.trim();
    let asked = match value.parse::<u64>() {
        Ok(seconds) => seconds.saturating_mul(1_000),
        Err(_) => {
            let at = jiff::fmt::rfc2822::DateTimeParser::new()
                .relaxed_weekday(true)
                .parse_timestamp(value)
                .ok()?;
            u64::try_from(at.as_millisecond().saturating_sub(now_ms)).unwrap_or(0)
        }
    };
    Some(asked.min(RETRY_AFTER_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(retries_max: u32, schedule_s: &[u32]) -> RetryPolicy {
        RetryPolicy {
            retries_max,
            backoff_s: 60,
            schedule_s: schedule_s.to_vec(),
            deadline_s: None,
        }
    }

    #[test]
    fn pauses_double_and_end_with_the_retries() {
        let policy = policy(3, &[]);
        let pauses: Vec<_> = (0..5)
            .map(|failed| pause_ms(&policy, failed, 1.0))
            .collect();
        assert_eq!(
            pauses,
            [None, Some(60_000), Some(120_000), Some(240_000), None]
        );
        assert_eq!(pause_ms(&policy, 1, 0.0), Some(30_000));
    }

    #[test]
    fn no_pause_is_over_a_day_however_many_have_failed() {
        let policy = policy(50, &[]);
        assert_eq!(pause_ms(&policy, 50, 1.0), Some(86_400_000));
    }

    #[test]
    fn a_schedule_repeats_its_last_pause() {
        let policy = policy(4, &[0, 5]);
        let pauses: Vec<_> = (1..5)
            .map(|failed| pause_ms(&policy, failed, 1.0))
            .collect();
        assert_eq!(pauses, [Some(0), Some(5_000), Some(5_000), Some(5_000)]);
    }

    #[test]
    fn what_a_receiver_asks_for_is_read_in_both_forms_and_bounded() {
        // 06 Nov 1994 08:49:37 GMT, the example of RFC 9110, section 5.6.7.
        let then_ms = 784_111_777_000;
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(retry_after_ms("120", 0), Some(120_000));
        assert_eq!(retry_after_ms("0", 0), Some(0));
        assert_eq!(retry_after_ms(date, then_ms - 5_000), Some(5_000));
        assert_eq!(retry_after_ms(date, then_ms + 5_000), Some(0));
        assert_eq!(retry_after_ms("999999999", 0), Some(RETRY_AFTER_MS_MAX));
        assert_eq!(retry_after_ms(date, 0), Some(RETRY_AFTER_MS_MAX));
        for text in ["", "soon", "-1", "1.5"] {
            assert_eq!(retry_after_ms(text, 0), None, "{text}");
        }
    }
}
