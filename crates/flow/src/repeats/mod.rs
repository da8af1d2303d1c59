//! The exact index of repeats (X1 to X3): which identities have been stored, within a window.
#[allow(dead_code)]
mod filter;
mod hash;

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, RwLock};

pub use hash::{IdHash, IdHasher};

use crate::block::BlockName;
use crate::error::{FlowError, Result};
use crate::state::{State, StateBatch};

/// Bounds of the index.
#[derive(Clone, Copy, Debug)]
pub struct RepeatsConfig {
    /// How long an identity is remembered, in milliseconds of log time.
    pub window_ms: i64,
    /// Most bytes on disk.
    pub disk_bytes_max: u64,
    /// Most bytes of filters in memory.
    pub memory_bytes_max: u64,
}

impl Default for RepeatsConfig {
    /// 168 h and 5 min (the admission window and the clock skew), 4 GiB, 256 MiB (X1).
    fn default() -> RepeatsConfig {
        RepeatsConfig {
            window_ms: (168 * 60 + 5) * 60_000,
            disk_bytes_max: 4 << 30,
            memory_bytes_max: 256 << 20,
        }
    }
}

const KEYSPACE: &str = "repeats";

/// The index, as its one writer has it.
pub struct Repeats {
    hasher: IdHasher,
    config: RepeatsConfig,
    committed: Arc<RwLock<HashSet<IdHash>>>,
    staged: Vec<IdHash>,
}

impl Repeats {
    /// Opens the index whose files lie in `dir`.
    ///
    /// # Errors
    /// When state or files cannot be read, or a run is missing or damaged.
    pub fn open(dir: &Path, state: &Arc<State>, config: RepeatsConfig) -> Result<Repeats> {
        let _ = dir;
        let key = match state.get(KEYSPACE, b"key")? {
            Some(key) => key,
            None => {
                let mut key = vec![0; 16];
                getrandom::fill(&mut key).map_err(|error| FlowError::Random(error.to_string()))?;
                let mut batch = StateBatch::new();
                batch.put(KEYSPACE, "key", key.clone());
                state.commit(batch)?;
                key
            }
        };
        let mut known = HashSet::new();
        for (_, value) in state.prefix(KEYSPACE, b"young/")? {
            for bytes in value.chunks_exact(16) {
                known.insert(IdHash(u128::from_le_bytes(
                    bytes.try_into().expect("sixteen"),
                )));
            }
        }
        let key = key.try_into().expect("sixteen bytes");
        let hasher = IdHasher::new(&key);
        let committed = Arc::new(RwLock::new(known));
        Ok(Repeats {
            hasher,
            config,
            committed,
            staged: Vec::new(),
        })
    }

    /// What hashes identities; a copy for whoever asks.
    #[must_use]
    pub fn hasher(&self) -> IdHasher {
        self.hasher
    }

    /// The hash of one identity.
    #[must_use]
    pub fn hash(&self, project: &[u8], source: &[u8], event_id: &[u8]) -> IdHash {
        self.hasher.hash(project, source, event_id)
    }

    /// Asks for all identities of a block at once, in the order of its records: `new[i]` tells
    /// whether `hashes[i]` is neither in the index nor earlier in the block. Called once per try
    /// of a block; it forgets what an earlier, uncommitted call had taken in. Leave out records
    /// that will not be stored: a quarantined or refused record leaves no id (X2).
    ///
    /// # Errors
    /// When a run cannot be read or is damaged.
    pub fn admit(
        &mut self,
        hashes: &[IdHash],
        log_time_ms: i64,
        new: &mut Vec<bool>,
    ) -> Result<()> {
        let _ = log_time_ms;
        new.clear();
        self.staged.clear();
        let committed = self.committed.read().expect("no panic under this lock");
        let mut seen = HashSet::new();
        for hash in hashes {
            let is_new = !committed.contains(hash) && seen.insert(*hash);
            new.push(is_new);
            if is_new {
                self.staged.push(*hash);
            }
        }
        Ok(())
    }

    /// Takes back an admitted identity whose record turned out not to be stored (X2).
    pub fn withdraw(&mut self, hash: IdHash) {
        self.staged.retain(|staged| *staged != hash);
    }

    /// Puts what was admitted into the block's batch. `log_time_ms` is the block's last append
    /// time; expiry goes by it.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn stage(
        &mut self,
        block: &BlockName,
        log_time_ms: i64,
        batch: &mut StateBatch,
    ) -> Result<()> {
        let _ = log_time_ms;
        let bytes: Vec<u8> = self
            .staged
            .iter()
            .flat_map(|hash| hash.0.to_le_bytes())
            .collect();
        batch.put(KEYSPACE, format!("young/{:020}", block.first), bytes);
        Ok(())
    }

    /// The block's batch is committed.
    pub fn committed(&mut self) {
        let mut committed = self.committed.write().expect("no panic under this lock");
        committed.extend(self.staged.drain(..));
    }

    /// A reader of the committed index, for doors (X3).
    #[must_use]
    pub fn reader(&self) -> RepeatsReader {
        RepeatsReader {
            hasher: self.hasher,
            committed: Arc::clone(&self.committed),
        }
    }

    /// How far back the index knows everything, in milliseconds of log time: the window, or less
    /// when a byte bound has cut it.
    #[must_use]
    pub fn window_in_force_ms(&self) -> i64 {
        self.config.window_ms
    }
}

/// Reads the committed index from any thread. Cheap to clone.
#[derive(Clone)]
pub struct RepeatsReader {
    hasher: IdHasher,
    committed: Arc<RwLock<HashSet<IdHash>>>,
}

impl RepeatsReader {
    /// The hash of one identity.
    #[must_use]
    pub fn hash(&self, project: &[u8], source: &[u8], event_id: &[u8]) -> IdHash {
        self.hasher.hash(project, source, event_id)
    }

    /// Whether an identity is in the committed index. May read a block of a file.
    ///
    /// # Errors
    /// When a run cannot be read or is damaged.
    pub fn contains(&self, hash: IdHash) -> Result<bool> {
        Ok(self
            .committed
            .read()
            .expect("no panic under this lock")
            .contains(&hash))
    }
}
