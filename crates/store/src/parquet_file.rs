//! Parquet as the lake writes it: how each column is encoded, and files that
//! are written whole before they get their name (F4).

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulmar_log::disk::{self, Output};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::checksum::{Checked, Contents};
use crate::error::{Result, io_error, parquet_error};
use crate::parquet_codes::{defect, encode_chunk};
use crate::tables::{ColumnBuffer, DictionaryBuffer, Table, TableBuilder};

/// Rows per row group: DuckDB's own unit of work is 122,880 rows, and a group
/// of this size costs a writer about 16 MiB while it is open.
pub const ROW_GROUP_ROWS_MAX: usize = 131_072;

/// Bytes of an open row group, compressed: what a writer of large payloads holds.
pub(crate) const ROW_GROUP_BYTES_MAX: usize = 32 * 1024 * 1024;

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
pub(crate) const STATISTICS_BYTES_MAX: usize = 64;

/// The cheapest level: higher ones cost more than half of the writer for a
/// tenth of the size.
pub(crate) const ZSTD_LEVEL: i32 = 1;

/// Key of the table's version in a file's metadata.
pub(crate) const VERSION_KEY: &str = "fulmar.table_version";

/// Extension of files that are not whole.
pub const TEMPORARY_EXTENSION: &str = "tmp";

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// One block's rows; lives until compaction.
    Block,
    /// Rows of one day, kept until retention: with a filter on ids.
    Compacted,
}

/// How the columns of `table` are written.
pub fn writer_properties(table: Table, kind: FileKind) -> WriterProperties {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).expect("level 1 exists");
    let version = KeyValue::new(VERSION_KEY.to_owned(), table.version().to_string());
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("fulmar ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(level))
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(PAGE_ROWS_MAX)
        .set_write_batch_size(WRITE_BATCH_ROWS)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_statistics_truncate_length(Some(STATISTICS_BYTES_MAX))
        // Readers go by row group; the columns of codes have one page each.
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(vec![version]));
    for column in table.columns() {
        let path = ColumnPath::from(column.name);
        if column.delta {
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        } else if !column.statistics {
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
        }
    }
    if kind == FileKind::Compacted {
        let id = ColumnPath::from(table.key_columns().id);
        properties = properties
            .set_column_bloom_filter_enabled(id.clone(), true)
            .set_column_bloom_filter_fpp(id.clone(), BLOOM_FALSE_POSITIVES)
            .set_column_bloom_filter_ndv(id, ROW_GROUP_ROWS_MAX as u64);
    }
    properties.build()
}

type Sink = BufWriter<Checked<Output>>;

/// A file under construction: it has a temporary name until [`PendingFile::finish`],
/// and goes when it is dropped before.
///
/// Rows come a batch at a time for the plain columns, and once per row group
/// for the columns of codes, which hold little.
pub struct PendingFile {
    table: Table,
    writer: Option<SerializedFileWriter<Sink>>,
    factory: ArrowRowGroupWriterFactory,
    /// Of the open row group, one a column; those of codes stay unused.
    columns: Vec<ArrowColumnWriter>,
    path: PathBuf,
    temporary: PathBuf,
    rows: u64,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Rows in the file.
    pub rows: u64,
    /// Its bytes.
    pub contents: Contents,
}

impl PendingFile {
    /// Starts the file that will be named `path`.
    ///
    /// # Errors
    /// When the temporary file can't be made.
    pub fn create(table: Table, path: &Path, kind: FileKind) -> Result<PendingFile> {
        let temporary = temporary_path(path);
        let output = Output::create(&temporary).map_err(io_error("create", &temporary))?;
        let sink = BufWriter::with_capacity(WRITE_BUFFER_BYTES, Checked::new(output));
        // Parquet's own types say all there is to say about our columns, so
        // that no Arrow schema stands in the file.
        let schema = ArrowSchemaConverter::new().convert(&table.schema());
        let schema = schema.map_err(parquet_error(&temporary))?.root_schema_ptr();
        let properties = Arc::new(writer_properties(table, kind));
        let writer = SerializedFileWriter::new(sink, schema, properties);
        let writer = writer.map_err(parquet_error(&temporary))?;
        let factory = ArrowRowGroupWriterFactory::new(&writer, table.schema());
        Ok(PendingFile {
            table,
            writer: Some(writer),
            factory,
            columns: Vec::new(),
            path: path.to_owned(),
            temporary,
            rows: 0,
        })
    }

    /// Appends rows to the plain columns: `array` gives each its values, by the
    /// column's place. They must follow those before in the table's order.
    ///
    /// # Errors
    /// When they can't be encoded.
    pub fn write_plain(
        &mut self,
        mut array: impl FnMut(usize) -> arrow_array::ArrayRef,
    ) -> Result<()> {
        self.plain(|table, columns| {
            let schema = table.schema();
            for (place, (spec, of_file)) in
                table.columns().iter().zip(table.file_columns()).enumerate()
            {
                if spec.dictionary {
                    continue;
                }
                let leaves = compute_leaves(schema.field(place), &array(place))?;
                for (column, leaf) in columns[of_file].iter_mut().zip(&leaves) {
                    column.write(leaf)?;
                }
            }
            Ok(())
        })
    }

