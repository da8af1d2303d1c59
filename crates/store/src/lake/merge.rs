//! Sorted runs into sorted files of one day each, in bounded memory.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, StringArray};
use arrow_buffer::ScalarBuffer;

use super::Shared;
use super::day_writer::DayWriter;
use super::entry::{LakeFile, Level, day_of};
use super::forget::ForgottenRows;
use super::plan::Run;
use super::repeats::Repeated;
use crate::error::{Result, StoreError};
use crate::parquet_file::ROW_GROUP_ROWS_MAX;
use crate::table_reader::TableReader;
use crate::tables::{LOG_OFFSET, Table, TextRows};

/// Rows of the row groups that are open in one pass over the inputs, about 16
/// MiB each when full: what days are written at once follows from it.
const OPEN_ROWS_MAX: u64 = 4 * ROW_GROUP_ROWS_MAX as u64;

/// Files that are open in one pass, however few rows their days have.
const DAYS_AT_ONCE_MAX: usize = 128;

/// Which rows a merge does not write.
pub(crate) enum LeftOut<'a> {
    /// Repeats of others.
    Repeats(&'a Repeated),
    /// What operators had forgotten.
    Forgotten(&'a ForgottenRows),
}

impl LeftOut<'_> {
    fn is_empty(&self) -> bool {
        matches!(self, LeftOut::Repeats(repeated) if repeated.is_empty())
    }
}

/// What a merge wrote.
pub(crate) struct Merged {
    pub(crate) files: Vec<LakeFile>,
    /// Rows left out.
    pub(crate) removed: u64,
    /// Of them, those with a source: of records, not of folds, but in tables of versions.
    pub(crate) removed_of_records: u64,
}

/// Merges `runs` into files of `level`, without the rows that are left out.
/// On an error nothing of the output stays.
pub(crate) fn merge(
    shared: &Shared,
    table: Table,
    runs: &[Run],
    level: Level,
    left_out: &LeftOut<'_>,
) -> Result<Merged> {
    let run = shared.sequence.fetch_add(1, Ordering::Relaxed);
    let days = days_of(shared, table, runs)?;
    let mut merged = Merged {
        files: Vec::new(),
        removed: 0,
        removed_of_records: 0,
    };
    for group in groups(&days) {
        let writers = group
            .iter()
            .map(|&(day, _)| DayWriter::new(shared, table, level, run, day));
        let mut output = Output {
            writers: writers.collect(),
            left_out,
            removed: 0,
            removed_of_records: 0,
        };
        if let Err(error) = merge_pass(shared, table, runs, &mut output, &mut merged.files) {
            remove_all(&merged.files);
            return Err(error);
        }
        merged.removed += output.removed;
        merged.removed_of_records += output.removed_of_records;
    }
    Ok(merged)
}

/// Best effort: what stays is in no list, and goes when the lake is opened.
fn remove_all(files: &[LakeFile]) {
    for file in files {
        let _ = fulmar_log::disk::unlink(&file.path);
    }
}

/// The days that the runs' rows are of, ascending, with how many rows each has
/// at most.
fn days_of(shared: &Shared, table: Table, runs: &[Run]) -> Result<Vec<(i32, u64)>> {
    let mut days: BTreeMap<i32, u64> = BTreeMap::new();
    let time = table.column_index(table.key_columns().time);
    let time = time.expect("every table has its key's columns");
    for file in runs.iter().flatten() {
        let entry = &file.entry;
        let (first, last) = (day_of(entry.time_min_ms), day_of(entry.time_max_ms));
        if last - first < 2 {
            (first..=last).for_each(|day| *days.entry(day).or_default() += entry.rows);
            continue;
        }
        let mut reader = TableReader::open(table, &file.path, &[time])?;
        while let Some(columns) = reader.next_columns(table)? {
            shared.check_stop()?;
            let times = columns[0].as_primitive::<TimestampMillisecondType>();
            for &time_ms in times.values() {
                *days.entry(day_of(time_ms)).or_default() += 1;
            }
        }
    }
    Ok(days.into_iter().collect())
}

