//! The lake: Parquet files under private names, and the one list of them.
//!
//! The list lives in the state store and changes only in the batch of a block
//! or of a compaction (F4); a file that is not in it does not count, whatever
//! stands in the folder. In memory it is a shared value that is replaced whole,
//! so that a reader holds the exact files of one moment.

mod check;
mod compaction;
mod day_links;
mod day_writer;
pub mod entry;
mod forget;
mod identities;
mod merge;
mod open;
mod plan;
mod repeats;
mod retention;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fulmar_flow::{State, StateBatch};

pub use check::{CheckReport, FileInfo};
pub use compaction::{Compaction, CompactionReport};
pub use entry::{FileEntry, LakeFile, Level, day_name, day_of};
pub use forget::Forgotten;
pub use identities::{Identity, scan_file, scan_identities};
pub use snapshot::Snapshot;
#[cfg(test)]
pub(crate) use tests::row_of;

use crate::error::Result;
use crate::parquet_file::write_block;
use crate::tables::{Table, TableBuilder};
use snapshot::FileList;

/// Uncompacted files per table at which the writer waits (F6).
pub const UNCOMPACTED_FILES_MAX: usize = 200;

/// Bytes of a compacted file at most.
pub const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// How long a replaced file stays for readers outside of this process, in ms.
pub const REPLACED_KEEP_MS: i64 = 10 * 60_000;

/// Days that rows are kept, by event time, unless configured.
pub const RETENTION_DAYS: u32 = 365;

/// The wall clock in ms since the epoch; tests give their own.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What a lake is to do.
#[derive(Clone)]
pub struct LakeConfig {
    /// Days that a table's rows are kept, by the time of its key, for tables with a bound.
    pub retention_days: BTreeMap<Table, u32>,
    /// Uncompacted files per table at which the writer waits.
    pub uncompacted_files_max: usize,
    /// Bytes of a compacted file at most, to the row group.
    pub file_bytes_max: u64,
    /// How long replaced files stay, in ms.
    pub replaced_keep_ms: i64,
    /// Name of the fold whose ledger counts the rows (semantics, Ledger).
    pub writer_fold: &'static str,
    /// The clock of retention and of waiting times.
    pub clock: Clock,
}

impl Default for LakeConfig {
    fn default() -> LakeConfig {
        LakeConfig {
            retention_days: Table::ALL
                .into_iter()
                .filter(|table| table.expires())
                .map(|table| (table, RETENTION_DAYS))
                .collect(),
            uncompacted_files_max: UNCOMPACTED_FILES_MAX,
            file_bytes_max: FILE_BYTES_MAX,
            replaced_keep_ms: REPLACED_KEEP_MS,
            writer_fold: crate::writer::WRITER,
            clock: Arc::new(wall_clock_ms),
        }
    }
}

fn wall_clock_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// The files of a folder's tables. Cheap to clone; all clones are one lake.
#[derive(Clone)]
pub struct Lake {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    /// `DIR/lake`.
    pub(crate) files_dir: PathBuf,
    /// `DIR/tables`.
    pub(crate) tables_dir: PathBuf,
    pub(crate) state: Arc<State>,
    pub(crate) config: LakeConfig,
    list: Mutex<Arc<FileList>>,
    /// Told when the list changes, and when the lake is to stop.
    changed: Condvar,
    /// Replaced files that wait for their time and their readers.
    pub(crate) dead: Mutex<Vec<DeadFile>>,
    /// Held by whoever replaces files: compaction, retention, `compact_now`.
    pub(crate) replacing: Mutex<()>,
    /// Days whose folders in `tables/` do not show the list yet.
    pub(crate) days_to_show: Mutex<BTreeSet<(Table, i32)>>,
    /// Listed files that do not hold what the list says, found by compaction, which leaves
    /// them to the operator: nothing is merged out of bytes that changed.
    pub(crate) damaged: Mutex<BTreeSet<PathBuf>>,
    pub(crate) sequence: AtomicU64,
    /// When rows to be forgotten are looked for again: after some were left in damaged files.
    pub(crate) purge_again_ms: AtomicI64,
    pub(crate) stopping: AtomicBool,
    pub(crate) activity: Mutex<plan::Activity>,
    pub(crate) figures: Figures,
}

