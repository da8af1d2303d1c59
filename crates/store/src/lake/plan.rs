//! What compaction does next: pure over the list.
//!
//! In a run, blocks are merged as they gather, so that each row is rewritten
//! once (M3). Merging all of a day waits until the writer is idle; only when a
//! day has gathered too many runs are some of them merged under load.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::entry::{LakeFile, Level};
use super::snapshot::FileList;
use crate::tables::Table;

/// Blocks of full size that are merged at once. Each open input holds some
/// 4 MiB decoded, so that a merge stays near 64 MiB.
const BLOCKS_AT_ONCE: usize = 16;

/// Files that are merged at once however small they are: open files.
const FILES_AT_ONCE_MAX: usize = 64;

/// Rows of one input that lie decoded at a time, about.
const ROWS_IN_MEMORY: u64 = 8_192;

/// Runs that are merged at once.
const RUNS_AT_ONCE: usize = 16;

/// Runs of a day at which some are merged although the writer is busy: a query
/// opens each of them.
const RUNS_OF_DAY_MAX: usize = 64;

/// When idle, blocks are merged this long after the last merge.
const IDLE_MERGE_EVERY_MS: i64 = 60_000;

/// Span over which the writer's rate is taken.
const RATE_SPAN_MS: i64 = 10_000;

/// Rows per second below which the writer counts as idle: a merge then takes
/// no processor that it needs.
const IDLE_ROWS_PER_SECOND: u64 = 5_000;

/// A day is merged whole when what is new is at least this share of it, so
/// that a few late rows do not rewrite gigabytes again and again.
const NEW_SHARE_MIN: u64 = 4;

/// Without rows for this long, a few late rows are merged all the same.
const QUIET_MS: i64 = 10 * 60_000;

/// Files of one merge in key order, none overlapping the next.
pub(crate) type Run = Vec<Arc<LakeFile>>;

/// One step of compaction.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) table: Table,
    pub(crate) runs: Vec<Run>,
    /// What the output is.
    pub(crate) level: Level,
}

/// What the writer did of late.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// (time in ms, rows), over [`RATE_SPAN_MS`].
    recent: VecDeque<(i64, u64)>,
    last_rows_ms: Option<i64>,
    last_merge_ms: BTreeMap<Table, i64>,
}

impl Activity {
    pub(crate) fn add(&mut self, now_ms: i64, rows: u64) {
        self.forget_before(now_ms - RATE_SPAN_MS);
        self.recent.push_back((now_ms, rows));
        self.last_rows_ms = Some(now_ms);
    }

    pub(crate) fn merged(&mut self, table: Table, now_ms: i64) {
        self.last_merge_ms.insert(table, now_ms);
    }

    fn forget_before(&mut self, time_ms: i64) {
        while self.recent.front().is_some_and(|(time, _)| *time < time_ms) {
            self.recent.pop_front();
        }
    }

    fn is_idle(&mut self, now_ms: i64) -> bool {
        self.forget_before(now_ms - RATE_SPAN_MS);
        let rows: u64 = self.recent.iter().map(|(_, rows)| rows).sum();
        rows < IDLE_ROWS_PER_SECOND * (RATE_SPAN_MS / 1_000) as u64
    }

    fn is_quiet(&self, now_ms: i64) -> bool {
        self.last_rows_ms
            .is_none_or(|last| now_ms - last >= QUIET_MS)
    }

    fn merge_is_due(&self, table: Table, now_ms: i64) -> bool {
        let last = self.last_merge_ms.get(&table);
        last.is_none_or(|last| now_ms - last >= IDLE_MERGE_EVERY_MS)
    }
}

