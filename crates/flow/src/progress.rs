//! What a fold has committed, and the block that it has begun: their form in the state store.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::block::BlockName;
use crate::error::{FlowError, Result};
use crate::fold::BlockCounts;
use crate::state::{State, StateBatch};
use fulmar_log::Ends;

/// Keyspace of positions, boundaries and counts.
pub(crate) const KEYSPACE: &str = "flow";
const PROGRESS_PREFIX: &str = "fold/";

/// A fold's position and the counts of everything before it; committed with each block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// The input topic (F1).
    pub stream: String,
    /// Offset of the next record to read.
    pub position: u64,
    pub stored: u64,
    pub repeats: u64,
    pub quarantined: u64,
    pub dropped: BTreeMap<String, u64>,
    #[serde(default)]
    pub ticks: u64,
}

impl Progress {
    /// Nothing committed yet.
    pub fn new(stream: &str) -> Progress {
        Progress {
            stream: stream.to_owned(),
            position: 0,
            stored: 0,
            repeats: 0,
            quarantined: 0,
            dropped: BTreeMap::new(),
            ticks: 0,
        }
    }

    /// The committed progress of a fold; none when it never committed.
    pub fn load(state: &State, fold: &str) -> Result<Option<Progress>> {
        load(state, &progress_key(fold))
    }

    /// The progress after a block of `counts`.
    pub fn after(&self, block: &BlockName, counts: &BlockCounts) -> Progress {
        let mut after = self.clone();
        after.position = block.last + 1;
        after.stored += counts.stored;
        after.repeats += counts.repeats;
        after.quarantined += counts.quarantined;
        after.ticks += counts.ticks;
        for (reason, count) in &counts.dropped {
            *after.dropped.entry((*reason).to_owned()).or_default() += count;
        }
        after
    }

    /// The progress after the offsets up to `position` were given up for `reason`.
    pub fn passed(&self, position: u64, reason: &str) -> Progress {
        let mut after = self.clone();
        after.position = position;
        *after.dropped.entry(reason.to_owned()).or_default() += position - self.position;
        after
    }

    /// Whether the counts account for every offset before the position (I8).
    pub fn balances(&self) -> bool {
        let dropped: u64 = self.dropped.values().sum();
        self.position == self.stored + self.repeats + self.quarantined + dropped + self.ticks
    }

    /// Puts it into the batch of its block and ends the block's boundary.
    pub fn stage(&self, fold: &str, batch: &mut StateBatch) {
        batch.put(KEYSPACE, progress_key(fold), encode(self));
        batch.delete(KEYSPACE, boundary_key(fold));
    }
}

/// A begun block: durable before any output of the block is (F4), so that a restart does exactly
/// the same block again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Boundary {
    pub first: u64,
    pub last: u64,
    /// Version of the fold that began it (F5).
    pub version: u32,
}

impl Boundary {
    /// The begun, uncommitted block of a fold.
    pub fn load(state: &State, fold: &str) -> Result<Option<Boundary>> {
        load(state, &boundary_key(fold))
    }

    /// Makes it durable.
    pub fn commit(&self, state: &State, fold: &str) -> Result<()> {
        let mut batch = StateBatch::new();
        batch.put(KEYSPACE, boundary_key(fold), encode(self));
        state.commit(batch)
    }
}

/// How far the topics are known to have been synced: a committed position, and a block that was
/// begun, never pass the synced end (L2), so that a log that ends before has lost something (L1).
///
/// # Errors
/// When committed state cannot be read.
pub fn synced_ends(state: &State) -> Result<Ends> {
    let mut ends = Ends::default();
    for (key, _) in state.prefix(KEYSPACE, PROGRESS_PREFIX.as_bytes())? {
        let fold = String::from_utf8_lossy(&key[PROGRESS_PREFIX.len()..]).into_owned();
        let Some(progress) = Progress::load(state, &fold)? else {
            continue;
        };
        // A topic that this build does not know has no journal that could be short.
        let Ok(topic) = progress.stream.parse() else {
            continue;
        };
        ends.raise(topic, progress.position);
        if let Some(begun) = Boundary::load(state, &fold)? {
            ends.raise(topic, begun.last.saturating_add(1));
        }
    }
    Ok(ends)
}

fn progress_key(fold: &str) -> Vec<u8> {
    format!("{PROGRESS_PREFIX}{fold}").into_bytes()
}

fn boundary_key(fold: &str) -> Vec<u8> {
    format!("boundary/{fold}").into_bytes()
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("numbers, strings and maps of strings always encode")
}

fn load<T: DeserializeOwned>(state: &State, key: &[u8]) -> Result<Option<T>> {
    let Some(bytes) = state.get(KEYSPACE, key)? else {
        return Ok(None);
    };
    let value = serde_json::from_slice(&bytes).map_err(|error| FlowError::StateValue {
        keyspace: KEYSPACE.to_owned(),
        key: String::from_utf8_lossy(key).into_owned(),
        reason: error.to_string(),
    })?;
    Ok(Some(value))
}
