//! One opening of the store: its database and the keyspaces in use.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use tracing::warn;

use super::{StateBatch, torn};
use crate::error::{Result, io_error};

/// Bytes of the block cache. State is read at start and by rare lookups, so it stays small.
const CACHE_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of one keyspace's memtable before it is flushed; few keyspaces, so tens of MiB in all.
const MEMTABLE_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of the database's own journal before memtables are flushed to let it go (its minimum).
const JOURNAL_BYTES: u64 = 64 * 1024 * 1024;
/// Threads that flush and compact: state is small and changes once a block.
const WORKER_THREADS: usize = 1;

/// An open store. Whoever works with it holds it, so that it is closed only when nobody does.
pub(super) struct Opened {
    /// Before the database, which goes last.
    keyspaces: RwLock<HashMap<String, Keyspace>>,
    pub database: Database,
}

impl Opened {
    /// Opens the store in `dir`, creating it when there is none.
    pub fn open(dir: &Path) -> Result<Opened> {
        let database = match open_database(dir) {
            Err(fjall::Error::JournalRecovery(error)) => without_torn_batch(dir, error)?,
            opened => opened?,
        };
        Ok(Opened {
            keyspaces: RwLock::default(),
            database,
        })
    }

    /// The keyspace of this name, created (durably, by the store) when first asked for.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        // Plain handles: a panic elsewhere can't leave the map half changed.
        let known = self
            .keyspaces
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(keyspace) = known.get(name) {
            return Ok(keyspace.clone());
        }
        drop(known);
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let keyspace = self.database.keyspace(name, options)?;
        self.keyspaces
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), keyspace.clone());
        Ok(keyspace)
    }

    /// The value of a key.
    pub fn get(&self, keyspace: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.keyspace(keyspace)?.get(key)?;
        Ok(value.map(|bytes| bytes.to_vec()))
    }

    /// Writes a batch, synced.
    pub fn write(&self, batch: &StateBatch) -> Result<()> {
        let mut writes = self.database.batch().durability(Some(PersistMode::SyncAll));
        for ((name, key), value) in &batch.changes {
            let keyspace = self.keyspace(name)?;
            match value {
                Some(value) => writes.insert(&keyspace, key.as_slice(), value.as_slice()),
                None => writes.remove(&keyspace, key.as_slice()),
            }
        }
        Ok(writes.commit()?)
    }

    /// What brings the keys of a batch back to what they are now.
    pub fn undo_of(&self, batch: &StateBatch) -> Result<StateBatch> {
        let mut undo = StateBatch::new();
        for (name, key) in batch.changes.keys() {
            let value = self.get(name, key)?;
            undo.changes.insert((*name, key.clone()), value);
        }
        Ok(undo)
    }
}

fn open_database(dir: &Path) -> fjall::Result<Database> {
    Database::builder(dir)
        .cache_size(CACHE_BYTES)
        .max_journaling_size(JOURNAL_BYTES)
        .worker_threads(WORKER_THREADS)
        // Every batch is synced by `write`; nothing is written outside of a batch.
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
