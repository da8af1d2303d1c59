//! What each stage did while events went through, and which of them sets the pace.

use serde::Serialize;

use crate::report::Pace;
use crate::server::ops::{Samples, value};

/// A stage this busy has no room left: what remains is the scheduler's.
const FULL: f64 = 0.85;

/// One stage over a span of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// `log`, `writer`, `profiles`, `compaction`, `processor`.
    pub stage: &'static str,
    /// Share of the time that it worked, of all that work in it; waiting for the disk is work.
    pub utilisation: f64,
    /// Share of the time that it waited for something to do.
    pub wait: f64,
    /// What stands before it, in records, on average; none where that is not known.
    pub queue: Option<f64>,
    /// Events a second that it could do at most, by its time for one (Little's law: what is in it,
    /// over the time that one is in it); none for a stage that did nothing.
    pub ceiling_events_per_second: Option<f64>,
}

/// What was seen over a span.
pub struct Span<'a> {
    /// Samples at its start and its end.
    pub before: &'a Samples,
    /// The same at its end.
    pub after: &'a Samples,
    /// Its length in seconds.
    pub seconds: f64,
    /// Events that went through.
    pub events: f64,
    /// The writer's lag in records, looked at again and again.
    pub lags: &'a [u64],
    /// Cores that the server and the load generator took.
    pub cores: (f64, f64),
}

/// Every stage, the first first.
pub fn stages(span: &Span<'_>) -> Vec<Stage> {
    let doing = |stage: &str, doing: &str| {
        let labels = [("stage", stage), ("doing", doing)];
        let of = |samples| value(samples, "fulmar_stage_seconds_total", &labels);
        (of(span.after) - of(span.before)) / span.seconds
    };
    let rate = span.events / span.seconds;
    let ceiling = |utilisation: f64| (utilisation > 0.001).then(|| rate / utilisation);
    let mean = span.lags.iter().sum::<u64>() as f64 / span.lags.len().max(1) as f64;
    let threads = [
        ("log", None),
        ("writer", Some(mean)),
        ("profiles", None),
        ("compaction", None),
    ];
    let mut stages: Vec<Stage> = threads
        .into_iter()
        .map(|(stage, queue)| {
            let utilisation = doing(stage, "busy");
            let ceiling_events_per_second = ceiling(utilisation);
            Stage {
                stage,
                utilisation,
                wait: doing(stage, "wait"),
                queue,
                ceiling_events_per_second,
            }
        })
        .collect();
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let utilisation = (span.cores.0 + span.cores.1) / processors;
    stages.push(Stage {
        stage: "processor",
        utilisation,
        wait: (1.0 - utilisation).max(0.0),
        queue: None,
        ceiling_events_per_second: ceiling(utilisation),
    });
    stages
}

/// The stage that sets the pace: a thread that is full before all cores together, as that
/// explains more; the one with the lowest ceiling of several. If nothing is full, the load.
pub fn pace(stages: &[Stage], cores: (f64, f64)) -> Pace {
    let full = |stage: &&Stage| stage.utilisation >= FULL;
    // Compaction holds nobody up before its bound, at which the writer waits.
    let sets_a_pace = |stage: &&Stage| stage.stage != "compaction" && full(stage);
    let is_thread = |stage: &&Stage| stage.stage != "processor";
    let lowest = |a: &&Stage, b: &&Stage| a.utilisation.total_cmp(&b.utilisation);
    let candidates = || stages.iter().filter(sets_a_pace);
    let thread = candidates().filter(is_thread).max_by(lowest);
    let found = thread.or_else(|| candidates().max_by(lowest));
    let shares: Vec<String> = stages
        .iter()
        .map(|stage| format!("{} {:.0} %", stage.stage, stage.utilisation * 100.0))
        .collect();
    let shares = shares.join(", ");
    let (server, generator) = cores;
    let Some(found) = found else {
        let busiest = stages
            .iter()
            .map(|stage| stage.utilisation)
            .fold(0.0, f64::max);
        let why = format!("no stage is full ({shares}): the load sends no faster");
        return Pace {
            stage: "load".to_owned(),
            utilisation: busiest,
            why,
        };
    };
    let ceiling = found.ceiling_events_per_second.unwrap_or(0.0);
    let why = format!(
        "busy all the time, at most {ceiling:.0} events/s by its time for one ({shares}; cores: \
         server {server:.2}, load generator {generator:.2})"
    );
    Pace {
        stage: found.stage.to_owned(),
        utilisation: found.utilisation,
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(busy: &[(&str, f64)], cores: (f64, f64)) -> Vec<Stage> {
        let key = |stage, doing| {
            format!("fulmar_stage_seconds_total{{stage=\"{stage}\",doing=\"{doing}\"}}")
        };
        let before: Samples = busy
            .iter()
            .map(|(stage, _)| (key(stage, "busy"), 3.0))
            .collect();
        let mut after = before.clone();
        for (stage, seconds) in busy {
            after.insert(key(stage, "busy"), 3.0 + seconds);
            after.insert(key(stage, "wait"), 10.0 - seconds);
        }
        let lags = [100, 300];
        let (seconds, events) = (10.0, 100_000.0);
        stages(&Span {
            before: &before,
            after: &after,
            seconds,
            events,
            lags: &lags,
            cores,
        })
    }

    #[test]
    fn a_stage_has_the_share_of_time_and_the_ceiling_that_follow_from_it() {
        let stages = of(&[("writer", 5.0), ("log", 2.5)], (0.5, 0.5));
        let writer = stages.iter().find(|stage| stage.stage == "writer").unwrap();
        let expected = Stage {
            stage: "writer",
            utilisation: 0.5,
            wait: 0.5,
            queue: Some(200.0),
            // 10,000 a second in half of its time.
            ceiling_events_per_second: Some(20_000.0),
        };
        assert_eq!(*writer, expected);
        let profiles = stages
            .iter()
            .find(|stage| stage.stage == "profiles")
            .unwrap();
        assert_eq!(
            (profiles.utilisation, profiles.ceiling_events_per_second),
            (0.0, None)
        );
        assert_eq!(pace(&stages, (0.5, 0.5)).stage, "load");
    }

    #[test]
    fn a_full_thread_sets_the_pace_before_full_cores_do() {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let cores = (processors * 0.5, processors * 0.48);
        let named = |busy| pace(&of(busy, cores), cores).stage;
        assert_eq!(named(&[("writer", 9.9), ("log", 9.0)]), "writer");
        assert_eq!(named(&[("writer", 4.0), ("log", 9.0)]), "log");
        assert_eq!(named(&[("profiles", 9.0)]), "profiles");
        // Compaction that is busy all the time holds nobody up.
        assert_eq!(named(&[("compaction", 10.0), ("writer", 8.0)]), "processor");
    }
}
