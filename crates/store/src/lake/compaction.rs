//! Compaction: one job after another, each replaced in one synced batch.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fulmar_flow::{StateBatch, moved_rows, stage_moved_rows};
use tracing::{debug, error, warn};

use super::entry::{FileEntry, KEYSPACE, LakeFile, Level, SEQUENCE_KEY};
use super::forget::Purge;
use super::merge::{LeftOut, Merged, merge};
use super::plan::{Job, next_job, next_job_of_all};
use super::repeats::{Repeated, find_repeated};
use super::snapshot::FileList;
use super::{Lake, Shared, hold};
use crate::error::{Result, StoreError};
use crate::tables::Table;

/// How long the thread sleeps when nothing changes: retention and replaced
/// files are looked at then.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Pause after a failure, such as a full disk.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(10);

/// What compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CompactionReport {
    /// Merges done.
    pub merges: u64,
    /// Rows read by them.
    pub rows: u64,
    /// Rows removed as repeats.
    pub repeats_removed: u64,
    /// Rows removed for their age.
    pub rows_expired: u64,
    /// Rows removed because they were to be forgotten.
    pub rows_forgotten: u64,
    /// Files before.
    pub files_before: u64,
    /// Files after.
    pub files_after: u64,
}

/// The compaction thread; stopped when dropped.
pub struct Compaction {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Compaction {
    /// Gives up the merge in hand, which leaves no trace, and ends the thread.
    /// The writer no longer waits for room.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        self.shared.tell_stop();
        if let Some(thread) = self.thread.take() {
            // A panic was printed by the thread itself; the list is sound.
            let _ = thread.join();
        }
    }
}

impl Lake {
    /// Starts compaction, retention and the removal of replaced files.
    ///
    /// # Errors
    /// When the thread can't be started.
    pub fn start_compaction(&self) -> Result<Compaction> {
        const NAME: &str = "compaction";
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(NAME.to_owned());
        let thread = thread.spawn({
            let shared = Arc::clone(&shared);
            move || run(&shared)
        });
        let thread = thread.map_err(|source| StoreError::Thread { name: NAME, source })?;
        Ok(Compaction {
            shared,
            thread: Some(thread),
        })
    }

