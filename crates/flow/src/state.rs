//! Durable state: one database of named keyspaces, changed only by synced, atomic batches.

#[cfg(test)]
mod tests;
mod torn;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::RwLock;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use fulmar_log::disk;
use tracing::warn;

use crate::error::{Result, io_error};

/// Bytes of the block cache. State is read at start and by rare lookups, so it stays small.
const CACHE_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of one keyspace's memtable before it is flushed; few keyspaces, so tens of MiB in all.
const MEMTABLE_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of the database's own journal before memtables are flushed to let it go (its minimum).
const JOURNAL_BYTES: u64 = 64 * 1024 * 1024;
/// Threads that flush and compact: state is small and changes once a block.
const WORKER_THREADS: usize = 1;
/// Entries per batch when state is copied, so that a copy is bounded in memory.
const COPY_BATCH_ENTRIES: usize = 10_000;

/// A key with its value, as iteration yields them.
pub type Entry = (Vec<u8>, Vec<u8>);

/// The durable state of a folder (`DIR/state`).
///
/// Readers see a batch only once it is synced: the database applies a batch to what it shows
/// after its journal has been synced.
pub struct State {
    database: Database,
    keyspaces: RwLock<HashMap<String, Keyspace>>,
}

impl State {
    /// Opens the state in `dir`, creating it when there is none.
    ///
    /// # Errors
    /// When the folder cannot be read or written, or is locked by another process.
    pub fn open(dir: &Path) -> Result<State> {
        let database = match open_database(dir) {
            Err(fjall::Error::JournalRecovery(error)) => without_torn_batch(dir, error)?,
            opened => opened?,
        };
        Ok(State {
            database,
            keyspaces: RwLock::new(HashMap::new()),
        })
    }

    /// The value of `key` in `keyspace`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn get(&self, keyspace: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.keyspace(keyspace)?.get(key)?;
        Ok(value.map(|bytes| bytes.to_vec()))
    }

    /// All entries of `keyspace` whose key begins with `prefix`, in key order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn prefix(&self, keyspace: &str, prefix: &[u8]) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for guard in self.keyspace(keyspace)?.prefix(prefix) {
            let (key, value) = guard.into_inner()?;
            entries.push((key.to_vec(), value.to_vec()));
        }
        Ok(entries)
    }

    /// All entries of `keyspace`, in key order, one at a time.
    ///
    /// # Errors
    /// When the keyspace cannot be opened; an entry that cannot be read is an error item.
    pub fn iter(&self, keyspace: &str) -> Result<impl Iterator<Item = Result<Entry>> + use<>> {
        let entries = self.keyspace(keyspace)?.iter();
        Ok(entries.map(|guard| {
            let (key, value) = guard.into_inner()?;
            Ok((key.to_vec(), value.to_vec()))
        }))
    }

    /// Applies `batch` atomically; it is on disk, synced, when this returns.
    ///
    /// # Errors
    /// When writing or syncing fails. The outcome is then unknown until the state is opened anew,
    /// and the store accepts no further batch, so that nothing can be built on a lost one.
    pub fn commit(&self, batch: StateBatch) -> Result<()> {
        if batch.changes.is_empty() {
            return Ok(());
        }
        let mut writes = self.database.batch().durability(Some(PersistMode::SyncAll));
        for ((name, key), value) in batch.changes {
            let keyspace = self.keyspace(name)?;
            match value {
                Some(value) => writes.insert(&keyspace, key, value),
                None => writes.remove(&keyspace, key),
            }
        }
        // The store's own writes are not hooked: a kill comes before the batch or after it.
        disk::kill_point();
        writes.commit()?;
        disk::kill_point();
        Ok(())
    }

    /// A view of everything as it is now, unchanged by later batches.
    #[must_use]
    pub fn snapshot(&self) -> StateSnapshot<'_> {
        StateSnapshot {
            state: self,
            snapshot: self.database.snapshot(),
        }
    }

    /// Copies the state as it is now into a new folder, synced: the state of a backup.
    ///
    /// # Errors
    /// When either side cannot be read or written.
    pub fn copy_to(&self, dir: &Path) -> Result<()> {
        let snapshot = self.snapshot();
        let copy = State::open(dir)?;
        for name in self.database.list_keyspace_names() {
            let keyspace = self.keyspace(&name)?;
            let target = copy.keyspace(&name)?;
            let mut writes = copy.database.batch().durability(Some(PersistMode::SyncAll));
            for guard in snapshot.snapshot.iter(&keyspace) {
                let (key, value) = guard.into_inner()?;
                writes.insert(&target, key, value);
                if writes.len() >= COPY_BATCH_ENTRIES {
                    writes.commit()?;
                    writes = copy.database.batch().durability(Some(PersistMode::SyncAll));
                }
            }
            writes.commit()?;
        }
        Ok(())
    }

    /// Bytes on disk.
    ///
    /// # Errors
    /// When the store's journal cannot be looked at.
    pub fn disk_bytes(&self) -> Result<u64> {
        Ok(self.database.disk_space()?)
    }

    /// The keyspace of this name, created (durably, by the store) when first asked for.
    fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let known = self
            .keyspaces
            .read()
            .expect("no panic while this lock is held");
        if let Some(keyspace) = known.get(name) {
            return Ok(keyspace.clone());
        }
        drop(known);
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let keyspace = self.database.keyspace(name, options)?;
        let mut known = self
            .keyspaces
            .write()
            .expect("no panic while this lock is held");
        known.insert(name.to_owned(), keyspace.clone());
        Ok(keyspace)
    }
}

