//! Table files as batches: any version of the table, only the columns wanted.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, FieldRef, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::ParquetMetaData;

use crate::error::{Result, StoreError, arrow_error, io_error, parquet_error};
use crate::parquet_file::VERSION_KEY;
use crate::tables::Table;

/// Bytes of one batch of one file, about, as it lies in memory.
const BATCH_BYTES: u64 = 2 * 1024 * 1024;

/// Rows of one batch at most.
const BATCH_ROWS_MAX: u64 = 8_192;

/// Rows of one batch at least, however large they are.
const BATCH_ROWS_MIN: u64 = 16;

/// Reads a table's file batch by batch, in the file's order. Columns that an
/// older version lacks are at their zero value.
pub struct TableReader {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    columns: Vec<WantedColumn>,
    rows: u64,
}

/// A wanted column, and where it stands in what the file gives.
struct WantedColumn {
    table_index: usize,
    file_index: Option<usize>,
}

impl TableReader {
    /// Opens a file for the named columns of `table` (indexes into its list).
    ///
    /// # Errors
    /// When the file can't be read, is no file of this table, or is newer.
    pub fn open(table: Table, path: &Path, columns: &[usize]) -> Result<TableReader> {
        let file = File::open(path).map_err(io_error("open", path))?;
        let metadata = reader_metadata(table, &file, path)?;
        check_version(table, path, metadata.metadata())?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
        let file_metadata = builder.metadata().file_metadata();
        let rows = file_metadata.num_rows() as u64;
        let batch_rows = batch_rows(builder.metadata());
        let names: Vec<String> = builder
            .schema()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect();
        let name_of = |&column: &usize| table.columns()[column].name;
        let wanted: Vec<&str> = columns.iter().map(name_of).collect();
        let kept: Vec<usize> = (0..names.len())
            .filter(|&index| wanted.contains(&names[index].as_str()))
            .collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), kept.iter().copied());
        let columns = columns
            .iter()
            .map(|&table_index| {
                let name = table.columns()[table_index].name;
                let file_index = kept.iter().position(|&index| names[index] == name);
                WantedColumn {
                    table_index,
                    file_index,
                }
            })
            .collect();
        let reader = builder
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .build();
        let reader = reader.map_err(parquet_error(path))?;
        let reader = TableReader {
            path: path.to_owned(),
            reader,
            columns,
            rows,
        };
        reader.check_types(table)?;
        Ok(reader)
    }

    /// Opens a file for all columns of `table`.
    ///
    /// # Errors
    /// As [`TableReader::open`].
    pub fn open_all(table: Table, path: &Path) -> Result<TableReader> {
        let all: Vec<usize> = (0..table.columns().len()).collect();
        TableReader::open(table, path, &all)
    }

    /// Rows that the file says it has.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The next rows: the wanted columns, in the order asked for.
    ///
    /// # Errors
    /// When the file can't be read on.
    pub fn next_columns(&mut self, table: Table) -> Result<Option<Vec<ArrayRef>>> {
        let Some(batch) = self.reader.next() else {
            return Ok(None);
        };
        let batch: RecordBatch = batch.map_err(arrow_error(&self.path))?;
        let arrays = self.columns.iter().map(|column| match column.file_index {
            Some(index) => batch.column(index).clone(),
            None => zeros(table, column.table_index, batch.num_rows()),
        });
        Ok(Some(arrays.collect()))
    }

    fn check_types(&self, table: Table) -> Result<()> {
        use arrow_array::RecordBatchReader;
        let schema = self.reader.schema();
        for column in &self.columns {
            let Some(index) = column.file_index else {
                continue;
            };
            let spec = &table.columns()[column.table_index];
            let found = schema.field(index).data_type();
            if *found != spec.data_type {
                let reason = format!("column {} is {found}, not {}", spec.name, spec.data_type);
                return Err(StoreError::Mismatch {
                    path: self.path.clone(),
                    reason,
                });
            }
        }
        Ok(())
    }
}

/// The file's metadata, read so that columns of few values come as codes.
fn reader_metadata(table: Table, file: &File, path: &Path) -> Result<ArrowReaderMetadata> {
    let plain = ArrowReaderMetadata::load(file, ArrowReaderOptions::new());
    let plain = plain.map_err(parquet_error(path))?;
    let wanted = |field: &FieldRef| -> FieldRef {
        let place = table.column_index(field.name());
        let spec = place.map(|place| &table.columns()[place]);
        match spec {
            Some(spec) if spec.dictionary && *field.data_type() == DataType::Utf8 => Arc::new(
                field
                    .as_ref()
                    .clone()
                    .with_data_type(spec.data_type.clone()),
            ),
            _ => Arc::clone(field),
        }
    };
    let fields: Vec<FieldRef> = plain.schema().fields().iter().map(wanted).collect();
    let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(plain.metadata()), options);
    metadata.map_err(parquet_error(path))
}

