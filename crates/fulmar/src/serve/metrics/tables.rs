//! The tables and the index of repeats.

use fulmar_store::lake::TableStats;

use super::family::{Family, label};
use crate::serve::live::Live;

/// Name, help, and where the figure is read from.
type Figure = (&'static str, &'static str, fn(&TableStats) -> u64);

const GAUGES: [Figure; 4] = [
    ("fulmar_table_files", "Committed files", |t| t.files),
    (
        "fulmar_table_uncompacted_files",
        "Files that wait for compaction",
        |t| t.uncompacted_files,
    ),
    ("fulmar_table_rows", "Rows", |t| t.rows),
    ("fulmar_table_size_bytes", "Bytes of the files", |t| t.bytes),
];

/// Figures of every table, of compaction and of retention.
pub fn families(live: &Live) -> Vec<Family> {
    let stats = live.desk.lake.stats();
    let rows = |read: fn(&TableStats) -> u64| {
        stats
            .tables
            .iter()
            .map(|t| (label("table", t.table), read(t) as f64))
            .collect()
    };
    let gauges = GAUGES
        .iter()
        .map(|(name, help, read)| Family::gauges(name, help, rows(*read)));
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
        (
            "fulmar_deleted_rows",
            "Rows removed because an operator deleted whose they were",
            stats.rows_forgotten,
        ),
    ];
    let counters = counters.map(|(name, help, value)| Family::counter(name, help, value));
    let damaged = Family::gauge(
        "fulmar_lake_damaged_files",
        "Listed files that compaction found missing or changed",
        stats.damaged_files as f64,
    );
    gauges.chain(counters).chain([damaged]).collect()
}

/// Figures of the index of repeats, the window in force among them (X1).
pub fn repeats(live: &Live) -> Vec<Family> {
    let stats = live.repeats.stats();
    let window_seconds = live.config.duration("repeats.window").as_secs_f64();
    let in_force_seconds = stats.window_in_force_ms as f64 / 1_000.0;
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
            window_seconds,
        ),
        (
            "fulmar_repeats_window_in_force_seconds",
            "How far back ids are known",
            in_force_seconds,
        ),
    ];
    gauges
        .map(|(name, help, value)| Family::gauge(name, help, value))
        .into()
}
