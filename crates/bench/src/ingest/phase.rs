//! One measurement: a server started, loaded, watched, stopped, reconciled.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fulmar_event::Timestamp;
use serde::Serialize;

use super::batch::Template;
use super::child::{self, ChildServer};
use super::connection::Dialer;
use super::load::{Load, Outcome, drive};
use super::ops::{Ops, Samples, value};
use super::reconcile::{Reconciled, Reconciler, reconcile};
use super::{IngestOptions, Target};
use crate::BenchError;
use crate::null_server::Mode;
use crate::report::Pace;

/// Time for the writer to store what the log holds after the load; past it the
/// run has failed.
const DRAIN_MAX: Duration = Duration::from_secs(300);

/// How often the writer's lag is looked at.
const LAG_INTERVAL: Duration = Duration::from_millis(250);

/// Budgets are raised tenfold in a server that the bench starts: sixteen
/// agents are to load it as a thousand would.
pub const BUDGETS: [(&str, &str); 3] = [
    ("agents.requests_per_second", "2000"),
    ("agents.events_per_second", "500000"),
    ("agents.bytes_per_second", "320MiB"),
];

/// What all measurements of a run share.
pub struct Bench<'a> {
    /// What was asked for.
    pub options: &'a IngestOptions,
    runtime: tokio::runtime::Runtime,
    run: u32,
}

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

/// Latencies in ms.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// 50th percentile.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// Processor time at the start of a load.
struct Before {
    own_cpu_ns: u64,
    server_cpu_ns: u64,
    start: Instant,
}

