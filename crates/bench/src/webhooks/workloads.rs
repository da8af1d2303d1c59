//! The five workloads of Sparrow's published comparison, at their rates and at multiples of them.
//!
//! All cells are measured in turn, round after round, so that what the machine does meanwhile falls
//! on all of them.

use std::time::Duration;

use serde_json::{Value, json};

use super::phase::Round;
use super::result;
use super::{Mode, WebhooksOptions};
use crate::BenchError;
use crate::ingest::Failure;
use crate::report::{Metric, Report, Spread};

/// Publishing connections at least, as in the comparison.
const CONCURRENCY: u32 = 50;

/// One workload at its own rate.
struct Workload {
    id: &'static str,
    name: &'static str,
    rps: f64,
    webhooks: u32,
    subscribers: u32,
    burst: u64,
    delay: Duration,
    /// What Sparrow's authors have measured of their last build, on a machine of theirs: deliveries
    /// a second, median from publish to receipt, drain time.
    theirs: &'static str,
}

const WORKLOADS: [Workload; 5] = [
    Workload {
        id: "A",
        name: "one busy webhook",
        rps: 1_000.0,
        webhooks: 1,
        subscribers: 1,
        burst: 0,
        delay: Duration::ZERO,
        theirs: "881/s, 1.4 s, 4 s",
    },
    Workload {
        id: "B",
        name: "300 webhooks",
        rps: 1_000.0,
        webhooks: 300,
        subscribers: 1,
        burst: 0,
        delay: Duration::ZERO,
        theirs: "530/s, 13 s, 29 s",
    },
    Workload {
        id: "C",
        name: "300 x 2 subscribers",
        rps: 500.0,
        webhooks: 300,
        subscribers: 2,
        burst: 0,
        delay: Duration::ZERO,
        theirs: "899/s, 2.5 s, 3.3 s",
    },
    Workload {
        id: "D",
        name: "10 receivers of 50 ms",
        rps: 500.0,
        webhooks: 10,
        subscribers: 1,
        burst: 0,
        delay: Duration::from_millis(50),
        theirs: "295/s, 10 s, 28 s",
    },
    Workload {
        id: "E",
        name: "burst of 20,000 to 600",
        rps: 0.0,
        webhooks: 300,
        subscribers: 2,
        burst: 20_000,
        delay: Duration::ZERO,
        theirs: "817/s, 25 s, 42 s",
    },
];

/// Which cells are measured.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Ids of workloads; empty is all.
    pub only: Vec<String>,
    /// Multiples of their rates.
    pub scales: Vec<u32>,
    /// Payloads in KiB.
    pub payloads: Vec<u32>,
}

/// A workload at a multiple and with a payload, and what its rounds were.
struct Cell {
    workload: &'static Workload,
    scale: u32,
    payload_kib: u32,
    options: WebhooksOptions,
    rounds: Vec<Round>,
}

/// Measures the cells. Their table is beside the report.
///
/// # Errors
/// When a child process or a folder fails before there is anything to report.
pub fn run(
    options: &WebhooksOptions,
    selection: &Selection,
) -> Result<(Report, String, Option<Failure>), BenchError> {
    let mut cells = cells(options, selection)?;
    for number in 1..=options.rounds {
        for cell in &mut cells {
            if !options.quiet {
                eprintln!("round {number} of {}: {}", options.rounds, cell.label());
            }
            cell.rounds.push(Round::measure(&cell.options, number)?);
        }
    }
    let mut report = Report::new(
        "webhooks",
        json!({
            "workloads": cells.iter().map(Cell::label).collect::<Vec<_>>(),
            "seconds": options.duration.as_secs_f64(),
            "rounds": options.rounds,
            "concurrency": options.concurrency,
        }),
    );
    let (mut lines, mut failure) = (vec![Cell::HEAD.to_owned()], None);
    for cell in &cells {
        let (of_cell, failed) = result::report(&cell.options, &cell.rounds);
        lines.push(cell.line(&of_cell));
        if let (Some(failed), None) = (failed, failure) {
            report.verdict = format!("{}: {}", cell.label(), of_cell.verdict);
            failure = Some(failed);
        }
        report.first_error = report.first_error.or_else(|| of_cell.first_error.clone());
        for (name, metric) in of_cell.summary {
            let name = format!("{}: {name}", cell.label());
            report.summary.insert(name, metric);
        }
        report.rounds.push(cell.json(of_cell.rounds));
    }
    lines.push(format!("verdict: {}", report.verdict));
    Ok((report, lines.join("\n"), failure))
}

