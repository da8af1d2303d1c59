//! Rounds into the one shape of every bench's result.

use serde_json::{Value, json};

use super::measured::Measured;
use super::phase::BUDGETS;
use super::reconcile::Reconciled;
use super::{Round, TrackOptions};
use crate::ingest::Failure;
use crate::report::{Bound, Ledger, Metric, Report, Spread};

/// The report, and what its verdict means for the exit code.
pub(super) fn report(options: &TrackOptions, rounds: &[Round]) -> (Report, Option<Failure>) {
    let mut report = Report::new("track", config(options));
    report.rounds = rounds.iter().map(round_json).collect();
    let whole: Vec<&Measured> = rounds.iter().map(|round| &round.whole).collect();
    let limit: Vec<&Measured> = rounds
        .iter()
        .filter_map(|round| round.limit.as_ref())
        .collect();
    let mut add = |name: &str, figure: &dyn Fn(&Measured) -> Option<f64>| {
        if let Some(spread) = Spread::of(whole.iter().filter_map(|m| figure(m))) {
            report
                .summary
                .insert(name.to_owned(), Metric::Figure(spread));
        }
    };
    let events = options.events as f64;
    add("events_per_second", &|m| {
        Some(events / m.settled_seconds.unwrap_or(m.answered_seconds))
    });
    add("answered_events_per_second", &|m| {
        Some(m.answered_events_per_second)
    });
    add("start_seconds", &|m| m.start_seconds);
    add("answered_seconds", &|m| Some(m.answered_seconds));
    add("stored_seconds", &|m| m.stored_seconds);
    add("settled_seconds", &|m| m.settled_seconds);
    add("server_cpu_us_per_event", &|m| m.server_cpu_us_per_event);
    add("server_cpu_us_per_settled_event", &|m| {
        m.server_cpu_us_per_settled_event
    });
    add("server_resident_mib_max", &|m| {
        Some(m.server_resident_bytes_max? as f64 / 1_048_576.0)
    });
    add("generator_share", &|m| Some(m.generator_share));
    add("lag_records_max", &|m| {
        Some(*m.lag_records.iter().max()? as f64)
    });
    if let Some(latency) = Metric::of_times(whole.iter().map(|m| m.answer_ms)) {
        report.summary.insert("answer_ms".to_owned(), latency);
    }
    if options.batch == 1
        && let Some(latency) = Metric::of_times(whole.iter().map(|m| m.others_answer_ms))
    {
        report
            .summary
            .insert("others_answer_ms".to_owned(), latency);
    }
    compare(rounds, &mut report);
    report.pace = whole.last().and_then(|m| m.pace.clone());
    report.first_error = limit
        .iter()
        .chain(&whole)
        .find_map(|m| m.first_error.clone());
    report.ledger = Some(ledger(options, rounds));
    let failure = judge(options, rounds, &mut report);
    (report, failure)
}

/// The whole beside the limit of the same round.
fn compare(rounds: &[Round], report: &mut Report) {
    let limits = || rounds.iter().filter_map(|round| round.limit.as_ref());
    if limits().next().is_none() {
        return;
    }
    let answered = |m: &Measured| m.answered_events_per_second;
    let folds = rounds
        .iter()
        .filter_map(|round| Some(round.folds.as_ref()?.events_per_second));
    report.limit = json!({
        "events_per_second": Spread::of(limits().map(answered)),
        "folds_events_per_second": Spread::of(folds),
    });
    let whole = rounds.iter().map(|round| answered(&round.whole));
    let fractions = whole
        .zip(limits())
        .map(|(whole, limit)| whole / answered(limit).max(1.0));
    report.fraction_of_limit = Spread::of(fractions).map(|spread| spread.median);
}

fn config(options: &TrackOptions) -> Value {
    json!({
        "events": options.events,
        "batch": options.batch,
        "identities": options.identities,
        "properties": options.properties,
        "skew": options.skew,
        "generators": options.generators,
        "connections": options.connections,
        "rounds": options.rounds,
        "workers": options.workers,
        "loop": "closed",
        "target": options.target.as_ref().map(|target| &target.url),
        "budgets": options.target.is_none().then(|| {
            let each = BUDGETS.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
            each.collect::<Value>()
        }),
        "bounds": options.bounds,
    })
}

fn round_json(round: &Round) -> Value {
    json!({
        "limit": round.limit,
        "whole": round.whole,
        "folds": round.folds,
        "reconciled": round.reconciled,
    })
}

/// Over all rounds; with a target the terms of its inside are null.
fn ledger(options: &TrackOptions, rounds: &[Round]) -> Ledger {
    let accepted = rounds
        .iter()
        .map(|round| (round.whole.completed * u64::from(options.batch)).min(options.events))
        .sum();
    let sum = |term: fn(&Reconciled) -> u64| -> Option<u64> {
        let terms = rounds
            .iter()
            .map(|round| round.reconciled.as_ref().map(term));
        terms.sum()
    };
    Ledger {
        accepted,
        // The bench sends each event once, so that what is in the log is what is stored.
        logged: sum(|found| found.stored + found.doubled),
        stored: sum(|found| found.stored),
        lost: sum(|found| found.lost),
        doubled: sum(|found| found.doubled),
        foreign: sum(|found| found.foreign),
    }
}

fn judge(options: &TrackOptions, rounds: &[Round], report: &mut Report) -> Option<Failure> {
    let not_exact = rounds.iter().filter_map(|round| round.reconciled.as_ref());
    if let Some(found) = not_exact.into_iter().find(|found| !found.is_exact()) {
        report.verdict = format!(
            "not reconciled: {} lost, {} doubled, {} foreign, {} identities at fault; {}",
            found.lost,
            found.doubled,
            found.foreign,
            found.identities_at_fault,
            found.first_fault.as_deref().unwrap_or("-"),
        );
        return Some(Failure::NotReconciled);
    }
    let phases = || {
        let limits = rounds.iter().filter_map(|round| round.limit.as_ref());
        limits.chain(rounds.iter().map(|round| &round.whole))
    };
    if let Some(failed) = phases().find(|m| m.unsure > 0 || m.completed == 0) {
        let error = report.first_error.as_deref().unwrap_or("no answer");
        let (phase, unsure) = (failed.phase, failed.unsure);
        report.verdict = format!("{phase}: {unsure} requests were never acknowledged: {error}");
        return Some(Failure::NotReconciled);
    }
    let bounds = &options.bounds;
    let (rate, settled) = ("events_per_second", "settled_seconds");
    let fraction = report.fraction_of_limit;
    let bounds = [
        Bound::least(rate, report.median(rate), bounds.events_per_second_min),
        Bound::least("fraction_of_limit", fraction, bounds.fraction_of_limit_min),
        Bound::most(settled, report.median(settled), bounds.settled_seconds_max),
    ];
    (!report.meets(&bounds)).then_some(Failure::BelowBound)
}
