//! `bench replay`: the tables of a million events rebuilt from the log, by one worker and by more,
//! reconciled by id and compared by digest with the tables that the live run made.
//!
//! The log is made once, by a server under load. Each rebuild is a process of its own, timed from
//! its start to its end, with compaction paused and nothing else running.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::BenchError;
use crate::http::Endpoint;
use crate::ingest::Failure;
use crate::report::{Bound, Ledger, Metric, Report, Spread};
use crate::server::child::{self, ChildServer};
use crate::server::folder::Folder;
use crate::server::ops::Ops;
use crate::server::watch::drain_all;
use crate::track::Skew;
use crate::track::load::{Generators, drive};
use crate::track::phase::{make_client, serve_args};
use crate::track::reconcile::{Reconciled, reconcile};
use crate::track::workload::Workload;

/// How the log is made: as fast as may be.
const FILLING: Generators = Generators {
    threads: 1,
    connections: 8,
    batch: 1_000,
};

/// What to measure.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Events in the log.
    pub events: u64,
    /// Devices, each with an account.
    pub identities: u32,
    /// Properties of an event.
    pub properties: u32,
    /// How identities share the events.
    pub skew: Skew,
    /// Numbers of workers, each measured in every round.
    pub workers: Vec<u32>,
    /// Rounds of all measurements.
    pub rounds: u32,
    /// This program, which is started as server and for each rebuild.
    pub executable: PathBuf,
    /// Where folders are made; by default the system's temporary folder.
    pub folder: Option<PathBuf>,
    /// Bounds that the medians must meet: exit code 4 beyond them.
    pub bounds: ReplayBounds,
    /// No lines about what goes on.
    pub quiet: bool,
}

/// Bounds that a caller sets; the verdict names the first that is not met.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct ReplayBounds {
    /// Most `settled_seconds`.
    pub settled_seconds_max: Option<f64>,
    /// Least ratio of one worker's time to that of the most workers.
    pub workers_ratio_min: Option<f64>,
    /// Most `resident_mib_max`.
    pub resident_mib_max: Option<f64>,
}

/// One rebuild.
#[derive(Clone, Debug, serde::Serialize)]
struct Rebuilt {
    workers: u32,
    /// From the start of the process to its end.
    seconds: f64,
    /// What the process says of itself.
    report: Value,
    reconciled: Reconciled,
    /// Whether the tables hold the rows of the live run's; none where no query can be run.
    same_digest: Option<bool>,
}

/// Measures. The report's verdict is `ok` or says what failed, and the failure says how.
///
/// # Errors
/// When a child process or a folder fails before there is anything to report.
pub fn run(options: &ReplayOptions) -> Result<(Report, Option<Failure>), BenchError> {
    if options.workers.is_empty() || options.workers.contains(&0) {
        return Err(BenchError::Usage(
            "workers are numbers from 1 on".to_owned(),
        ));
    }
    let say = |text: String| {
        if !options.quiet {
            eprintln!("{text}");
        }
    };
    use std::hash::{BuildHasher, Hasher, RandomState};
    let run = RandomState::new().build_hasher().finish() as u32;
    let (events, identities) = (options.events, options.identities);
    let skew = options.skew;
    let workload = Arc::new(Workload::new(
        run,
        events,
        identities,
        options.properties,
        skew,
    ));
    say(format!("making a log of {events} events"));
    let source = Folder::make(options.folder.as_deref(), "log", 0)?;
    fill(options, &source.path, &workload)?;
    let digest = digest(&options.executable, &source.path);
    if let Err(error) = &digest {
        say(format!("no digests are compared: {error}"));
    }
    let digest = digest.ok();
    let mut rounds = Vec::new();
    for number in 1..=options.rounds {
        let mut round = Vec::new();
        for &workers in &options.workers {
            say(format!(
                "round {number} of {}: {workers} workers",
                options.rounds
            ));
            round.push(rebuild(
                options,
                &source.path,
                &workload,
                workers,
                digest.as_ref(),
            )?);
        }
        rounds.push(round);
    }
    Ok(report(options, &rounds))
}

/// Fills a log, and settles the tables of the live run.
fn fill(options: &ReplayOptions, dir: &Path, workload: &Arc<Workload>) -> Result<(), BenchError> {
    let server = ChildServer::start(&options.executable, &serve_args(dir, 1))?;
    let (client, secret) = make_client(&options.executable, dir)?;
    let address = server.addresses.get("public").map_or("", String::as_str);
    let endpoint = Endpoint::of_sdk(&format!("http://{address}"), &client, &secret)?;
    let outcome = drive(workload, FILLING, &endpoint)?;
    if !outcome.unsure.is_empty() {
        let why = outcome.first_error.unwrap_or_default();
        return Err(BenchError::Child {
            what: "filling the log".to_owned(),
            why,
        });
    }
    drain_all(&Ops::at(
        server.addresses.get("ops").map_or("", String::as_str),
    ))?;
    server.stop()
}

/// `fulmar replay` of a folder into an empty one, without compaction: what it reports.
pub(crate) fn replay(
    executable: &Path,
    source: &Path,
    into: &Path,
    workers: u32,
) -> Result<Value, BenchError> {
    let mut target = OsString::from("lake:");
    target.push(into);
    let args: Vec<OsString> = vec![
        "replay".into(),
        "--data".into(),
        source.into(),
        "--into".into(),
        target,
        "--workers".into(),
        workers.to_string().into(),
        "--no-compact".into(),
        "--json".into(),
    ];
    let text = child::output(executable, &args)?;
    serde_json::from_str(&text).map_err(|error| BenchError::Child {
        what: "replay".to_owned(),
        why: error.to_string(),
    })
}

