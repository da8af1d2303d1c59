//! One core, no network: what each stage of the hot path costs per event, beside the control
//! and the limit in the same run.
//!
//! The limit first. Admitting an event cannot take less than reading its bytes once and
//! writing the record's once. The bench measures that as a copy of the batch into the records'
//! layout: at 330 bytes in and 520 out, on a core that copies 20 GB/s out of its second cache,
//! about 40 ns.

pub mod control;
mod gateway;
mod identifiers;
mod measure;
mod sample;
mod writer;

use serde_json::json;

use crate::report::{Metric, Report, Spread};
use control::Control;
use gateway::Gateway;
use measure::{Cost, Stopwatch};
use writer::Writer;

/// What to measure.
#[derive(Debug, Clone)]
pub struct HotpathOptions {
    /// Events per batch; each size is measured apart.
    pub batch_sizes: Vec<usize>,
    /// Rounds, each with every stage of both sides in turn.
    pub rounds: usize,
    /// Milliseconds that each stage of each size runs in a round.
    pub stage_ms: u64,
    /// The least `ratio.gateway` that passes, if one is asked for.
    pub gateway_ratio_min: Option<f64>,
}

impl Default for HotpathOptions {
    fn default() -> Self {
        Self {
            batch_sizes: vec![1, 10, 100, 1_000, 5_000, 10_000],
            // Many short rounds: a machine that is slow for a second then spoils few of them.
            // Five is the least that M2 judges by.
            rounds: 15,
            stage_ms: 10,
            gateway_ratio_min: None,
        }
    }
}

/// The size that ratios and the limit speak of: the usual batch of a busy agent.
const USUAL_BATCH: usize = 1_000;

/// The largest batch that the door takes; it must be no slower per event.
const LARGEST_BATCH: usize = 10_000;

/// Runs the bench on the calling thread. Allocations are counted if the program installed
/// [`crate::allocation::Counting`].
pub fn run(options: &HotpathOptions) -> Report {
    let config = json!({
        "batch_sizes": options.batch_sizes,
        "rounds": options.rounds,
        "stage_ms": options.stage_ms,
        "gateway_ratio_min": options.gateway_ratio_min,
    });
    let mut report = Report::new("hotpath", config);
    let control = Control::default();
    let mut writer = Writer::new();
    if let Err(error) = gateway::check_agreement(&control).and_then(|()| writer.check_agreement()) {
        "ours and the control differ".clone_into(&mut report.verdict);
        report.first_error = Some(error);
        return report;
    }
    let mut batches: Vec<Gateway> = options
        .batch_sizes
        .iter()
        .copied()
        .map(Gateway::new)
        .collect();
    if let Some(largest) = batches.last_mut() {
        let (read, written) = largest.bytes_per_event();
        report.limit = json!({ "read_bytes_per_event": read, "written_bytes_per_event": written });
    }
    let mut costs = Vec::new();
    for round in 0..options.rounds {
        let stopwatch = Stopwatch::new(round, options.stage_ms);
        for batch in &mut batches {
            batch.measure(&stopwatch, &control, &mut costs);
        }
        identifiers::measure(&stopwatch, &control, &mut costs);
        writer.measure(&stopwatch, &mut costs);
    }
    summarise(options, &Costs(costs), &mut report);
    report
}

/// Every cost of a run.
struct Costs(Vec<Cost>);

impl Costs {
    /// The costs of one stage of one side at one size, a round each, in order.
    fn of(&self, side: &str, stage: &str, batch_events: usize) -> impl Iterator<Item = &Cost> {
        self.0.iter().filter(move |cost| {
            cost.side == side && cost.stage == stage && cost.batch_events == batch_events
        })
    }

    /// Of each round, the events/s of ours at one size over those at another.
    fn speed_at(&self, size: usize, base: usize) -> Option<Spread> {
        let of = |size| {
            self.of("ours", "gateway", size)
                .map(|cost| cost.ns_per_event)
        };
        Spread::of(
            of(base)
                .zip(of(size))
                .map(|(base_ns, size_ns)| base_ns / size_ns),
        )
    }

    /// Of each round, one side's time over the other's: the median.
    fn ratio(&self, over: (&str, &str), under: (&str, &str), batch_events: usize) -> Option<f64> {
        let over = self.of(over.0, over.1, batch_events);
        let under = self.of(under.0, under.1, batch_events);
        let ratios = over
            .zip(under)
            .map(|(over, under)| over.ns_per_event / under.ns_per_event);
        Spread::of(ratios).map(|spread| spread.median)
    }
}

impl Costs {
    /// The writer half's ratio with the builders' own time taken out on both sides.
    fn writer_ratio(&self) -> Option<f64> {
        let of = |side, stage| {
            self.of(side, stage, writer::BLOCK_ROWS)
                .map(|c| c.ns_per_event)
        };
        let rounds = of("control", "rows")
            .zip(of("ours", "rows"))
            .zip(of("ours", "builders"));
        let ratios = rounds
            .map(|((control, ours), builders)| (control - builders) / (ours - builders).max(1.0));
        Spread::of(ratios).map(|spread| spread.median)
    }
}

