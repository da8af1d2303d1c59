//! The tables as a query sees them: files, and the types of the columns in SQL.

use std::path::PathBuf;

use arrow_schema::{DataType, Schema, TimeUnit};
use serde::Serialize;

use super::QueryError;
use crate::lake::Snapshot;
use crate::tables::{LOG_OFFSET, Table};

/// One table of a query: the files of a snapshot and the columns that the table has.
#[derive(Debug, Clone, Serialize)]
pub struct QueryTable {
    pub(super) files: Vec<String>,
    columns: Vec<QueryColumn>,
    equal_columns: bool,
    project_column: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_of: Option<LastOf>,
}

/// Which of a table's versions is the last.
#[derive(Debug, Clone, Serialize)]
struct LastOf {
    keys: [&'static str; 2],
    order: &'static str,
}

#[derive(Debug, Clone, Serialize)]
struct QueryColumn {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    shows: Option<&'static str>,
    #[serde(rename = "type")]
    sql_type: String,
}

impl QueryTable {
    /// A table of `schema` over `files`, which may be none. `project_column` names the
    /// column that a project's view is filtered by; without one no project sees the table.
    ///
    /// Fails where a path is not UTF-8 or a column has no type in SQL.
    pub fn new(
        files: &[PathBuf],
        schema: &Schema,
        project_column: Option<&str>,
    ) -> Result<QueryTable, QueryError> {
        let mut names = Vec::with_capacity(files.len());
        for file in files {
            // The child works in the data folder, not here.
            let file = std::path::absolute(file)?;
            let name = file.to_str().ok_or_else(|| {
                QueryError::Program(format!("the path {} is not UTF-8", file.display()))
            })?;
            names.push(name.to_string());
        }
        let mut columns = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let sql_type = sql_type(field.data_type()).ok_or_else(|| {
                QueryError::Program(format!("column {} has no type in SQL", field.name()))
            })?;
            columns.push(QueryColumn {
                name: field.name().clone(),
                shows: None,
                sql_type,
            });
        }
        Ok(QueryTable {
            files: names,
            columns,
            equal_columns: false,
            project_column: project_column.map(str::to_string),
            last_of: None,
        })
    }

    /// A table as a snapshot has it.
    pub fn of_snapshot(snapshot: &Snapshot, table: Table) -> Result<QueryTable, QueryError> {
        let listed = snapshot.files(table);
        let files: Vec<PathBuf> = listed
            .iter()
            .map(|file| file.path.as_ref().clone())
            .collect();
        let project = table.key_columns().project;
        let mut seen = QueryTable::new(&files, &table.schema(), Some(project))?;
        // Files of an earlier version lack columns; then every footer has to be read first.
        seen.equal_columns = listed
            .iter()
            .all(|file| file.entry.version == table.version());
        if table == Table::Events {
            seen.show_id_as_openpanel_does();
        }
        Ok(seen)
    }

    /// The last version of each id alone, of a table whose rows are versions.
    pub fn latest(mut self, table: Table) -> QueryTable {
        let key = table.key_columns();
        self.last_of = Some(LastOf {
            keys: [key.project, key.id],
            order: LOG_OFFSET,
        });
        self
    }

    /// Queries that were written for OpenPanel's tables call an event's id `id`.
    fn show_id_as_openpanel_does(&mut self) {
        self.columns.push(QueryColumn {
            name: "id".to_owned(),
            shows: Some(Table::Events.key_columns().id),
            sql_type: "VARCHAR".to_owned(),
        });
    }
}

/// DuckDB's type of what Parquet holds for an Arrow type.
fn sql_type(data_type: &DataType) -> Option<String> {
    let name = match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "UTINYINT",
        DataType::UInt16 => "USMALLINT",
        DataType::UInt32 => "UINTEGER",
        DataType::UInt64 => "UBIGINT",
        DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BLOB",
        DataType::Date32 => "DATE",
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP_NS",
        DataType::Timestamp(_, None) => "TIMESTAMP",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
        DataType::Dictionary(_, value) => return sql_type(value),
        DataType::List(item) | DataType::LargeList(item) => {
            return Some(format!("{}[]", sql_type(item.data_type())?));
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else {
                return None;
            };
            let key = sql_type(pair.first()?.data_type())?;
            let value = sql_type(pair.get(1)?.data_type())?;
            return Some(format!("MAP({key}, {value})"));
        }
        _ => return None,
    };
    Some(name.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::Field;

    use super::*;

    #[test]
    fn columns_get_the_types_that_duckdb_reads() {
        let utc = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        let pair = Field::new(
            "entries",
            DataType::Struct(
                vec![
                    Field::new("keys", DataType::Utf8, false),
                    Field::new("values", DataType::Utf8, true),
                ]
                .into(),
            ),
            false,
        );
        let cases = [
            (DataType::Utf8, Some("VARCHAR")),
            (DataType::UInt64, Some("UBIGINT")),
            (utc, Some("TIMESTAMP WITH TIME ZONE")),
            (
                DataType::Map(Arc::new(pair), false),
                Some("MAP(VARCHAR, VARCHAR)"),
            ),
            (
                DataType::List(Arc::new(Field::new("item", DataType::Int32, true))),
                Some("INTEGER[]"),
            ),
            (
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
                Some("VARCHAR"),
            ),
            (DataType::Float16, None),
        ];
        for (data_type, expected) in cases {
            assert_eq!(sql_type(&data_type).as_deref(), expected, "{data_type}");
        }
    }
}
