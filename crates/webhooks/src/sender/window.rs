//! How many exchanges are under way at once: as many as keep the thread at work, up to a bound.
//!
//! More would wait for the thread and not for receivers, and each costs memory and caches: with
//! fast receivers a few hundred are faster than thousands. So the window shrinks while the thread
//! has no time left, and grows while it has some and the window is full.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;

/// Least exchanges at once.
const LEAST: usize = 128;
/// How often the thread's time is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Share of its time that the thread works, above which more exchanges only wait, and below which
/// it has time for more.
const FULL: f64 = 0.95;
const HAS_TIME: f64 = 0.85;

/// The window.
pub(super) struct Window {
    size: usize,
    looked: Instant,
    busy: Duration,
}

impl Window {
    pub fn new() -> Self {
        Self {
            size: LEAST,
            looked: Instant::now(),
            busy: Duration::ZERO,
        }
    }

    /// How many exchanges there may be now.
    pub fn size(&mut self, in_flight: usize, most: usize) -> usize {
        let passed = self.looked.elapsed();
        if passed >= LOOK_EVERY {
            self.looked = Instant::now();
            let busy = Handle::current().metrics().worker_total_busy_duration(0);
            let share = (busy.saturating_sub(self.busy)).as_secs_f64() / passed.as_secs_f64();
            self.busy = busy;
            self.size = next(self.size, in_flight, share);
        }
        self.size.min(most)
    }
}

/// The next size, from the share of its time that the thread has worked.
fn next(size: usize, in_flight: usize, share: f64) -> usize {
    if share > FULL {
        return (size - size / 8).max(LEAST);
    }
    match share < HAS_TIME && in_flight >= size {
        true => size + size / 4,
        false => size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_the_thread_s_time() {
        assert_eq!(next(1_024, 1_024, 0.99), 896);
        assert_eq!(next(LEAST, LEAST, 0.99), LEAST);
        assert_eq!(next(1_024, 1_024, 0.5), 1_280);
        assert_eq!(next(1_024, 700, 0.5), 1_024, "there is room already");
        assert_eq!(next(1_024, 1_024, 0.9), 1_024);
        let mut size = LEAST;
        let steps = (0..).find(|_| {
            size = next(size, size, 0.1);
            size >= 4_096
        });
        assert!(steps.is_some_and(|steps| steps < 20), "{steps:?}");
    }
}
