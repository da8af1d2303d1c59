//! One measurement: a server started, loaded, watched until all is settled, stopped, reconciled.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::load::{Outcome, drive};
use super::measured::{FoldAlone, Measured};
use super::reconcile::{Reconciled, reconcile};
use super::stages::{Span, pace, stages};
use super::workload::Workload;
use super::{TrackOptions, TrackTarget};
use crate::BenchError;
use crate::http::Endpoint;
use crate::server::child::{self, ChildServer};
use crate::server::folder::Folder;
use crate::server::ops::{Ops, Samples, value};
use crate::server::watch::LagWatch;

/// Budgets of a server that the bench starts: lifted, since one client is to load it as a
/// thousand would.
pub const BUDGETS: [(&str, &str); 3] = [
    ("keys.requests_per_second", "0"),
    ("keys.events_per_second", "0"),
    ("keys.bytes_per_second", "0B"),
];

/// How often it is looked whether all is settled.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Time for all to settle after the load; past it the run has failed.
const SETTLE_MAX: Duration = Duration::from_secs(600);

/// What all measurements of a run share.
pub struct Bench<'a> {
    /// What was asked for.
    pub options: &'a TrackOptions,
    run: u32,
}

impl<'a> Bench<'a> {
    /// Draws the run's number, which is in every id.
    pub fn new(options: &'a TrackOptions) -> Bench<'a> {
        use std::hash::{BuildHasher, Hasher, RandomState};
        let run = RandomState::new().build_hasher().finish() as u32;
        Bench { options, run }
    }

    fn workload(&self, round: u32) -> Arc<Workload> {
        let options = self.options;
        // Against a target the rounds share its tables: ids must differ.
        let run = self.run.wrapping_add(round);
        let (events, identities) = (options.events, options.identities);
        let skew = options.skew;
        Arc::new(Workload::new(
            run,
            events,
            identities,
            options.properties,
            skew,
        ))
    }

    /// The same load against a null server.
    pub fn null_server(&self, round: u32) -> Result<Measured, BenchError> {
        self.say(round, "limit");
        let folder = Folder::make(self.options.folder.as_deref(), "limit", round)?;
        let words = [
            "bench",
            "null-server",
            "--door",
            "track",
            "--mode",
            "append",
            "--events",
        ];
        let mut args: Vec<OsString> = words.iter().map(Into::into).collect();
        args.push(self.options.batch.to_string().into());
        args.extend(["--data".into(), folder.path.clone().into_os_string()]);
        let server = ChildServer::start(&self.options.executable, &args)?;
        let endpoint = Endpoint::of_sdk(&public_url(&server), "null", "null")?;
        let (outcome, measured) = self.drive("limit", &self.workload(round), &endpoint, &server)?;
        drop(outcome);
        server.stop()?;
        Ok(measured)
    }

    /// The load against a server of ours, until all is settled; then the folds alone over its
    /// log, and the reconciliation.
    pub fn server(&self, round: u32) -> Result<(Measured, FoldAlone, Reconciled), BenchError> {
        self.say(round, "whole");
        let folder = Folder::make(self.options.folder.as_deref(), "whole", round)?;
        let began = Instant::now();
        let args = serve_args(&folder.path, self.options.workers);
        let server = ChildServer::start(&self.options.executable, &args)?;
        let start_seconds = began.elapsed().as_secs_f64();
        let (client, secret) = make_client(&self.options.executable, &folder.path)?;
        let endpoint = Endpoint::of_sdk(&public_url(&server), &client, &secret)?;
        let workload = self.workload(round);
        let ops = Ops::at(server.addresses.get("ops").map_or("", String::as_str));
        let before = ops.scrape()?;
        let cpu_before_ns = server.cpu_ns();
        let watch = LagWatch::start(ops.clone());
        let (outcome, mut measured) = self.drive("whole", &workload, &endpoint, &server)?;
        measured.start_seconds = Some(start_seconds);
        settle(&ops, &outcome, &mut measured)?;
        measured.lag_records = watch.stop();
        let after = ops.scrape()?;
        let server_cpu_ns = server.cpu_ns() - cpu_before_ns;
        let events = outcome.events as f64;
        measured.server_cpu_us_per_settled_event =
            Some(server_cpu_ns as f64 / 1e3 / events.max(1.0));
        measured.server_resident_bytes_max = Some(server.resident_bytes());
        judge(&mut measured, (&before, &after), events, server_cpu_ns);
        server.stop()?;
        let unsure: Vec<_> = outcome
            .unsure
            .iter()
            .map(|request| workload.numbers(*request, self.options.batch))
            .collect();
        let found = reconcile(&folder.path, &workload, &unsure)?;
        self.say(round, "the folds alone");
        let alone = self.folds_alone(&folder.path, events, round)?;
        Ok((measured, alone, found))
    }

    /// The load against a server that is not ours.
    pub fn target(&self, target: &TrackTarget, round: u32) -> Result<Measured, BenchError> {
        self.say(round, "target");
        let endpoint = Endpoint::of_sdk(&target.url, &target.client, &target.secret)?;
        let cpu_ns = child::own_cpu_ns();
        let outcome = drive(&self.workload(round), self.options.generators(), &endpoint)?;
        Ok(Measured::of(
            "target",
            &outcome,
            child::own_cpu_ns() - cpu_ns,
        ))
    }

    fn drive(
        &self,
        phase: &'static str,
        workload: &Arc<Workload>,
        endpoint: &Endpoint,
        server: &ChildServer,
    ) -> Result<(Outcome, Measured), BenchError> {
        let (own_ns, server_ns) = (child::own_cpu_ns(), server.cpu_ns());
        let outcome = drive(workload, self.options.generators(), endpoint)?;
        let mut measured = Measured::of(phase, &outcome, child::own_cpu_ns() - own_ns);
        let events = (outcome.events as f64).max(1.0);
        let us = (server.cpu_ns() - server_ns) as f64 / 1e3;
        measured.server_cpu_us_per_event = Some(us / events);
        measured.server_resident_bytes_max = Some(server.resident_bytes());
        Ok((outcome, measured))
    }

    fn folds_alone(&self, dir: &Path, events: f64, round: u32) -> Result<FoldAlone, BenchError> {
        let folder = Folder::make(self.options.folder.as_deref(), "folds", round)?;
        let report = crate::replay::replay(&self.options.executable, dir, &folder.path, 1)?;
        let seconds = report["seconds"]["fold"].as_f64().unwrap_or(f64::NAN);
        Ok(FoldAlone {
            seconds,
            events_per_second: events / seconds,
        })
    }

    fn say(&self, round: u32, phase: &str) {
        if !self.options.quiet {
            eprintln!("round {round} of {}: {phase}", self.options.rounds);
        }
    }
}

/// Waits until every event is in its table, then until the profile fold has nothing left either.
fn settle(ops: &Ops, outcome: &Outcome, measured: &mut Measured) -> Result<(), BenchError> {
    let late = Instant::now() + SETTLE_MAX;
    loop {
        let samples = ops.scrape()?;
        let backlog = value(
            &samples,
            "fulmar_ledger_records",
            &[("topic", "events"), ("term", "backlog")],
        );
        let lag = |fold| value(&samples, "fulmar_fold_lag_records", &[("fold", fold)]);
        let seconds = outcome.start.elapsed().as_secs_f64();
        if backlog == 0.0 {
            measured.stored_seconds.get_or_insert(seconds);
            if lag("writer") + lag("profiles") == 0.0 {
                measured.settled_seconds = Some(seconds);
                return Ok(());
            }
        }
        if Instant::now() > late {
            return Err(BenchError::Child {
                what: "the folds".to_owned(),
                why: format!("they did not settle within {SETTLE_MAX:?}"),
            });
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Names what each stage did, and which set the pace.
fn judge(
    measured: &mut Measured,
    (before, after): (&Samples, &Samples),
    events: f64,
    server_cpu_ns: u64,
) {
    let seconds = measured
        .settled_seconds
        .unwrap_or(measured.answered_seconds);
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let generator_seconds = measured.generator_share * processors * measured.answered_seconds;
    let cores = (
        server_cpu_ns as f64 / 1e9 / seconds,
        generator_seconds / seconds,
    );
    let lags = &measured.lag_records;
    let stages = stages(&Span {
        before,
        after,
        seconds,
        events,
        lags,
        cores,
    });
    measured.pace = Some(pace(&stages, cores));
    measured.stages = stages;
}

fn public_url(server: &ChildServer) -> String {
    let address = server.addresses.get("public").map_or("", String::as_str);
    format!("http://{address}")
}

/// Id and secret of a client of the server of a folder.
pub(crate) fn make_client(executable: &Path, dir: &Path) -> Result<(String, String), BenchError> {
    let args: Vec<OsString> = vec![
        "clients".into(),
        "create".into(),
        "bench".into(),
        "--data".into(),
        dir.into(),
    ];
    let made = child::output(executable, &args)?;
    let made: serde_json::Value = serde_json::from_str(&made).unwrap_or_default();
    let text = |name: &str| made[name].as_str().unwrap_or_default().to_owned();
    let secret = std::fs::read_to_string(text("file"))?;
    Ok((text("client"), secret.trim().to_owned()))
}

pub(crate) fn serve_args(dir: &Path, workers: u32) -> Vec<OsString> {
    let mut args = child::serve_args(dir, &BUDGETS);
    args.extend(["--workers".into(), workers.to_string().into()]);
    args
}
