//! Durable state: one database of named keyspaces, changed only by synced, atomic batches.

mod batch;
mod opened;
#[cfg(test)]
mod tests;
mod torn;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use fjall::{PersistMode, Readable, Snapshot};
use fulmar_log::disk;
use tracing::{info, warn};

pub use self::batch::StateBatch;
use self::opened::Opened;
use crate::error::{FlowError, Result, io_error};

/// Entries per batch when state is copied, so that a copy is bounded in memory.
const COPY_BATCH_ENTRIES: usize = 10_000;

/// Free bytes without which a store that failed is not opened anew: it writes a little as it opens,
/// and until then the old one can still be read.
const REOPEN_FREE_BYTES_MIN: u64 = 1024 * 1024;

/// A key with its value, as iteration yields them.
pub type Entry = (Vec<u8>, Vec<u8>);

/// The durable state of a folder (`DIR/state`).
///
/// Readers see a batch only once it is synced: the database applies a batch to what it shows
/// after its journal has been synced. After a failed write the database takes nothing more; it is
/// then opened anew before the next batch, so that a disk that was full needs no restart.
pub struct State {
    dir: PathBuf,
    /// None only when the store could not be opened again.
    opened: RwLock<Option<Arc<Opened>>>,
    fault: Mutex<Option<Fault>>,
}

/// A write that failed, until the store is opened anew.
struct Fault {
    reason: String,
    /// Takes the batch back, should the failed write have left it in the journal after all. None
    /// when that can't be told: then only a restart settles it.
    undo: Option<StateBatch>,
}

impl State {
    /// Opens the state in `dir`, creating it when there is none.
    ///
    /// # Errors
    /// When the folder cannot be read or written, or is locked by another process.
    pub fn open(dir: &Path) -> Result<State> {
        Ok(State {
            dir: dir.to_path_buf(),
            opened: RwLock::new(Some(Arc::new(Opened::open(dir)?))),
            fault: Mutex::new(None),
        })
    }

