//! The fold runtime: blocks, durable state, positions, and the repeats index.

mod backoff;
mod block;
mod engine;
mod error;
mod fold;
mod handle;
mod input;
mod ledger;
mod phases;
mod progress;
pub mod repeats;
mod replay;
mod runtime;
mod state;
#[cfg(test)]
mod tape;
mod wakeup;

pub use block::{Block, BlockLimits, BlockName};
pub use error::{FlowError, Result};
pub use fold::{BlockCounts, Fold, FoldError};
pub use handle::{FoldHandle, FoldStats, FoldStatus};
pub use ledger::{Ledger, committed_position, moved_rows, stage_moved_rows};
pub use phases::{Phase, Phases};
pub use progress::synced_ends;
pub use replay::{ReplayInput, replay};
pub use runtime::start_fold;
pub use state::{Entry, State, StateBatch, StateSnapshot};
