//! Figures of one journal, for `status`, metrics and the pace report.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Damage, Topic};

/// A snapshot. Counters are since the journal was opened; times in
/// microseconds of wall time.
#[derive(Clone, Debug, serde::Serialize)]
pub struct JournalStats {
    /// The topic.
    pub topic: Topic,
    /// First offset held.
    pub start: u64,
    /// One past the last synced offset.
    pub end: u64,
    /// Segment files.
    pub segments: u64,
    /// Bytes of the log: frames and headers, without preallocated space.
    pub bytes: u64,
    /// Append time of the oldest segment's beginning, in ms since the epoch.
    pub oldest_time_ms: Option<i64>,
    /// Bytes that were cut as a torn tail when the journal was opened (L1).
    pub torn_tail_bytes: u64,
    /// Damage found so far: at start, in the background, on reads.
    pub damages: Vec<Damage>,
    /// Segments that the background check has been through, of `segments`.
    pub segments_verified: u64,
    /// Appends that were made durable.
    pub appends: u64,
    /// Records in them.
    pub records: u64,
    /// Payload bytes in them.
    pub payload_bytes: u64,
    /// Group commits: `appends / groups` waited for one sync together.
    pub groups: u64,
    /// Syncs that succeeded, those of seals too.
    pub syncs: u64,
    /// Writes or syncs that failed (L2).
    pub sync_failures: u64,
    /// Seals written (L1).
    pub seals: u64,
    /// Time that the commit thread wrote and synced groups.
    pub busy_us: u64,
    /// Of that, time in the sync.
    pub sync_us: u64,
    /// Time that it had nothing to write.
    pub wait_us: u64,
    /// Sum over appends of the time from the queue to the answer.
    pub queued_us: u64,
    /// Bytes that wait for the disk now.
    pub queue_bytes: u64,
    /// Appends that wait for the disk now.
    pub queue_appends: u64,
    /// Most bytes that ever waited.
    pub queue_bytes_peak: u64,
    /// Appends refused since the queue was full.
    pub refused_full: u64,
    /// Appends refused since the disk was low.
    pub refused_disk_low: u64,
    /// Segments that went by age or bytes.
    pub segments_expired: u64,
    /// Segments that went before their age since the disk was low (L3).
    pub segments_expired_early: u64,
    /// Whether the last try to write failed and the journal waits to be cut.
    pub broken: bool,
}

/// The counters behind [`JournalStats`]; each has one writer or is only added to.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub torn_tail_bytes: AtomicU64,
    pub segments_verified: AtomicU64,
    pub appends: AtomicU64,
    pub records: AtomicU64,
    pub payload_bytes: AtomicU64,
    pub groups: AtomicU64,
    pub syncs: AtomicU64,
    pub sync_failures: AtomicU64,
    pub seals: AtomicU64,
    pub busy_us: AtomicU64,
    pub sync_us: AtomicU64,
    pub wait_us: AtomicU64,
    pub queued_us: AtomicU64,
    pub queue_bytes_peak: AtomicU64,
    pub refused_full: AtomicU64,
    pub refused_disk_low: AtomicU64,
    pub segments_expired: AtomicU64,
    pub segments_expired_early: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
