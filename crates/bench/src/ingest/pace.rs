//! Which stage sets the pace, from what each was doing.

use std::time::Duration;

use super::ops::{Samples, value};
use super::phase::Measured;
use crate::report::Pace;

/// A stage this busy has no room left: what remains is the scheduler's.
const FULL: f64 = 0.85;

/// Names the stage. Stages with a thread of their own (writer, log) are full
/// when that thread is; the processor is when all of its cores are; if nothing
/// is full, the load itself set the pace.
pub fn name(before: &Samples, after: &Samples, elapsed: Duration, measured: &Measured) -> Pace {
    let seconds = elapsed.as_secs_f64().max(0.001);
    let doing = |stage: &str, doing: &str| {
        let labels = [("stage", stage), ("doing", doing)];
        let of = |samples| value(samples, "fulmar_stage_seconds_total", &labels);
        (of(after) - of(before)) / seconds
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let events_per_second = measured.answered_events_per_second;
    let server_cores = measured.server_cpu_ns_per_event.unwrap_or(0.0) * events_per_second / 1e9;
    let generator_cores = measured.generator_share * processors;
    let stages = [
        (
            "writer",
            doing("writer", "busy"),
            "its thread is busy with blocks",
        ),
        (
            "log",
            doing("log", "busy") + doing("log", "sync"),
            "its thread writes and syncs",
        ),
        (
            "processor",
            (server_cores + generator_cores) / processors,
            "server and load generator take all cores",
        ),
    ];
    let full = stages.iter().filter(|stage| stage.1 >= FULL);
    // A single thread that is full explains more than the sum of all.
    let Some((stage, utilisation, why)) = full
        .clone()
        .find(|s| s.0 == "writer" && grows(measured))
        .or_else(|| full.clone().find(|stage| stage.0 == "log"))
        .or_else(|| full.clone().next_back())
    else {
        let (stage, utilisation, _) = stages[2];
        let why = format!(
            "no stage is full; the {stage} is {:.0} % busy",
            utilisation * 100.0
        );
        return Pace {
            stage: "load".to_owned(),
            utilisation,
            why,
        };
    };
    let why = format!(
        "{why}; cores: server {server_cores:.2}, load generator {generator_cores:.2} \
         of {processors}"
    );
    Pace {
        stage: (*stage).to_owned(),
        utilisation: *utilisation,
        why,
    }
}

/// Whether the lag at the end is well above that at the middle.
fn grows(measured: &Measured) -> bool {
    let lags = &measured.lag_records;
    match (lags.get(lags.len() / 2), lags.last()) {
        (Some(middle), Some(last)) => *last > middle + middle / 4,
        _ => false,
    }
}
