//! The exact index of repeats (X1 to X3): which identities have been stored, within a window.
//!
//! An identity is a keyed 128-bit hash of (project, source, event id). Hashes lie in sorted runs
//! on disk, each with a filter in memory, so that a new identity costs one cache line per run and
//! a repeat one read of 4 KiB. Identities enter only with the batch that commits their block
//! (X2): a run's file is written, synced and renamed before, and the batch lists it; a file that
//! no batch listed is removed at the next open. Runs are merged in the background, and are dropped
//! as a whole when their newest identity is older than the window, by log time.

mod filter;
mod hash;
mod index;
mod manifest;
mod merge;
mod page;
mod reader;
mod run;
mod set;
#[cfg(test)]
mod tests;
mod view;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

pub use hash::{IdHash, IdHasher};
pub use view::{Frozen, RepeatsReader, RepeatsStats};

pub use self::index::RunSizes;
use self::index::{Index, RUNS_MAX, SIZES};
use self::run::{Run, file_bytes_for};
use self::set::{Asked, Set};
use self::writer::RunWriter;
use crate::block::BlockName;
use crate::error::{FlowError, Result};
use crate::state::{State, StateBatch};

/// Bounds of the index.
#[derive(Clone, Copy, Debug)]
pub struct RepeatsConfig {
    /// How long an identity is remembered, in milliseconds of log time.
    pub window_ms: i64,
    /// Most bytes on disk; at this bound the oldest identities are dropped early.
    pub disk_bytes_max: u64,
    /// Most bytes of filters in memory; likewise.
    pub memory_bytes_max: u64,
    /// Keyspace of its part of committed state: one for each fold that has an index.
    pub keyspace: &'static str,
}

impl Default for RepeatsConfig {
    /// 168 h and 5 min (the admission window and the clock skew), 4 GiB, 256 MiB (X1).
    fn default() -> RepeatsConfig {
        RepeatsConfig {
            window_ms: (168 * 60 + 5) * 60_000,
            disk_bytes_max: 4 << 30,
            memory_bytes_max: 256 << 20,
            keyspace: "repeats",
        }
    }
}

/// The index, as its one writer has it.
pub struct Repeats {
    index: Arc<Index>,
    /// First offsets of the small blocks whose ids are in no run, and the oldest one's log time.
    young_blocks: Vec<u64>,
    young_first_ms: i64,
    /// New ids of the block at hand, sorted.
    admitted: Vec<IdHash>,
    staged: Option<Staged>,
    merger: Option<Merger>,
}

/// What follows once the block's batch is committed.
struct Staged {
    /// The run that the block made, if it did; its file is kept from the moment it is staged.
    run: Option<Arc<Run>>,
    young: Arc<Vec<IdHash>>,
    young_blocks: Vec<u64>,
    young_first_ms: i64,
    dropped: Vec<u64>,
    cut_ms: Option<i64>,
    log_ms: i64,
}

