//! What a fold's flushes spend their time on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A part of the work on a block, in their order. Workers that share a block each add their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Phase {
    /// Reading the log.
    Read,
    /// Parsing records and asking which are new.
    Admit,
    /// From an event to flat properties and checked values.
    Project,
    /// Sessions and profiles, with the rows that come of them.
    Fold,
    /// A row for each session that the block changed.
    Squash,
    /// Writing and syncing the tables' files.
    Insert,
    /// Waiting for compaction to make room (F6).
    Room,
    /// The synced batch of state, list and position.
    Commit,
}

/// Their names.
const NAMES: [&str; 8] = [
    "read", "admit", "project", "fold", "squash", "insert", "room", "commit",
];

/// Time spent in each phase since the start.
#[derive(Debug, Default)]
pub struct Phases([AtomicU64; NAMES.len()]);

impl Phases {
    /// Adds time.
    pub fn add(&self, phase: Phase, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0[phase as usize].fetch_add(ns, Ordering::Relaxed);
    }

    /// Runs `work` and adds the time that it took.
    pub fn time<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        self.add(phase, began.elapsed());
        done
    }

    /// Nanoseconds by phase.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&'static str, u64> {
        let times = self.0.iter().map(|time| time.load(Ordering::Relaxed));
        NAMES.into_iter().zip(times).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_added_under_their_names() {
        let phases = Phases::default();
        phases.add(Phase::Commit, Duration::from_nanos(5));
        phases.add(Phase::Commit, Duration::from_nanos(7));
        assert_eq!(phases.time(Phase::Read, || 3), 3);
        let times = phases.by_name();
        assert_eq!((times["commit"], times["insert"]), (12, 0));
        assert_eq!(times.len(), 8);
    }
}
