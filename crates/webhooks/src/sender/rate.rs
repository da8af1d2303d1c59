//! How fast something is done: counted by windows, and forgotten when nothing is done any more.

/// A window, in milliseconds: short, so that a first burst is known for one that is taken.
const WINDOW_MS: i64 = 20;
/// Without an end for so long, the rate is none.
const STALE_MS: i64 = 1_000;

/// A rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    since_ms: i64,
    count: u32,
    per_second: usize,
}

impl Rate {
    /// One more was done.
    pub fn add(&mut self, now_ms: i64) {
        let passed_ms = now_ms.saturating_sub(self.since_ms);
        if passed_ms >= WINDOW_MS {
            // The first of a window after a pause says nothing of the pause.
            let is_fresh = passed_ms < STALE_MS;
            let counted = i64::from(self.count) * 1_000 / passed_ms;
            self.per_second = match is_fresh {
                true => usize::try_from(counted).unwrap_or(0),
                false => 0,
            };
            (self.since_ms, self.count) = (now_ms, 0);
        }
        self.count += 1;
    }

    /// What was done in a second, of late.
    pub fn per_second(&self, now_ms: i64) -> usize {
        match now_ms.saturating_sub(self.since_ms) < STALE_MS {
            true => self.per_second,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_window_and_goes_stale() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(1_000_000), 0);
        for now_ms in 1_000_000..1_000_041 {
            rate.add(now_ms);
        }
        assert_eq!(rate.per_second(1_000_050), 1_000);
        assert_eq!(rate.per_second(1_001_040), 0, "nothing for a second");
        rate.add(1_009_000);
        assert_eq!(rate.per_second(1_009_000), 0, "a pause is no rate");
    }
}