/// The days in groups that are written in one pass each.
fn groups(days: &[(i32, u64)]) -> Vec<&[(i32, u64)]> {
    let mut groups = Vec::new();
    let (mut start, mut open_rows) = (0, 0);
    for (at, (_, rows)) in days.iter().enumerate() {
        open_rows += rows.min(&(ROW_GROUP_ROWS_MAX as u64));
        if at > start && (open_rows > OPEN_ROWS_MAX || at - start == DAYS_AT_ONCE_MAX) {
            groups.push(&days[start..at]);
            start = at;
            open_rows = *rows.min(&(ROW_GROUP_ROWS_MAX as u64));
        }
    }
    if start < days.len() {
        groups.push(&days[start..]);
    }
    groups
}

fn merge_pass(
    shared: &Shared,
    table: Table,
    runs: &[Run],
    output: &mut Output<'_>,
    files: &mut Vec<LakeFile>,
) -> Result<()> {
    let mut cursors = Vec::with_capacity(runs.len());
    for run in runs {
        let mut cursor = Cursor::new(table, run);
        if cursor.next_batch()? {
            cursors.push(cursor);
        }
    }
    // Places of the cursors by their current key, the least last.
    let mut queue: Vec<usize> = (0..cursors.len()).collect();
    queue.sort_by(|&a, &b| cursors[b].key().cmp(&cursors[a].key()));
    while let Some(least) = queue.pop() {
        let limit = queue.last().map(|&next| cursors[next].key());
        let end = cursors[least].end_of_run(limit);
        output.push(&cursors[least], end, files)?;
        cursors[least].at = end;
        if end == cursors[least].rows {
            shared.check_stop()?;
            if !cursors[least].next_batch()? {
                continue;
            }
        }
        let key = cursors[least].key();
        let place = queue.partition_point(|&other| cursors[other].key() > key);
        queue.insert(place, least);
    }
    for writer in &mut output.writers {
        writer.finish(files)?;
    }
    Ok(())
}

impl Shared {
    pub(crate) fn check_stop(&self) -> Result<()> {
        match self.stopping.load(Ordering::Acquire) {
            true => Err(StoreError::Stopped),
            false => Ok(()),
        }
    }
}

/// The order of a table: project, event time, event id; then the log's.
type Key<'a> = (&'a str, i64, &'a str, i64);

/// A place in a run.
struct Cursor {
    table: Table,
    waiting: VecDeque<Arc<PathBuf>>,
    reader: Option<TableReader>,
    columns: Vec<ArrayRef>,
    places: KeyPlaces,
    projects: TextRows,
    sources: TextRows,
    /// Whose a row is, in a table that tells.
    whose: TextRows,
    ids: TextRows,
    times: ScalarBuffer<i64>,
    offsets: ScalarBuffer<i64>,
    at: usize,
    rows: usize,
}

/// Where the columns of key and identity stand.
#[derive(Clone, Copy)]
struct KeyPlaces {
    project: usize,
    source: usize,
    whose: usize,
    id: usize,
    time: usize,
    offset: usize,
}

impl Cursor {
    fn new(table: Table, run: &[Arc<LakeFile>]) -> Cursor {
        let place = |name| {
            table
                .column_index(name)
                .expect("every table has its key's columns")
        };
        let key = table.key_columns();
        let none: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
        let empty = || TextRows::new(&none);
        Cursor {
            table,
            waiting: run.iter().map(|file| Arc::clone(&file.path)).collect(),
            reader: None,
            columns: Vec::new(),
            places: KeyPlaces {
                project: place(key.project),
                source: place(key.source),
                whose: place(table.whose().unwrap_or(key.project)),
                id: place(key.id),
                time: place(key.time),
                offset: place(LOG_OFFSET),
            },
            projects: empty(),
            sources: empty(),
            whose: empty(),
            ids: empty(),
            times: ScalarBuffer::from(Vec::new()),
            offsets: ScalarBuffer::from(Vec::new()),
            at: 0,
            rows: 0,
        }
    }