/// A file that no list names any more.
pub(crate) struct DeadFile {
    pub(crate) file: Arc<LakeFile>,
    pub(crate) replaced_at_ms: i64,
}

/// Counts since the start, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) merges: AtomicU64,
    pub(crate) rows_merged: AtomicU64,
    pub(crate) repeats_removed: AtomicU64,
    pub(crate) rows_expired: AtomicU64,
    pub(crate) rows_forgotten: AtomicU64,
    pub(crate) records_forgotten: AtomicU64,
    pub(crate) merge_busy_ns: AtomicU64,
    pub(crate) writer_wait_ns: AtomicU64,
}

/// The state of a lake, and counts since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LakeStats {
    /// By table: its name, files, uncompacted files, rows, bytes.
    pub tables: Vec<TableStats>,
    /// Replaced files still on disk.
    pub replaced_files: u64,
    /// Listed files that compaction found missing or changed, since the start.
    pub damaged_files: u64,
    /// Merges done.
    pub merges: u64,
    /// Rows that merges read.
    pub rows_merged: u64,
    /// Rows that compaction removed as repeats.
    pub repeats_removed: u64,
    /// Rows that retention removed.
    pub rows_expired: u64,
    /// Rows removed because they were to be forgotten.
    pub rows_forgotten: u64,
    /// Of them, those that records of the log had become.
    pub records_forgotten: u64,
    /// Time spent merging, ns.
    pub merge_busy_ns: u64,
    /// Time that the writer waited for compaction, ns.
    pub writer_wait_ns: u64,
}

/// One table's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TableStats {
    /// Its name.
    pub table: &'static str,
    /// Committed files.
    pub files: u64,
    /// Of them, blocks that compaction has not taken yet (F6).
    pub uncompacted_files: u64,
    /// Rows.
    pub rows: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// A lock whose value stays sound though a holder panicked: it is replaced
/// whole or counted.
pub(crate) fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Uncompacted files of the table that has most, without the damaged.
    fn blocks_to_merge(&self, list: &FileList) -> usize {
        let damaged = hold(&self.damaged);
        let blocks = |table| {
            let files = list.of(table).iter();
            let to_merge = files.filter(|f| !f.entry.compacted() && !damaged.contains(&*f.path));
            to_merge.count()
        };
        Table::ALL.into_iter().map(blocks).max().unwrap_or(0)
    }
}

