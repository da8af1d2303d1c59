//! The figures of one measurement.

use serde::Serialize;

use super::load::Outcome;
use super::stages::Stage;
use crate::latency::Latency;
use crate::report::Pace;

/// The figures of one measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// `limit`, `whole` or `target`.
    pub phase: &'static str,
    /// Seconds from the server's start until it was ready.
    pub start_seconds: Option<f64>,
    /// Events acknowledged a second, from the first planned request to the last answer.
    pub answered_events_per_second: f64,
    /// Latency in ms of requests, from the planned send.
    pub answer_ms: Latency,
    /// The same of requests of other identities than the first, where each request is of one.
    pub others_answer_ms: Latency,
    /// Seconds from the first planned request to the last answer.
    pub answered_seconds: f64,
    /// Until every event was in its table.
    pub stored_seconds: Option<f64>,
    /// Until every session and profile was in its table too, and no backlog was left.
    pub settled_seconds: Option<f64>,
    /// Processor time of the server per event in us, over the load.
    pub server_cpu_us_per_event: Option<f64>,
    /// The same until all was settled.
    pub server_cpu_us_per_settled_event: Option<f64>,
    /// The server's highest resident memory in bytes.
    pub server_resident_bytes_max: Option<u64>,
    /// Share of the machine's processors that the load generator took.
    pub generator_share: f64,
    /// Requests acknowledged.
    pub completed: u64,
    /// Tries that failed.
    pub failed: u64,
    /// Requests that were never acknowledged.
    pub unsure: u64,
    /// Events acknowledged in each second.
    pub timeline: Vec<u64>,
    /// The writer's lag in records over the load, looked at each quarter second.
    pub lag_records: Vec<u64>,
    /// What each stage did, until all was settled.
    pub stages: Vec<Stage>,
    /// What set the pace.
    pub pace: Option<Pace>,
    /// The first error.
    pub first_error: Option<String>,
}

/// The folds alone, one after another's block on one thread, over the log of the whole.
#[derive(Clone, Debug, Serialize)]
pub struct FoldAlone {
    /// Seconds for all of the log.
    pub seconds: f64,
    /// Events a second.
    pub events_per_second: f64,
}

impl Measured {
    /// What the load saw.
    pub fn of(phase: &'static str, outcome: &Outcome, generator_cpu_ns: u64) -> Measured {
        let seconds = outcome.elapsed.as_secs_f64().max(0.001);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Measured {
            phase,
            start_seconds: None,
            answered_events_per_second: outcome.events as f64 / seconds,
            answer_ms: Latency::of(&outcome.latency_us),
            others_answer_ms: Latency::of(&outcome.others_latency_us),
            answered_seconds: seconds,
            stored_seconds: None,
            settled_seconds: None,
            server_cpu_us_per_event: None,
            server_cpu_us_per_settled_event: None,
            server_resident_bytes_max: None,
            generator_share: generator_cpu_ns as f64 / 1e9 / seconds / processors as f64,
            completed: outcome.completed,
            failed: outcome.failed,
            unsure: outcome.unsure.len() as u64,
            timeline: outcome.timeline.clone(),
            lag_records: Vec::new(),
            stages: Vec::new(),
            pace: None,
            first_error: outcome.first_error.clone(),
        }
    }
}