struct Merger {
    news: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Repeats {
    /// Opens the index whose files lie in `dir`, and starts its merges on a thread of their own.
    ///
    /// # Errors
    /// When state or files cannot be read, or a run is missing or damaged.
    pub fn open(dir: &Path, state: &Arc<State>, config: RepeatsConfig) -> Result<Repeats> {
        Repeats::open_sized(dir, state, config, SIZES)
    }

    /// As [`Repeats::open`], with other sizes of runs: for proofs, which want many runs of few ids.
    ///
    /// # Errors
    /// As there.
    pub fn open_sized(
        dir: &Path,
        state: &Arc<State>,
        config: RepeatsConfig,
        sizes: RunSizes,
    ) -> Result<Repeats> {
        let mut repeats = Repeats::open_without_merger(dir, state, config, sizes)?;
        let (news, received) = sync_channel(1);
        let index = Arc::clone(&repeats.index);
        let name = "repeats-merge".to_owned();
        let thread = thread::Builder::new()
            .name(name.clone())
            .spawn(move || merge::merge_until_closed(&index, &received))
            .map_err(|source| FlowError::Thread { name, source })?;
        repeats.merger = Some(Merger { news, thread });
        repeats.tell_merger();
        Ok(repeats)
    }

    fn open_without_merger(
        dir: &Path,
        state: &Arc<State>,
        config: RepeatsConfig,
        sizes: RunSizes,
    ) -> Result<Repeats> {
        let (index, young) = Index::open(dir, state, config, sizes)?;
        Ok(Repeats {
            index: Arc::new(index),
            young_blocks: young.iter().map(|block| block.first).collect(),
            young_first_ms: young
                .iter()
                .map(|block| block.log_ms)
                .min()
                .unwrap_or(i64::MAX),
            admitted: Vec::new(),
            staged: None,
            merger: None,
        })
    }

    /// What hashes identities; a copy for whoever asks.
    #[must_use]
    pub fn hasher(&self) -> IdHasher {
        self.index.hasher
    }

    /// The hash of one identity.
    #[must_use]
    pub fn hash(&self, project: &[u8], source: &[u8], event_id: &[u8]) -> IdHash {
        self.index.hasher.hash(project, source, event_id)
    }

    /// Asks for all identities of a block at once, in the order of its records: `new[i]` tells
    /// whether `hashes[i]` is neither in the index nor earlier in the block. `log_time_ms` is the
    /// block's last append time; what is older than the window by it is not known any more.
    ///
    /// Called once per try of a block: it forgets what an earlier, uncommitted call took in. Leave
    /// out records that will not be stored: a quarantined or refused record leaves no id (X2).
    ///
    /// # Errors
    /// When a run cannot be read or is damaged.
    pub fn admit(
        &mut self,
        hashes: &[IdHash],
        log_time_ms: i64,
        new: &mut Vec<bool>,
    ) -> Result<()> {
        self.forget_uncommitted();
        new.clear();
        new.resize(hashes.len(), false);
        let places = 0..u32::try_from(hashes.len()).expect("a block is far smaller");
        let mut asked: Vec<Asked> = hashes.iter().copied().zip(places).collect();
        // By hash, then by place: the first record of an id comes first and stays.
        asked.sort_unstable();
        asked.dedup_by_key(|(hash, _)| *hash);
        let horizon_ms = log_time_ms.saturating_sub(self.index.config.window_ms);
        self.index.set().remove_known(&mut asked, horizon_ms)?;
        for (_, place) in &asked {
            new[*place as usize] = true;
        }
        self.admitted.extend(asked.iter().map(|(hash, _)| *hash));
        Ok(())
    }

    /// Takes further hashes into the block's batch, whether they are known or not: what doors are
    /// to find beside the identities. Called after [`Repeats::admit`].
    ///
    /// # Errors
    /// As [`Repeats::admit`].
    pub fn admit_beside(&mut self, hashes: &[IdHash], log_time_ms: i64) -> Result<()> {
        let mut asked: Vec<Asked> = hashes.iter().map(|hash| (*hash, 0)).collect();
        asked.sort_unstable();
        asked.dedup();
        let horizon_ms = log_time_ms.saturating_sub(self.index.config.window_ms);
        self.index.set().remove_known(&mut asked, horizon_ms)?;
        self.admitted.extend(asked.iter().map(|(hash, _)| *hash));
        self.admitted.sort_unstable();
        self.admitted.dedup();
        Ok(())
    }

    /// Takes back an admitted identity whose record turned out not to be stored (X2).
    pub fn withdraw(&mut self, hash: IdHash) {
        if let Ok(at) = self.admitted.binary_search(&hash) {
            self.admitted.remove(at);
        }
    }

    /// Puts what was admitted into the block's batch, and drops what is beyond the window or the
    /// byte bounds. `log_time_ms` is the block's last append time.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn stage(
        &mut self,
        block: &BlockName,
        log_time_ms: i64,
        batch: &mut StateBatch,
    ) -> Result<()> {
        while self.index.set().runs.len() >= RUNS_MAX && merge::merge_once(&self.index)? {}
        let set = self.index.set();
        let admitted = std::mem::take(&mut self.admitted);
        let ids = merge_sorted(&set.young, &admitted);
        let log_ms = log_time_ms.max(set.log_ms);
        let oldest_ms = self.young_first_ms.min(log_time_ms);
        let is_full = ids.len() as u64 >= self.index.sizes.young_ids_max;
        let is_old = log_ms.saturating_sub(oldest_ms) >= self.index.part_ms();
        let staged = if is_full || (is_old && !ids.is_empty()) {
            let run = self.write_run(&ids, oldest_ms, log_ms)?;
            manifest::stage_run(self.index.config.keyspace, &run.entry, batch);
            for first in &self.young_blocks {
                manifest::unstage_young(self.index.config.keyspace, *first, batch);
            }
            self.staged(Some(run), Vec::new(), log_ms)
        } else if admitted.is_empty() {
            self.staged(None, ids, log_ms)
        } else {
            manifest::stage_young(
                self.index.config.keyspace,
                block.first,
                log_time_ms,
                &admitted,
                batch,
            );
            let mut staged = self.staged(None, ids, log_ms);
            staged.young_blocks.push(block.first);
            staged.young_first_ms = oldest_ms;
            staged
        };
        self.staged = Some(self.stage_drops(&set, staged, batch));
        Ok(())
    }

    fn write_run(&self, ids: &[IdHash], first_ms: i64, last_ms: i64) -> Result<Arc<Run>> {
        let index = &self.index;
        let mut writer = RunWriter::create(&index.dir, index.next_run(), ids.len() as u64)?;
        for hash in ids {
            writer.push(*hash)?;
        }
        let run = writer.finish(first_ms, last_ms)?;
        // From here on a commit may list it, also one that fails: the file has to stay.
        run.keep();
        Ok(Arc::new(run))
    }

