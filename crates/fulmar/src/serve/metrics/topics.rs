//! The topics of the log.

use fulmar_log::JournalStats;

use super::family::{Family, label};
use crate::serve::live::Live;

/// Name, help, and where the figure is read from.
type Figure = (&'static str, &'static str, fn(&JournalStats) -> u64);

const GAUGES: [Figure; 6] = [
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

const COUNTERS: [Figure; 8] = [
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

/// Figures of every topic.
pub fn families(live: &Live) -> Vec<Family> {
    let stats: Vec<JournalStats> = live.desk.journals.iter().map(|j| j.stats()).collect();
    let rows = |read: fn(&JournalStats) -> u64| {
        stats
            .iter()
            .map(|s| (label("topic", s.topic.name()), read(s) as f64))
            .collect()
    };
    let gauges = GAUGES
        .iter()
        .map(|(name, help, read)| Family::gauges(name, help, rows(*read)));
    let counters = COUNTERS
        .iter()
        .map(|(name, help, read)| Family::counters(name, help, rows(*read)));
    gauges.chain(counters).collect()
}
