//! `lake files` and `lake check`: what the list says, and whether it is so.

use std::fs::File;
use std::path::Path;

use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;

use super::entry::{FileEntry, LakeFile, Level, day_name};
use super::{Lake, Snapshot};
use crate::error::{Result, StoreError, io_error, parquet_error};
use crate::table_reader::check_version;
use crate::tables::{LOG_OFFSET, Table};

/// One file as `lake files --json` shows it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FileInfo {
    /// The table.
    pub table: &'static str,
    /// Where it stands.
    pub path: String,
    /// Whether compaction has written it.
    pub compacted: bool,
    /// `block`, `part` or `day`.
    pub level: Level,
    /// The UTC day of its rows; null for a block.
    pub day: Option<String>,
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
    /// CRC32C of the bytes; null for a file of a build that took none.
    pub crc32c: Option<u32>,
    /// Least event time, RFC 3339 with milliseconds.
    pub time_min: String,
    /// Greatest event time, RFC 3339 with milliseconds.
    pub time_max: String,
    /// Least offset in the log.
    pub offset_min: i64,
    /// Greatest offset in the log.
    pub offset_max: i64,
    /// Version of the table's columns.
    pub table_version: u32,
}

/// What a check of all listed files found.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CheckReport {
    /// Files looked at.
    pub files: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files of a build that took no checksum: of them only length and structure are checked.
    pub without_checksum: u64,
    /// What is wrong, one line for each file; empty when all is well.
    pub problems: Vec<String>,
}

impl Snapshot {
    /// The exact list, by table and name.
    pub fn file_infos(&self) -> Vec<FileInfo> {
        let mut infos: Vec<FileInfo> = self.all().map(|file| info(file)).collect();
        infos.sort_by(|a, b| (a.table, &a.path).cmp(&(b.table, &b.path)));
        infos
    }

    /// Reads every file: it exists, holds the bytes listed (by length and
    /// checksum), is a table's file of a known version, and has the rows and
    /// offsets listed.
    pub fn check(&self) -> CheckReport {
        let mut report = CheckReport::default();
        for file in self.all() {
            report.files += 1;
            report.rows += file.entry.rows;
            report.bytes += file.entry.bytes;
            report.without_checksum += u64::from(file.entry.crc32c.is_none());
            if let Err(error) = check_file(file) {
                report.problems.push(error.to_string());
            }
        }
        report
    }
}

impl Lake {
    /// The exact list of this moment.
    pub fn lake_files(&self) -> Vec<FileInfo> {
        self.snapshot().file_infos()
    }

    /// Checks every file of this moment.
    pub fn check(&self) -> CheckReport {
        self.snapshot().check()
    }
}

fn info(file: &LakeFile) -> FileInfo {
    let entry: &FileEntry = &file.entry;
    FileInfo {
        table: file.table.name(),
        path: file.path.display().to_string(),
        compacted: entry.compacted(),
        level: entry.level,
        day: entry.day.map(day_name),
        rows: entry.rows,
        bytes: entry.bytes,
        crc32c: entry.crc32c,
        time_min: time_text(entry.time_min_ms),
        time_max: time_text(entry.time_max_ms),
        offset_min: entry.offset_min,
        offset_max: entry.offset_max,
        table_version: entry.version,
    }
}

fn time_text(time_ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(time_ms) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => String::new(),
    }
}

fn check_file(file: &LakeFile) -> Result<()> {
    let path: &Path = &file.path;
    file.entry.contents().check(path)?;
    let handle = File::open(path).map_err(io_error("open", path))?;
    let reader = SerializedFileReader::new(handle).map_err(parquet_error(path))?;
    let metadata = reader.metadata();
    check_version(file.table, path, metadata)?;
    let rows = metadata.file_metadata().num_rows() as u64;
    let offsets = offset_bounds(file.table, metadata);
    let (entry, mismatch) = (&file.entry, |reason: String| StoreError::Mismatch {
        path: path.to_owned(),
        reason,
    });
    if rows != entry.rows {
        return Err(mismatch(format!("{rows} rows, listed with {}", entry.rows)));
    }
    let listed = (entry.offset_min, entry.offset_max);
    if offsets != Some(listed) {
        let found = offsets.map_or("none".to_owned(), |(min, max)| format!("{min} to {max}"));
        let (min, max) = listed;
        return Err(mismatch(format!(
            "offsets {found}, listed with {min} to {max}"
        )));
    }
    Ok(())
}

/// Least and greatest offset by the file's own statistics.
fn offset_bounds(table: Table, metadata: &ParquetMetaData) -> Option<(i64, i64)> {
    let schema = metadata.file_metadata().schema_descr();
    let column = schema
        .columns()
        .iter()
        .position(|column| column.name() == LOG_OFFSET)?;
    debug_assert!(table.column_index(LOG_OFFSET).is_some());
    let mut bounds: Option<(i64, i64)> = None;
    for group in metadata.row_groups() {
        let Some(Statistics::Int64(of_group)) = group.column(column).statistics() else {
            return None;
        };
        let (min, max) = (*of_group.min_opt()?, *of_group.max_opt()?);
        bounds = Some(bounds.map_or((min, max), |(a, b)| (a.min(min), b.max(max))));
    }
    bounds
}
