//! `bench ingest`: what the doors take and the tables keep, against the limit
//! of this machine measured in the same run, reconciled id by id.
//!
//! A round is four measurements under the same load: two null servers
//! (`discard`, and `append`, the limit), the door alone with the writer held
//! back, and the whole. Each is a child process in a folder of its own, so that
//! none warms another's caches (M1). With a target there is one measurement,
//! and what needs the server's inside is null.

mod batch;
mod connection;
mod load;
mod measured;
mod pace;
mod phase;
mod reconcile;
mod result;

use std::path::PathBuf;
use std::time::Duration;

use crate::BenchError;
use crate::report::Report;
use measured::Measured;
use phase::Bench;
use reconcile::Reconciled;

/// A server that is not ours to start.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port` of its agents listener, with or without `https://`.
    pub url: String,
    /// PEM certificates and keys of the agents, used in turn; one may do for
    /// all.
    pub certificates: Vec<(PathBuf, PathBuf)>,
    /// PEM authorities of the server.
    pub authorities: PathBuf,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct IngestOptions {
    /// Agents side by side, each with its certificate and connection.
    pub agents: u16,
    /// Events in a batch.
    pub batch: u32,
    /// How long each load lasts.
    pub duration: Duration,
    /// Rounds of all measurements.
    pub rounds: u32,
    /// Open loop at this many events a second over all agents; closed loop
    /// without it.
    pub rate: Option<u64>,
    /// Another server.
    pub target: Option<Target>,
    /// This program, which is started as server and null server.
    pub executable: PathBuf,
    /// Where folders are made; by default the system's temporary folder.
    pub folder: Option<PathBuf>,
    /// Bounds that the medians must meet: exit code 4 below them.
    pub bounds: Bounds,
    /// No lines about what goes on.
    pub quiet: bool,
}

/// Bounds that a caller sets; the verdict names the first that is not met.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Bounds {
    /// Least `door_events_per_second`.
    pub door_events_per_second_min: Option<f64>,
    /// Least `events_per_second`.
    pub events_per_second_min: Option<f64>,
    /// Least `fraction_of_limit`.
    pub fraction_of_limit_min: Option<f64>,
    /// Most milliseconds of `answer_ms.p99`.
    pub answer_ms_p99_max: Option<f64>,
}

impl Default for IngestOptions {
    fn default() -> IngestOptions {
        IngestOptions {
            agents: 16,
            batch: 500,
            duration: Duration::from_secs(10),
            rounds: 3,
            rate: None,
            target: None,
            executable: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("fulmar")),
            folder: None,
            bounds: Bounds::default(),
            quiet: false,
        }
    }
}

/// What a verdict other than `ok` means for the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Acknowledged and stored do not agree, or errors came: exit code 3.
    NotReconciled,
    /// A bound that was given is not met: exit code 4.
    BelowBound,
}

/// One round's measurements.
struct Round {
    discard: Option<Measured>,
    limit: Option<Measured>,
    door: Option<Measured>,
    whole: Measured,
    reconciled: Option<Reconciled>,
}

/// Measures. The report's verdict is `ok` or says what failed, and the failure
/// says how.
///
/// # Errors
/// When a child process, a folder or a certificate fails before there is
/// anything to report.
pub fn run(options: &IngestOptions) -> Result<(Report, Option<Failure>), BenchError> {
    if options.agents == 0 || options.batch == 0 || options.rounds == 0 {
        return Err(BenchError::Usage(
            "agents, batch and rounds are at least 1".to_owned(),
        ));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let bench = Bench::new(options, runtime)?;
    let mut rounds = Vec::new();
    for number in 1..=options.rounds {
        rounds.push(round(&bench, number)?);
    }
    Ok(result::report(options, &rounds))
}

fn round(bench: &Bench<'_>, number: u32) -> Result<Round, BenchError> {
    if bench.options.target.is_some() {
        let whole = bench.target(number)?;
        return Ok(Round {
            discard: None,
            limit: None,
            door: None,
            whole,
            reconciled: None,
        });
    }
    let discard = bench.null_server(crate::null_server::Mode::Discard, number)?;
    let limit = bench.null_server(crate::null_server::Mode::Append, number)?;
    let (door, of_door) = bench.server(true, number)?;
    let (whole, of_whole) = bench.server(false, number)?;
    Ok(Round {
        discard: Some(discard),
        limit: Some(limit),
        door: Some(door),
        whole,
        reconciled: Some(of_door.with(of_whole)),
    })
}
