//! The tables as a query sees them: files, and the types of the columns in SQL.

use std::path::PathBuf;

use arrow_schema::{DataType, Schema, TimeUnit};
use serde::Serialize;

use super::QueryError;
use crate::lake::Snapshot;
use crate::tables::{LOG_OFFSET, SESSION_PROFILE, Table};

/// One table of a query: the files of a snapshot and the columns that the table has.
#[derive(Debug, Clone, Serialize)]
pub struct QueryTable {
    pub(super) files: Vec<String>,
    columns: Vec<QueryColumn>,
    equal_columns: bool,
    project_column: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_of: Option<LastOf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<Hidden>,
}

/// Rows that are still in files and not to be seen.
#[derive(Debug, Clone, Serialize)]
struct Hidden {
    rows: Vec<HiddenRows>,
    order: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    whose_column: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    told_by: Option<ToldBy>,
}

/// A project's rows from before an offset, or those of one whose they are.
#[derive(Debug, Clone, Serialize)]
struct HiddenRows {
    project: String,
    whose: Option<String>,
    before: u64,
}

/// Another table, which tells whose the rows are that `whose_column` names.
#[derive(Debug, Clone, Serialize)]
struct ToldBy {
    rows: Vec<HiddenRows>,
    files: Vec<String>,
    project_column: &'static str,
    whose_column: &'static str,
    id_column: &'static str,
    order: &'static str,
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
        let names = names(files)?;
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
            hidden: None,
        })
    }

    /// A table as a snapshot has it.
    pub fn of_snapshot(snapshot: &Snapshot, table: Table) -> Result<QueryTable, QueryError> {
        let listed = snapshot.files(table);
        let files = files_of(snapshot, table);
        let project = table.key_columns().project;
        let mut seen = QueryTable::new(&files, &table.schema(), Some(project))?;
        // Files of an earlier version lack columns; then every footer has to be read first.
        seen.equal_columns = listed
            .iter()
            .all(|file| file.entry.version == table.version());
        seen.hidden = hidden(snapshot, table)?;
        if table == Table::Events {
            seen.show_id_as_openpanel_does();
        }
        Ok(seen)
    }

    /// All files that are read for it.
    pub(super) fn every_file(&mut self) -> impl Iterator<Item = &mut String> {
        let told_by = self
            .hidden
            .iter_mut()
            .filter_map(|hidden| hidden.told_by.as_mut());
        self.files
            .iter_mut()
            .chain(told_by.flat_map(|by| &mut by.files))
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

/// The files as the child, which works in the data folder, finds them.
fn names(files: &[PathBuf]) -> Result<Vec<String>, QueryError> {
    let name = |file: &PathBuf| {
        let file = std::path::absolute(file)?;
        let name = file.to_str().map(str::to_owned);
        name.ok_or_else(|| QueryError::Program(format!("the path {} is not UTF-8", file.display())))
    };
    files.iter().map(name).collect()
}

fn files_of(snapshot: &Snapshot, table: Table) -> Vec<PathBuf> {
    let listed = snapshot.files(table).iter();
    listed.map(|file| file.path.as_ref().clone()).collect()
}

/// What operators had forgotten and files may still hold.
fn hidden(snapshot: &Snapshot, table: Table) -> Result<Option<Hidden>, QueryError> {
    let concerned = snapshot.forgotten().iter();
    let (mut rows, mut told) = (Vec::new(), Vec::new());
    for one in concerned.filter(|one| one.concerns(table)) {
        let row = |whose: Option<&String>| HiddenRows {
            project: one.project.clone(),
            whose: whose.cloned(),
            before: one.before,
        };
        let of_sessions = table.is_told_by_sessions() && one.profile.is_some();
        let to = if of_sessions { &mut told } else { &mut rows };
        to.push(row(one.profile.as_ref()));
        if of_sessions {
            rows.extend(one.sessions.iter().map(|session| row(Some(session))));
        }
    }
    if rows.is_empty() && told.is_empty() {
        return Ok(None);
    }
    let sessions = Table::Sessions;
    let told_by = match told.is_empty() {
        true => None,
        false => Some(ToldBy {
            rows: told,
            files: names(&files_of(snapshot, sessions))?,
            project_column: sessions.key_columns().project,
            whose_column: SESSION_PROFILE,
            id_column: sessions.key_columns().id,
            order: LOG_OFFSET,
        }),
    };
    Ok(Some(Hidden {
        rows,
        order: LOG_OFFSET,
        whose_column: table.whose(),
        told_by,
    }))
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