fn rebuild(
    options: &ReplayOptions,
    source: &Path,
    workload: &Workload,
    workers: u32,
    digest: Option<&Value>,
) -> Result<Rebuilt, BenchError> {
    let folder = Folder::make(options.folder.as_deref(), "rebuilt", workers)?;
    let began = Instant::now();
    let report = replay(&options.executable, source, &folder.path, workers)?;
    let seconds = began.elapsed().as_secs_f64();
    let same_digest = digest.map(|digest| {
        self::digest(&options.executable, &folder.path).is_ok_and(|found| found == *digest)
    });
    let reconciled = reconcile(&folder.path, workload, &[])?;
    Ok(Rebuilt {
        workers,
        seconds,
        report,
        reconciled,
        same_digest,
    })
}

fn digest(executable: &Path, dir: &Path) -> Result<Value, BenchError> {
    let words = ["lake", "digest", "--json", "--data"];
    let mut args: Vec<OsString> = words.iter().map(Into::into).collect();
    args.push(dir.into());
    Ok(serde_json::from_str(&child::output(executable, &args)?).unwrap_or_default())
}

fn report(options: &ReplayOptions, rounds: &[Vec<Rebuilt>]) -> (Report, Option<Failure>) {
    let mut report = Report::new("replay", config(options));
    report.rounds = rounds.iter().map(|round| json!(round)).collect();
    let of = |workers: u32, figure: &dyn Fn(&Rebuilt) -> f64| -> Vec<f64> {
        let all = rounds.iter().flatten().filter(|one| one.workers == workers);
        all.map(figure).collect()
    };
    let mut add = |name: String, figures: Vec<f64>| {
        if let Some(spread) = Spread::of(figures) {
            report.summary.insert(name, Metric::Figure(spread));
        }
    };
    let most = options.workers.iter().copied().max().unwrap_or(1);
    let events = options.events as f64;
    add(
        "events_per_second".to_owned(),
        of(most, &|one| events / one.seconds),
    );
    // All is stored and settled when the process ends.
    for name in ["stored_seconds", "settled_seconds"] {
        add(name.to_owned(), of(most, &|one| one.seconds));
    }
    let mib =
        |one: &Rebuilt| one.report["resident_bytes_max"].as_f64().unwrap_or(0.0) / 1_048_576.0;
    add("resident_mib_max".to_owned(), of(most, &mib));
    let backlog = |one: &Rebuilt| one.report["block_records_max"].as_f64().unwrap_or(0.0);
    add("block_records_max".to_owned(), of(most, &backlog));
    for &workers in &options.workers {
        add(
            format!("seconds_workers_{workers}"),
            of(workers, &|one| one.seconds),
        );
    }
    let first = options.workers[0];
    for &workers in options.workers.iter().filter(|workers| **workers != first) {
        let (ones, many) = (
            of(first, &|one| one.seconds),
            of(workers, &|one| one.seconds),
        );
        let ratios = ones.iter().zip(&many).map(|(one, many)| one / many);
        if let Some(spread) = Spread::of(ratios) {
            report
                .ratio
                .insert(format!("workers_{workers}"), spread.median);
        }
    }
    report.ledger = Some(ledger(options, rounds));
    let failure = judge(options, rounds, &mut report, most);
    (report, failure)
}

fn config(options: &ReplayOptions) -> Value {
    json!({
        "events": options.events,
        "identities": options.identities,
        "properties": options.properties,
        "skew": options.skew,
        "workers": options.workers,
        "rounds": options.rounds,
        "compaction": "paused",
        "bounds": options.bounds,
    })
}

fn ledger(options: &ReplayOptions, rounds: &[Vec<Rebuilt>]) -> Ledger {
    let all = || rounds.iter().flatten().map(|one| &one.reconciled);
    let rebuilds = all().count() as u64;
    Ledger {
        accepted: options.events * rebuilds,
        logged: Some(options.events * rebuilds),
        stored: Some(all().map(|found| found.stored).sum()),
        lost: Some(all().map(|found| found.lost).sum()),
        doubled: Some(all().map(|found| found.doubled).sum()),
        foreign: Some(all().map(|found| found.foreign).sum()),
    }
}

fn judge(
    options: &ReplayOptions,
    rounds: &[Vec<Rebuilt>],
    report: &mut Report,
    most: u32,
) -> Option<Failure> {
    let wrong = |one: &&Rebuilt| {
        !one.reconciled.is_exact() || one.report["exact"] != true || one.same_digest == Some(false)
    };
    if let Some(one) = rounds.iter().flatten().find(wrong) {
        let fault = one.reconciled.first_fault.as_deref();
        let fault = fault.unwrap_or("the digest differs from the live run's, or the ledger");
        report.verdict = format!("not reconciled with {} workers: {fault}", one.workers);
        return Some(Failure::NotReconciled);
    }
    let bounds = &options.bounds;
    let workers = format!("workers_{most}");
    let ratio = report.ratio.get(&workers).copied();
    let shown = format!("ratio.{workers}");
    let (settled, resident) = ("settled_seconds", "resident_mib_max");
    let bounds = [
        Bound::most(settled, report.median(settled), bounds.settled_seconds_max),
        Bound::least(&shown, ratio, bounds.workers_ratio_min),
        Bound::most(resident, report.median(resident), bounds.resident_mib_max),
    ];
    (!report.meets(&bounds)).then_some(Failure::BelowBound)
}
