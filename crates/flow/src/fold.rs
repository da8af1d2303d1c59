//! What a fold is to the runtime.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::block::{Block, BlockName};
use crate::error::FlowError;
use crate::phases::Phases;
use crate::state::StateBatch;

/// A pure reader of one topic: `(state, block) -> (state', outputs)`.
///
/// The runtime calls `fold` for one block at a time, in order, and calls it again for the same
/// block after an error or a restart. The only clock is the log's: the block's append times (I4).
pub trait Fold: Send + 'static {
    /// Its name in committed state, in metrics and in files; never changes.
    fn name(&self) -> &'static str;

    /// Version of what it writes, kept with each block's boundary (F5).
    fn version(&self) -> u32;

    /// Does one block. Its outputs are durable when this returns (F4); its state changes only
    /// through `batch`, which the runtime commits together with the counts and the position.
    /// Whatever it remembers of an earlier, uncommitted try of this block it forgets first.
    ///
    /// # Errors
    /// See [`FoldError`]; nothing of `batch` is then kept.
    fn fold(
        &mut self,
        block: &Block,
        batch: &mut StateBatch,
    ) -> std::result::Result<BlockCounts, FoldError>;

    /// The block's batch is committed and synced; memory may now follow.
    fn committed(&mut self, name: &BlockName);

    /// Where it adds its times, and the runtime those of reading and committing.
    fn phases(&self) -> Arc<Phases> {
        Arc::default()
    }

    /// The log's time at which the fold has something to do without any record: when it has
    /// passed by the wall clock and no record came, the runtime appends a tick (F2), an empty
    /// record, which the fold counts in [`BlockCounts::ticks`]. None while nothing is open.
    fn next_due_ms(&self) -> Option<i64> {
        None
    }
}

/// What became of the records of a block; the sum is the number of its records (I8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Rows written to tables.
    pub stored: u64,
    /// Records that the index of repeats knew (X1).
    pub repeats: u64,
    /// Records written to the quarantine.
    pub quarantined: u64,
    /// Records dropped, by reason (`bot`, `filter`, `expired`, `damage`).
    pub dropped: BTreeMap<&'static str, u64>,
    /// Ticks: they stand in no table and no ledger (F2).
    pub ticks: u64,
}

impl BlockCounts {
    /// The sum of all counts.
    #[must_use]
    pub fn total(&self) -> u64 {
        let dropped = self.dropped.values().sum::<u64>();
        self.stored + self.repeats + self.quarantined + dropped + self.ticks
    }
}

/// Why a fold could not do a block.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// May pass by itself: the same block is tried again, with growing pauses, for ever; the lag
    /// grows and nothing is lost.
    #[error("{0}")]
    Transient(String),
    /// Something on disk that the fold needs is damaged, with its place. The fold stops.
    #[error("damaged: {0}")]
    Damaged(String),
    /// Will not pass and is no damage (a defect). The fold stops.
    #[error("{0}")]
    Fatal(String),
}

impl From<FlowError> for FoldError {
    /// Damage stays damage; a state store that failed is opened anew, and file errors may pass.
    fn from(error: FlowError) -> FoldError {
        match &error {
            damage if damage.is_damage() => FoldError::Damaged(error.to_string()),
            FlowError::Io { .. } | FlowError::State(_) | FlowError::StateWaits { .. } => {
                FoldError::Transient(error.to_string())
            }
            _ => FoldError::Fatal(error.to_string()),
        }
    }
}
