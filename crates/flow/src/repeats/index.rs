//! What the index's writer, its merges and its readers share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use fulmar_log::disk;

use super::RepeatsConfig;
use super::hash::IdHasher;
use super::manifest::{Manifest, YoungBlock};
use super::run::{Run, remove_orphans};
use super::set::Set;
use crate::error::{Result, io_error};
use crate::state::State;

/// RunSizes that decide how runs grow.
#[derive(Clone, Copy, Debug)]
pub struct RunSizes {
    /// Ids outside of runs before they are written as one; also the unit of the levels.
    pub young_ids_max: u64,
    /// Most ids that a merge makes: it bounds what a merge needs on disk and in memory while old
    /// and new runs exist side by side.
    pub run_ids_max: u64,
}

/// 65,536 young ids are 1 MiB in memory and in state. 8 Mi ids are a file of 150 MB and a filter
/// of 12 MB, a twentieth of what the index may have in all; 4 GiB hold about thirty of them.
pub(super) const SIZES: RunSizes = RunSizes {
    young_ids_max: 1 << 16,
    run_ids_max: 1 << 23,
};

/// Runs beyond which the writer merges itself, so that a question never meets more filters.
pub(super) const RUNS_MAX: usize = 48;

/// The window is kept in this many parts: a run's ids are at most one part apart in log time, so
/// that ids outlive the window by at most one part.
const WINDOW_PARTS: i64 = 8;

pub(super) struct Index {
    pub dir: PathBuf,
    pub state: Arc<State>,
    pub config: RepeatsConfig,
    pub sizes: RunSizes,
    pub hasher: IdHasher,
    set: RwLock<Arc<Set>>,
    /// Held while the committed list of runs changes.
    changing: Mutex<()>,
    /// Held while a merge is under way.
    pub merging: Mutex<()>,
    next_run: AtomicU64,
    /// Tells a merge under way to give up.
    pub stopping: AtomicBool,
    pub merges: AtomicU64,
    pub merged_ids: AtomicU64,
    pub merge_error: Mutex<Option<String>>,
}

impl Index {
    /// Opens what is committed and removes what is not. Gives the small blocks' ids, oldest first.
    pub fn open(
        dir: &Path,
        state: &Arc<State>,
        config: RepeatsConfig,
        sizes: RunSizes,
    ) -> Result<(Index, Vec<YoungBlock>)> {
        disk::create_dir_all(dir).map_err(io_error("create", dir))?;
        let manifest = Manifest::load(state, config.keyspace)?;
        remove_orphans(dir, &manifest.runs)?;
        let mut runs = Vec::with_capacity(manifest.runs.len());
        for entry in &manifest.runs {
            runs.push(Arc::new(Run::open(dir, *entry)?));
        }
        let newest_run = manifest.runs.iter().map(|entry| entry.last_ms);
        let newest = newest_run.chain(manifest.young.iter().map(|block| block.log_ms));
        let log_ms = newest.max().unwrap_or(i64::MIN);
        let mut young: Vec<_> = manifest
            .young
            .iter()
            .flat_map(|block| &block.hashes)
            .collect();
        young.sort_unstable();
        let young = Arc::new(young.into_iter().copied().collect());
        let next_run = manifest
            .runs
            .iter()
            .map(|entry| entry.id + 1)
            .max()
            .unwrap_or(0);
        let index = Index {
            dir: dir.to_path_buf(),
            state: Arc::clone(state),
            config,
            sizes,
            hasher: IdHasher::new(&manifest.hash_key),
            set: RwLock::new(Arc::new(Set {
                runs,
                young,
                log_ms,
                cut_ms: manifest.cut_ms,
            })),
            changing: Mutex::new(()),
            merging: Mutex::new(()),
            next_run: AtomicU64::new(next_run),
            stopping: AtomicBool::new(false),
            merges: AtomicU64::new(0),
            merged_ids: AtomicU64::new(0),
            merge_error: Mutex::new(None),
        };
        Ok((index, manifest.young))
    }

    /// The committed index as it is now.
    pub fn set(&self) -> Arc<Set> {
        Arc::clone(&self.set.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Held while runs are committed and the set follows.
    pub fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows another set; `_changing` proves that no one else does.
    pub fn show(&self, set: Set, _changing: &MutexGuard<'_, ()>) {
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
    }

    /// A number that no run has or had.
    pub fn next_run(&self) -> u64 {
        self.next_run.fetch_add(1, Ordering::Relaxed)
    }

    /// Most log time between the oldest and the newest id of a run.
    pub fn part_ms(&self) -> i64 {
        (self.config.window_ms / WINDOW_PARTS).max(1)
    }

    /// The window, or less when a byte bound has cut it.
    pub fn window_in_force_ms(&self) -> i64 {
        let set = self.set();
        let kept_ms = set
            .cut_ms
            .map_or(i64::MAX, |cut_ms| set.log_ms.saturating_sub(cut_ms));
        self.config.window_ms.min(kept_ms)
    }
}