    /// The value of `key` in `keyspace`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn get(&self, keyspace: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.opened()?.get(keyspace, key)
    }

    /// The keys in `keyspace` that begin with `prefix`, in order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn keys(&self, keyspace: &str, prefix: &[u8]) -> Result<Vec<Vec<u8>>> {
        let opened = self.opened()?;
        let guards = opened.keyspace(keyspace)?.prefix(prefix);
        guards.map(|guard| Ok(guard.key()?.to_vec())).collect()
    }

    /// All entries of `keyspace` whose key begins with `prefix`, in key order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn prefix(&self, keyspace: &str, prefix: &[u8]) -> Result<Vec<Entry>> {
        let opened = self.opened()?;
        let mut entries = Vec::new();
        for guard in opened.keyspace(keyspace)?.prefix(prefix) {
            let (key, value) = guard.into_inner()?;
            entries.push((key.to_vec(), value.to_vec()));
        }
        Ok(entries)
    }

    /// The first `limit` entries of `keyspace` from a key on and below another, in key order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn scan(
        &self,
        keyspace: &str,
        range: std::ops::Range<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        let opened = self.opened()?;
        let guards = opened.keyspace(keyspace)?.range(range);
        let entries = guards.take(limit).map(|guard| {
            let (key, value) = guard.into_inner()?;
            Ok((key.to_vec(), value.to_vec()))
        });
        entries.collect()
    }

    /// All entries of `keyspace`, in key order, one at a time.
    ///
    /// # Errors
    /// When the keyspace cannot be opened; an entry that cannot be read is an error item.
    pub fn iter(&self, keyspace: &str) -> Result<impl Iterator<Item = Result<Entry>> + use<>> {
        let opened = self.opened()?;
        let entries = opened.keyspace(keyspace)?.iter();
        Ok(entries.map(move |guard| {
            // Held as long as it is read.
            let _held = &opened;
            let (key, value) = guard.into_inner()?;
            Ok((key.to_vec(), value.to_vec()))
        }))
    }

    /// Applies `batch` atomically; it is on disk, synced, when this returns.
    ///
    /// # Errors
    /// When writing or syncing fails. The batch is then not applied, and it may be tried again:
    /// what the failed write may have left in the store is taken back first ([`State::ready`]).
    pub fn commit(&self, batch: StateBatch) -> Result<()> {
        if batch.changes.is_empty() {
            return Ok(());
        }
        self.ready()?;
        let opened = self.opened()?;
        // The store's own writes are not hooked: a kill comes before the batch or after it.
        disk::kill_point();
        if let Err(error) = opened.write(&batch) {
            self.failed(&opened, &batch, &error);
            return Err(error);
        }
        disk::kill_point();
        Ok(())
    }

    /// Whether the store takes batches. After a failed write it is opened anew here, and a batch
    /// that was said to have failed is taken back if it is there: whoever acts on the failure
    /// asks first, so that no file goes that a batch on disk still names.
    ///
    /// # Errors
    /// When it still does not; to be asked again later.
    pub fn ready(&self) -> Result<()> {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = fault.as_ref() else {
            return Ok(());
        };
        let Some(undo) = &known.undo else {
            let reason = known.reason.clone();
            return Err(FlowError::StateLost { reason });
        };
        self.open_anew(&known.reason)?;
        let opened = self.opened()?;
        let found = opened.undo_of(undo)?;
        if found.changes != undo.changes {
            opened.write(undo)?;
        }
        info!(reason = known.reason, "the state store takes batches again");
        *fault = None;
        Ok(())
    }

    /// Notes the first failure; what fails after it, until the store is open anew, was not written.
    fn failed(&self, opened: &Opened, batch: &StateBatch, error: &FlowError) {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let was_refused = matches!(error, FlowError::State(fjall::Error::Poisoned));
        let undo = match was_refused {
            true => Some(StateBatch::new()),
            false => opened.undo_of(batch).ok(),
        };
        let reason = error.to_string();
        warn!(reason, "the state store failed and will be opened anew");
        // One that was only refused knows nothing of the batch that failed.
        if fault.is_none() || !was_refused {
            *fault = Some(Fault { reason, undo });
        }
    }

    fn opened(&self) -> Result<Arc<Opened>> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        opened.clone().ok_or_else(|| FlowError::StateWaits {
            reason: "it could not be opened again yet".to_owned(),
        })
    }

    fn open_anew(&self, reason: &str) -> Result<()> {
        let waits = |why: &str| FlowError::StateWaits {
            reason: format!("{reason}; {why}"),
        };
        let space = disk::space(&self.dir).map_err(io_error("look at", &self.dir))?;
        if space.free_bytes < REOPEN_FREE_BYTES_MIN {
            return Err(waits("the disk is full"));
        }
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = opened.take() {
            match Arc::try_unwrap(old) {
                Ok(old) => drop(old),
                Err(held) => {
                    *opened = Some(held);
                    return Err(waits("it is being read"));
                }
            }
        }
        torn::write_again(&self.dir).map_err(io_error("write again", &self.dir))?;
        *opened = Some(Arc::new(Opened::open(&self.dir)?));
        Ok(())
    }

    /// A view of everything as it is now, unchanged by later batches.
    ///
    /// # Errors
    /// When the store could not be opened again after a failure.
    pub fn snapshot(&self) -> Result<StateSnapshot> {
        let opened = self.opened()?;
        let snapshot = opened.database.snapshot();
        Ok(StateSnapshot { opened, snapshot })
    }

    /// Copies the state as it is now into a new folder, synced: the state of a backup.
    ///
    /// # Errors
    /// When either side cannot be read or written.
    pub fn copy_to(&self, dir: &Path) -> Result<()> {
        let StateSnapshot { opened, snapshot } = self.snapshot()?;
        let copy = Opened::open(dir)?;
        let new_batch = || copy.database.batch().durability(Some(PersistMode::SyncAll));
        for name in opened.database.list_keyspace_names() {
            let keyspace = opened.keyspace(&name)?;
            let target = copy.keyspace(&name)?;
            let mut writes = new_batch();
            for guard in snapshot.iter(&keyspace) {
                let (key, value) = guard.into_inner()?;
                writes.insert(&target, key, value);
                if writes.len() >= COPY_BATCH_ENTRIES {
                    writes.commit()?;
                    writes = new_batch();
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
        Ok(self.opened()?.database.disk_space()?)
    }
}

/// The state as it was at one moment, between two batches.
pub struct StateSnapshot {
    opened: Arc<Opened>,
    snapshot: Snapshot,
}

impl StateSnapshot {
    /// The value that `key` in `keyspace` had.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn get(&self, keyspace: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.snapshot.get(&self.opened.keyspace(keyspace)?, key)?;
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
            .prefix(&self.opened.keyspace(keyspace)?, prefix)
        {
            let (key, value) = guard.into_inner()?;
            entries.push((key.to_vec(), value.to_vec()));
        }
        Ok(entries)
    }
}