impl<'a> Bench<'a> {
    /// Draws the run's number, which is in every id.
    pub fn new(
        options: &'a IngestOptions,
        runtime: tokio::runtime::Runtime,
    ) -> Result<Bench<'a>, BenchError> {
        use std::hash::{BuildHasher, Hasher, RandomState};
        let run = RandomState::new().build_hasher().finish() as u32;
        Ok(Bench {
            options,
            runtime,
            run,
        })
    }

    /// The same load against a null server.
    pub fn null_server(&self, mode: Mode, round: u32) -> Result<Measured, BenchError> {
        let phase = if mode == Mode::Append {
            "limit"
        } else {
            "discard"
        };
        self.say(round, phase);
        let folder = Folder::make(self.options, phase, round)?;
        self.mint(&folder.path)?;
        let words = ["bench", "null-server", "--mode", mode.as_str(), "--events"];
        let mut args: Vec<OsString> = words.iter().map(Into::into).collect();
        args.push(self.options.batch.to_string().into());
        args.extend(["--data".into(), folder.path.clone().into_os_string()]);
        let server = ChildServer::start(&self.options.executable, &args)?;
        let dialers = self.dialers(&server, &folder.path)?;
        let before = Before::now(Some(&server));
        let outcome = self.drive(&dialers, round);
        let measured = self.measured(phase, &outcome, &before, Some(&server));
        server.stop()?;
        Ok(measured)
    }

    /// The load against a server of ours; the writer held back while it lasts,
    /// or not. Then all is stored, the server stopped, and ids compared.
    pub fn server(&self, hold: bool, round: u32) -> Result<(Measured, Reconciled), BenchError> {
        let phase = if hold { "door" } else { "whole" };
        self.say(round, phase);
        let folder = Folder::make(self.options, phase, round)?;
        self.mint(&folder.path)?;
        let server = ChildServer::start(&self.options.executable, &serve_args(&folder.path))?;
        let ops = Ops::at(server.addresses.get("ops").map_or("", String::as_str));
        let dialers = self.dialers(&server, &folder.path)?;
        if hold {
            ops.hold_writer(true)?;
        }
        let samples_before = ops.scrape()?;
        let before = Before::now(Some(&server));
        let watch = LagWatch::start(ops.clone());
        let outcome = self.drive(&dialers, round);
        let mut measured = self.measured(phase, &outcome, &before, Some(&server));
        let samples_after = ops.scrape()?;
        measured.lag_records = watch.stop();
        if hold {
            ops.hold_writer(false)?;
        }
        let drained = drain(&ops)?;
        measured.drain_seconds = Some(drained.as_secs_f64());
        let events = (outcome.completed * u64::from(self.options.batch)) as f64;
        if !hold {
            let seconds = before.start.elapsed().as_secs_f64();
            measured.stored_events_per_second = Some(events / seconds);
            let cpu_ns = server.cpu_ns() - before.server_cpu_ns;
            measured.server_cpu_ns_per_stored_event = Some(cpu_ns as f64 / events.max(1.0));
        }
        measured.server_resident_bytes_max = Some(server.resident_bytes());
        measured.pace = Some(super::pace::name(
            &samples_before,
            &samples_after,
            outcome.elapsed,
            &measured,
        ));
        let logged = value(
            &ops.scrape()?,
            "fulmar_ledger_records",
            &[("term", "logged")],
        );
        server.stop()?;
        let reconciler = Reconciler::new(self.run, self.options.batch, &outcome.sent);
        let found = reconcile(&folder.path, reconciler)?;
        Ok((
            measured,
            Reconciled {
                logged: logged as u64,
                ..found
            },
        ))
    }

    /// The load against a server that is not ours.
    pub fn target(&self, round: u32) -> Result<Measured, BenchError> {
        self.say(round, "target");
        let target = self
            .options
            .target
            .as_ref()
            .expect("asked for with a target only");
        let (host, address) = resolve(target)?;
        let mut dialers = Vec::new();
        for agent in 0..usize::from(self.options.agents) {
            let count = target.certificates.len().max(1);
            let Some((certificate, key)) = target.certificates.get(agent % count) else {
                return Err(BenchError::Usage("a target needs a certificate".to_owned()));
            };
            dialers.push(Dialer::new(
                address,
                &host,
                certificate,
                key,
                &target.authorities,
            )?);
        }
        let before = Before::now(None);
        let outcome = self.drive(&dialers, round);
        Ok(self.measured("whole", &outcome, &before, None))
    }

    fn drive(&self, dialers: &[Dialer], round: u32) -> Outcome {
        let options = self.options;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seconds = now.map_or(0, |now| now.as_secs() as i64);
        let template = Template::new(options.batch, Timestamp { seconds, nanos: 0 });
        let interval = options.rate.map(|rate| {
            let per_agent = f64::from(options.batch) * f64::from(options.agents) / rate as f64;
            Duration::from_secs_f64(per_agent)
        });
        let load = Load {
            // Against a target the rounds share its tables: ids must differ.
            run: self
                .run
                .wrapping_add(if options.target.is_some() { round } else { 0 }),
            events: options.batch,
            duration: options.duration,
            interval,
        };
        self.runtime.block_on(drive(&load, &template, dialers))
    }

    fn measured(
        &self,
        phase: &'static str,
        outcome: &Outcome,
        before: &Before,
        server: Option<&ChildServer>,
    ) -> Measured {
        let events = (outcome.completed * u64::from(self.options.batch)) as f64;
        let seconds = outcome.elapsed.as_secs_f64().max(0.001);
        let own_ns = child::own_cpu_ns() - before.own_cpu_ns;
        let server_ns = server.map(|server| server.cpu_ns() - before.server_cpu_ns);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let ms = |us: u64| us as f64 / 1_000.0;
        Measured {
            phase,
            answered_events_per_second: events / seconds,
            stored_events_per_second: None,
            answer_ms: Latency {
                p50: ms(outcome.latency_us.value_at_quantile(0.50)),
                p99: ms(outcome.latency_us.value_at_quantile(0.99)),
                max: ms(outcome.latency_us.max()),
            },
            server_cpu_ns_per_event: server_ns.map(|ns| ns as f64 / events.max(1.0)),
            server_cpu_ns_per_stored_event: None,
            server_resident_bytes_max: server.map(ChildServer::resident_bytes),
            generator_share: own_ns as f64 / 1e9 / seconds / processors as f64,
            offered: outcome.offered,
            started: outcome.started,
            completed: outcome.completed,
            late: outcome.late,
            dropped: outcome.dropped,
            failed: outcome.failed,
            connections: outcome.connections,
            timeline: outcome.timeline.clone(),
            lag_records: Vec::new(),
            drain_seconds: None,
            pace: None,
            first_error: outcome.first_error.clone(),
        }
    }

    fn mint(&self, dir: &Path) -> Result<(), BenchError> {
        for agent in 0..self.options.agents {
            let args: [OsString; 5] = [
                "pki".into(),
                "agent".into(),
                format!("bench-{agent}").into(),
                "--data".into(),
                dir.as_os_str().to_owned(),
            ];
            child::run(&self.options.executable, &args)?;
        }
        Ok(())
    }

    fn dialers(&self, server: &ChildServer, dir: &Path) -> Result<Vec<Dialer>, BenchError> {
        let address = server.addresses.get("agents").map_or("", String::as_str);
        let address: SocketAddr = address.parse().map_err(|_| BenchError::Child {
            what: "the ready line".to_owned(),
            why: format!("no agents listener in it: {address}"),
        })?;
        let pki = dir.join("pki");
        let dialer = |agent: u16| {
            let agents = pki.join("agents");
            let certificate = agents.join(format!("bench-{agent}.pem"));
            let key = agents.join(format!("bench-{agent}.key"));
            Dialer::new(
                address,
                "127.0.0.1",
                &certificate,
                &key,
                &pki.join("servers-ca.pem"),
            )
        };
        (0..self.options.agents).map(dialer).collect()
    }

    fn say(&self, round: u32, phase: &str) {
        if !self.options.quiet {
            eprintln!("round {round} of {}: {phase}", self.options.rounds);
        }
    }
}