    /// Removes what is to be forgotten, and merges everything that can be merged, until each day
    /// is one sorted run without repeats; then removes what is too old.
    ///
    /// # Errors
    /// When files or state can't be read or written, or a file is damaged; what was done stays.
    pub fn compact_now(&self) -> Result<CompactionReport> {
        let shared = &self.shared;
        let mut report = CompactionReport {
            files_before: self.snapshot().all().count() as u64,
            ..CompactionReport::default()
        };
        let mut damage = None;
        report.rows_forgotten = shared.purge_all(&mut damage)?;
        loop {
            let replacing = hold(&shared.replacing);
            let Some(job) = next_job_of_all(&shared.sound_list()) else {
                break;
            };
            let known = hold(&shared.damaged).len();
            let removed = match shared.do_job(&job) {
                Ok(removed) => removed,
                // What is sound is merged all the same.
                Err(error) if hold(&shared.damaged).len() > known => {
                    damage.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            drop(replacing);
            report.merges += 1;
            report.rows += job.rows();
            report.repeats_removed += removed;
        }
        report.rows_expired = shared.remove_expired()?;
        shared.unlink_dead()?;
        report.files_after = self.snapshot().all().count() as u64;
        damage.map_or(Ok(report), Err)
    }
}

fn run(shared: &Shared) {
    let mut purge = None;
    while !shared.stopping.load(Ordering::Acquire) {
        match step(shared, &mut purge) {
            Ok(true) => {}
            Ok(false) => shared.wait_for_change(LOOK_EVERY),
            Err(StoreError::Stopped) => return,
            Err(error) => {
                warn!(%error, "compaction failed and will be tried again");
                let started = Instant::now();
                while started.elapsed() < PAUSE_AFTER_ERROR
                    && !shared.stopping.load(Ordering::Acquire)
                {
                    shared.wait_for_change(PAUSE_AFTER_ERROR);
                }
            }
        }
    }
}

/// Does what is to be done now; false when nothing is.
fn step(shared: &Shared, purge: &mut Option<Purge>) -> Result<bool> {
    shared.state.ready()?;
    shared.unlink_dead()?;
    shared.remove_expired()?;
    let _replacing = hold(&shared.replacing);
    shared.show_days()?;
    let now_ms = shared.now_ms();
    let job = next_job(&shared.sound_list(), &mut hold(&shared.activity), now_ms);
    let Some(job) = job else {
        // The writer waits for merges, nobody for this.
        return shared.purge_some(purge);
    };
    shared.do_job(&job)?;
    hold(&shared.activity).merged(job.table, now_ms);
    Ok(true)
}

impl Shared {
    /// Removes everything that is to be forgotten, now, from all files that are sound; the first
    /// damage is put into `damage`. Gives how many rows that were.
    fn purge_all(&self, damage: &mut Option<StoreError>) -> Result<u64> {
        let _replacing = hold(&self.replacing);
        let forgotten = || self.figures.rows_forgotten.load(Ordering::Relaxed);
        let before = forgotten();
        loop {
            let known = hold(&self.damaged).len();
            match self.purge_pass() {
                Ok(()) => return Ok(forgotten() - before),
                Err(error) if hold(&self.damaged).len() > known => {
                    damage.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn purge_pass(&self) -> Result<()> {
        if let Some(mut purge) = self.begin_purge(true)? {
            while self.purge_step(&mut purge)? {}
        }
        Ok(())
    }

    /// One step of what is to be forgotten by now; false when nothing is.
    fn purge_some(&self, purge: &mut Option<Purge>) -> Result<bool> {
        if purge.is_none() {
            *purge = self.begin_purge(false)?;
        }
        let Some(begun) = purge else { return Ok(false) };
        let more = self.purge_step(begun)?;
        if !more {
            *purge = None;
        }
        Ok(true)
    }
}

impl Job {
    fn rows(&self) -> u64 {
        self.runs.iter().flatten().map(|file| file.entry.rows).sum()
    }
}

impl Shared {
    /// Does one job and gives the rows removed as repeats. The caller holds
    /// `replacing`, so that the job's files are those of the list.
    pub(crate) fn do_job(&self, job: &Job) -> Result<u64> {
        let started = Instant::now();
        self.check_sources(job.runs.iter().flatten())?;
        let repeated = match job.level {
            Level::Day => find_repeated(self, job.table, &job.runs)?,
            // Within the window the index has seen to it already (X1).
            _ => Repeated::none(),
        };
        if job.level == Level::Day && job.runs.len() == 1 && repeated.is_empty() {
            self.promote(&job.runs[0])?;
            return Ok(0);
        }
        // With repeats left over the day is not whole yet, and comes again.
        let level = if repeated.complete {
            job.level
        } else {
            Level::Part
        };
        let merged = merge(
            self,
            job.table,
            &job.runs,
            level,
            &LeftOut::Repeats(&repeated),
        )?;
        let removed = merged.removed;
        let files = merged.files.len();
        self.commit_merge(job, merged)?;
        let rows = job.rows();
        let busy = started.elapsed();
        let figures = &self.figures;
        figures.merges.fetch_add(1, Ordering::Relaxed);
        figures.rows_merged.fetch_add(rows, Ordering::Relaxed);
        figures
            .repeats_removed
            .fetch_add(removed, Ordering::Relaxed);
        figures
            .merge_busy_ns
            .fetch_add(busy.as_nanos() as u64, Ordering::Relaxed);
        debug!(
            table = job.table.name(), level = ?job.level, runs = job.runs.len(), rows, removed,
            files, busy_ms = busy.as_millis() as u64, "merged"
        );
        Ok(removed)
    }

    /// Compares each file with its checksum, so that no merge gives a fresh one to bytes that
    /// changed. What fails is passed over from then on, until the next start.
    pub(crate) fn check_sources<'f>(
        &self,
        files: impl IntoIterator<Item = &'f Arc<LakeFile>>,
    ) -> Result<()> {
        for file in files {
            self.check_stop()?;
            if let Err(error) = file.entry.contents().check(&file.path) {
                if !error.is_damage() {
                    return Err(error);
                }
                error!(%error, table = file.table.name(), "a file of the lake is damaged; \
                    `fulmar lake check` lists all such files");
                hold(&self.damaged).insert(file.path.to_path_buf());
                return Err(error);
            }
        }
        Ok(())
    }

    /// The list without the files that are known to be damaged.
    pub(crate) fn sound_list(&self) -> Arc<FileList> {
        let list = self.list();
        let damaged = hold(&self.damaged);
        if damaged.is_empty() {
            return list;
        }
        let mut sound = FileList::clone(&list);
        for table in Table::ALL {
            sound
                .of_mut(table)
                .retain(|file| !damaged.contains(&*file.path));
        }
        Arc::new(sound)
    }

    /// No file is ever given a number again.
    pub(crate) fn stage_sequence(&self, batch: &mut StateBatch) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        batch.put(KEYSPACE, SEQUENCE_KEY, sequence.to_string());
    }

    /// One batch: the old files out, the new ones in, and the rows that are
    /// repeats from stored to repeats in the ledger.
    fn commit_merge(&self, job: &Job, merged: Merged) -> Result<()> {
        let mut batch = StateBatch::new();
        if merged.removed > 0 && !job.table.is_versioned() {
            let moved = moved_rows(&self.state, self.config.writer_fold)?;
            stage_moved_rows(self.config.writer_fold, moved + merged.removed, &mut batch);
        }
        self.stage_sequence(&mut batch);
        let old: Vec<Arc<LakeFile>> = job.runs.iter().flatten().cloned().collect();
        self.replace(&old, merged.files, batch)
    }

    /// A day that one merge has written whole and that has no repeats is merged
    /// already: only the list says so.
    fn promote(&self, run: &[Arc<LakeFile>]) -> Result<()> {
        let mut batch = StateBatch::new();
        let promoted: Vec<LakeFile> = run
            .iter()
            .map(|file| LakeFile {
                table: file.table,
                entry: FileEntry {
                    level: Level::Day,
                    ..file.entry.clone()
                },
                path: Arc::clone(&file.path),
            })
            .collect();
        for file in &promoted {
            let key = FileEntry::key(file.table, &file.entry.name);
            batch.put(KEYSPACE, key, file.entry.encode());
        }
        self.state.commit(batch)?;
        self.change_list(|list| {
            for file in promoted {
                let of_table = list.of_mut(file.table);
                of_table.retain(|listed| listed.entry.name != file.entry.name);
                of_table.push(Arc::new(file));
            }
        });
        Ok(())
    }
}
