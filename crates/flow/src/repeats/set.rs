//! The committed index at one moment: its runs and the ids that are in none yet.

use std::sync::Arc;

use super::hash::IdHash;
use super::run::{PageCache, Run};
use crate::error::Result;

/// Immutable; a change makes another set, so that readers are never waited for.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    /// Oldest first.
    pub runs: Vec<Arc<Run>>,
    /// Ids of small blocks, sorted.
    pub young: Arc<Vec<IdHash>>,
    /// Newest log time seen.
    pub log_ms: i64,
    /// Log time up to which ids were dropped before the window was over.
    pub cut_ms: Option<i64>,
}

/// An id that is asked for, with its place in the question.
pub(super) type Asked = (IdHash, u32);

impl Set {
    /// Bytes of all files.
    pub fn disk_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.disk_bytes()).sum()
    }

    /// Bytes of all filters and fences.
    pub fn memory_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.memory_bytes()).sum()
    }

    /// Ids remembered.
    pub fn ids(&self) -> u64 {
        self.runs.iter().map(|run| run.entry.ids).sum::<u64>() + self.young.len() as u64
    }

    /// Whether the hash is in the index.
    pub fn contains(&self, hash: IdHash) -> Result<bool> {
        if self.young.binary_search(&hash).is_ok() {
            return Ok(true);
        }
        let mut cache = None;
        for run in self.runs.iter().rev().filter(|run| run.may_contain(hash)) {
            if run.contains(hash, cache.get_or_insert_with(PageCache::new))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes from `asked`, which is sorted, what the index holds. Runs whose newest id is older
    /// than `horizon_ms` are not asked any more: they are expired, whether dropped yet or not.
    pub fn remove_known(&self, asked: &mut Vec<Asked>, horizon_ms: i64) -> Result<()> {
        self.remove_young(asked);
        let mut cache = PageCache::new();
        let mut hits = Vec::new();
        // Newest first: a repeat is most often of something recent.
        for run in self.runs.iter().rev() {
            if run.entry.last_ms < horizon_ms || asked.is_empty() {
                continue;
            }
            find_hits(run, asked, &mut hits);
            let mut known = 0;
            for hit in &hits {
                let at = *hit as usize;
                if run.contains(asked[at].0, &mut cache)? {
                    asked[at].1 = KNOWN;
                    known += 1;
                }
            }
            if known > 0 {
                asked.retain(|(_, place)| *place != KNOWN);
            }
        }
        Ok(())
    }

    fn remove_young(&self, asked: &mut Vec<Asked>) {
        let mut young = self.young.as_slice();
        asked.retain(|(hash, _)| {
            young = &young[young.partition_point(|known| known < hash)..];
            young.first() != Some(hash)
        });
    }
}

/// Marks an id that was found; no question has this many.
const KNOWN: u32 = u32::MAX;

/// The places in `asked` that the run's filter does not rule out. The questions do not depend on
/// each other and go through the filter in its order, so that the processor overlaps their misses.
fn find_hits(run: &Run, asked: &[Asked], hits: &mut Vec<u32>) {
    hits.clear();
    for (at, (hash, _)) in asked.iter().enumerate() {
        if run.may_contain(*hash) {
            hits.push(at as u32);
        }
    }
}
