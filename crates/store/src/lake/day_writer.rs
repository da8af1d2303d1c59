//! The files of one day under construction.

use std::sync::Arc;

use std::borrow::Cow;

use arrow_array::ArrayRef;

use super::Shared;
use super::entry::{FileEntry, LakeFile, Level, day_name};
use crate::error::Result;
use crate::parquet_file::{
    BATCH_ROWS, FileKind, PendingFile, ROW_GROUP_BYTES_MAX, ROW_GROUP_ROWS_MAX,
};
use crate::tables::{ColumnBuffer, RowBounds, Table};

/// Bytes of the rows that are gathered before they are encoded.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Rows between two looks at those bytes.
const ROWS_BETWEEN_LOOKS: usize = 256;

/// Takes one day's rows in order and writes them as one file, or several when
/// they are more than a file may hold.
pub(crate) struct DayWriter<'a> {
    shared: &'a Shared,
    table: Table,
    level: Level,
    run: u64,
    pub(crate) day: i32,
    buffers: Vec<Box<dyn ColumnBuffer>>,
    buffered: usize,
    unlooked: usize,
    /// Rows of the open row group.
    group_rows: usize,
    bounds: RowBounds,
    file: Option<PendingFile>,
    files: u32,
}

impl<'a> DayWriter<'a> {
    pub(crate) fn new(shared: &'a Shared, table: Table, level: Level, run: u64, day: i32) -> Self {
        DayWriter {
            shared,
            table,
            level,
            run,
            day,
            buffers: table
                .columns()
                .iter()
                .map(|column| (column.buffer)())
                .collect(),
            buffered: 0,
            unlooked: 0,
            group_rows: 0,
            bounds: RowBounds::EMPTY,
            file: None,
            files: 0,
        }
    }

    /// Appends rows of a batch from `start`, as many as there are times and
    /// offsets; files that became full are added to `files`.
    pub(crate) fn push(
        &mut self,
        columns: &[ArrayRef],
        start: usize,
        (times, offsets): (&[i64], &[i64]),
        files: &mut Vec<LakeFile>,
    ) -> Result<()> {
        for (buffer, column) in self.buffers.iter_mut().zip(columns) {
            buffer.push_run(column, start, times.len());
        }
        for (time_ms, offset) in times.iter().zip(offsets) {
            self.bounds.add(*time_ms, *offset);
        }
        self.buffered += times.len();
        self.unlooked += times.len();
        if self.is_full() {
            self.encode()?;
            let bytes = self.file.as_ref().map_or(0, PendingFile::bytes);
            if bytes >= self.shared.config.file_bytes_max {
                self.finish(files)?;
            }
        }
        Ok(())
    }

    fn is_full(&mut self) -> bool {
        if self.buffered >= BATCH_ROWS {
            return true;
        }
        if self.unlooked < ROWS_BETWEEN_LOOKS {
            return false;
        }
        self.unlooked = 0;
        let plain = self
            .buffers
            .iter()
            .filter(|buffer| buffer.dictionary().is_none());
        let bytes: usize = plain.map(|buffer| buffer.value_bytes()).sum();
        bytes >= BATCH_BYTES_MAX
    }

    /// Gives the plain columns' rows to the file; the codes stay until the row
    /// group ends.
    fn encode(&mut self) -> Result<()> {
        if self.buffered == 0 {
            return Ok(());
        }
        if self.file.is_none() {
            let path = self.shared.path_of(self.table, &self.name());
            self.file = Some(PendingFile::create(self.table, &path, FileKind::Compacted)?);
        }
        let file = self.file.as_mut().expect("it was just made");
        file.write_plain(|place| self.buffers[place].take())?;
        self.group_rows += self.buffered;
        self.buffered = 0;
        self.unlooked = 0;
        let values = self
            .buffers
            .iter()
            .map(|buffer| buffer.value_bytes())
            .sum::<usize>();
        let full = file.group_is_full() || values >= ROW_GROUP_BYTES_MAX;
        if self.group_rows >= ROW_GROUP_ROWS_MAX || full {
            self.end_group()?;
        }
        Ok(())
    }

    fn end_group(&mut self) -> Result<()> {
        let Some(file) = self.file.as_mut().filter(|_| self.group_rows > 0) else {
            return Ok(());
        };
        let buffers = &self.buffers;
        file.end_group(self.group_rows, |place| {
            let dictionary = buffers[place].dictionary().expect("a column of codes");
            (Cow::Borrowed(dictionary.codes()), dictionary)
        })?;
        self.buffers.iter_mut().for_each(|buffer| buffer.clear());
        self.group_rows = 0;
        Ok(())
    }

    /// Ends the file in hand, if there is one.
    pub(crate) fn finish(&mut self, files: &mut Vec<LakeFile>) -> Result<()> {
        self.encode()?;
        self.end_group()?;
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let written = file.finish()?;
        let name = self.name();
        let path = Arc::new(self.shared.path_of(self.table, &name));
        let entry = FileEntry {
            name,
            level: self.level,
            day: Some(self.day),
            run: self.run,
            rows: written.rows,
            bytes: written.contents.bytes,
            crc32c: written.contents.crc32c,
            time_min_ms: self.bounds.time_min_ms,
            time_max_ms: self.bounds.time_max_ms,
            offset_min: self.bounds.offset_min,
            offset_max: self.bounds.offset_max,
            version: self.table.version(),
        };
        files.push(LakeFile {
            table: self.table,
            entry,
            path,
        });
        self.bounds = RowBounds::EMPTY;
        self.files += 1;
        Ok(())
    }

    /// Never the name of another file: the run's number is used once.
    fn name(&self) -> String {
        let (day, run, file) = (day_name(self.day), self.run, self.files);
        format!("{day}-{run:012}-{file:04}.parquet")
    }
}
