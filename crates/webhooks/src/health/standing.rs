//! What is kept of one webhook's health: sums over the window, and what stands at its end.

use serde::{Deserialize, Serialize};

use super::label::Health;
use super::minute::{MINUTE_MS, Verdict, WINDOW_MINUTES};

/// One webhook's standing after all outcomes so far. Times are milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Standing {
    /// Its project.
    pub project: String,
    /// Its consumer.
    pub consumer: String,
    /// Of the minutes in the window.
    pub successes: u64,
    /// Likewise; a request for time is neither.
    pub failures: u64,
    /// The newest minute that an attempt ended in, since the epoch.
    pub minute: i64,
    /// Failures since the last success.
    pub failures_in_a_row: u32,
    /// When the first of those was.
    pub failing_since_ms: Option<i64>,
    /// When it took a delivery last.
    pub last_success_ms: Option<i64>,
    /// When it did not.
    pub last_failure_ms: Option<i64>,
    /// The word that was told last.
    pub health: Health,
    /// The minute of the outcome that it was told at.
    pub told_minute: i64,
}

/// A change of health that is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What it was.
    pub from: Health,
    /// What it is.
    pub to: Health,
}

impl Standing {
    /// The first minute of the window.
    #[must_use]
    pub fn first_minute(&self) -> i64 {
        self.minute - WINDOW_MINUTES + 1
    }

    /// Moves the window on to a minute. The minutes from the first number to below the second have
    /// left it: the caller takes them out of the sums.
    pub fn move_on(&mut self, minute: i64) -> (i64, i64) {
        let was = self.first_minute();
        self.minute = self.minute.max(minute);
        (was, self.first_minute())
    }

    /// Counts an attempt that ended at `at_ms`, within the window.
    pub fn count(&mut self, verdict: Verdict, at_ms: i64) {
        let in_window = at_ms.div_euclid(MINUTE_MS) >= self.first_minute();
        match verdict {
            Verdict::Success => {
                self.successes += u64::from(in_window);
                self.failures_in_a_row = 0;
                self.failing_since_ms = None;
                self.last_success_ms = self.last_success_ms.max(Some(at_ms));
            }
            Verdict::Failure(_) => {
                self.failures += u64::from(in_window);
                self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
                self.failing_since_ms.get_or_insert(at_ms);
                self.last_failure_ms = self.last_failure_ms.max(Some(at_ms));
            }
            Verdict::Busy => {}
        }
    }

    /// Judges anew. A turn for the worse is told at once; one for the better at most once a minute,
    /// so that a receiver on the edge does not fill the log. The first word of a receiver that does
    /// well is no news.
    pub fn turn(&mut self) -> Option<Turn> {
        let now = Health::of(self.successes, self.failures, self.failures_in_a_row);
        let was = self.health;
        if now == was || now < was && self.minute <= self.told_minute {
            return None;
        }
        self.health = now;
        if (was, now) == (Health::Unknown, Health::Healthy) {
            return None;
        }
        self.told_minute = self.minute;
        Some(Turn { from: was, to: now })
    }
}

#[cfg(test)]
mod tests {
    use super::super::minute::Failure;
    use super::*;

    const FAILED: Verdict = Verdict::Failure(Failure::Server);

    fn told(standing: &mut Standing, verdicts: &[(Verdict, i64)]) -> Vec<(Health, Health)> {
        let mut turns = Vec::new();
        for (verdict, minute) in verdicts {
            standing.move_on(*minute);
            standing.count(*verdict, minute * MINUTE_MS);
            turns.extend(standing.turn().map(|turn| (turn.from, turn.to)));
        }
        turns
    }

    #[test]
    fn worse_is_told_at_once_and_better_once_a_minute() {
        let mut standing = Standing::default();
        assert_eq!(told(&mut standing, &[(Verdict::Success, 100); 30]), []);
        assert_eq!(standing.health, Health::Healthy);
        let turns = told(&mut standing, &[(FAILED, 100); 5]);
        let steps = [
            (Health::Healthy, Health::Degraded),
            (Health::Degraded, Health::Unhealthy),
        ];
        assert_eq!(turns, steps);
        assert_eq!(standing.failing_since_ms, Some(100 * MINUTE_MS));
        // It takes deliveries again in the same minute, and goes on in the next.
        assert_eq!(told(&mut standing, &[(Verdict::Success, 100); 20]), []);
        let better = [(Health::Unhealthy, Health::Healthy)];
        assert_eq!(told(&mut standing, &[(Verdict::Success, 101)]), better);
        assert_eq!(standing.failing_since_ms, None);
    }

    #[test]
    fn a_request_for_time_is_neither_success_nor_failure() {
        let mut standing = Standing::default();
        told(&mut standing, &[(FAILED, 7), (Verdict::Busy, 7)]);
        let sums = (
            standing.successes,
            standing.failures,
            standing.failures_in_a_row,
        );
        assert_eq!(sums, (0, 1, 1));
    }

    #[test]
    fn an_outcome_of_before_the_window_stands_in_no_sum() {
        let mut standing = Standing::default();
        told(
            &mut standing,
            &[(Verdict::Success, 5_000), (FAILED, 5_000 - WINDOW_MINUTES)],
        );
        assert_eq!((standing.successes, standing.failures), (1, 0));
        assert_eq!(standing.failures_in_a_row, 1, "it is the newest outcome");
        let (from, to) = standing.move_on(5_003);
        assert_eq!(to - from, 3);
        assert_eq!(to, 5_004 - WINDOW_MINUTES);
    }
}
