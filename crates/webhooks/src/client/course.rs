//! Where an exchange is, and how long exchanges are in each phase.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use super::Phase;

/// Upper bounds of the buckets, in microseconds; a last one has none.
pub const BOUNDS_US: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    5_000_000, 30_000_000,
];

/// How long exchanges were in one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseTimes {
    /// How many ended in each bucket of [`BOUNDS_US`], and beyond.
    pub buckets: [u64; BOUNDS_US.len() + 1],
    /// Microseconds in all.
    pub sum_us: u64,
}

impl PhaseTimes {
    fn add(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.buckets[BOUNDS_US.partition_point(|bound| *bound < us)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }
}

/// The way of one exchange through its phases.
pub(super) struct Course {
    phase: Cell<Phase>,
    /// Since when it is in that phase; none before the first one has begun.
    since: Cell<Option<Instant>>,
    took: RefCell<[Option<Duration>; Phase::ALL.len()]>,
}

impl Course {
    pub(super) fn new() -> Self {
        Self {
            phase: Cell::default(),
            since: Cell::default(),
            took: RefCell::default(),
        }
    }

    pub(super) fn get(&self) -> Phase {
        self.phase.get()
    }

    /// A phase begins.
    pub(super) fn set(&self, phase: Phase) {
        let now = Instant::now();
        self.close(now);
        self.phase.set(phase);
        self.since.set(Some(now));
    }

    fn close(&self, now: Instant) {
        if let Some(since) = self.since.take() {
            let took = &mut self.took.borrow_mut()[self.phase.get() as usize];
            *took.get_or_insert_default() += now - since;
        }
    }

    /// The exchange has ended: what its phases took is added up.
    pub(super) fn end(&self, all: &mut [PhaseTimes; Phase::ALL.len()]) {
        self.close(Instant::now());
        for (times, took) in all.iter_mut().zip(&*self.took.borrow()) {
            took.iter().for_each(|took| times.add(*took));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_whose_bound_it_does_not_pass() {
        let mut times = PhaseTimes::default();
        for us in [0, 100, 101, 30_000_000, 30_000_001] {
            times.add(Duration::from_micros(us));
        }
        let mut wanted = [0; BOUNDS_US.len() + 1];
        (wanted[0], wanted[1], wanted[13], wanted[14]) = (2, 1, 1, 1);
        assert_eq!((times.buckets, times.sum_us), (wanted, 60_000_202));
    }

    #[test]
    fn phases_that_did_not_begin_are_not_counted_and_those_that_came_twice_are_once() {
        let (course, mut all) = (Course::new(), [PhaseTimes::default(); 6]);
        for phase in [Phase::Send, Phase::Wait, Phase::Send] {
            course.set(phase);
        }
        course.end(&mut all);
        let counts = all.map(|times| times.buckets.iter().sum::<u64>());
        assert_eq!(counts, [0, 0, 0, 1, 1, 0]);
    }
}
