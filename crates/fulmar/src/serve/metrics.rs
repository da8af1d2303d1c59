//! `/metrics`: what the doors count, and what the log, the folds and the ledger hold.

use std::fmt;
use std::sync::Arc;

use fulmar_flow::Ledger;
use fulmar_log::{JournalStats, Topic, disk};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::EncodeMetric as _;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use fulmar_store::lake::TableStats;
use fulmar_store::writer::WRITER;

use super::live::Live;

/// What a figure is read from.
type Of<T> = fn(&T) -> u64;

/// Everything that is read from the parts at each scrape, so that it is never out of date.
struct Parts(Arc<Live>);

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parts")
    }
}

/// The registry behind `/metrics`.
pub fn registry(live: &Arc<Live>, doors: &fulmar_gateway::metrics::Metrics) -> Registry {
    let mut registry = Registry::default();
    doors.register(&mut registry);
    registry.register_collector(Box::new(Parts(Arc::clone(live))));
    registry
}

/// The text of one scrape.
pub fn encode(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry)?;
    Ok(text)
}

/// One family: one value without labels, or one per label set. Labels are fixed words, never ids,
/// so that their number is bounded (I7).
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    unit: Option<&'a Unit>,
    rows: Vec<(Vec<(&'a str, &'a str)>, f64)>,
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, family: Family<'_>) -> Result<(), fmt::Error> {
    let mut metric =
        encoder.encode_descriptor(family.name, family.help, family.unit, MetricType::Gauge)?;
    for (labels, value) in family.rows {
        let value = ConstGauge::new(value);
        if labels.is_empty() {
            return value.encode(metric);
        }
        value.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn counter(encoder: &mut DescriptorEncoder<'_>, family: Family<'_>) -> Result<(), fmt::Error> {
    let mut metric =
        encoder.encode_descriptor(family.name, family.help, family.unit, MetricType::Counter)?;
    for (labels, value) in family.rows {
        let value = ConstCounter::new(value);
        if labels.is_empty() {
            return value.encode(metric);
        }
        value.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

impl Collector for Parts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let live = &self.0;
        encode_process(live, &mut encoder)?;
        encode_ledger(live, &mut encoder)?;
        encode_writer(live, &mut encoder)?;
        encode_topics(live, &mut encoder)?;
        encode_lake(live, &mut encoder)?;
        encode_repeats(live, &mut encoder)
    }
}

fn encode_process(live: &Live, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let version = vec![("version", env!("CARGO_PKG_VERSION"))];
    gauge(
        encoder,
        Family {
            name: "fulmar_build_info",
            help: "The version that runs",
            unit: None,
            rows: vec![(version, 1.0)],
        },
    )?;
    let ready = if live.unready().is_none() { 1.0 } else { 0.0 };
    gauge(
        encoder,
        Family {
            name: "fulmar_ready",
            help: "Whether the doors can accept durably",
            unit: None,
            rows: vec![(vec![], ready)],
        },
    )?;
    if let Ok(space) = disk::space(&live.folder) {
        gauge(
            encoder,
            Family {
                name: "fulmar_disk_free",
                help: "Free space of the data folder's file system",
                unit: Some(&Unit::Bytes),
                rows: vec![(vec![], space.free_bytes as f64)],
            },
        )?;
    }
    gauge(
        encoder,
        Family {
            name: "fulmar_registry_revision",
            help: "Control records applied",
            unit: None,
            rows: vec![(vec![], live.registry().current().revision as f64)],
        },
    )
}

/// The ledger of I8: one gauge per term, since the terms are committed state and not rates.
fn encode_ledger(live: &Live, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let end = live.journal(Topic::Events).end();
    let ledger = Ledger::read(&live.state, WRITER, end).map_err(|_| fmt::Error)?;
    let mut rows = vec![
        (vec![("term", "logged")], ledger.logged as f64),
        (vec![("term", "stored")], ledger.stored as f64),
        (vec![("term", "repeats")], ledger.repeats as f64),
        (vec![("term", "quarantined")], ledger.quarantined as f64),
        (vec![("term", "backlog")], ledger.backlog as f64),
    ];
    for (reason, count) in &ledger.dropped {
        rows.push((vec![("term", "dropped"), ("reason", reason)], *count as f64));
    }
    let help = "logged = stored + repeats + quarantined + dropped + backlog";
    gauge(
        encoder,
        Family {
            name: "fulmar_ledger_records",
            help,
            unit: None,
            rows,
        },
    )
}

fn encode_writer(live: &Live, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let stats = live.writer.stats();
    let fold = |value: f64| vec![(vec![("fold", stats.name)], value)];
    gauge(
        encoder,
        Family {
            name: "fulmar_fold_lag_records",
            help: "The log's end minus the committed position",
            unit: None,
            rows: fold(stats.lag as f64),
        },
    )?;
    counter(
        encoder,
        Family {
            name: "fulmar_fold_records",
            help: "Records with a durable result since the start",
            unit: None,
            rows: fold(stats.records as f64),
        },
    )?;
    counter(
        encoder,
        Family {
            name: "fulmar_fold_blocks",
            help: "Blocks committed since the start",
            unit: None,
            rows: fold(stats.blocks as f64),
        },
    )?;
    counter(
        encoder,
        Family {
            name: "fulmar_fold_retries",
            help: "Tries of a block that failed",
            unit: None,
            rows: fold(stats.retries as f64),
        },
    )?;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let row = |doing, ns| (vec![("stage", stats.name), ("doing", doing)], seconds(ns));
    let writer = [
        row("busy", stats.busy_ns),
        row("wait", stats.wait_ns),
        row("blocked", stats.blocked_ns),
    ];
    let log = live.journal(Topic::Events).stats();
    let row = |doing, us: u64| (vec![("stage", "log"), ("doing", doing)], us as f64 / 1e6);
    let log = [
        row("busy", log.busy_us),
        row("sync", log.sync_us),
        row("wait", log.wait_us),
    ];
    counter(
        encoder,
        Family {
            name: "fulmar_stage",
            help: "Time of a stage by what it was doing",
            unit: Some(&Unit::Seconds),
            rows: writer.into_iter().chain(log).collect(),
        },
    )
}

/// What a topic has now: name, help, value.
const TOPIC_GAUGES: [(&str, &str, Of<JournalStats>); 6] = [
    (
        "fulmar_log_end_offset",
        "One past the last durable record",
        |s| s.end,
    ),
    ("fulmar_log_start_offset", "First record held", |s| s.start),
    ("fulmar_log_segments", "Segment files", |s| s.segments),
    ("fulmar_log_size_bytes", "Bytes held", |s| s.bytes),
    (
        "fulmar_log_queue_bytes",
        "Bytes that wait for the disk",
        |s| s.queue_bytes,
    ),
    ("fulmar_log_damages", "Damaged places known", |s| {
        s.damages.len() as u64
    }),
];

/// What a topic has done so far: name, help, value.
const TOPIC_COUNTERS: [(&str, &str, Of<JournalStats>); 8] = [
    ("fulmar_log_appends", "Appends made durable", |s| s.appends),
    ("fulmar_log_records", "Records made durable", |s| s.records),
    ("fulmar_log_groups", "Group commits", |s| s.groups),
    ("fulmar_log_syncs", "Syncs that succeeded", |s| s.syncs),
    (
        "fulmar_log_sync_failures",
        "Writes or syncs that failed",
        |s| s.sync_failures,
    ),
    (
        "fulmar_log_torn_tail_bytes",
        "Bytes cut as a torn tail",
        |s| s.torn_tail_bytes,
    ),
    (
        "fulmar_log_refused_full",
        "Appends refused at a full queue",
        |s| s.refused_full,
    ),
    (
        "fulmar_log_refused_disk_low",
        "Appends refused at a low disk",
        |s| s.refused_disk_low,
    ),
];

fn encode_topics(live: &Live, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let stats: Vec<JournalStats> = live
        .desk
        .journals
        .iter()
        .map(|journal| journal.stats())
        .collect();
    let rows = |value: Of<JournalStats>| {
        stats
            .iter()
            .map(|s| (vec![("topic", s.topic.name())], value(s) as f64))
            .collect()
    };
    for (name, help, value) in TOPIC_GAUGES {
        gauge(
            encoder,
            Family {
                name,
                help,
                unit: None,
                rows: rows(value),
            },
        )?;
    }
    for (name, help, value) in TOPIC_COUNTERS {
        counter(
            encoder,
            Family {
                name,
                help,
                unit: None,
                rows: rows(value),
            },
        )?;
    }
    Ok(())
}

fn encode_lake(live: &Live, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let stats = live.desk.lake.stats();
    let rows = |value: Of<TableStats>| {
        stats
            .tables
            .iter()
            .map(|t| (vec![("table", t.table)], value(t) as f64))
            .collect()
    };
    let gauges: [(&str, &str, Of<TableStats>); 4] = [
        ("fulmar_table_files", "Committed files", |t| t.files),
        (
            "fulmar_table_uncompacted_files",
            "Files that wait for compaction",
            |t| t.uncompacted_files,
        ),
        ("fulmar_table_rows", "Rows", |t| t.rows),
        ("fulmar_table_size_bytes", "Bytes of the files", |t| t.bytes),
    ];
    for (name, help, value) in gauges {
        gauge(
            encoder,
            Family {
                name,
                help,
                unit: None,
                rows: rows(value),
            },
        )?;
    }
    let counters = [
        ("fulmar_compaction_merges", "Merges done", stats.merges),
        (
            "fulmar_compaction_rows",
            "Rows that merges read",
            stats.rows_merged,
        ),
        (
            "fulmar_compaction_repeats",
            "Rows removed as repeats",
            stats.repeats_removed,
        ),
        (
            "fulmar_retention_rows",
            "Rows removed for their age",
            stats.rows_expired,
        ),
    ];
    for (name, help, value) in counters {
        let rows = vec![(vec![], value as f64)];
        counter(
            encoder,
            Family {
                name,
                help,
                unit: None,
                rows,
            },
        )?;
    }
    Ok(())
}

fn encode_repeats(live: &Live, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let stats = live.repeats.stats();
    let seconds = |ms: i64| ms as f64 / 1_000.0;
    let window = live.config.duration("repeats.window").as_secs_f64();
    let gauges = [
        ("fulmar_repeats_ids", "Ids remembered", stats.ids as f64),
        (
            "fulmar_repeats_disk_bytes",
            "Bytes of its files",
            stats.disk_bytes as f64,
        ),
        (
            "fulmar_repeats_memory_bytes",
            "Bytes in memory",
            stats.memory_bytes as f64,
        ),
        (
            "fulmar_repeats_window_seconds",
            "Window as configured",
            window,
        ),
        (
            "fulmar_repeats_window_in_force_seconds",
            "How far back every id is known",
            seconds(stats.window_in_force_ms),
        ),
    ];
    for (name, help, value) in gauges {
        gauge(
            encoder,
            Family {
                name,
                help,
                unit: None,
                rows: vec![(vec![], value)],
            },
        )?;
    }
    Ok(())
}
