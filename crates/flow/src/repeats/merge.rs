//! Merges of runs: which, how, and how the result takes their place.
//!
//! Runs are tiered: four of a level make one of the next, so that an id is rewritten once per
//! level and a question meets at most a few runs of each.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};

use tracing::warn;

use super::index::{Index, RunSizes};
use super::manifest::{stage_run, unstage_run};
use super::reader::RunReader;
use super::run::{Run, RunEntry};
use super::set::Set;
use super::writer::RunWriter;
use crate::error::Result;
use crate::state::StateBatch;

/// Runs merged at once, and the factor between levels.
const FAN_IN: usize = 4;
/// Ids between two looks at whether to give up.
const STOP_EVERY_IDS: u64 = 1 << 16;

/// Merges whenever there is news, until the sender is gone.
pub(super) fn merge_until_closed(index: &Index, news: &Receiver<()>) {
    while news.recv().is_ok() {
        loop {
            let merged = merge_once(index);
            let error = merged.as_ref().err().map(ToString::to_string);
            if let Some(error) = &error {
                warn!(%error, "cannot merge runs of the index of repeats");
            }
            *index
                .merge_error
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = error;
            if !matches!(merged, Ok(true)) {
                break;
            }
        }
    }
}

/// Does one merge, if one is worth it; false when none is, or when told to stop.
pub(super) fn merge_once(index: &Index) -> Result<bool> {
    let _merging = index.merging.lock().unwrap_or_else(PoisonError::into_inner);
    let set = index.set();
    let entries: Vec<_> = set.runs.iter().map(|run| run.entry).collect();
    let Some(picked) = pick(&entries, &index.sizes, index.part_ms()) else {
        return Ok(false);
    };
    let inputs = &set.runs[picked];
    let Some(merged) = merge(index, inputs)? else {
        return Ok(false);
    };
    index.merges.fetch_add(1, Ordering::Relaxed);
    index
        .merged_ids
        .fetch_add(merged.entry.ids, Ordering::Relaxed);
    commit(index, inputs, merged)?;
    Ok(true)
}

/// The level of a run: 0 below four units, 1 below sixteen, and so on.
fn level(ids: u64, sizes: &RunSizes) -> u32 {
    (ids / sizes.young_ids_max).max(1).ilog(FAN_IN as u64)
}

/// Neighbours to merge: on the lowest level that has enough of them, with smaller ones between
/// them, the oldest that fit together by size and by time.
pub(super) fn pick(runs: &[RunEntry], sizes: &RunSizes, part_ms: i64) -> Option<Range<usize>> {
    let highest = level(sizes.run_ids_max, sizes);
    for bound in 0..=highest {
        let mut begin = 0;
        for row in
            runs.chunk_by(|a, b| (level(a.ids, sizes) <= bound) == (level(b.ids, sizes) <= bound))
        {
            let on_level = row
                .iter()
                .filter(|run| level(run.ids, sizes) == bound)
                .count();
            let found = if on_level >= FAN_IN {
                pick_in_row(row, bound, sizes, part_ms)
            } else {
                None
            };
            if let Some(found) = found {
                return Some(begin + found.start..begin + found.end);
            }
            begin += row.len();
        }
    }
    None
}

/// The oldest neighbours that fit together, two or more of them of the level itself: merging only
/// smaller ones would rewrite those again and again once the level is full of largest runs.
fn pick_in_row(
    row: &[RunEntry],
    bound: u32,
    sizes: &RunSizes,
    part_ms: i64,
) -> Option<Range<usize>> {
    for begin in 0..row.len() {
        let (mut ids, mut end) = (row[begin].ids, begin + 1);
        let (mut first_ms, mut last_ms) = (row[begin].first_ms, row[begin].last_ms);
        while end < row.len() && end - begin < FAN_IN {
            first_ms = first_ms.min(row[end].first_ms);
            last_ms = last_ms.max(row[end].last_ms);
            ids += row[end].ids;
            if ids > sizes.run_ids_max || last_ms.saturating_sub(first_ms) > part_ms {
                break;
            }
            end += 1;
        }
        let window = row[begin..end].iter();
        if window.filter(|run| level(run.ids, sizes) == bound).count() >= 2 {
            return Some(begin..end);
        }
    }
    None
}

/// Writes one run with the ids of all inputs; none when told to stop.
fn merge(index: &Index, inputs: &[Arc<Run>]) -> Result<Option<Run>> {
    let ids = inputs.iter().map(|run| run.entry.ids).sum();
    let mut writer = RunWriter::create(&index.dir, index.next_run(), ids)?;
    let mut readers = Vec::with_capacity(inputs.len());
    for run in inputs {
        readers.push(RunReader::new(run)?);
    }
    let mut count = 0u64;
    loop {
        let heads = readers.iter().enumerate();
        let heads = heads.filter_map(|(at, reader)| Some((reader.head()?, at)));
        let Some((hash, at)) = heads.min() else {
            break;
        };
        writer.push(hash)?;
        readers[at].advance()?;
        count += 1;
        if count.is_multiple_of(STOP_EVERY_IDS) && index.stopping.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
    let first_ms = inputs
        .iter()
        .map(|run| run.entry.first_ms)
        .min()
        .expect("at least two");
    let last_ms = inputs
        .iter()
        .map(|run| run.entry.last_ms)
        .max()
        .expect("at least two");
    Ok(Some(writer.finish(first_ms, last_ms)?))
}

/// Puts the merged run in the place of its inputs, in a batch of its own, then in the set.
///
/// A block's batch may drop one of the inputs at the same time: whichever comes first, the merged
/// run stays listed as long as one input is, with some ids that are beyond the window, which does
/// no harm.
fn commit(index: &Index, inputs: &[Arc<Run>], merged: Run) -> Result<()> {
    let changing = index.change();
    let set = index.set();
    let is_input = |run: &Arc<Run>| inputs.iter().any(|input| input.entry.id == run.entry.id);
    let Some(at) = set.runs.iter().position(is_input) else {
        return Ok(());
    };
    let mut batch = StateBatch::new();
    for input in inputs {
        unstage_run(index.config.keyspace, input.entry.id, &mut batch);
    }
    stage_run(index.config.keyspace, &merged.entry, &mut batch);
    // From here on it may be committed, also when the commit fails: the file has to stay.
    merged.keep();
    index.state.commit(batch)?;
    let mut runs: Vec<_> = set
        .runs
        .iter()
        .filter(|run| !is_input(run))
        .cloned()
        .collect();
    runs.insert(at, Arc::new(merged));
    index.show(
        Set {
            runs,
            ..(*set).clone()
        },
        &changing,
    );
    inputs.iter().for_each(|input| input.doom());
    Ok(())
}
