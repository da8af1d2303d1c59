//! The figures of one measurement.

use serde::Serialize;

use crate::latency::Latency;
use crate::report::Pace;

/// The figures of one measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// `discard`, `limit`, `door` or `whole`.
    pub phase: &'static str,
    /// Events acknowledged a second over the load.
    pub answered_events_per_second: f64,
    /// Events stored a second from the start of the load until the last was;
    /// null where nothing is stored or it can't be seen.
    pub stored_events_per_second: Option<f64>,
    /// Latency in ms from the planned send: 50th and 99th percentile, longest.
    pub answer_ms: Latency,
    /// Processor time of the server per event in ns, over the load.
    pub server_cpu_ns_per_event: Option<f64>,
    /// The same until the last event was stored.
    pub server_cpu_ns_per_stored_event: Option<f64>,
    /// The server's highest resident memory in bytes.
    pub server_resident_bytes_max: Option<u64>,
    /// Share of the machine's processors that the load generator took.
    pub generator_share: f64,
    /// Batches that were due.
    pub offered: u64,
    /// Batches begun.
    pub started: u64,
    /// Batches acknowledged.
    pub completed: u64,
    /// Batches begun late.
    pub late: u64,
    /// Batches due and never begun.
    pub dropped: u64,
    /// Tries that failed.
    pub failed: u64,
    /// Connections opened.
    pub connections: u64,
    /// Events acknowledged in each second.
    pub timeline: Vec<u64>,
    /// The writer's lag in records over the load, looked at each quarter second.
    pub lag_records: Vec<u64>,
    /// Seconds from the end of the load until all was stored.
    pub drain_seconds: Option<f64>,
    /// What set the pace.
    pub pace: Option<Pace>,
    /// The first error.
    pub first_error: Option<String>,
}
