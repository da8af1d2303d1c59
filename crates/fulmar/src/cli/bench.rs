//! `fulmar bench`: load, limit and reconciliation in one result.

mod track;
mod webhooks;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use fulmar_bench::hotpath::{self, HotpathOptions};
use fulmar_bench::ingest::{self, Bounds, IngestOptions, Target};
use fulmar_bench::null_server::{self, Door, Mode, NullServerOptions};
use fulmar_bench::report::{Metric, Report};

use super::output::{note, print_json, print_line};
use crate::config::parse_duration_ms;
use crate::exit::{Context as _, Exit, Failure, Outcome};

/// Measure this machine and this build.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand, Debug)]
enum Bench {
    Hotpath(HotpathArgs),
    Ingest(Box<IngestArgs>),
    Track(Box<track::TrackArgs>),
    Replay(Box<track::ReplayArgs>),
    Webhooks(Box<webhooks::WebhooksArgs>),
    #[command(hide = true)]
    NullServer(NullServerArgs),
}

/// One core, no network: each stage of the hot path beside a control that decodes.
#[derive(Args, Debug)]
struct HotpathArgs {
    /// Rounds of every measurement.
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: u32,
    /// Fail with exit code 4 when ratio.gateway is below this.
    #[arg(long, value_name = "RATIO")]
    gateway_ratio_min: Option<f64>,
    #[command(flatten)]
    json: JsonArg,
}

/// Agents over mutual TLS against the limit of this machine, reconciled by id.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar bench ingest\n  \
    fulmar bench ingest --agents 16 --batch 500 --rounds 5 --json=result.json\n  \
    fulmar bench ingest --rate 200000 --answer-p99-max 100\n  \
    fulmar bench ingest --target https://host:8443 --cert a.pem --key a.key --ca ca.pem\n\n\
    Exit codes: 3 not reconciled, 4 below a bound that was given.")]
struct IngestArgs {
    /// Agents side by side, each with its own certificate and connection.
    #[arg(long, value_name = "N", default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=4_096))]
    agents: u16,
    /// Events in a batch.
    #[arg(long, value_name = "N", default_value_t = 500,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// How long each load lasts: seconds, or with a unit such as 2m.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = load_time)]
    duration: Duration,
    /// Rounds of all measurements; medians of five tell small differences.
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Open loop at so many events a second over all agents; without it, closed.
    #[arg(long, value_name = "EVENTS")]
    rate: Option<u64>,
    /// Another server's agents listener, instead of one that is started here.
    #[arg(long, value_name = "URL", requires_all = ["cert", "key", "ca"])]
    target: Option<String>,
    /// An agent's certificate for --target (PEM); several are used in turn.
    #[arg(long, value_name = "FILE")]
    cert: Vec<PathBuf>,
    /// The key of each certificate (PEM).
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// Authority of the server's certificate (PEM).
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Where the servers' folders are made; default the system's temporary folder.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Least door_events_per_second.
    #[arg(long, value_name = "EVENTS")]
    door_min: Option<f64>,
    /// Least events_per_second.
    #[arg(long, value_name = "EVENTS")]
    whole_min: Option<f64>,
    /// Least fraction_of_limit, which only a closed loop on a server of its own has.
    #[arg(long, value_name = "FRACTION", conflicts_with_all = ["rate", "target"])]
    fraction_min: Option<f64>,
    /// Most milliseconds of answer_ms.p99.
    #[arg(long, value_name = "MS")]
    answer_p99_max: Option<f64>,
    #[command(flatten)]
    json: JsonArg,
}

/// From a second to an hour.
fn load_time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<u64>().ok().map(|s| s.saturating_mul(1_000));
    seconds
        .or_else(|| parse_duration_ms(text))
        .filter(|ms| (1_000..=3_600_000).contains(ms))
        .map(Duration::from_millis)
        .ok_or_else(|| "takes a duration from 1s to 1h, such as 10s".to_owned())
}

/// A server that only reads, or also writes, and answers: what the bench compares with.
#[derive(Args, Debug)]
struct NullServerArgs {
    #[arg(long, value_enum)]
    mode: NullMode,
    /// Folder with pki/.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    agents: String,
    /// Whose requests: of agents, or of SDKs, which come without TLS.
    #[arg(long, value_enum, default_value = "agents")]
    door: NullDoor,
    /// The count in every acknowledgement.
    #[arg(long, value_name = "N", default_value_t = 500)]
    events: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum NullMode {
    Discard,
    Append,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum NullDoor {
    Agents,
    Track,
}

#[derive(Args, Debug)]
struct JsonArg {
    /// Print the result as JSON, or write it to a file.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
        default_missing_value = "-")]
    json: Option<PathBuf>,
}

impl BenchArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self.bench {
            Bench::Hotpath(args) => args.run(),
            Bench::Ingest(args) => args.run(),
            Bench::Track(args) => args.run(),
            Bench::Replay(args) => args.run(),
            Bench::Webhooks(args) => args.run(),
            Bench::NullServer(args) => args.run(),
        }
    }
}

impl HotpathArgs {
    fn run(self) -> Outcome {
        let options = HotpathOptions {
            rounds: self.rounds as usize,
            gateway_ratio_min: self.gateway_ratio_min,
            ..HotpathOptions::default()
        };
        let report = hotpath::run(&options);
        self.json.show(&report)?;
        Ok(match (report.is_ok(), &report.first_error) {
            (true, _) => Exit::Done,
            (false, Some(_)) => Exit::NotReconciled,
            (false, None) => Exit::BelowBound,
        })
    }
}

impl IngestArgs {
    fn run(self) -> Outcome {
        let (report, failure) = ingest::run(&self.options()?)?;
        self.json.show(&report)?;
        Ok(exit(failure))
    }