fn summarise(options: &HotpathOptions, costs: &Costs, report: &mut Report) {
    for round in 0..options.rounds {
        let stages: Vec<&Cost> = costs.0.iter().filter(|cost| cost.round == round).collect();
        report
            .rounds
            .push(json!({ "round": round, "stages": stages }));
    }
    for first in costs.0.iter().filter(|cost| cost.round == 0) {
        let name = format!("{}_{}_{}_ns", first.side, first.stage, first.batch_events);
        let same = costs.of(first.side, first.stage, first.batch_events);
        if let Some(spread) = Spread::of(same.map(|cost| cost.ns_per_event)) {
            report.summary.insert(name, Metric::Figure(spread));
        }
    }
    if let Some(speed) = costs.speed_at(LARGEST_BATCH, USUAL_BATCH) {
        let name = format!("ours_speed_at_{LARGEST_BATCH}_of_{USUAL_BATCH}");
        report.summary.insert(name, Metric::Figure(speed));
    }
    let (ours, control) = (("ours", "gateway"), ("control", "gateway"));
    for events in &options.batch_sizes {
        if let Some(ratio) = costs.ratio(control, ours, *events) {
            report.ratio.insert(format!("gateway_{events}"), ratio);
        }
    }
    let usual = usual_batch(options);
    let mut ratio = |name: &str, value: Option<f64>| {
        value.map(|value| report.ratio.insert(name.to_owned(), value));
    };
    ratio("gateway", costs.ratio(control, ours, usual));
    for (name, stage) in [
        ("identifier", "identifier_uuid"),
        ("identifier_short", "identifier_short"),
    ] {
        ratio(
            name,
            costs.ratio(("control", stage), ("ours", stage), identifiers::IDS),
        );
    }
    let (ours_rows, control_rows) = (("ours", "rows"), ("control", "rows"));
    ratio(
        "writer_with_builders",
        costs.ratio(control_rows, ours_rows, writer::BLOCK_ROWS),
    );
    ratio("writer", costs.writer_ratio());
    report.fraction_of_limit = costs.ratio(("limit", "gateway"), ours, usual);
    report.limit["copy_ns_per_event"] = json!(median_ns(costs, ("limit", "gateway"), usual));
    report.control = json!({ "gateway_ns_per_event": median_ns(costs, control, usual) });
    let allocations = costs
        .of("ours", "gateway", usual)
        .map(|cost| cost.allocations_per_event);
    report.allocations_per_event = Spread::of(allocations).map(|spread| spread.median);
    judge(options, report);
}

fn median_ns(costs: &Costs, (side, stage): (&str, &str), batch_events: usize) -> Option<f64> {
    let figures = costs
        .of(side, stage, batch_events)
        .map(|cost| cost.ns_per_event);
    Spread::of(figures).map(|spread| spread.median)
}

/// The usual size if it is measured, else the largest.
fn usual_batch(options: &HotpathOptions) -> usize {
    if options.batch_sizes.contains(&USUAL_BATCH) {
        return USUAL_BATCH;
    }
    options.batch_sizes.iter().copied().max().unwrap_or(0)
}

fn judge(options: &HotpathOptions, report: &mut Report) {
    let Some(least) = options.gateway_ratio_min else {
        return;
    };
    let ratio = report.ratio.get("gateway").copied().unwrap_or(0.0);
    if ratio < least {
        report.verdict = format!("ratio.gateway is {ratio:.2}, under {least:.2}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run as short as can be: what it says of speed is noise, what it says of records, rows
    /// and allocations is not.
    #[test]
    fn a_short_run_agrees_and_allocates_nothing_per_event() {
        let batch_sizes = vec![10, 1_000];
        let options = HotpathOptions {
            batch_sizes,
            rounds: 2,
            stage_ms: 1,
            gateway_ratio_min: None,
        };
        let report = run(&options);
        assert_eq!(
            (report.verdict.as_str(), &report.first_error),
            ("ok", &None)
        );
        assert_eq!(report.rounds.len(), 2);
        let allocations = report.allocations_per_event.unwrap();
        assert!(allocations < 0.01, "{allocations} allocations per event");
        for name in [
            "gateway",
            "gateway_10",
            "identifier",
            "writer",
            "writer_with_builders",
        ] {
            assert!(report.ratio.contains_key(name), "{name}");
        }
        assert!(report.fraction_of_limit.is_some());
        for key in [
            "ours_walk_1000_ns",
            "control_decode_1000_ns",
            "limit_gateway_10_ns",
        ] {
            assert!(report.summary.contains_key(key), "{key}");
        }
    }

    #[test]
    fn a_ratio_under_the_bound_that_was_asked_for_fails() {
        let options = HotpathOptions {
            batch_sizes: vec![10],
            rounds: 1,
            stage_ms: 1,
            gateway_ratio_min: Some(1e6),
        };
        let report = run(&options);
        assert!(
            report.verdict.starts_with("ratio.gateway is "),
            "{}",
            report.verdict
        );
        assert!(!report.is_ok());
    }
}
