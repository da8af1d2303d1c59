//! Rows of one day with equal identity: found before the day is merged, in
//! bounded memory and exactly. The one with the least offset stays (X1); of
//! versions the one with the greatest.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;

use super::Shared;
use super::plan::Run;
use crate::error::{Result, StoreError};
use crate::table_reader::TableReader;
use crate::tables::{LOG_OFFSET, Table, TextRows};

/// Hashes looked at in one pass over the files: 32 MiB.
const HASHES_PER_PASS: u64 = 4 * 1024 * 1024;

/// Identities removed in one merge; what is beyond stays for the next one.
/// About 48 MiB.
const IDENTITIES_MAX: usize = 1_000_000;

/// The identities that stand more than once, and which of their rows stays.
#[derive(Default)]
pub(crate) struct Repeated {
    short: HashSet<u64>,
    kept_offset: HashMap<u128, i64>,
    /// Whether these are all there are.
    pub(crate) complete: bool,
}

impl Repeated {
    /// None are known: nothing is removed.
    pub(crate) fn none() -> Repeated {
        Repeated::default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.short.is_empty()
    }

    /// Whether a row is a repeat that goes.
    pub(crate) fn removes(&self, project: &str, source: &str, id: &str, offset: i64) -> bool {
        if !self.short.contains(&short_hash(project, source, id)) {
            return false;
        }
        let kept = self.kept_offset.get(&long_hash(project, source, id));
        kept.is_some_and(|kept| *kept != offset)
    }
}

/// Looks for identities that stand more than once in the runs.
pub(crate) fn find_repeated(shared: &Shared, table: Table, runs: &[Run]) -> Result<Repeated> {
    let rows: u64 = runs.iter().flatten().map(|file| file.entry.rows).sum();
    let passes = rows.div_ceil(HASHES_PER_PASS).max(1);
    let mut short: HashSet<u64> = HashSet::new();
    let mut complete = true;
    let mut hashes: Vec<u64> = Vec::new();
    for pass in 0..passes {
        hashes.clear();
        for_each_identity(shared, table, runs, |project, source, id, _| {
            let hash = short_hash(project, source, id);
            if hash % passes == pass {
                hashes.push(hash);
            }
        })?;
        hashes.sort_unstable();
        for pair in hashes.windows(2).filter(|pair| pair[0] == pair[1]) {
            complete &= short.len() < IDENTITIES_MAX;
            if complete {
                short.insert(pair[0]);
            }
        }
    }
    let mut kept_offset: HashMap<u128, i64> = HashMap::new();
    if !short.is_empty() {
        for_each_identity(shared, table, runs, |project, source, id, offset| {
            if short.contains(&short_hash(project, source, id)) {
                let kept = kept_offset
                    .entry(long_hash(project, source, id))
                    .or_insert(offset);
                *kept = match table.is_versioned() {
                    true => offset.max(*kept),
                    false => offset.min(*kept),
                };
            }
        })?;
    }
    // Two identities with one short hash are told apart by the long one.
    Ok(Repeated {
        short,
        kept_offset,
        complete,
    })
}

fn for_each_identity(
    shared: &Shared,
    table: Table,
    runs: &[Run],
    mut visit: impl FnMut(&str, &str, &str, i64),
) -> Result<()> {
    for file in runs.iter().flatten() {
        let mut reader = TableReader::open(table, &file.path, &identity_columns(table))?;
        while let Some(columns) = reader.next_columns(table)? {
            if shared.stopping.load(std::sync::atomic::Ordering::Acquire) {
                return Err(StoreError::Stopped);
            }
            let [projects, sources, ids] = [0, 1, 2].map(|index| TextRows::new(&columns[index]));
            let offsets = columns[3].as_primitive::<Int64Type>();
            for row in 0..ids.len() {
                let (project, source) = (projects.value(row), sources.value(row));
                visit(project, source, ids.value(row), offsets.value(row));
            }
        }
    }
    Ok(())
}

/// Project, source, event id and offset, as places in the table's columns.
pub(crate) fn identity_columns(table: Table) -> [usize; 4] {
    let key = table.key_columns();
    let names = [key.project, key.source, key.id, LOG_OFFSET];
    names.map(|name| {
        table
            .column_index(name)
            .expect("every table has its identity's columns")
    })
}

fn short_hash(project: &str, source: &str, id: &str) -> u64 {
    hash(0, project, source, id)
}

fn long_hash(project: &str, source: &str, id: &str) -> u128 {
    let high = hash(1, project, source, id);
    u128::from(high) << 64 | u128::from(hash(2, project, source, id))
}

/// Each part is led by its length, so that no two identities are the same bytes.
fn hash(lane: u8, project: &str, source: &str, id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u8(lane);
    for part in [project, source, id] {
        hasher.write_usize(part.len());
        hasher.write(part.as_bytes());
    }
    hasher.finish()
}