    fn options(&self) -> Result<IngestOptions, Failure> {
        if self.cert.len() != self.key.len() {
            return Err(Failure::usage("each --cert needs its --key"));
        }
        if self.rate == Some(0) {
            return Err(Failure::usage("--rate is at least 1"));
        }
        let target = self
            .target
            .as_ref()
            .zip(self.ca.as_ref())
            .map(|(url, ca)| Target {
                url: url.clone(),
                certificates: self
                    .cert
                    .iter()
                    .cloned()
                    .zip(self.key.iter().cloned())
                    .collect(),
                authorities: ca.clone(),
            });
        Ok(IngestOptions {
            agents: self.agents,
            batch: self.batch,
            duration: self.duration,
            rounds: self.rounds,
            rate: self.rate,
            target,
            executable: std::env::current_exe().context("cannot find this program")?,
            folder: self.folder.clone(),
            bounds: Bounds {
                door_events_per_second_min: self.door_min,
                events_per_second_min: self.whole_min,
                fraction_of_limit_min: self.fraction_min,
                answer_ms_p99_max: self.answer_p99_max,
            },
            quiet: false,
        })
    }
}

fn exit(failure: Option<ingest::Failure>) -> Exit {
    match failure {
        None => Exit::Done,
        Some(ingest::Failure::NotReconciled) => Exit::NotReconciled,
        Some(ingest::Failure::BelowBound) => Exit::BelowBound,
    }
}

impl NullServerArgs {
    fn run(self) -> Outcome {
        null_server::run(&NullServerOptions {
            mode: match self.mode {
                NullMode::Discard => Mode::Discard,
                NullMode::Append => Mode::Append,
            },
            door: match self.door {
                NullDoor::Agents => Door::Agents,
                NullDoor::Track => Door::Track,
            },
            dir: self.data,
            address: self.agents,
            events: self.events,
        })?;
        Ok(Exit::Done)
    }
}

impl JsonArg {
    /// Shows a result: as JSON where that was asked for, else in words.
    fn show(&self, report: &Report) -> Outcome {
        self.show_as(report, &words(report))
    }

    /// The same, with words of its own.
    fn show_as(&self, report: &Report, words: &str) -> Outcome {
        match self.json.as_deref() {
            None => print_line(words),
            Some(path) if path == Path::new("-") => print_json(&serde_json::to_value(report)?),
            Some(path) => {
                let text = serde_json::to_string_pretty(report)?;
                let written = std::fs::write(path, text + "\n");
                written.context(format!("cannot write {}", path.display()))?;
                note(words);
                Ok(Exit::Done)
            }
        }
    }
}

/// The arguments, of which those of `bench webhooks` may have one dash, as Sparrow's tool has them.
pub fn with_long_flags(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    if args.get(1).is_some_and(|arg| arg == "bench")
        && args.get(2).is_some_and(|arg| arg == "webhooks")
    {
        for arg in &mut args[3..] {
            let text = arg.to_str().unwrap_or_default();
            let is_word = |text: &str| text.len() > 1 && text.starts_with(char::is_alphabetic);
            if text.strip_prefix('-').is_some_and(is_word) {
                *arg = format!("-{text}").into();
            }
        }
    }
    args
}

/// The medians and ranges, one metric a line.
fn words(report: &Report) -> String {
    let mut lines = Vec::new();
    for (name, metric) in &report.summary {
        lines.push(match metric {
            Metric::Figure(spread) => {
                let [median, min, max] = [spread.median, spread.min, spread.max].map(figure);
                format!("{name:<36} {median:>12}  ({min} to {max})")
            }
            Metric::Latency { p50, p99, max } => format!(
                "{name:<36} p50 {:.2}  p99 {:.2}  max {:.2}",
                p50.median, p99.median, max.median
            ),
        });
    }
    for (name, value) in &report.ratio {
        lines.push(format!("ratio.{name:<30} {value:>12.2}"));
    }
    if let Some(fraction) = report.fraction_of_limit {
        lines.push(format!("{:<36} {fraction:>12.3}", "fraction_of_limit"));
    }
    if let Some(limit) = report.limit["requests_per_second"]["median"].as_f64() {
        lines.push(format!("{:<36} {limit:>12.1}", "limit.requests_per_second"));
    }
    if let Some(limit) = report.limit["events_per_second"]["median"].as_f64() {
        lines.push(format!("{:<36} {limit:>12.1}", "limit.events_per_second"));
    }
    if let Some(ledger) = &report.ledger {
        let term = |term: Option<u64>| term.map_or("-".to_owned(), |term| term.to_string());
        lines.push(format!(
            "ledger: accepted {}, logged {}, stored {}, lost {}, doubled {}, foreign {}",
            ledger.accepted,
            term(ledger.logged),
            term(ledger.stored),
            term(ledger.lost),
            term(ledger.doubled),
            term(ledger.foreign),
        ));
    }
    if let Some(pace) = &report.pace {
        let percent = pace.utilisation * 100.0;
        lines.push(format!(
            "pace: {} at {percent:.0} %: {}",
            pace.stage, pace.why
        ));
    }
    if let Some(folds) = report.limit["folds_events_per_second"]["median"].as_f64() {
        lines.push(format!(
            "{:<36} {folds:>12.1}",
            "limit.folds_events_per_second"
        ));
    }
    lines.extend(
        report
            .first_error
            .iter()
            .map(|error| format!("first error: {error}")),
    );
    lines.push(format!("verdict: {}", report.verdict));
    lines.join("\n")
}

/// Whole numbers from a hundred on, three digits behind the point below.
fn figure(value: f64) -> String {
    match value.abs() >= 100.0 {
        true => format!("{value:.0}"),
        false => format!("{value:.3}"),
    }
}
