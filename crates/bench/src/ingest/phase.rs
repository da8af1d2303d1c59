//! One measurement: a server started, loaded, watched, stopped, reconciled.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use fulmar_event::Timestamp;

use super::batch::Template;
use super::connection::Dialer;
use super::load::{Load, Outcome, drive};
use super::measured::Measured;
use super::reconcile::{Reconciled, Reconciler, reconcile};
use super::{IngestOptions, Target};
use crate::BenchError;
use crate::latency::Latency;
use crate::null_server::Mode;
use crate::server::child::{self, ChildServer};
use crate::server::folder::Folder;
use crate::server::ops::{Ops, value};
use crate::server::watch::{LagWatch, drain};

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
        let folder = Folder::make(self.options.folder.as_deref(), phase, round)?;
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
        let folder = Folder::make(self.options.folder.as_deref(), phase, round)?;
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
        Measured {
            phase,
            answered_events_per_second: events / seconds,
            stored_events_per_second: None,
            answer_ms: Latency::of(&outcome.latency_us),
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
    let mut args = child::serve_args(dir, &BUDGETS);
    args.push("--bench-control".into());
    args
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
