//! `fulmar bench webhooks`: published events until they are received.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fulmar_bench::webhooks::{
    self, Mode, Selection, WebhooksBounds, WebhooksOptions, WebhooksTarget,
};

use super::{JsonArg, exit, load_time};
use crate::config::parse_duration_ms;
use crate::exit::{Context as _, Failure, Outcome};

/// Published events until the last of their deliveries is received, beside the limit.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fulmar bench webhooks --saturate --webhooks 300\n  \
    fulmar bench webhooks -rps 1000 -webhooks 300 -subscribers 2 -duration 30s\n  \
    fulmar bench webhooks --workloads --rounds 3      # A to E at 1, 10 and 30 times\n  \
    fulmar bench webhooks -rps 4000 -webhooks 300 -payload 1 --hang 1\n  \
    fulmar bench webhooks -rps 4000 -webhooks 300 -payload 1 --kill\n  \
    fulmar bench webhooks --mode client --concurrency 64\n  \
    fulmar bench webhooks --target http://host:8080 --api-key-file FILE -rps 100\n\n\
    The limit is the sender's HTTP client against the receiver, in the same run. Flags are those\n\
    of Sparrow's tool, also with one dash; its result is the member `sparrow` of ours.\n\n\
    Exit codes: 3 not reconciled, 4 beyond a bound that was given.")]
pub struct WebhooksArgs {
    /// What is measured: the HTTP client alone, or the whole.
    #[arg(long, value_enum, default_value = "e2e")]
    mode: ModeArg,
    /// How long events are published.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = load_time)]
    duration: Duration,
    /// Events a second.
    #[arg(long, value_name = "N", default_value_t = 100.0, value_parser = rate)]
    rps: f64,
    /// Publish in batches, as fast as what is published is delivered.
    #[arg(long, conflicts_with_all = ["rps", "burst"])]
    saturate: bool,
    /// Events in a request; 100 with --saturate.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: Option<u32>,
    /// Undelivered deliveries at which --saturate waits.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    backlog_max: u64,
    /// KiB of a payload.
    #[arg(long, value_name = "KIB", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=1_024))]
    payload: u32,
    /// Publishing connections; requests at once in the mode client.
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=4_096))]
    concurrency: u32,
    /// Event types, each with webhooks of its own.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    webhooks: u32,
    /// Webhooks of each type.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    subscribers: u32,
    /// Publish so many events at once, instead of a rate for a time.
    #[arg(long, value_name = "N", default_value_t = 0)]
    burst: u64,
    /// Where the receiver listens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    receiver_addr: String,
    /// HOST:PORT that the server is told to send to, if it reaches the receiver elsewhere.
    #[arg(long, value_name = "HOST:PORT")]
    receiver_url: Option<String>,
    /// Time that the receiver takes to answer.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = time)]
    receiver_delay: Duration,
    /// Percent of the webhooks whose receiver hangs for 30 s, in a second run of each round.
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=50))]
    hang: u32,
    /// Kill the server half-way and start it again: what was in flight may come twice.
    #[arg(long, conflicts_with = "target")]
    kill: bool,
    /// Measure the workloads A to E of Sparrow's comparison, and print their table.
    #[arg(long, conflicts_with_all = ["rps", "saturate", "burst", "webhooks", "subscribers",
        "payload", "receiver_delay", "hang", "kill", "batch"])]
    workloads: bool,
    /// With --workloads: these alone, such as A,E.
    #[arg(
        long,
        value_name = "IDS",
        value_delimiter = ',',
        requires = "workloads"
    )]
    only: Vec<String>,
    /// With --workloads: multiples of their rates.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,10,30",
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    scales: Vec<u32>,
    /// With --workloads: KiB of payloads.
    #[arg(long, value_name = "KIB,…", value_delimiter = ',', default_value = "1,10",
        value_parser = clap::value_parser!(u32).range(1..=1_024))]
    payloads: Vec<u32>,
    /// Time for what is published to be delivered.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = time)]
    drain_timeout: Duration,
    /// Leave the webhooks in place.
    #[arg(long)]
    keep_webhook: bool,
    /// Whose webhooks.
    #[arg(long, value_name = "NAME", default_value = "bench")]
    consumer: String,
    /// First part of the types' names.
    #[arg(long, value_name = "NAME", default_value = "bench.event")]
    event: String,
    /// In the mode client: another receiver.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Rounds of all measurements; medians of five tell small differences.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Another server with this API, instead of one that is started here.
    #[arg(
        long,
        visible_alias = "sparrow-url",
        value_name = "URL",
        requires = "api_key_file"
    )]
    target: Option<String>,
    /// File with a key of --target that publishes and sets up.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Where the servers' folders are made; default the system's temporary folder.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Least deliveries_per_second; in the mode client, requests_per_second.
    #[arg(long, value_name = "N")]
    rate_min: Option<f64>,
    /// Least fraction_of_limit.
    #[arg(long, value_name = "FRACTION")]
    fraction_min: Option<f64>,
    /// Most milliseconds of receipt_ms.p99.
    #[arg(long, value_name = "MS")]
    receipt_p99_max: Option<f64>,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArg {
    Client,
    E2e,
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| *number > 0.0 && *number <= 1e7);
    number.ok_or_else(|| "takes events a second, such as 100".to_owned())
}

