//! The ledger of a topic (I8): what became of everything that was logged.

use std::collections::BTreeMap;

use crate::error::{FlowError, Result};
use crate::progress::{KEYSPACE, Progress};
use crate::state::{State, StateBatch};

/// logged = stored + repeats + quarantined + dropped + backlog, always: the counts are committed
/// with the position, and the backlog is derived from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Ledger {
    /// Records that the log took: its end, without the ticks (F2).
    pub logged: u64,
    /// Rows in tables, also those that retention or a deletion has removed since; in `profiles`,
    /// changes that were applied.
    pub stored: u64,
    /// Repeats: dropped by the index, or removed by compaction.
    pub repeats: u64,
    /// Records in the quarantine.
    pub quarantined: u64,
    /// Records dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Records behind the committed position.
    pub backlog: u64,
}

impl Ledger {
    /// The ledger of the topic that `fold` reads, whose log ends at `log_end`.
    ///
    /// # Errors
    /// When committed state cannot be read, or is ahead of the log.
    pub fn read(state: &State, fold: &str, log_end: u64) -> Result<Ledger> {
        let progress = Progress::load(state, fold)?.unwrap_or_else(|| Progress::new(""));
        let moved = moved_rows(state, fold)?;
        if progress.position > log_end || moved > progress.stored {
            return Err(FlowError::StateValue {
                keyspace: KEYSPACE.to_owned(),
                key: fold.to_owned(),
                reason: format!(
                    "position {} with {moved} of {} rows moved, log end {log_end}",
                    progress.position, progress.stored
                ),
            });
        }
        Ok(Ledger {
            logged: log_end - progress.ticks,
            stored: progress.stored - moved,
            repeats: progress.repeats + moved,
            quarantined: progress.quarantined,
            dropped: progress.dropped,
            backlog: log_end - progress.position,
        })
    }

    /// Whether it adds up.
    #[must_use]
    pub fn balances(&self) -> bool {
        let dropped: u64 = self.dropped.values().sum();
        self.logged == self.stored + self.repeats + self.quarantined + dropped + self.backlog
    }
}

/// The committed position of `fold` (offset of the next record); 0 when it never committed.
///
/// # Errors
/// When committed state cannot be read.
pub fn committed_position(state: &State, fold: &str) -> Result<u64> {
    Ok(Progress::load(state, fold)?.map_or(0, |progress| progress.position))
}

/// Rows that compaction has removed as repeats so far; the ledger counts them as repeats.
///
/// # Errors
/// When committed state cannot be read.
pub fn moved_rows(state: &State, fold: &str) -> Result<u64> {
    let Some(bytes) = state.get(KEYSPACE, &moved_key(fold))? else {
        return Ok(0);
    };
    let bytes = <[u8; 8]>::try_from(bytes.as_slice()).map_err(|_| FlowError::StateValue {
        keyspace: KEYSPACE.to_owned(),
        key: format!("moved/{fold}"),
        reason: format!("{} bytes instead of 8", bytes.len()),
    })?;
    Ok(u64::from_le_bytes(bytes))
}

/// Sets the total of rows that compaction has removed as repeats, in the batch that replaces the
/// files. Only the one compaction thread of a lake writes it, so that it adds to what it read.
pub fn stage_moved_rows(fold: &str, total: u64, batch: &mut StateBatch) {
    batch.put(KEYSPACE, moved_key(fold), total.to_le_bytes());
}

fn moved_key(fold: &str) -> Vec<u8> {
    format!("moved/{fold}").into_bytes()
}
