//! Running one stage for a while, and what it cost per event.
//!
//! Costs are in time of the processor, not of the wall, where the kernel tells it: another
//! process that takes the core for a while then costs nothing but a cold cache.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::allocation::Allocated;

/// What one stage cost in one round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// The round, from 0.
    pub round: usize,
    /// `ours`, `control` or `limit`.
    pub side: &'static str,
    /// The stage.
    pub stage: &'static str,
    /// Events per batch, or per call of a stage that knows no batches.
    pub batch_events: usize,
    /// Nanoseconds per event.
    pub ns_per_event: f64,
    /// Bytes allocated per event.
    pub allocated_bytes_per_event: f64,
    /// Allocations per event.
    pub allocations_per_event: f64,
}

/// Runs stages for a fixed time each.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    round: usize,
    time: Duration,
}

impl Stopwatch {
    /// For the stages of `round`, each run for `stage_ms`.
    pub fn new(round: usize, stage_ms: u64) -> Self {
        Self {
            round,
            time: Duration::from_millis(stage_ms),
        }
    }

    /// Runs `work`, which handles `events` events a call, again and again until the time
    /// is up. The clock is read about a hundred times, whatever the work takes.
    pub fn cost(
        &self,
        side: &'static str,
        stage: &'static str,
        events: usize,
        mut work: impl FnMut(),
    ) -> Cost {
        // Warms caches and buffers, and tells how many calls fill a hundredth of the time.
        let warm = Instant::now();
        work();
        work();
        let call = (warm.elapsed() / 2).max(Duration::from_nanos(1));
        let calls_per_look = (self.time.as_nanos() / 100 / call.as_nanos()).max(1) as u64;
        let allocated = Allocated::by_this_thread();
        let begin = ThreadTime::now();
        let mut calls = 0;
        while begin.wall.elapsed() < self.time {
            for _ in 0..calls_per_look {
                work();
            }
            calls += calls_per_look;
        }
        let elapsed = begin.elapsed();
        let allocated = Allocated::by_this_thread().since(allocated);
        let handled = (calls * events as u64) as f64;
        Cost {
            round: self.round,
            side,
            stage,
            batch_events: events,
            ns_per_event: elapsed.as_nanos() as f64 / handled,
            allocated_bytes_per_event: allocated.bytes as f64 / handled,
            allocations_per_event: allocated.allocations as f64 / handled,
        }
    }
}

/// A point in the time that the processor has given this thread.
struct ThreadTime {
    wall: Instant,
    /// None where the kernel does not tell.
    processor: Option<Duration>,
}

impl ThreadTime {
    fn now() -> Self {
        let processor = processor_time();
        Self {
            wall: Instant::now(),
            processor,
        }
    }

    /// Time of the processor since then, or of the wall if there is no other.
    fn elapsed(&self) -> Duration {
        let wall = self.wall.elapsed();
        let processor = self
            .processor
            .zip(processor_time())
            .map(|(then, now)| now - then);
        processor.filter(|time| !time.is_zero()).unwrap_or(wall)
    }
}

/// What the scheduler has counted for this thread. It counts when it is asked for the next
/// thread to run, so it is asked first.
fn processor_time() -> Option<Duration> {
    std::thread::yield_now();
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = counts.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_charged_per_event_and_per_round() {
        let mut calls = 0u64;
        let cost = Stopwatch::new(3, 2).cost("ours", "stage", 10, || calls += 1);
        assert_eq!((cost.round, cost.batch_events), (3, 10));
        assert!(calls > 2);
        assert!(cost.ns_per_event > 0.0);
    }

    /// Where the kernel tells it, the time grows as the thread works.
    #[test]
    fn time_of_the_processor_grows_with_work() {
        let Some(before) = processor_time() else {
            return;
        };
        while processor_time().unwrap() == before {}
        assert!(processor_time().unwrap() > before);
    }
}
