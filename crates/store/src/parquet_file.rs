//! Parquet as the lake writes it: how each column is encoded, and files that
//! are written whole before they get their name (F4).

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::disk;
use crate::error::{Result, io_error, parquet_error};
use crate::tables::{EVENT_ID, EVENT_TIME, Table, TableBuilder};

/// Rows per row group: DuckDB's own unit of work is 122,880 rows, and a group
/// of this size costs a writer about 8 MiB while it is open.
pub const ROW_GROUP_ROWS_MAX: usize = 131_072;

/// Rows gathered at a time on their way to a file: the copy stays in the
/// processor's cache instead of doubling the block's memory.
pub const BATCH_ROWS: usize = 8_192;

/// Rows per data page: bounds what a merge of many files holds decoded.
const PAGE_ROWS_MAX: usize = 16_384;

/// Bytes gathered before a write: few calls, little memory.
const WRITE_BUFFER_BYTES: usize = 256 * 1024;

/// Share of ids not in a file for which its filter still says "maybe".
const BLOOM_FALSE_POSITIVES: f64 = 0.01;

/// Bytes kept of the least and greatest text of a column.
const STATISTICS_BYTES_MAX: usize = 64;

/// Key of the table's version in a file's metadata.
const VERSION_KEY: &str = "fulmar.table_version";

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// One block's rows; lives until compaction.
    Block,
    /// Rows of one day, kept until retention; about this many rows.
    Compacted {
        /// Rows expected, which sizes the filter on ids.
        rows: u64,
    },
}

/// How the columns of `table` are written.
pub fn writer_properties(table: Table, kind: FileKind) -> WriterProperties {
    let level = ZstdLevel::try_new(1).expect("level 1 exists");
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("fulmar ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(level))
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS_MAX))
        .set_data_page_row_count_limit(PAGE_ROWS_MAX)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_statistics_truncate_length(Some(STATISTICS_BYTES_MAX))
        .set_offset_index_disabled(false)
        .set_key_value_metadata(Some(vec![KeyValue::new(
            VERSION_KEY.to_owned(),
            table.version().to_string(),
        )]));
    for column in table.columns() {
        let path = ColumnPath::from(column.name);
        if column.dictionary {
            properties = properties.set_column_dictionary_enabled(path, true);
        } else if column.delta {
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    let time = ColumnPath::from(EVENT_TIME);
    properties = properties.set_column_statistics_enabled(time, EnabledStatistics::Page);
    if let FileKind::Compacted { rows } = kind {
        let id = ColumnPath::from(EVENT_ID);
        let distinct = rows.min(ROW_GROUP_ROWS_MAX as u64).max(1);
        properties = properties
            .set_column_bloom_filter_enabled(id.clone(), true)
            .set_column_bloom_filter_fpp(id.clone(), BLOOM_FALSE_POSITIVES)
            .set_column_bloom_filter_ndv(id, distinct);
    }
    properties.build()
}

/// A file under construction: it has a temporary name until [`PendingFile::finish`].
pub struct PendingFile {
    writer: ArrowWriter<DiskWriter>,
    path: PathBuf,
    temporary: PathBuf,
    rows: u64,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Rows in the file.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

impl PendingFile {
    /// Starts the file that will be named `path`.
    ///
    /// # Errors
    /// When the temporary file can't be made.
    pub fn create(table: Table, path: &Path, kind: FileKind) -> Result<PendingFile> {
        let temporary = temporary_path(path);
        let file = File::create(&temporary).map_err(io_error("create", &temporary))?;
        let options = ArrowWriterOptions::new()
            .with_properties(writer_properties(table, kind))
            // Parquet's own types say all there is to say about our columns.
            .with_skip_arrow_metadata(true);
        let sink = DiskWriter { file: Arc::new(file), buffer: Vec::new() };
        let writer = ArrowWriter::try_new_with_options(sink, table.schema(), options);
        let writer = writer.map_err(parquet_error(&temporary))?;
        Ok(PendingFile { writer, path: path.to_owned(), temporary, rows: 0 })
    }

    /// Appends rows; they must follow those before in the table's order.
    ///
    /// # Errors
    /// When they can't be encoded or written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        self.writer.write(batch).map_err(parquet_error(&self.temporary))
    }

    /// Bytes written so far, and those waiting in the open row group.
    pub fn bytes(&self) -> u64 {
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64
    }

    /// Rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Ends the file, syncs it, gives it its name and syncs the folder (F4).
    ///
    /// # Errors
    /// When any of these steps fails; the name is then not taken, or not for sure.
    pub fn finish(mut self) -> Result<Written> {
        self.writer.finish().map_err(parquet_error(&self.temporary))?;
        let bytes = self.writer.bytes_written() as u64;
        let sink = self.writer.inner_mut();
        sink.flush().map_err(io_error("write", &self.temporary))?;
        disk::sync_file(&sink.file).map_err(io_error("sync", &self.temporary))?;
        disk::rename(&self.temporary, &self.path).map_err(io_error("rename", &self.temporary))?;
        let folder = self.path.parent().expect("a table's file stands in the table's folder");
        disk::sync_dir(folder).map_err(io_error("sync", folder))?;
        Ok(Written { rows: self.rows, bytes })
    }
}

/// Writes a block's rows in the order of the table's key.
///
/// # Errors
/// When the file can't be written; nothing then has its name.
pub fn write_block(builder: &dyn TableBuilder, path: &Path) -> Result<Written> {
    let mut file = PendingFile::create(builder.table(), path, FileKind::Block)?;
    for rows in builder.sorted_order().chunks(BATCH_ROWS) {
        file.write(&builder.batch(rows))?;
    }
    file.finish()
}

/// The name that a file has until it is whole. Recognised at open and removed.
pub fn temporary_path(path: &Path) -> PathBuf {
    path.with_extension(TEMPORARY_EXTENSION)
}

/// Extension of files that are not whole.
pub const TEMPORARY_EXTENSION: &str = "tmp";

/// A file behind the fault hooks, written in large pieces.
struct DiskWriter {
    file: Arc<File>,
    buffer: Vec<u8>,
}

impl Write for DiskWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_BUFFER_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        disk::append(&self.file, &self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
