//! A copy of the registry in the state store: a start goes on from it where `control` is damaged.
//! With it, when each key was last used.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fulmar_flow::{State, StateBatch};
use fulmar_registry::{Registry, Snapshot};

use crate::exit::Failure;

const KEYSPACE: &str = "registry";
const KEY: &[u8] = b"copy";
const USES_KEY: &[u8] = b"last_used";

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
    /// The uses that are saved.
    uses: Mutex<BTreeMap<String, i64>>,
}

impl SavedRegistry {
    /// Of a registry that was just folded.
    pub fn new(state: Arc<State>, registry: Arc<Registry>, whole: bool) -> Self {
        // A hint that can't be read is none.
        let saved = state.get(KEYSPACE, USES_KEY).ok().flatten();
        let uses: BTreeMap<String, i64> = saved
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        registry.recall_last_used_ms(uses.clone());
        Self {
            state,
            registry,
            whole,
            revision: AtomicU64::new(0),
            uses: Mutex::new(uses),
        }
    }

    /// Saves when each key was last used, if any was since the last time.
    pub fn save_uses(&self) {
        let now = self.registry.all_last_used_ms();
        let mut saved = self.uses.lock().expect("no holder panics");
        if now == *saved {
            return;
        }
        let bytes = serde_json::to_vec(&now).expect("strings and numbers always serialise");
        let mut batch = StateBatch::new();
        batch.put(KEYSPACE, USES_KEY, bytes);
        match self.state.commit(batch) {
            Ok(()) => *saved = now,
            Err(error) => tracing::warn!(%error, "the last uses of keys were not saved"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_registry::{DEFAULT_PROJECT, MemoryLog, Scope};

    const NOW: i64 = 1_700_000_000_000;

    fn open(log: &Arc<MemoryLog>, state: &Arc<State>) -> (Arc<Registry>, SavedRegistry) {
        let registry = Arc::new(Registry::open(Arc::clone(log)).unwrap());
        registry.ensure_default_project(NOW).unwrap();
        let saved = SavedRegistry::new(Arc::clone(state), Arc::clone(&registry), true);
        (registry, saved)
    }

    #[test]
    fn the_last_use_of_a_key_outlives_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let state = Arc::new(State::open(dir.path()).unwrap());
        let log = Arc::new(MemoryLog::default());
        let (registry, saved) = open(&log, &state);
        let minted = registry
            .mint(DEFAULT_PROJECT, "shop", vec![Scope::Ingest], NOW)
            .unwrap();
        let (key, prefix) = (minted.key.reveal(), minted.key.prefix());
        assert!(registry.grant(key, NOW + 5).is_some());
        saved.save_uses();
        assert!(registry.grant(key, NOW + 9).is_some());

        let (registry, saved) = open(&log, &state);
        assert_eq!(registry.last_used_ms(prefix), Some(NOW + 5));
        assert!(registry.grant(key, NOW + 20).is_some());
        registry.recall_last_used_ms(BTreeMap::from([(prefix.to_owned(), NOW)]));
        assert_eq!(registry.last_used_ms(prefix), Some(NOW + 20), "the later");
        saved.save_uses();
        assert_eq!(open(&log, &state).0.last_used_ms(prefix), Some(NOW + 20));
    }

    #[test]
    fn a_copy_is_of_a_whole_registry_and_follows_it() {
        let dir = tempfile::tempdir().unwrap();
        let state = Arc::new(State::open(dir.path()).unwrap());
        let log = Arc::new(MemoryLog::default());
        let (registry, saved) = open(&log, &state);
        assert_eq!(load(&state).unwrap(), None);
        saved.follow();
        assert_eq!(load(&state).unwrap(), Some((*registry.current()).clone()));
        registry
            .register_agent("web-1", DEFAULT_PROJECT, NOW)
            .unwrap();
        let lacking = SavedRegistry::new(Arc::clone(&state), Arc::clone(&registry), false);
        lacking.save();
        assert_eq!(load(&state).unwrap().unwrap().revision, 1);
        saved.follow();
        assert_eq!(load(&state).unwrap().unwrap().revision, 2);
    }
}
