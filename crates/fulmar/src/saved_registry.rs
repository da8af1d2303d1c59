//! A copy of the registry in the state store: a start goes on from it where `control` is damaged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fulmar_flow::{State, StateBatch};
use fulmar_registry::{Registry, Snapshot};

use crate::exit::Failure;

const KEYSPACE: &str = "registry";
const KEY: &[u8] = b"copy";

/// Largest copy that is saved after every change, in bytes: some 1,500 agents or keys, so that
/// registering them one by one writes 200 MB in all. A larger one is saved at start and stop.
const BYTES_MAX_PER_CHANGE: usize = 256 << 10;

/// The copy that the state store holds, if it is of this version.
pub fn load(state: &State) -> Result<Option<Snapshot>, Failure> {
    let saved = state.get(KEYSPACE, KEY)?;
    Ok(saved.and_then(|bytes| Snapshot::of_saved(&bytes)))
}

/// Keeps the copy up to date.
pub struct SavedRegistry {
    state: Arc<State>,
    registry: Arc<Registry>,
    /// Whether the registry lacks nothing: a copy that does would hide what is lost.
    whole: bool,
    /// Revision of the copy.
    revision: AtomicU64,
}

impl SavedRegistry {
    /// Of a registry that was just folded.
    pub fn new(state: Arc<State>, registry: Arc<Registry>, whole: bool) -> Self {
        Self {
            state,
            registry,
            whole,
            revision: AtomicU64::new(0),
        }
    }

    /// Saves the registry as it is now, unless that is done.
    pub fn save(&self) {
        self.save_within(usize::MAX);
    }

    /// The same after a change, unless the copy is too large for that.
    pub fn follow(&self) {
        self.save_within(BYTES_MAX_PER_CHANGE);
    }

    /// A failure costs a copy and nothing else: the log holds all of it.
    fn save_within(&self, bytes_max: usize) {
        let current = self.registry.current();
        if !self.whole || current.revision <= self.revision.load(Ordering::Relaxed) {
            return;
        }
        let bytes = current.save();
        if bytes.len() > bytes_max {
            return;
        }
        let mut batch = StateBatch::new();
        batch.put(KEYSPACE, KEY, bytes);
        match self.state.commit(batch) {
            Ok(()) => self.revision.store(current.revision, Ordering::Relaxed),
            Err(error) => tracing::warn!(%error, "no copy of the registry was saved"),
        }
    }
}
