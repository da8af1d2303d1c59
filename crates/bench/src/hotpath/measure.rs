//! Running one stage for a while, and what it cost per event.

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
    /// Events per batch.
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

    /// Runs `work`, which handles `batch_events` events a call, again and again until the time
    /// is up. The clock is read about a hundred times, whatever the work takes.
    pub fn cost(
        &self,
        side: &'static str,
        stage: &'static str,
        batch_events: usize,
        mut work: impl FnMut(),
    ) -> Cost {
        // Warms caches and buffers, and tells how many calls fill a hundredth of the time.
        let warm = Instant::now();
        work();
        work();
        let call = (warm.elapsed() / 2).max(Duration::from_nanos(1));
        let calls_per_look = (self.time.as_nanos() / 100 / call.as_nanos()).max(1) as u64;
        let allocated = Allocated::so_far();
        let begin = Instant::now();
        let mut calls = 0;
        while begin.elapsed() < self.time {
            for _ in 0..calls_per_look {
                work();
            }
            calls += calls_per_look;
        }
        let elapsed = begin.elapsed();
        let allocated = Allocated::so_far().since(allocated);
        let events = (calls * batch_events as u64) as f64;
        Cost {
            round: self.round,
            side,
            stage,
            batch_events,
            ns_per_event: elapsed.as_nanos() as f64 / events,
            allocated_bytes_per_event: allocated.bytes as f64 / events,
            allocations_per_event: allocated.allocations as f64 / events,
        }
    }
}
