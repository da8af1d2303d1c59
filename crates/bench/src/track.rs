//! `bench track`: what SDKs send, from the first planned request until every event is in its
//! table and every session and profile is settled, reconciled by id.
//!
//! A round is two measurements under the same load: a null server that writes each body with the
//! log's group commit and answers (the limit), and the whole; then the folds alone over the log
//! that it left. Each is a child process in a folder of its own (M1). With a target there is one
//! measurement, and what needs the server's inside is null.

pub(crate) mod load;
mod measured;
pub(crate) mod phase;
pub(crate) mod reconcile;
mod result;
mod stages;
pub(crate) mod workload;

use std::path::PathBuf;

use crate::BenchError;
use crate::ingest::Failure;
use crate::report::Report;
use load::Generators;
use measured::{FoldAlone, Measured};
use phase::Bench;
use reconcile::Reconciled;
pub use workload::Skew;

/// A server that is not ours to start.
#[derive(Clone, Debug)]
pub struct TrackTarget {
    /// `http://host:port`, perhaps with a path; events go to `/track` below it.
    pub url: String,
    /// A client that may write.
    pub client: String,
    /// Its secret.
    pub secret: String,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct TrackOptions {
    /// Events in all.
    pub events: u64,
    /// Events in a request.
    pub batch: u32,
    /// Devices, each with an account.
    pub identities: u32,
    /// Properties of an event.
    pub properties: u32,
    /// How identities share the events.
    pub skew: Skew,
    /// Threads that send.
    pub generators: u32,
    /// Connections of each.
    pub connections: u32,
    /// Rounds of all measurements.
    pub rounds: u32,
    /// `writer.workers` of the server.
    pub workers: u32,
    /// Another server.
    pub target: Option<TrackTarget>,
    /// This program, which is started as server and null server.
    pub executable: PathBuf,
    /// Where folders are made; by default the system's temporary folder.
    pub folder: Option<PathBuf>,
    /// Bounds that the medians must meet: exit code 4 beyond them.
    pub bounds: TrackBounds,
    /// No lines about what goes on.
    pub quiet: bool,
}

/// Bounds that a caller sets; the verdict names the first that is not met.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct TrackBounds {
    /// Least `events_per_second`.
    pub events_per_second_min: Option<f64>,
    /// Least `fraction_of_limit`.
    pub fraction_of_limit_min: Option<f64>,
    /// Most `settled_seconds`.
    pub settled_seconds_max: Option<f64>,
}

/// One round's measurements.
struct Round {
    limit: Option<Measured>,
    whole: Measured,
    folds: Option<FoldAlone>,
    reconciled: Option<Reconciled>,
}

impl TrackOptions {
    fn generators(&self) -> Generators {
        Generators {
            threads: self.generators,
            connections: self.connections,
            batch: self.batch,
        }
    }
}

/// Measures. The report's verdict is `ok` or says what failed, and the failure says how.
///
/// # Errors
/// When a child process or a folder fails before there is anything to report.
pub fn run(options: &TrackOptions) -> Result<(Report, Option<Failure>), BenchError> {
    let bench = Bench::new(options);
    let mut rounds = Vec::new();
    for number in 1..=options.rounds {
        rounds.push(round(&bench, number)?);
    }
    Ok(result::report(options, &rounds))
}

fn round(bench: &Bench<'_>, number: u32) -> Result<Round, BenchError> {
    if let Some(target) = &bench.options.target {
        let whole = bench.target(target, number)?;
        return Ok(Round {
            limit: None,
            whole,
            folds: None,
            reconciled: None,
        });
    }
    let limit = bench.null_server(number)?;
    let (whole, folds, reconciled) = bench.server(number)?;
    Ok(Round {
        limit: Some(limit),
        whole,
        folds: Some(folds),
        reconciled: Some(reconciled),
    })
}
