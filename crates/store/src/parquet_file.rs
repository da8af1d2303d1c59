//! Parquet as the lake writes it: how each column is encoded, and files that
//! are written whole before they get their name (F4).

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use fulmar_log::disk::{self, Output};

use crate::error::{Result, io_error, parquet_error};
use crate::tables::{EVENT_ID, EVENT_TIME, Table, TableBuilder};

/// Rows per row group: DuckDB's own unit of work is 122,880 rows, and a group
/// of this size costs a writer about 8 MiB while it is open.
pub const ROW_GROUP_ROWS_MAX: usize = 131_072;

/// Bytes of an open row group, compressed: what a writer of large payloads holds.
const ROW_GROUP_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Rows between two looks at a page's size: 512 payloads of the largest kind
/// (64 KiB) are 32 MiB.
const WRITE_BATCH_ROWS: usize = 512;

/// Rows gathered at a time on their way to a file: the copy stays in the
/// processor's cache instead of doubling the block's memory.
pub const BATCH_ROWS: usize = 8_192;

/// Rows per data page: bounds what a merge of many files holds decoded.
const PAGE_ROWS_MAX: usize = 8_192;

/// Bytes gathered before a write: few calls, little memory.
const WRITE_BUFFER_BYTES: usize = 256 * 1024;

/// Share of ids not in a file for which its filter still says "maybe".
const BLOOM_FALSE_POSITIVES: f64 = 0.01;

/// Bytes kept of the least and greatest text of a column.
const STATISTICS_BYTES_MAX: usize = 64;

/// Key of the table's version in a file's metadata.
pub(crate) const VERSION_KEY: &str = "fulmar.table_version";

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
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES_MAX))
        .set_data_page_row_count_limit(PAGE_ROWS_MAX)
        .set_write_batch_size(WRITE_BATCH_ROWS)
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

/// A file under construction: it has a temporary name until [`PendingFile::finish`],
/// and goes when it is dropped before.
pub struct PendingFile {
    writer: Option<ArrowWriter<BufWriter<Output>>>,
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
        let output = Output::create(&temporary).map_err(io_error("create", &temporary))?;
        let options = ArrowWriterOptions::new()
            .with_properties(writer_properties(table, kind))
            // Parquet's own types say all there is to say about our columns.
            .with_skip_arrow_metadata(true);
        let sink = BufWriter::with_capacity(WRITE_BUFFER_BYTES, output);
        let writer = ArrowWriter::try_new_with_options(sink, table.schema(), options);
        let writer = Some(writer.map_err(parquet_error(&temporary))?);
        Ok(PendingFile {
            writer,
            path: path.to_owned(),
            temporary,
            rows: 0,
        })
    }

    /// Appends rows; they must follow those before in the table's order.
    ///
    /// # Errors
    /// When they can't be encoded or written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        let writer = self.writer.as_mut().expect("only finish takes the writer");
        writer.write(batch).map_err(parquet_error(&self.temporary))
    }

    /// Bytes written so far, and those waiting in the open row group.
    pub fn bytes(&self) -> u64 {
        let writer = self.writer.as_ref().expect("only finish takes the writer");
        (writer.bytes_written() + writer.in_progress_size()) as u64
    }

    /// Ends the file, syncs it, gives it its name and syncs the folder (F4).
    ///
    /// # Errors
    /// When any of these steps fails; the name is then not taken, or not for sure.
    pub fn finish(mut self) -> Result<Written> {
        let writer = self.writer.take().expect("only finish takes the writer");
        let (path, temporary) = (&self.path, &self.temporary);
        let written = close(writer, temporary, self.rows);
        if written.is_err() {
            remove_temporary(temporary);
        }
        let written = written?;
        disk::rename(temporary, path).map_err(io_error("rename", temporary))?;
        disk::sync_parent(path).map_err(io_error("sync the folder of", path))?;
        Ok(written)
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            remove_temporary(&self.temporary);
        }
    }
}

fn close(writer: ArrowWriter<BufWriter<Output>>, temporary: &Path, rows: u64) -> Result<Written> {
    let sink = writer.into_inner().map_err(parquet_error(temporary))?;
    let output = sink.into_inner().map_err(|error| error.into_error());
    let output = output.map_err(io_error("write", temporary))?;
    let bytes = output.len_bytes();
    output.finish().map_err(io_error("sync", temporary))?;
    Ok(Written { rows, bytes })
}

/// What stays all the same is removed when the lake is opened.
fn remove_temporary(temporary: &Path) {
    let _ = disk::unlink(temporary);
}

/// Writes the rows that `order` names, which is the order of the table's key.
///
/// # Errors
/// When the file can't be written; nothing then has its name.
pub fn write_block(rows: &dyn TableBuilder, order: &[u32], path: &Path) -> Result<Written> {
    let mut file = PendingFile::create(rows.table(), path, FileKind::Block)?;
    for part in order.chunks(BATCH_ROWS) {
        file.write(&rows.batch(part))?;
    }
    file.finish()
}

/// The name that a file has until it is whole. Recognised at open and removed.
pub fn temporary_path(path: &Path) -> PathBuf {
    path.with_extension(TEMPORARY_EXTENSION)
}

/// Extension of files that are not whole.
pub const TEMPORARY_EXTENSION: &str = "tmp";
