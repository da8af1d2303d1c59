//! `bench webhooks`: published events until the last of their deliveries is received, matched by
//! id, beside what client and receiver can do alone.
//!
//! A round is the limit (the sender's HTTP client against the receiver) and the whole: a server in
//! a folder of its own, set up over its API, published to, watched from the receiver's side. The
//! flags, and the object `sparrow` of the result, are those of Sparrow's tool.

mod limit;
mod matched;
mod phase;
mod publish;
mod receiver;
mod result;
mod setup;
mod workloads;

use std::path::PathBuf;
use std::time::Duration;

use crate::BenchError;
use crate::ingest::Failure;
use crate::report::Report;
use limit::ClientLoad;
use phase::Round;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The HTTP client against a receiver.
    Client,
    /// The whole product.
    E2e,
}

/// A server that is not ours to start.
#[derive(Clone, Debug)]
pub struct WebhooksTarget {
    /// `http://host:port`.
    pub url: String,
    /// A key that publishes and sets up.
    pub key: String,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct WebhooksOptions {
    /// What is measured.
    pub mode: Mode,
    /// How long events are published.
    pub duration: Duration,
    /// Events a second; none is as fast as they go.
    pub rate: Option<f64>,
    /// Bytes of a payload.
    pub payload_bytes: usize,
    /// Publishing connections; in the mode client, requests at once.
    pub concurrency: u32,
    /// Events in a request.
    pub batch: u32,
    /// Event types, each with webhooks of its own.
    pub webhooks: u32,
    /// Webhooks of a type.
    pub subscribers: u32,
    /// Events that are published at once, instead of a duration.
    pub burst: u64,
    /// Undelivered deliveries at which publishing waits.
    pub backlog_max: Option<u64>,
    /// Where the receiver listens.
    pub receiver_address: String,
    /// What servers are told to send to, if that is another address.
    pub receiver_url: Option<String>,
    /// Time that the receiver takes.
    pub receiver_delay: Duration,
    /// Percent of the webhooks whose receiver hangs for 30 s, in a second run of each round.
    pub hang: u32,
    /// Kill the server half-way, and start it again.
    pub kill: bool,
    /// Time for what is published to be delivered.
    pub drain_timeout: Duration,
    /// Leave the webhooks of a target in place.
    pub keep_webhooks: bool,
    /// Whose webhooks.
    pub consumer: String,
    /// First part of the types' names; a part that differs from run to run is added.
    pub event: String,
    /// In the mode client, another receiver.
    pub url: Option<String>,
    /// Rounds of all measurements.
    pub rounds: u32,
    /// Another server.
    pub target: Option<WebhooksTarget>,
    /// This program, which is started as server.
    pub executable: PathBuf,
    /// Where folders are made.
    pub folder: Option<PathBuf>,
    /// Measure client and receiver alone as well.
    pub limit: bool,
    /// Bounds that the medians must meet.
    pub bounds: WebhooksBounds,
    /// No lines about what goes on.
    pub quiet: bool,
}

/// Bounds that a caller sets.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct WebhooksBounds {
    /// Least `deliveries_per_second`.
    pub deliveries_per_second_min: Option<f64>,
    /// Least `fraction_of_limit`.
    pub fraction_of_limit_min: Option<f64>,
    /// Most milliseconds of `receipt_ms.p99`.
    pub receipt_ms_p99_max: Option<f64>,
}

pub use workloads::{Selection, run as run_workloads};

/// Measures. The report's verdict is `ok` or says what failed, and the failure says how.
///
/// # Errors
/// When a child process or a folder fails before there is anything to report.
pub fn run(options: &WebhooksOptions) -> Result<(Report, Option<Failure>), BenchError> {
    let mut rounds = Vec::new();
    for number in 1..=options.rounds {
        rounds.push(Round::measure(options, number)?);
    }
    Ok(result::report(options, &rounds))
}

impl WebhooksOptions {
    /// Every so many webhooks hang; 0 is none.
    fn hangs_every(&self) -> u64 {
        100_u64.checked_div(u64::from(self.hang)).unwrap_or(0)
    }

    fn client_load(&self, duration: Duration) -> ClientLoad {
        ClientLoad {
            concurrency: self.concurrency,
            rate: self.rate.filter(|_| self.mode == Mode::Client),
            duration,
            payload_bytes: self.payload_bytes,
        }
    }
}