fn time(text: &str) -> Result<Duration, String> {
    let ms = if text == "0" {
        Some(0)
    } else {
        parse_duration_ms(text)
    };
    let ms = ms.ok_or_else(|| "takes a duration such as 50ms or 2m".to_owned())?;
    Ok(Duration::from_millis(ms))
}

impl WebhooksArgs {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let options = self.options()?;
        if self.workloads {
            let selection = Selection {
                only: self.only.clone(),
                scales: self.scales.clone(),
                payloads: self.payloads.clone(),
            };
            let (report, table, failure) = webhooks::run_workloads(&options, &selection)?;
            self.json.show_as(&report, &table)?;
            return Ok(exit(failure));
        }
        let (report, failure) = webhooks::run(&options)?;
        self.json.show(&report)?;
        Ok(exit(failure))
    }

    fn options(&self) -> Result<WebhooksOptions, Failure> {
        let target = match (&self.target, &self.api_key_file) {
            (Some(url), Some(file)) => {
                let told = format!("cannot read {}", file.display());
                let key = std::fs::read_to_string(file).context(told)?;
                Some(WebhooksTarget {
                    url: url.clone(),
                    key: key.trim().to_owned(),
                })
            }
            _ => None,
        };
        Ok(WebhooksOptions {
            mode: match self.mode {
                ModeArg::Client => Mode::Client,
                ModeArg::E2e => Mode::E2e,
            },
            duration: self.duration,
            rate: (!self.saturate).then_some(self.rps),
            payload_bytes: self.payload as usize * 1_024,
            concurrency: self.concurrency,
            batch: self.batch.unwrap_or(if self.saturate { 100 } else { 1 }),
            webhooks: self.webhooks,
            subscribers: self.subscribers,
            burst: self.burst,
            backlog_max: self.saturate.then_some(self.backlog_max),
            receiver_address: self.receiver_addr.clone(),
            receiver_url: self.receiver_url.clone(),
            receiver_delay: self.receiver_delay,
            hang: self.hang,
            kill: self.kill,
            limit: true,
            drain_timeout: self.drain_timeout,
            keep_webhooks: self.keep_webhook,
            consumer: self.consumer.clone(),
            event: self.event.clone(),
            url: self.url.clone(),
            rounds: self.rounds,
            target,
            executable: std::env::current_exe().context("cannot find this program")?,
            folder: self.folder.clone(),
            bounds: WebhooksBounds {
                deliveries_per_second_min: self.rate_min,
                fraction_of_limit_min: self.fraction_min,
                receipt_ms_p99_max: self.receipt_p99_max,
            },
            quiet: false,
        })
    }
}