impl Lake {
    /// The committed files of this moment; they stay on disk while it is held.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            list: self.shared.list(),
        }
    }

    /// Writes the rows of a block under the block's name, in the table's order,
    /// and makes the file durable (F4). It is in no list before the batch in
    /// which it is staged is committed.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write_block(
        &self,
        block: &str,
        rows: &dyn TableBuilder,
        order: &[u32],
    ) -> Result<LakeFile> {
        let table = rows.table();
        let name = format!("{block}.parquet");
        let path = self.shared.path_of(table, &name);
        let written = write_block(rows, order, &path)?;
        let bounds = rows.bounds(order);
        let entry = FileEntry {
            name,
            level: Level::Block,
            day: None,
            run: 0,
            rows: written.rows,
            bytes: written.contents.bytes,
            crc32c: written.contents.crc32c,
            time_min_ms: bounds.time_min_ms,
            time_max_ms: bounds.time_max_ms,
            offset_min: bounds.offset_min,
            offset_max: bounds.offset_max,
            version: table.version(),
        };
        Ok(LakeFile {
            table,
            entry,
            path: Arc::new(path),
        })
    }

    /// Puts a file into the batch of its block.
    pub fn stage(&self, file: &LakeFile, batch: &mut StateBatch) {
        let key = FileEntry::key(file.table, &file.entry.name);
        batch.put(entry::KEYSPACE, key, file.entry.encode());
    }

    /// The batch is committed: readers may see its files, and no longer what was forgotten.
    pub fn committed(&self, files: Vec<LakeFile>, forgotten: Vec<Forgotten>) {
        let rows: u64 = files.iter().map(|file| file.entry.rows).sum();
        hold(&self.shared.activity).add((self.shared.config.clock)(), rows);
        self.shared.change_list(|list| {
            list.forget(forgotten);
            for file in files {
                let of_table = list.of_mut(file.table);
                of_table.retain(|listed| listed.entry.name != file.entry.name);
                of_table.push(Arc::new(file));
            }
        });
    }

    /// Uncompacted files of the table that has most. Damaged ones, which compaction leaves
    /// alone, do not count: else enough of them would stop the writer.
    pub fn uncompacted_files(&self) -> usize {
        self.shared.blocks_to_merge(&self.shared.list())
    }

    /// Waits until each table is below its bound of uncompacted files (F6).
    /// False when that did not come within `wait`, or the lake stops.
    pub fn wait_for_room(&self, wait: Duration) -> bool {
        let shared = &self.shared;
        let bound = shared.config.uncompacted_files_max;
        let has_room = |list: &FileList| shared.blocks_to_merge(list) < bound;
        let mut list = hold(&shared.list);
        if has_room(&list) {
            return true;
        }
        let started = Instant::now();
        while !has_room(&list) && !shared.stopping.load(Ordering::Acquire) {
            let Some(left) = wait.checked_sub(started.elapsed()) else {
                break;
            };
            let woken = shared.changed.wait_timeout(list, left);
            list = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        let waited = started.elapsed().as_nanos() as u64;
        shared
            .figures
            .writer_wait_ns
            .fetch_add(waited, Ordering::Relaxed);
        has_room(&list)
    }

    /// Figures of the tables and of compaction.
    pub fn stats(&self) -> LakeStats {
        let list = self.shared.list();
        let tables = Table::ALL.into_iter().map(|table| {
            let files = list.of(table);
            TableStats {
                table: table.name(),
                files: files.len() as u64,
                uncompacted_files: list.blocks(table) as u64,
                rows: files.iter().map(|file| file.entry.rows).sum(),
                bytes: files.iter().map(|file| file.entry.bytes).sum(),
            }
        });
        let figures = &self.shared.figures;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LakeStats {
            tables: tables.collect(),
            replaced_files: hold(&self.shared.dead).len() as u64,
            damaged_files: hold(&self.shared.damaged).len() as u64,
            merges: count(&figures.merges),
            rows_merged: count(&figures.rows_merged),
            repeats_removed: count(&figures.repeats_removed),
            rows_expired: count(&figures.rows_expired),
            rows_forgotten: count(&figures.rows_forgotten),
            records_forgotten: count(&figures.records_forgotten),
            merge_busy_ns: count(&figures.merge_busy_ns),
            writer_wait_ns: count(&figures.writer_wait_ns),
        }
    }

    /// `DIR/lake`, which holds the private files.
    pub fn files_dir(&self) -> &Path {
        &self.shared.files_dir
    }
}

impl Shared {
    pub(crate) fn list(&self) -> Arc<FileList> {
        Arc::clone(&hold(&self.list))
    }

    /// Replaces the list by a changed copy and tells all who wait.
    pub(crate) fn change_list(&self, change: impl FnOnce(&mut FileList)) {
        let mut list = hold(&self.list);
        let mut next = FileList::clone(&list);
        change(&mut next);
        *list = Arc::new(next);
        drop(list);
        self.changed.notify_all();
    }

    /// Sleeps until the list changes, the lake stops, or the time is over.
    pub(crate) fn wait_for_change(&self, wait: Duration) {
        let list = hold(&self.list);
        if self.stopping.load(Ordering::Acquire) {
            return;
        }
        drop(self.changed.wait_timeout(list, wait));
    }

    pub(crate) fn tell_stop(&self) {
        let _list = hold(&self.list);
        self.stopping.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    pub(crate) fn path_of(&self, table: Table, name: &str) -> PathBuf {
        self.files_dir.join(table.name()).join(name)
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.config.clock)()
    }
}
