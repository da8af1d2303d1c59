//! Rounds into the one shape of every bench's result.

use serde_json::{Value, json};

use super::measured::Measured;
use super::phase::BUDGETS;
use super::{Failure, IngestOptions, Reconciled, Round};
use crate::report::{Bound, Ledger, Metric, Report, Spread};

impl Reconciled {
    /// Both together.
    pub(super) fn with(self, other: Reconciled) -> Reconciled {
        Reconciled {
            accepted: self.accepted + other.accepted,
            logged: self.logged + other.logged,
            stored: self.stored + other.stored,
            lost: self.lost + other.lost,
            doubled: self.doubled + other.doubled,
            foreign: self.foreign + other.foreign,
            first_fault: self.first_fault.or(other.first_fault),
        }
    }
}

/// The report, and what its verdict means for the exit code.
pub(super) fn report(options: &IngestOptions, rounds: &[Round]) -> (Report, Option<Failure>) {
    let mut report = Report::new("ingest", config(options));
    report.rounds = rounds.iter().map(round_json).collect();
    let door: Vec<&Measured> = rounds
        .iter()
        .filter_map(|round| round.door.as_ref())
        .collect();
    let whole: Vec<&Measured> = rounds.iter().map(|round| &round.whole).collect();
    let limit: Vec<&Measured> = rounds
        .iter()
        .filter_map(|round| round.limit.as_ref())
        .collect();
    let discard: Vec<&Measured> = rounds
        .iter()
        .filter_map(|round| round.discard.as_ref())
        .collect();
    let answered = |measured: &&Measured| measured.answered_events_per_second;
    let mut add = |name: &str, figures: Vec<f64>| {
        if let Some(spread) = Spread::of(figures) {
            report
                .summary
                .insert(name.to_owned(), Metric::Figure(spread));
        }
    };
    add(
        "door_events_per_second",
        door.iter().map(answered).collect(),
    );
    add(
        "events_per_second",
        whole.iter().map(|m| end_to_end(m)).collect(),
    );
    add(
        "answered_events_per_second",
        whole.iter().map(answered).collect(),
    );
    let cpu = |measured: &&Measured| measured.server_cpu_ns_per_stored_event;
    add(
        "server_cpu_ns_per_event",
        whole.iter().filter_map(cpu).collect(),
    );
    let cpu = |measured: &&Measured| measured.server_cpu_ns_per_event;
    add(
        "door_server_cpu_ns_per_event",
        door.iter().filter_map(cpu).collect(),
    );
    let share = |measured: &&Measured| measured.generator_share;
    add("generator_share", whole.iter().map(share).collect());
    for (name, phase) in [("answer_ms", &whole), ("door_answer_ms", &door)] {
        if let Some(latency) = Metric::of_times(phase.iter().map(|m| m.answer_ms)) {
            report.summary.insert(name.to_owned(), latency);
        }
    }
    report.limit = json!({
        "events_per_second": Spread::of(limit.iter().map(answered)),
        "discard_events_per_second": Spread::of(discard.iter().map(answered)),
    });
    // In an open loop both sides answer what was planned: a fraction would say nothing.
    let closed = options.rate.is_none();
    let fractions = door.iter().zip(&limit).map(|(door, limit)| {
        door.answered_events_per_second / limit.answered_events_per_second.max(1.0)
    });
    let fraction = Spread::of(fractions).map(|spread| spread.median);
    report.fraction_of_limit = fraction.filter(|_| closed);
    report.pace = whole.last().and_then(|measured| measured.pace.clone());
    report.first_error = phases(rounds).find_map(|measured| measured.first_error.clone());
    report.ledger = Some(ledger(options, rounds));
    let failure = judge(options, rounds, &mut report);
    (report, failure)
}

fn config(options: &IngestOptions) -> Value {
    json!({
        "agents": options.agents,
        "batch": options.batch,
        "duration_seconds": options.duration.as_secs_f64(),
        "rounds": options.rounds,
        "loop": if options.rate.is_some() { "open" } else { "closed" },
        "rate_events_per_second": options.rate,
        "target": options.target.as_ref().map(|target| &target.url),
        "budgets": options.target.is_none().then(budgets),
        "bounds": options.bounds,
    })
}

/// Raised tenfold, and so printed.
fn budgets() -> Value {
    BUDGETS
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect()
}

fn round_json(round: &Round) -> Value {
    json!({
        "discard": round.discard,
        "limit": round.limit,
        "door": round.door,
        "whole": round.whole,
    })
}

fn phases(rounds: &[Round]) -> impl Iterator<Item = &Measured> {
    rounds.iter().flat_map(|round| {
        let nulls = [&round.discard, &round.limit, &round.door];
        nulls.into_iter().flatten().chain([&round.whole])
    })
}

/// Stored where that is seen, else answered.
fn end_to_end(measured: &Measured) -> f64 {
    measured
        .stored_events_per_second
        .unwrap_or(measured.answered_events_per_second)
}

fn reconciled(rounds: &[Round]) -> Option<Reconciled> {
    let each = rounds.iter().map(|round| round.reconciled.clone());
    each.reduce(|a, b| Some(a?.with(b?)))?
}

/// With a target the terms of its inside are null.
fn ledger(options: &IngestOptions, rounds: &[Round]) -> Ledger {
    match reconciled(rounds) {
        Some(found) => Ledger {
            accepted: found.accepted,
            logged: Some(found.logged),
            stored: Some(found.stored),
            lost: Some(found.lost),
            doubled: Some(found.doubled),
            foreign: Some(found.foreign),
        },
        None => Ledger {
            accepted: phases(rounds)
                .map(|m| m.completed * u64::from(options.batch))
                .sum(),
            ..Ledger::default()
        },
    }
}

fn judge(options: &IngestOptions, rounds: &[Round], report: &mut Report) -> Option<Failure> {
    let found = reconciled(rounds).unwrap_or_default();
    let (lost, doubled, foreign) = (found.lost, found.doubled, found.foreign);
    if lost + doubled + foreign > 0 {
        let first = found.first_fault.unwrap_or_default();
        report.verdict =
            format!("not reconciled: {lost} lost, {doubled} doubled, {foreign} foreign; {first}");
        return Some(Failure::NotReconciled);
    }
    if phases(rounds).any(|measured| measured.completed == 0) {
        let error = report.first_error.as_deref().unwrap_or("no answer");
        report.verdict = format!("a measurement without one acknowledged batch: {error}");
        return Some(Failure::NotReconciled);
    }
    let bounds = &options.bounds;
    let (door, rate) = ("door_events_per_second", "events_per_second");
    let fraction = report.fraction_of_limit;
    let bounds = [
        Bound::least(door, report.median(door), bounds.door_events_per_second_min),
        Bound::least(rate, report.median(rate), bounds.events_per_second_min),
        Bound::least("fraction_of_limit", fraction, bounds.fraction_of_limit_min),
        Bound::most(
            "answer_ms.p99",
            report.median("answer_ms"),
            bounds.answer_ms_p99_max,
        ),
    ];
    (!report.meets(&bounds)).then_some(Failure::BelowBound)
}
