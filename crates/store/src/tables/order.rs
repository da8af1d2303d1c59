//! The order of a table's key: project, event time, event id; offset last, so
//! that equal keys keep the order of the log (I3).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::column::{ColumnBuffer, Label, Offset, Text, Time};

/// What most comparisons need, in one place: the rank of the project among the
/// block's projects, the time, and the first bytes of the id.
#[derive(Clone, Copy)]
struct SortKey {
    project_rank: u32,
    row: u32,
    time_ms: i64,
    id_prefix: u64,
}

impl SortKey {
    fn head(&self) -> (u32, i64, u64) {
        (self.project_rank, self.time_ms, self.id_prefix)
    }
}

/// The rows' numbers in the order of the key.
pub fn sorted_order(
    rows: usize,
    projects: &Label,
    times: &Time,
    ids: &Text,
    offsets: &Offset,
) -> Vec<u32> {
    let ranks = project_ranks(rows, projects);
    let mut keys: Vec<SortKey> = (0..rows)
        .map(|row| SortKey {
            project_rank: ranks[row],
            row: u32::try_from(row).expect("a block has fewer than 2^32 rows"),
            time_ms: times.row(row),
            id_prefix: id_prefix(ids.row(row)),
        })
        .collect();
    let compare = |left: &SortKey, right: &SortKey| -> Ordering {
        left.head().cmp(&right.head()).then_with(|| {
            let (left_row, right_row) = (left.row as usize, right.row as usize);
            let by_id = ids.row(left_row).cmp(ids.row(right_row));
            by_id.then_with(|| offsets.row(left_row).cmp(&offsets.row(right_row)))
        })
    };
    if !keys.is_sorted_by(|left, right| compare(left, right).is_le()) {
        keys.sort_unstable_by(compare);
    }
    keys.iter().map(|key| key.row).collect()
}

/// The first eight bytes of an id as a number that sorts as they do. A shorter
/// id is padded with zeros, so that a tie is decided by the whole id.
fn id_prefix(id: &[u8]) -> u64 {
    if let Some(first) = id.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded[..id.len()].copy_from_slice(id);
    u64::from_be_bytes(padded)
}

/// For each row the rank of its project among the block's, in byte order.
fn project_ranks(rows: usize, projects: &Label) -> Vec<u32> {
    let mut seen: BTreeMap<&[u8], u32> = BTreeMap::new();
    let mut numbers: Vec<u32> = Vec::with_capacity(rows);
    let mut last: Option<(&[u8], u32)> = None;
    debug_assert_eq!(projects.rows(), rows);
    for row in 0..rows {
        let project = projects.row(row);
        let number = match last {
            Some((name, number)) if name == project => number,
            _ => {
                let next = seen.len() as u32;
                *seen.entry(project).or_insert(next)
            }
        };
        last = Some((project, number));
        numbers.push(number);
    }
    let mut rank_of = vec![0; seen.len()];
    for (rank, number) in seen.values().enumerate() {
        rank_of[*number as usize] = rank as u32;
    }
    for number in &mut numbers {
        *number = rank_of[*number as usize];
    }
    numbers
}