fn open_database(dir: &Path) -> fjall::Result<Database> {
    Database::builder(dir)
        .cache_size(CACHE_BYTES)
        .max_journaling_size(JOURNAL_BYTES)
        .worker_threads(WORKER_THREADS)
        // Every batch is synced by `commit`; nothing is written outside of a batch.
        .manual_journal_persist(true)
        .open()
}

/// Opens a store whose journal ends with a torn batch; any other damage stays an error, and then
/// nothing was changed.
fn without_torn_batch(dir: &Path, error: fjall::JournalRecoveryError) -> Result<Database> {
    let cut = torn::cut_last_batch(dir).map_err(io_error("repair", dir))?;
    let Some(cut) = cut else {
        return Err(fjall::Error::JournalRecovery(error).into());
    };
    match open_database(dir) {
        Ok(database) => {
            warn!(%error, "took back a batch that a power cut left half on disk");
            Ok(database)
        }
        Err(again) => {
            cut.undo().map_err(io_error("restore", dir))?;
            Err(again.into())
        }
    }
}

/// Changes that are committed together or not at all. Keyspaces are named by constants.
#[derive(Clone, Debug, Default)]
pub struct StateBatch {
    /// By keyspace and key; no value deletes. A map, because all changes of a batch carry one
    /// sequence number in the store, which leaves the order of two changes of one key open.
    changes: BTreeMap<(&'static str, Vec<u8>), Option<Vec<u8>>>,
}

impl StateBatch {
    /// A batch without changes.
    #[must_use]
    pub fn new() -> StateBatch {
        StateBatch::default()
    }

    /// Sets `key` in `keyspace`; of several changes of one key the last one holds.
    pub fn put(
        &mut self,
        keyspace: &'static str,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) {
        self.changes
            .insert((keyspace, key.into()), Some(value.into()));
    }

    /// Removes `key` from `keyspace`; no error when it is not there.
    pub fn delete(&mut self, keyspace: &'static str, key: impl Into<Vec<u8>>) {
        self.changes.insert((keyspace, key.into()), None);
    }

    /// How many keys it changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// The state as it was at one moment, between two batches.
pub struct StateSnapshot<'a> {
    state: &'a State,
    snapshot: Snapshot,
}

impl StateSnapshot<'_> {
    /// The value that `key` in `keyspace` had.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn get(&self, keyspace: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.snapshot.get(&self.state.keyspace(keyspace)?, key)?;
        Ok(value.map(|bytes| bytes.to_vec()))
    }

    /// The entries of `keyspace` whose key begins with `prefix`, in key order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn prefix(&self, keyspace: &str, prefix: &[u8]) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for guard in self
            .snapshot
            .prefix(&self.state.keyspace(keyspace)?, prefix)
        {
            let (key, value) = guard.into_inner()?;
            entries.push((key.to_vec(), value.to_vec()));
        }
        Ok(entries)
    }
}