impl Before {
    fn now(server: Option<&ChildServer>) -> Before {
        Before {
            own_cpu_ns: child::own_cpu_ns(),
            server_cpu_ns: server.map_or(0, ChildServer::cpu_ns),
            start: Instant::now(),
        }
    }
}

fn serve_args(dir: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["serve".into(), "--data".into(), dir.into()];
    for listener in ["--public", "--agents", "--ops"] {
        args.extend([listener.into(), "127.0.0.1:0".into()]);
    }
    args.extend([
        "--bench-control".into(),
        "--log-level".into(),
        "warn".into(),
    ]);
    for (key, value) in BUDGETS {
        args.extend(["--set".into(), format!("{key}={value}").into()]);
    }
    args
}

/// Waits until the tables hold what the log does: how long that took.
fn drain(ops: &Ops) -> Result<Duration, BenchError> {
    let start = Instant::now();
    while lag(&ops.scrape()?) > 0 {
        if start.elapsed() > DRAIN_MAX {
            return Err(BenchError::Child {
                what: "the writer".to_owned(),
                why: format!("it did not store the log's end within {DRAIN_MAX:?}"),
            });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(start.elapsed())
}

fn lag(samples: &Samples) -> u64 {
    value(samples, "fulmar_ledger_records", &[("term", "backlog")]) as u64
}

/// Looks at the lag while the load lasts.
struct LagWatch {
    stop: std::sync::mpsc::Sender<()>,
    watching: std::thread::JoinHandle<Vec<u64>>,
}

impl LagWatch {
    fn start(ops: Ops) -> LagWatch {
        let (stop, stopped) = std::sync::mpsc::channel();
        let watching = std::thread::spawn(move || {
            let mut lags = Vec::new();
            while stopped.recv_timeout(LAG_INTERVAL).is_err() {
                lags.extend(ops.scrape().map(|samples| lag(&samples)));
            }
            lags
        });
        LagWatch { stop, watching }
    }

    fn stop(self) -> Vec<u64> {
        let _ = self.stop.send(());
        self.watching.join().unwrap_or_default()
    }
}

fn resolve(target: &Target) -> Result<(String, SocketAddr), BenchError> {
    let bad = || BenchError::Usage(format!("no address of an agents door: {}", target.url));
    let authority = target.url.strip_prefix("https://").unwrap_or(&target.url);
    let authority = authority.split('/').next().unwrap_or(authority);
    let (host, port) = authority.rsplit_once(':').ok_or_else(bad)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port: u16 = port.parse().map_err(|_| bad())?;
    let address = (host, port).to_socket_addrs()?.next().ok_or_else(bad)?;
    Ok((host.to_owned(), address))
}

/// A folder of one measurement, removed with all that is in it.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn make(options: &IngestOptions, phase: &str, round: u32) -> Result<Folder, BenchError> {
        let root = options.folder.clone().unwrap_or_else(std::env::temp_dir);
        let name = format!("fulmar-bench-{}-{round}-{phase}", std::process::id());
        let path = root.join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Folder { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