fn cells(options: &WebhooksOptions, selection: &Selection) -> Result<Vec<Cell>, BenchError> {
    let is_known = |id: &&String| WORKLOADS.iter().any(|one| one.id.eq_ignore_ascii_case(id));
    if let Some(unknown) = selection.only.iter().find(|id| !is_known(id)) {
        return Err(BenchError::Usage(format!(
            "no workload `{unknown}`: A to E are known"
        )));
    }
    let is_wanted = |one: &&Workload| {
        let mut only = selection.only.iter();
        selection.only.is_empty() || only.any(|id| one.id.eq_ignore_ascii_case(id))
    };
    let mut cells = Vec::new();
    for workload in WORKLOADS.iter().filter(is_wanted) {
        for &payload_kib in &selection.payloads {
            for &scale in &selection.scales {
                cells.push(Cell {
                    workload,
                    scale,
                    payload_kib,
                    options: workload.options(options, scale, payload_kib),
                    rounds: Vec::new(),
                });
            }
        }
    }
    Ok(cells)
}

impl Workload {
    fn options(&self, base: &WebhooksOptions, scale: u32, payload_kib: u32) -> WebhooksOptions {
        WebhooksOptions {
            mode: Mode::E2e,
            rate: Some(self.rps * f64::from(scale)).filter(|rate| *rate > 0.0),
            payload_bytes: payload_kib as usize * 1_024,
            batch: 1,
            concurrency: base.concurrency.max(CONCURRENCY),
            webhooks: self.webhooks,
            subscribers: self.subscribers,
            burst: self.burst * u64::from(scale),
            backlog_max: None,
            receiver_delay: self.delay,
            limit: false,
            quiet: true,
            ..base.clone()
        }
    }
}

impl Cell {
    const HEAD: &str = "workload                      scale  KiB  deliveries/s while publishing   \
                        over all                        publish p50 ms  receipt p50 ms  p99 ms  \
                        drain s  lost  doubled  CPU us  theirs at 1x";

    fn label(&self) -> String {
        let Self {
            workload,
            scale,
            payload_kib,
            ..
        } = self;
        format!("{} {scale}x {payload_kib}KiB", workload.id)
    }

    fn json(&self, rounds: Vec<Value>) -> Value {
        json!({
            "workload": self.workload.id,
            "name": self.workload.name,
            "scale": self.scale,
            "payload_kib": self.payload_kib,
            "rounds": rounds,
        })
    }

    fn line(&self, report: &Report) -> String {
        let figure = |name: &str| match report.summary.get(name) {
            Some(Metric::Figure(spread)) => Some(*spread),
            _ => None,
        };
        let spread = |name: &str| {
            let text =
                |one: Spread| format!("{:.0} ({:.0} to {:.0})", one.median, one.min, one.max);
            figure(name).map_or_else(|| "-".to_owned(), text)
        };
        let times = |name: &str| match report.summary.get(name) {
            Some(Metric::Latency { p50, p99, .. }) => (p50.median, p99.median),
            _ => (0.0, 0.0),
        };
        let cpu = figure("server_cpu_us_per_delivery");
        let cpu = cpu.map_or_else(|| "-".to_owned(), |cpu| format!("{:.0}", cpu.median));
        let (receipt_p50, receipt_p99) = times("receipt_ms");
        let ledger = report.ledger.unwrap_or_default();
        format!(
            "{} {:<27} {:>5}  {:>3}  {:<30}  {:<30}  {:>14.2}  {receipt_p50:>14.2}  \
             {receipt_p99:>6.1}  {:>7.2}  {:>4}  {:>7}  {cpu:>6}  {}",
            self.workload.id,
            self.workload.name,
            format!("{}x", self.scale),
            self.payload_kib,
            spread("deliveries_per_second_while_publishing"),
            spread("deliveries_per_second"),
            times("publish_ms").0,
            figure("drain_seconds").map_or(0.0, |drain| drain.median),
            ledger.lost.unwrap_or(0),
            ledger.doubled.unwrap_or(0),
            self.workload.theirs,
        )
    }
}
