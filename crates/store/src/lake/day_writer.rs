//! The files of one day under construction.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};

use super::Shared;
use super::entry::{FileEntry, LakeFile, Level, day_name};
use crate::error::{Result, arrow_error};
use crate::parquet_file::{BATCH_ROWS, FileKind, PendingFile, ROW_GROUP_ROWS_MAX};
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
        let bytes: usize = self.buffers.iter().map(|buffer| buffer.value_bytes()).sum();
        bytes >= BATCH_BYTES_MAX
    }

    fn encode(&mut self) -> Result<()> {
        if self.buffered == 0 {
            return Ok(());
        }
        let path = self.shared.path_of(self.table, &self.name());
        if self.file.is_none() {
            let kind = FileKind::Compacted {
                rows: ROW_GROUP_ROWS_MAX as u64,
            };
            self.file = Some(PendingFile::create(self.table, &path, kind)?);
        }
        let file = self.file.as_mut().expect("it was just made");
        let arrays = self
            .buffers
            .iter_mut()
            .map(|buffer| buffer.take())
            .collect();
        let batch = RecordBatch::try_new(self.table.schema(), arrays);
        file.write(&batch.map_err(arrow_error(&path))?)?;
        self.buffered = 0;
        self.unlooked = 0;
        Ok(())
    }

    /// Ends the file in hand, if there is one.
    pub(crate) fn finish(&mut self, files: &mut Vec<LakeFile>) -> Result<()> {
        self.encode()?;
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
            bytes: written.bytes,
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