    /// A change without drops: the ids go into `run`, or stay young as they are.
    fn staged(&self, run: Option<Arc<Run>>, young: Vec<IdHash>, log_ms: i64) -> Staged {
        let keeps_young = run.is_none();
        Staged {
            run,
            young: Arc::new(young),
            young_blocks: if keeps_young {
                self.young_blocks.clone()
            } else {
                Vec::new()
            },
            young_first_ms: if keeps_young {
                self.young_first_ms
            } else {
                i64::MAX
            },
            dropped: Vec::new(),
            cut_ms: None,
            log_ms,
        }
    }

    /// Drops runs beyond the window, then the oldest ones while a byte bound does not hold.
    fn stage_drops(&self, set: &Set, mut staged: Staged, batch: &mut StateBatch) -> Staged {
        let config = &self.index.config;
        let horizon_ms = staged.log_ms.saturating_sub(config.window_ms);
        let (mut disk_bytes, mut memory_bytes) = (set.disk_bytes(), set.memory_bytes());
        if let Some(run) = &staged.run {
            disk_bytes += run.disk_bytes();
            memory_bytes += run.memory_bytes();
        }
        let (disk_max, memory_max) = bounds(config, &self.index.sizes);
        for run in &set.runs {
            let is_expired = run.entry.last_ms < horizon_ms;
            if !is_expired && disk_bytes <= disk_max && memory_bytes <= memory_max {
                continue;
            }
            disk_bytes -= run.disk_bytes();
            memory_bytes -= run.memory_bytes();
            manifest::unstage_run(self.index.config.keyspace, run.entry.id, batch);
            staged.dropped.push(run.entry.id);
            if !is_expired {
                staged.cut_ms = staged.cut_ms.max(Some(run.entry.last_ms));
            }
        }
        staged.cut_ms = staged.cut_ms.max(set.cut_ms);
        if let Some(cut_ms) = staged.cut_ms.filter(|_| staged.cut_ms != set.cut_ms) {
            manifest::stage_cut(self.index.config.keyspace, cut_ms, batch);
        }
        staged
    }

    /// The block's batch is committed: what was staged is the index from now on.
    pub fn committed(&mut self) {
        let Some(staged) = self.staged.take() else {
            return;
        };
        let changing = self.index.change();
        let set = self.index.set();
        let is_dropped = |run: &&Arc<Run>| staged.dropped.contains(&run.entry.id);
        let mut runs: Vec<_> = set
            .runs
            .iter()
            .filter(|run| !is_dropped(run))
            .cloned()
            .collect();
        let grew = staged.run.is_some();
        runs.extend(staged.run);
        set.runs
            .iter()
            .filter(is_dropped)
            .for_each(|run| run.doom());
        let (log_ms, cut_ms) = (staged.log_ms, staged.cut_ms);
        self.index.show(
            Set {
                runs,
                young: staged.young,
                log_ms,
                cut_ms,
            },
            &changing,
        );
        drop(changing);
        (self.young_blocks, self.young_first_ms) = (staged.young_blocks, staged.young_first_ms);
        if grew {
            self.tell_merger();
        }
    }

    /// A block that is done again, or never, leaves no trace: nothing of it was committed.
    fn forget_uncommitted(&mut self) {
        self.admitted.clear();
        if let Some(run) = self.staged.take().and_then(|staged| staged.run) {
            run.doom();
        }
    }

    fn tell_merger(&self) {
        if let Some(merger) = &self.merger {
            // When it is full the merger has news to look at already.
            let _ = merger.news.try_send(());
        }
    }

    /// A reader of the committed index, for doors (X3).
    #[must_use]
    pub fn reader(&self) -> RepeatsReader {
        RepeatsReader {
            index: Arc::clone(&self.index),
        }
    }

    /// How far back the index knows everything, in milliseconds of log time: the window, or less
    /// when a byte bound has cut it.
    #[must_use]
    pub fn window_in_force_ms(&self) -> i64 {
        self.index.window_in_force_ms()
    }
}

fn merge_sorted(young: &[IdHash], admitted: &[IdHash]) -> Vec<IdHash> {
    let mut ids = Vec::with_capacity(young.len() + admitted.len());
    let mut young = young.iter().peekable();
    for hash in admitted {
        while let Some(known) = young.next_if(|known| *known < hash) {
            ids.push(*known);
        }
        ids.push(*hash);
    }
    ids.extend(young);
    ids
}

/// The bounds on disk and in memory, less what a merge needs while old and new exist together.
fn bounds(config: &RepeatsConfig, sizes: &RunSizes) -> (u64, u64) {
    let merged_disk = file_bytes_for(sizes.run_ids_max);
    let merged_memory = run::memory_bytes_for(sizes.run_ids_max);
    let disk = config.disk_bytes_max - merged_disk.min(config.disk_bytes_max / 8);
    let memory = config.memory_bytes_max - merged_memory.min(config.memory_bytes_max / 8);
    (disk, memory)
}

impl Drop for Repeats {
    fn drop(&mut self) {
        let Some(Merger { news, thread }) = self.merger.take() else {
            return;
        };
        self.index.stopping.store(true, Ordering::Relaxed);
        drop(news);
        // A panic of the merger has been printed by its thread and harmed no data.
        let _ = thread.join();
    }
}
