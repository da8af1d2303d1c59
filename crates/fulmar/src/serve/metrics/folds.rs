//! The ledger, the folds, and what each stage does with its time.

use std::fmt;

use fulmar_flow::{FoldHandle, FoldStats, FoldStatus, Ledger};
use fulmar_log::Topic;

use super::family::{Family, Labels, label};
use crate::folds::FOLDS;
use crate::serve::live::Live;

/// The ledger of I8: one gauge per term, since the terms are committed state and not rates.
pub fn ledger(live: &Live) -> Result<Vec<Family>, fmt::Error> {
    let mut rows = Vec::new();
    for (topic, fold) in FOLDS {
        let end = live.journal(topic).end();
        let ledger = Ledger::read(&live.state, fold, end).map_err(|_| fmt::Error)?;
        let mut term = |name: &str, reason: Option<&String>, count: u64| {
            let mut labels = vec![
                ("topic", topic.name().to_owned()),
                ("term", name.to_owned()),
            ];
            labels.extend(reason.map(|reason| ("reason", reason.clone())));
            rows.push((labels, count as f64));
        };
        term("logged", None, ledger.logged);
        term("stored", None, ledger.stored);
        term("repeats", None, ledger.repeats);
        term("quarantined", None, ledger.quarantined);
        term("backlog", None, ledger.backlog);
        for (reason, count) in &ledger.dropped {
            term("dropped", Some(reason), *count);
        }
    }
    let help = "logged = stored + repeats + quarantined + dropped + backlog";
    Ok(vec![Family::gauges("fulmar_ledger_records", help, rows)])
}

/// Figures of the folds, and of the stages around them.
pub fn families(live: &Live) -> Vec<Family> {
    let folds: Vec<FoldStats> = live.desk.folds.iter().map(FoldHandle::stats).collect();
    let each = |value: fn(&FoldStats) -> u64| -> Vec<(Labels, f64)> {
        let row = |stats: &FoldStats| (label("fold", stats.name), value(stats) as f64);
        folds.iter().map(row).collect()
    };
    let state = |stats: &FoldStats| {
        let state = word(&stats.status).to_owned();
        let labels = vec![("fold", stats.name.to_owned()), ("state", state)];
        (labels, 1.0)
    };
    let lag = "The log's end minus the committed position";
    let records = "Records with a durable result since the start";
    let stages = stages(live, &folds);
    vec![
        Family::gauges("fulmar_fold_lag_records", lag, each(|stats| stats.lag)),
        Family::gauges(
            "fulmar_fold_state",
            "What a fold is doing",
            folds.iter().map(state).collect(),
        ),
        Family::counters("fulmar_fold_records", records, each(|stats| stats.records)),
        Family::counters(
            "fulmar_fold_blocks",
            "Blocks committed",
            each(|stats| stats.blocks),
        ),
        Family::counters(
            "fulmar_fold_retries",
            "Tries that failed",
            each(|stats| stats.retries),
        ),
        Family::counters(
            "fulmar_fold_phase_seconds",
            "Time of a fold's flushes by phase, summed over its workers",
            folds.iter().flat_map(phases).collect(),
        ),
        Family::counters(
            "fulmar_stage_seconds",
            "Time of a stage by what it did",
            stages,
        ),
    ]
}

fn phases(stats: &FoldStats) -> Vec<(Labels, f64)> {
    let row = |(phase, ns): (&&'static str, &u64)| {
        let labels = vec![
            ("fold", stats.name.to_owned()),
            ("phase", (*phase).to_owned()),
        ];
        (labels, *ns as f64 / 1e9)
    };
    stats.phases_ns.iter().map(row).collect()
}

fn stages(live: &Live, folds: &[FoldStats]) -> Vec<(Labels, f64)> {
    let row = |stage: &str, doing: &str, seconds: f64| {
        (
            vec![("stage", stage.to_owned()), ("doing", doing.to_owned())],
            seconds,
        )
    };
    let of_ns = |ns: u64| ns as f64 / 1e9;
    let of_us = |us: u64| us as f64 / 1e6;
    let of_fold = |stats: &FoldStats| {
        [
            row(stats.name, "busy", of_ns(stats.busy_ns)),
            row(stats.name, "wait", of_ns(stats.wait_ns)),
            row(stats.name, "blocked", of_ns(stats.blocked_ns)),
        ]
    };
    let log = live.journal(Topic::Events).stats();
    let merging_ns = live.desk.lake.stats().merge_busy_ns;
    folds
        .iter()
        .flat_map(of_fold)
        .chain([
            row("log", "busy", of_us(log.busy_us)),
            row("log", "sync", of_us(log.sync_us)),
            row("log", "wait", of_us(log.wait_us)),
            row("compaction", "busy", of_ns(merging_ns)),
        ])
        .collect()
}

fn word(status: &FoldStatus) -> &'static str {
    match status {
        FoldStatus::Running => "running",
        FoldStatus::Held => "held",
        FoldStatus::Retrying { .. } => "retrying",
        FoldStatus::Damaged { .. } => "damaged",
        FoldStatus::Failed { .. } => "failed",
        FoldStatus::Stopped => "stopped",
    }
}