    fn plain(
        &mut self,
        write: impl FnOnce(Table, &mut [ArrowColumnWriter]) -> parquet::errors::Result<()>,
    ) -> Result<()> {
        if self.columns.is_empty() {
            let group = self.writer().flushed_row_groups().len();
            let columns = self.factory.create_column_writers(group);
            self.columns = columns.map_err(parquet_error(&self.temporary))?;
        }
        write(self.table, &mut self.columns).map_err(parquet_error(&self.temporary))
    }

    /// Whether the open row group holds as many bytes as it may.
    pub fn group_is_full(&self) -> bool {
        self.group_bytes() >= ROW_GROUP_BYTES_MAX
    }

    fn group_bytes(&self) -> usize {
        self.columns
            .iter()
            .map(ArrowColumnWriter::get_estimated_total_bytes)
            .sum()
    }

    /// Ends the row group: `codes` gives the columns of codes, by place, the
    /// codes of all rows of the group.
    ///
    /// # Errors
    /// When it can't be encoded or written.
    pub fn end_group<'a>(
        &mut self,
        rows: usize,
        mut codes: impl FnMut(usize) -> (std::borrow::Cow<'a, [i32]>, &'a DictionaryBuffer),
    ) -> Result<()> {
        let columns = std::mem::take(&mut self.columns);
        let writer = self.writer.as_mut().expect("only finish takes the writer");
        let end = || -> parquet::errors::Result<()> {
            let schema = Arc::new(writer.schema_descr().clone());
            let mut group = writer.next_row_group()?;
            let mut columns = columns.into_iter();
            for (place, of_file) in self.table.file_columns().enumerate() {
                let plain = columns.by_ref().take(of_file.len());
                if !self.table.columns()[place].dictionary {
                    for column in plain {
                        column.close()?.append_to_row_group(&mut group)?;
                    }
                    continue;
                }
                // Its writer goes unused.
                plain.for_each(drop);
                let (codes, dictionary) = codes(place);
                if codes.len() != rows {
                    return Err(defect("a column of codes has not the group's rows"));
                }
                let column = schema.column(of_file.start);
                let (bytes, close) = encode_chunk(&codes, dictionary, &column)?;
                group.append_column(&bytes, close)?;
            }
            group.close()?;
            Ok(())
        };
        end().map_err(parquet_error(&self.temporary))?;
        self.rows += rows as u64;
        Ok(())
    }

    fn writer(&self) -> &SerializedFileWriter<Sink> {
        self.writer.as_ref().expect("only finish takes the writer")
    }

    /// Bytes written so far, and those waiting in the open row group.
    pub fn bytes(&self) -> u64 {
        (self.writer().bytes_written() + self.group_bytes()) as u64
    }

    /// Ends the file, syncs it, gives it its name and syncs the folder (F4).
    ///
    /// # Errors
    /// When any of these steps fails; the name is then not taken, or not for sure.
    pub fn finish(mut self) -> Result<Written> {
        let writer = self.writer.take().expect("only finish takes the writer");
        let (path, temporary) = (&self.path, &self.temporary);
        let contents = close(writer, temporary);
        if contents.is_err() {
            remove_temporary(temporary);
        }
        let written = Written {
            rows: self.rows,
            contents: contents?,
        };
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

/// The file's footer and sync.
fn close(writer: SerializedFileWriter<Sink>, temporary: &Path) -> Result<Contents> {
    let sink = writer.into_inner().map_err(parquet_error(temporary))?;
    let output = sink.into_inner().map_err(|error| error.into_error());
    let (output, crc32c) = output.map_err(io_error("write", temporary))?.into_parts();
    let bytes = output.len_bytes();
    output.finish().map_err(io_error("sync", temporary))?;
    Ok(Contents {
        bytes,
        crc32c: Some(crc32c),
    })
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
    let buffers: Vec<&dyn ColumnBuffer> = rows.buffers();
    let mut group_start = 0;
    let mut at = 0;
    while at < order.len() {
        let end = (at + BATCH_ROWS).min(order.len());
        file.write_plain(|place| buffers[place].gather(&order[at..end]))?;
        at = end;
        let group = &order[group_start..end];
        if end == order.len() || group.len() >= ROW_GROUP_ROWS_MAX || file.group_is_full() {
            file.end_group(group.len(), |place| {
                let dictionary = buffers[place].dictionary().expect("a column of codes");
                let codes = dictionary.codes();
                let of_group = group.iter().map(|&row| codes[row as usize]).collect();
                (std::borrow::Cow::Owned(of_group), dictionary)
            })?;
            group_start = end;
        }
    }
    file.finish()
}

/// The name that a file has until it is whole. Recognised at open and removed.
pub fn temporary_path(path: &Path) -> PathBuf {
    path.with_extension(TEMPORARY_EXTENSION)
}
