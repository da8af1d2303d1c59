//! `fulmar bench track` and `fulmar bench replay`: product events, live and from the log.

use std::path::PathBuf;

use clap::Args;
use fulmar_bench::replay::{self, ReplayBounds, ReplayOptions};
use fulmar_bench::track::{self, Skew, TrackBounds, TrackOptions, TrackTarget};

use super::{JsonArg, exit};
use crate::exit::{Context as _, Failure, Outcome};

/// What the events are like.
#[derive(Args, Debug)]
struct WorkloadArgs {
    /// Devices, each with an account.
    #[arg(long, value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(2..=10_000_000))]
    identities: u32,
    /// Properties of an event beside its device.
    #[arg(long, value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(5..=200))]
    properties: u32,
    /// Identities by Zipf's law with this exponent, instead of in turn.
    #[arg(long, value_name = "EXPONENT", value_parser = exponent)]
    skew: Option<f64>,
    /// The first identity's share of all events, between 0 and 1.
    #[arg(long, value_name = "SHARE", conflicts_with = "skew", value_parser = share)]
    hot: Option<f64>,
}

impl WorkloadArgs {
    fn skew(&self) -> Skew {
        Skew {
            zipf: self.skew,
            hot: self.hot,
        }
    }
}

fn exponent(text: &str) -> Result<f64, String> {
    let number = text
        .parse::<f64>()
        .ok()
        .filter(|number| (0.0..=4.0).contains(number));
    number.ok_or_else(|| "takes a number from 0 to 4".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let number = text
        .parse::<f64>()
        .ok()
        .filter(|number| *number > 0.0 && *number < 1.0);
    number.ok_or_else(|| "takes a number between 0 and 1, such as 0.2".to_owned())
}

/// Product events as SDKs send them, until each is stored and each session settled.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar bench track                              # 100,000 single requests\n  \
    fulmar bench track --events 1000000 --batch 1000\n  \
    fulmar bench track --hot 0.2 --rounds 5 --json=result.json\n  \
    fulmar bench track --target http://host:3333 --client-id ID --client-secret-file FILE\n\n\
    events_per_second counts from the first planned request until all is settled. The limit is a\n\
    server that writes each body, syncs and answers, in the same run; limit.folds is what the\n\
    folds do alone, over the same log, on one core.\n\n\
    Exit codes: 3 not reconciled, 4 beyond a bound that was given.")]
pub struct TrackArgs {
    /// Events in all.
    #[arg(long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    events: u64,
    /// Events in a request; 1 sends them as SDKs do.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    #[command(flatten)]
    workload: WorkloadArgs,
    /// Threads that send.
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..=64))]
    generators: u32,
    /// Connections of each.
    #[arg(long, value_name = "N", default_value_t = 128,
        value_parser = clap::value_parser!(u32).range(1..=4_096))]
    connections: u32,
    /// Rounds of all measurements; medians of five tell small differences.
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// writer.workers of the server.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=256))]
    workers: u32,
    /// Another server that takes what OpenPanel's SDKs send, instead of one that is started here.
    #[arg(long, value_name = "URL", requires_all = ["client_id", "client_secret_file"])]
    target: Option<String>,
    /// A client of --target.
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// File with its secret.
    #[arg(long, value_name = "FILE")]
    client_secret_file: Option<PathBuf>,
    /// Where the servers' folders are made; default the system's temporary folder.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Least events_per_second.
    #[arg(long, value_name = "EVENTS")]
    rate_min: Option<f64>,
    /// Least fraction_of_limit.
    #[arg(long, value_name = "FRACTION", conflicts_with = "target")]
    fraction_min: Option<f64>,
    /// Most settled_seconds.
    #[arg(long, value_name = "SECONDS", conflicts_with = "target")]
    settled_max: Option<f64>,
    #[command(flatten)]
    json: JsonArg,
}

impl TrackArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let (report, failure) = track::run(&self.options()?)?;
        self.json.show(&report)?;
        Ok(exit(failure))
    }

    fn options(&self) -> Result<TrackOptions, Failure> {
        let target = match (&self.target, &self.client_id, &self.client_secret_file) {
            (Some(url), Some(client), Some(file)) => {
                let secret = std::fs::read_to_string(file)
                    .context(format!("cannot read {}", file.display()))?;
                Some(TrackTarget {
                    url: url.clone(),
                    client: client.clone(),
                    secret: secret.trim().to_owned(),
                })
            }
            _ => None,
        };
        Ok(TrackOptions {
            events: self.events,
            batch: self.batch,
            identities: self.workload.identities,
            properties: self.workload.properties,
            skew: self.workload.skew(),
            generators: self.generators,
            connections: self.connections,
            rounds: self.rounds,
            workers: self.workers,
            target,
            executable: std::env::current_exe().context("cannot find this program")?,
            folder: self.folder.clone(),
            bounds: TrackBounds {
                events_per_second_min: self.rate_min,
                fraction_of_limit_min: self.fraction_min,
                settled_seconds_max: self.settled_max,
            },
            quiet: false,
        })
    }
}

/// The tables of a log of product events rebuilt, by one worker and by more.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar bench replay\n  \
    fulmar bench replay --events 200000 --workers 1,2,4 --rounds 5 --json=result.json\n\n\
    A server makes the log once; each rebuild is a process, timed from its start to its end, with\n\
    compaction paused. Its rows are reconciled by id, and its digest with the live tables'.\n\n\
    Exit codes: 3 not reconciled, 4 beyond a bound that was given.")]
pub struct ReplayArgs {
    /// Events in the log.
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    events: u64,
    #[command(flatten)]
    workload: WorkloadArgs,
    /// Numbers of workers to measure.
    #[arg(long, value_name = "N,N", default_value = "1,2", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=256))]
    workers: Vec<u32>,
    /// Rounds of all measurements.
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Where folders are made; default the system's temporary folder.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Most settled_seconds.
    #[arg(long, value_name = "SECONDS")]
    settled_max: Option<f64>,
    /// Least ratio of the first number of workers to the greatest.
    #[arg(long, value_name = "RATIO")]
    ratio_min: Option<f64>,
    /// Most resident_mib_max.
    #[arg(long, value_name = "MIB")]
    resident_max: Option<f64>,
    #[command(flatten)]
    json: JsonArg,
}

impl ReplayArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let (report, failure) = replay::run(&ReplayOptions {
            events: self.events,
            identities: self.workload.identities,
            properties: self.workload.properties,
            skew: self.workload.skew(),
            workers: self.workers.clone(),
            rounds: self.rounds,
            executable: std::env::current_exe().context("cannot find this program")?,
            folder: self.folder.clone(),
            bounds: ReplayBounds {
                settled_seconds_max: self.settled_max,
                workers_ratio_min: self.ratio_min,
                resident_mib_max: self.resident_max,
            },
            quiet: false,
        })?;
        self.json.show(&report)?;
        Ok(exit(failure))
    }
}
