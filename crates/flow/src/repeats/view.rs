//! The committed index as other threads see it.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::hash::IdHash;
use super::index::Index;
use super::run::run_files;
use crate::error::Result;

/// Figures of the index.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RepeatsStats {
    /// Identities remembered.
    pub ids: u64,
    /// Runs, each of which a new identity is asked at.
    pub runs: u64,
    /// Bytes of their files.
    pub disk_bytes: u64,
    /// Bytes of filters and fences in memory.
    pub memory_bytes: u64,
    /// How far back everything is known, in milliseconds of log time.
    pub window_in_force_ms: i64,
    /// Merges since the start.
    pub merges: u64,
    /// Identities that they rewrote.
    pub merged_ids: u64,
    /// Why the last merge failed, if it did.
    pub merge_error: Option<String>,
}

/// Reads the committed index from any thread. Cheap to clone.
#[derive(Clone)]
pub struct RepeatsReader {
    pub(super) index: Arc<Index>,
}

impl RepeatsReader {
    /// The hash of one identity.
    #[must_use]
    pub fn hash(&self, project: &[u8], source: &[u8], event_id: &[u8]) -> IdHash {
        self.index.hasher.hash(project, source, event_id)
    }

    /// Whether an identity is in the committed index. May read a page of a file.
    ///
    /// # Errors
    /// When a run cannot be read or is damaged.
    pub fn contains(&self, hash: IdHash) -> Result<bool> {
        self.index.set().contains(hash)
    }

    /// Holds back whatever removes files, for a backup: while the guard lives, every run that a
    /// view of committed state lists, taken meanwhile, is in [`Frozen::files`] when asked after
    /// it. The writer waits at the end of its next block, so it is held only for a copy of the
    /// state and for links.
    #[must_use]
    pub fn freeze(&self) -> Frozen<'_> {
        Frozen {
            dir: &self.index.dir,
            _changing: self.index.change(),
        }
    }

    /// Figures of the index.
    #[must_use]
    pub fn stats(&self) -> RepeatsStats {
        let index = &self.index;
        let set = index.set();
        let merge_error = index
            .merge_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        RepeatsStats {
            ids: set.ids(),
            runs: set.runs.len() as u64,
            disk_bytes: set.disk_bytes(),
            memory_bytes: set.memory_bytes(),
            window_in_force_ms: index.window_in_force_ms(),
            merges: index.merges.load(Ordering::Relaxed),
            merged_ids: index.merged_ids.load(Ordering::Relaxed),
            merge_error: merge_error.clone(),
        }
    }
}

/// See [`RepeatsReader::freeze`].
pub struct Frozen<'a> {
    dir: &'a Path,
    _changing: MutexGuard<'a, ()>,
}

impl Frozen<'_> {
    /// The files of the index; some may be listed nowhere yet, and go at the copy's first open.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        run_files(self.dir)
    }
}