/// What is to be done now; none when compaction can wait.
pub(crate) fn next_job(list: &FileList, activity: &mut Activity, now_ms: i64) -> Option<Job> {
    let idle = activity.is_idle(now_ms);
    for table in Table::ALL {
        let blocks = list.blocks(table);
        let due = idle && blocks > 0 && activity.merge_is_due(table, now_ms);
        if blocks >= BLOCKS_AT_ONCE || due {
            return Some(merge_blocks(list, table));
        }
    }
    for table in Table::ALL {
        for day in days(list, table).into_values() {
            if day.runs() > RUNS_OF_DAY_MAX {
                return Some(day.merge_some(table));
            }
            if idle && day.is_worth_it(activity.is_quiet(now_ms)) {
                return Some(day.merge(table));
            }
        }
    }
    None
}

/// What is left to be done until every day is merged whole.
pub(crate) fn next_job_of_all(list: &FileList) -> Option<Job> {
    for table in Table::ALL {
        if list.blocks(table) > 0 {
            return Some(merge_blocks(list, table));
        }
        let open = days(list, table)
            .into_values()
            .find(|day| !day.parts.is_empty());
        if let Some(day) = open {
            return Some(day.merge(table));
        }
    }
    None
}

/// The oldest blocks, as many as fit into memory at once.
fn merge_blocks(list: &FileList, table: Table) -> Job {
    let blocks = list.of(table).iter().filter(|file| !file.entry.compacted());
    let mut blocks: Vec<&Arc<LakeFile>> = blocks.collect();
    blocks.sort_by_key(|file| file.entry.offset_min);
    let mut runs: Vec<Run> = Vec::new();
    let mut rows_in_memory = 0;
    for file in blocks.into_iter().take(FILES_AT_ONCE_MAX) {
        rows_in_memory += file.entry.rows.min(ROWS_IN_MEMORY);
        if !runs.is_empty() && rows_in_memory > ROWS_IN_MEMORY * BLOCKS_AT_ONCE as u64 {
            break;
        }
        runs.push(vec![Arc::clone(file)]);
    }
    Job {
        table,
        runs,
        level: Level::Part,
    }
}

/// A day's files by the merge that wrote them.
#[derive(Default)]
struct Day {
    parts: BTreeMap<u64, Run>,
    whole: BTreeMap<u64, Run>,
}

fn days(list: &FileList, table: Table) -> BTreeMap<i32, Day> {
    let mut days: BTreeMap<i32, Day> = BTreeMap::new();
    for file in list.of(table) {
        let Some(number) = file.entry.day else {
            continue;
        };
        let day = days.entry(number).or_default();
        let runs = match file.entry.level {
            Level::Day => &mut day.whole,
            _ => &mut day.parts,
        };
        runs.entry(file.entry.run)
            .or_default()
            .push(Arc::clone(file));
    }
    for day in days.values_mut() {
        let runs = day.parts.values_mut().chain(day.whole.values_mut());
        runs.for_each(|run| run.sort_by(|a, b| a.entry.name.cmp(&b.entry.name)));
    }
    days
}

impl Day {
    fn runs(&self) -> usize {
        self.parts.len() + self.whole.len()
    }

    fn is_worth_it(&self, quiet: bool) -> bool {
        let new: u64 = self.parts.values().map(run_bytes).sum();
        let old: u64 = self.whole.values().map(run_bytes).sum();
        new > 0 && (quiet || new * NEW_SHARE_MIN >= old)
    }

    /// All of the day, or a step towards it when it has too many runs.
    fn merge(self, table: Table) -> Job {
        if self.runs() > RUNS_AT_ONCE {
            return self.merge_some(table);
        }
        let runs = self.whole.into_values().chain(self.parts.into_values());
        Job {
            table,
            runs: runs.collect(),
            level: Level::Day,
        }
    }

    /// The smallest runs into one, so that a row is rewritten a few times at most.
    fn merge_some(self, table: Table) -> Job {
        let mut runs: Vec<Run> = self.parts.into_values().collect();
        runs.sort_by_key(run_bytes);
        runs.truncate(RUNS_AT_ONCE);
        Job {
            table,
            runs,
            level: Level::Part,
        }
    }
}

fn run_bytes(run: &Run) -> u64 {
    run.iter().map(|file| file.entry.bytes).sum()
}
