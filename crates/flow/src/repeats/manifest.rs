//! The index's part of committed state: its key, its runs, and the ids of small blocks.
//!
//! A block with few new ids puts them here instead of into a run of their own, so that a quiet
//! server writes no file a second; they move into a run when there are enough.

use super::hash::IdHash;
use super::page::HASH_BYTES;
use super::run::RunEntry;
use crate::error::{FlowError, Result};
use crate::state::{State, StateBatch};

const HASH_KEY: &str = "key";
const CUT_KEY: &str = "cut";
const RUN_PREFIX: &str = "run/";
const YOUNG_PREFIX: &str = "young/";

/// The new ids of one small block.
#[derive(Debug)]
pub(super) struct YoungBlock {
    /// The block's first offset.
    pub first: u64,
    pub log_ms: i64,
    pub hashes: Vec<IdHash>,
}

/// Everything that is committed.
#[derive(Debug)]
pub(super) struct Manifest {
    pub hash_key: [u8; 16],
    /// Oldest first.
    pub runs: Vec<RunEntry>,
    pub young: Vec<YoungBlock>,
    /// Log time up to which ids were dropped before the window was over.
    pub cut_ms: Option<i64>,
}

impl Manifest {
    /// Reads it; the first time it draws the secret key and commits it.
    pub fn load(state: &State, space: &'static str) -> Result<Manifest> {
        let hash_key = match state.get(space, HASH_KEY.as_bytes())? {
            Some(bytes) => bytes
                .try_into()
                .map_err(|_| unreadable(space, HASH_KEY, "not 16 bytes"))?,
            None => draw_key(state, space)?,
        };
        let mut runs = Vec::new();
        for (key, value) in state.prefix(space, RUN_PREFIX.as_bytes())? {
            let entry: RunEntry = serde_json::from_slice(&value).map_err(|error| {
                unreadable(space, &String::from_utf8_lossy(&key), &error.to_string())
            })?;
            runs.push(entry);
        }
        runs.sort_by_key(|entry| (entry.last_ms, entry.first_ms, entry.id));
        let mut young = Vec::new();
        for (key, value) in state.prefix(space, YOUNG_PREFIX.as_bytes())? {
            young.push(decode_young(space, &key, &value)?);
        }
        let cut = state.get(space, CUT_KEY.as_bytes())?;
        let cut_ms = match cut {
            None => None,
            Some(bytes) => {
                let bytes = bytes
                    .try_into()
                    .map_err(|_| unreadable(space, CUT_KEY, "not 8 bytes"))?;
                Some(i64::from_le_bytes(bytes))
            }
        };
        Ok(Manifest {
            hash_key,
            runs,
            young,
            cut_ms,
        })
    }
}

fn draw_key(state: &State, space: &'static str) -> Result<[u8; 16]> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| FlowError::Random(error.to_string()))?;
    let mut batch = StateBatch::new();
    batch.put(space, HASH_KEY, key);
    state.commit(batch)?;
    Ok(key)
}

fn decode_young(space: &str, key: &[u8], value: &[u8]) -> Result<YoungBlock> {
    let name = String::from_utf8_lossy(key);
    let first = name
        .strip_prefix(YOUNG_PREFIX)
        .and_then(|digits| digits.parse().ok());
    let first = first.ok_or_else(|| unreadable(space, &name, "no offset in the key"))?;
    let Some((log_ms, hashes)) = value.split_first_chunk::<8>() else {
        return Err(unreadable(space, &name, "no log time"));
    };
    let (hashes, rest) = hashes.as_chunks::<HASH_BYTES>();
    if !rest.is_empty() {
        return Err(unreadable(space, &name, "not whole hashes"));
    }
    let hashes = hashes
        .iter()
        .map(|bytes| IdHash(u128::from_le_bytes(*bytes)))
        .collect();
    Ok(YoungBlock {
        first,
        log_ms: i64::from_le_bytes(*log_ms),
        hashes,
    })
}

/// Lists a run; its file is on disk, synced, under its name (F4).
pub(super) fn stage_run(space: &'static str, entry: &RunEntry, batch: &mut StateBatch) {
    let value = serde_json::to_vec(entry).expect("four numbers always encode");
    batch.put(space, run_key(entry.id), value);
}

/// Takes a run off the list.
pub(super) fn unstage_run(space: &'static str, id: u64, batch: &mut StateBatch) {
    batch.delete(space, run_key(id));
}

/// Keeps the new ids of a small block.
pub(super) fn stage_young(
    space: &'static str,
    first: u64,
    log_ms: i64,
    hashes: &[IdHash],
    batch: &mut StateBatch,
) {
    let mut value = Vec::with_capacity(8 + hashes.len() * HASH_BYTES);
    value.extend_from_slice(&log_ms.to_le_bytes());
    for hash in hashes {
        value.extend_from_slice(&hash.0.to_le_bytes());
    }
    batch.put(space, young_key(first), value);
}

/// Drops the ids of a small block, which are in a run by now.
pub(super) fn unstage_young(space: &'static str, first: u64, batch: &mut StateBatch) {
    batch.delete(space, young_key(first));
}

/// Notes that everything up to this log time may have been dropped before its time.
pub(super) fn stage_cut(space: &'static str, cut_ms: i64, batch: &mut StateBatch) {
    batch.put(space, CUT_KEY, cut_ms.to_le_bytes());
}

fn run_key(id: u64) -> String {
    format!("{RUN_PREFIX}{id:020}")
}

fn young_key(first: u64) -> String {
    format!("{YOUNG_PREFIX}{first:020}")
}

fn unreadable(space: &str, key: &str, reason: &str) -> FlowError {
    let (keyspace, key, reason) = (space.to_owned(), key.to_owned(), reason.to_owned());
    FlowError::StateValue {
        keyspace,
        key,
        reason,
    }
}