    /// Goes to the next rows; false at the end of the run.
    fn next_batch(&mut self) -> Result<bool> {
        loop {
            if let Some(reader) = &mut self.reader
                && let Some(columns) = reader.next_columns(self.table)?
            {
                self.take(columns);
                if self.rows > 0 {
                    return Ok(true);
                }
                continue;
            }
            let Some(path) = self.waiting.pop_front() else {
                self.reader = None;
                return Ok(false);
            };
            self.reader = Some(TableReader::open_all(self.table, &path)?);
        }
    }

    fn take(&mut self, columns: Vec<ArrayRef>) {
        let places = self.places;
        self.projects = TextRows::new(&columns[places.project]);
        self.sources = TextRows::new(&columns[places.source]);
        self.whose = TextRows::new(&columns[places.whose]);
        self.ids = TextRows::new(&columns[places.id]);
        let times = columns[places.time].as_primitive::<TimestampMillisecondType>();
        self.times = times.values().clone();
        let offsets = columns[places.offset].as_primitive::<Int64Type>();
        self.offsets = offsets.values().clone();
        self.rows = self.ids.len();
        self.at = 0;
        self.columns = columns;
    }

    fn key(&self) -> Key<'_> {
        self.key_at(self.at)
    }

    fn key_at(&self, row: usize) -> Key<'_> {
        let (project, id) = (self.projects.value(row), self.ids.value(row));
        (project, self.times[row], id, self.offsets[row])
    }

    /// The end of the rows that come before `limit`. Blocks follow each other
    /// in time, so that mostly many rows are taken at once.
    fn end_of_run(&self, limit: Option<Key<'_>>) -> usize {
        let Some(limit) = limit else { return self.rows };
        if self.key_at(self.rows - 1) <= limit {
            return self.rows;
        }
        let mut end = self.at + 1;
        while self.key_at(end) <= limit {
            end += 1;
        }
        end
    }
}

/// Where merged rows go.
struct Output<'a> {
    /// By day, ascending.
    writers: Vec<DayWriter<'a>>,
    left_out: &'a LeftOut<'a>,
    removed: u64,
    removed_of_records: u64,
}

impl Output<'_> {
    /// Takes the rows from the cursor's place to `end`.
    fn push(&mut self, from: &Cursor, end: usize, files: &mut Vec<LakeFile>) -> Result<()> {
        let mut start = from.at;
        while start < end {
            let day = day_of(from.times[start]);
            let removed = self.removes(from, start);
            let mut stop = start + 1;
            while stop < end && day_of(from.times[stop]) == day && !removed {
                if self.removes(from, stop) {
                    break;
                }
                stop += 1;
            }
            let place = self.writers.binary_search_by_key(&day, |writer| writer.day);
            if let Ok(place) = place {
                let writer = &mut self.writers[place];
                if removed {
                    self.removed += 1;
                    let of_record = !from.sources.value(start).is_empty();
                    self.removed_of_records += u64::from(of_record);
                } else {
                    let bounds = (&from.times[start..stop], &from.offsets[start..stop]);
                    writer.push(&from.columns, start, bounds, files)?;
                }
            }
            start = stop;
        }
        Ok(())
    }

    fn removes(&self, from: &Cursor, row: usize) -> bool {
        if self.left_out.is_empty() {
            return false;
        }
        let (project, offset) = (from.projects.value(row), from.offsets[row]);
        match self.left_out {
            LeftOut::Repeats(repeated) => {
                let (source, id) = (from.sources.value(row), from.ids.value(row));
                repeated.removes(project, source, id, offset)
            }
            LeftOut::Forgotten(rows) => rows.removes(project, from.whose.value(row), offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_written_as_many_at_once_as_memory_allows() {
        let lengths = |days: &[(i32, u64)]| -> Vec<usize> {
            groups(days).iter().map(|group| group.len()).collect()
        };
        let full = ROW_GROUP_ROWS_MAX as u64;
        let days: Vec<(i32, u64)> = (0..9).map(|day| (day, full * 3)).collect();
        assert_eq!(lengths(&days), [4, 4, 1]);
        let days: Vec<(i32, u64)> = (0..300).map(|day| (day, 1)).collect();
        assert_eq!(lengths(&days), [128, 128, 44]);
        assert_eq!(lengths(&[]), Vec::<usize>::new());
    }
}