/// Refuses a file that a later version of the table wrote.
pub(crate) fn check_version(table: Table, path: &Path, metadata: &ParquetMetaData) -> Result<()> {
    let pairs = metadata.file_metadata().key_value_metadata();
    let version = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == VERSION_KEY));
    let version = version
        .and_then(|pair| pair.value.as_deref())
        .and_then(|text| text.parse().ok());
    let Some(found) = version else {
        let reason = "it carries no table version".to_owned();
        return Err(StoreError::Mismatch {
            path: path.to_owned(),
            reason,
        });
    };
    let known = table.version();
    if found > known {
        let (path, table) = (path.to_owned(), table.name());
        return Err(StoreError::NewerTable {
            path,
            table,
            found,
            known,
        });
    }
    Ok(())
}

/// Rows per batch so that a batch stays near [`BATCH_BYTES`].
fn batch_rows(metadata: &ParquetMetaData) -> usize {
    let groups = metadata.row_groups();
    let bytes: i64 = groups.iter().map(|group| group.total_byte_size()).sum();
    let rows: i64 = groups.iter().map(|group| group.num_rows()).sum();
    let row_bytes = (bytes.max(1) as u64) / (rows.max(1) as u64);
    // What a dictionary saved on disk comes back in memory: assume 128 bytes.
    let rows = BATCH_BYTES / (row_bytes + 128);
    rows.clamp(BATCH_ROWS_MIN, BATCH_ROWS_MAX) as usize
}

fn zeros(table: Table, column: usize, rows: usize) -> ArrayRef {
    let mut buffer = (table.columns()[column].buffer)();
    for _ in 0..rows {
        buffer.push_zero();
    }
    let array = buffer.take();
    debug_assert_eq!(array.len(), rows);
    array
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::{RecordBatch, StringArray, UInt32Array};
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::KeyValue;
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::tables::TextRows;

    /// A file as an older version of the table may have written it: two
    /// columns of today's, one that is no more.
    fn older_file(path: &Path, version: &str) {
        let text = |values: [&str; 2]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
        let numbers: ArrayRef = Arc::new(UInt32Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter([
            ("gone", text(["x", "y"])),
            ("agent_id", text(["agent-1", "agent-2"])),
            ("schema_version", numbers),
        ])
        .unwrap();
        let version = KeyValue::new(VERSION_KEY.to_owned(), version.to_owned());
        let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![version]));
        let file = File::create(path).unwrap();
        let mut writer =
            ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    #[test]
    fn columns_that_an_older_file_lacks_are_zero() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.parquet");
        older_file(&path, "0");
        let table = Table::SecurityEvents;
        let mut reader = TableReader::open_all(table, &path).unwrap();
        let columns = reader.next_columns(table).unwrap().unwrap();
        assert_eq!(columns.len(), table.columns().len());
        let column = |name| &columns[table.column_index(name).unwrap()];
        let agents = TextRows::new(column("agent_id"));
        assert_eq!([agents.value(0), agents.value(1)], ["agent-1", "agent-2"]);
        let numbers = column("schema_version").as_primitive::<arrow_array::types::UInt32Type>();
        assert_eq!(numbers.values(), &[1, 2]);
        assert_eq!(TextRows::new(column("host_os")).value(1), "");
        let times = column("event_time");
        let times = times.as_primitive::<arrow_array::types::TimestampMillisecondType>();
        assert_eq!(times.values(), &[0, 0]);
        assert!(reader.next_columns(table).unwrap().is_none());
    }

    #[test]
    fn a_file_of_a_later_version_or_of_none_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new.parquet");
        older_file(&path, "2");
        let opened = TableReader::open_all(Table::SecurityEvents, &path).err();
        assert!(matches!(
            opened,
            Some(StoreError::NewerTable {
                found: 2,
                known: 1,
                ..
            })
        ));
        older_file(&path, "no number");
        let opened = TableReader::open_all(Table::SecurityEvents, &path).err();
        assert!(matches!(opened, Some(StoreError::Mismatch { .. })));
    }

    #[test]
    fn a_column_of_another_type_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("odd.parquet");
        let batch = RecordBatch::try_from_iter([(
            "agent_id",
            Arc::new(UInt32Array::from(vec![1])) as ArrayRef,
        )])
        .unwrap();
        let version = KeyValue::new(VERSION_KEY.to_owned(), "1".to_owned());
        let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![version]));
        let file = File::create(&path).unwrap();
        let mut writer =
            ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let opened = TableReader::open_all(Table::SecurityEvents, &path).err();
        assert!(matches!(opened, Some(StoreError::Mismatch { .. })));
    }
}
