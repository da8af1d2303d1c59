//! Which stage sets the pace, from what each was doing.

use std::time::Duration;

use super::measured::Measured;
use crate::report::Pace;
use crate::server::ops::{Samples, value};

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
            // The time in the sync is part of it.
            doing("log", "busy"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latency;

    fn measured(server_cpu_ns: f64, generator_share: f64, lag_records: &[u64]) -> Measured {
        Measured {
            phase: "whole",
            answered_events_per_second: 100_000.0,
            stored_events_per_second: None,
            answer_ms: Latency {
                p50: 1.0,
                p99: 2.0,
                max: 3.0,
            },
            server_cpu_ns_per_event: Some(server_cpu_ns),
            server_cpu_ns_per_stored_event: None,
            server_resident_bytes_max: None,
            generator_share,
            offered: 0,
            started: 0,
            completed: 0,
            late: 0,
            dropped: 0,
            failed: 0,
            connections: 0,
            timeline: Vec::new(),
            lag_records: lag_records.to_vec(),
            drain_seconds: None,
            pace: None,
            first_error: None,
        }
    }

    /// Ten seconds in which writer and log were busy for so many.
    fn paced(writer_seconds: f64, log_seconds: f64, measured: &Measured) -> Pace {
        let key = |stage| format!("fulmar_stage_seconds_total{{stage=\"{stage}\",doing=\"busy\"}}");
        let of = |writer, log| Samples::from([(key("writer"), writer), (key("log"), log)]);
        let (before, after) = (of(5.0, 7.0), of(5.0 + writer_seconds, 7.0 + log_seconds));
        name(&before, &after, Duration::from_secs(10), measured)
    }

    #[test]
    fn the_stage_that_is_full_is_named() {
        let growing = [10, 20, 40, 80];
        let steady = [10, 10, 10, 10];
        let stage = |pace: Pace| (pace.stage, (pace.utilisation * 100.0).round() as u32);
        let idle = measured(100.0, 0.1, &steady);
        assert_eq!(
            stage(paced(9.7, 3.0, &measured(100.0, 0.1, &growing))),
            named("writer", 97)
        );
        assert_eq!(stage(paced(2.0, 9.0, &idle)), named("log", 90));
        assert_eq!(paced(2.0, 3.0, &idle).stage, "load");
        // All cores: the generator takes half, the server the other half.
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let server_cpu_ns = processors * 0.5 * 1e9 / 100_000.0;
        let full = measured(server_cpu_ns, 0.5, &steady);
        assert_eq!(stage(paced(2.0, 3.0, &full)), named("processor", 100));
        // A writer that is busy and keeps up does not hold the doors back.
        assert_eq!(paced(9.7, 9.0, &idle).stage, "log");
    }

    fn named(stage: &str, percent: u32) -> (String, u32) {
        (stage.to_owned(), percent)
    }
}
