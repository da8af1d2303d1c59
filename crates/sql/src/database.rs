//! The database of one query: in memory, over the tables' files and nothing else (G3).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use duckdb::{Config, Connection};

use crate::failure::Failure;
use crate::hidden;
use crate::request::{Format, Request, Table, View};

/// Where the Parquet writer finds our standard output.
pub const STDOUT_PATH: &str = "/dev/stdout";

/// DuckDB's own accounting gets three quarters of the query's memory: what it does not
/// count (result chunks, decoders, the program itself) lives in the rest.
pub fn engine_memory_bytes(memory_bytes: u64) -> u64 {
    memory_bytes / 4 * 3
}

/// Opens a database that can read the request's files, and locks it: from here on no file
/// but these can be opened, no setting changed and no extension loaded.
pub fn open_confined(request: &Request) -> Result<Connection, Failure> {
    let fail = |error: duckdb::Error| Failure::from_duckdb(&error, request.memory_bytes);
    let memory = format!("{}B", engine_memory_bytes(request.memory_bytes));
    let config = Config::default()
        .enable_autoload_extension(false)
        .and_then(|c| c.with("allow_community_extensions", "false"))
        .and_then(|c| c.with("allow_persistent_secrets", "false"))
        .and_then(|c| c.threads(i64::from(request.threads)))
        .and_then(|c| c.max_memory(&memory))
        .map_err(fail)?;
    let connection = Connection::open_in_memory_with_flags(config).map_err(fail)?;
    connection
        .execute_batch(&confinement(request)?)
        .map_err(fail)?;
    Ok(connection)
}

/// The settings in their order: paths can only be allowed while access is still open, and
/// the lock comes last.
fn confinement(request: &Request) -> Result<String, Failure> {
    let mut paths: Vec<String> = Vec::new();
    for table in request.tables.values() {
        let told_by = table.hidden.iter().filter_map(|h| h.told_by.as_ref());
        let files = table.files.iter().chain(told_by.flat_map(|by| &by.files));
        paths.extend(files.map(|path| text_literal(path)));
    }
    if request.format == Format::Parquet {
        paths.push(text_literal(STDOUT_PATH));
    }
    let (temp, temp_bytes) = match &request.temp_dir {
        Some(folder) => {
            let folder = folder
                .to_str()
                .ok_or_else(|| Failure::BadRequest("temp_dir is not UTF-8".to_string()))?;
            (text_literal(folder), request.temp_bytes_max)
        }
        None => ("''".to_string(), 0),
    };
    // Times are shown in UTC, so days and hours are cut in UTC as well. Rows come as they
    // are read unless the statement orders them: holding them back to keep the files'
    // order would cost the memory of a whole answer.
    Ok(format!(
        "SET TimeZone = 'UTC';
         SET preserve_insertion_order = false;
         SET temp_directory = {temp};
         SET max_temp_directory_size = '{temp_bytes}B';
         SET allowed_paths = [{}];
         SET enable_external_access = false;
         SET lock_configuration = true;",
        paths.join(", ")
    ))
}

/// Makes a view for each of the request's tables, or only for those named.
pub fn create_views(
    connection: &Connection,
    request: &Request,
    only: Option<&BTreeSet<String>>,
) -> Result<(), Failure> {
    let fail = |error: duckdb::Error| Failure::from_duckdb(&error, request.memory_bytes);
    let views = request.views.iter();
    let views: Vec<_> = views.filter(|(name, _)| wants(only, name)).collect();
    for (name, table) in &request.tables {
        if !wants(only, name) && views.iter().all(|(_, view)| view.of != *name) {
            continue;
        }
        let mut conditions = Vec::new();
        match (&request.project, &table.project_column) {
            (None, _) => {}
            // A table that knows no project has nothing to show to one.
            (Some(_), None) => continue,
            (Some(project), Some(column)) => {
                let (column, project) = (identifier(column), text_literal(project));
                conditions.push(format!("{column} = {project}"));
            }
        }
        if let (Some(hidden), Some(column)) = (&table.hidden, &table.project_column) {
            conditions.extend(hidden::conditions(hidden, column));
        }
        let condition = match conditions.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", conditions.join(" AND ")),
        };
        let select = match table.files.is_empty() {
            true => select_nothing(table),
            false => {
                let present = columns_present(connection, table).map_err(fail)?;
                select_files(table, &present)
            }
        };
        let last = table.last_of.as_ref().map_or_else(String::new, |last_of| {
            let keys: Vec<String> = last_of.keys.iter().map(|key| identifier(key)).collect();
            let (keys, order) = (keys.join(", "), identifier(&last_of.order));
            format!(" QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {order} DESC) = 1")
        });
        let view = format!(
            "CREATE VIEW {} AS SELECT * FROM ({select}) AS shown{condition}{last}",
            identifier(name)
        );
        connection.execute_batch(&view).map_err(fail)?;
    }
    for (name, View { of, sql }) in views {
        let shown = |table: &Table| request.project.is_none() || table.project_column.is_some();
        if request.tables.get(of).is_some_and(shown) {
            let view = format!("CREATE VIEW {} AS {sql}", identifier(name));
            connection.execute_batch(&view).map_err(fail)?;
        }
    }
    Ok(())
}

fn wants(only: Option<&BTreeSet<String>>, name: &str) -> bool {
    only.is_none_or(|names| names.contains(name))
}

/// The columns that at least one file has: older files may lack newer columns.
fn columns_present(connection: &Connection, table: &Table) -> duckdb::Result<BTreeSet<String>> {
    if table.equal_columns {
        return Ok(table
            .columns
            .iter()
            .map(|c| c.of_file().to_owned())
            .collect());
    }
    let mut describe =
        connection.prepare(&format!("DESCRIBE SELECT * FROM {}", read_files(table)))?;
    let names = describe.query_map([], |row| row.get::<_, String>(0))?;
    names.collect()
}

fn select_files(table: &Table, present: &BTreeSet<String>) -> String {
    if table.columns.is_empty() {
        return format!("SELECT * FROM {}", read_files(table));
    }
    let mut columns = String::new();
    for column in &table.columns {
        let name = identifier(&column.name);
        let separator = if columns.is_empty() { "" } else { ", " };
        columns.push_str(separator);
        let value = match present.contains(column.of_file()) {
            true => identifier(column.of_file()),
            false => format!("CAST(NULL AS {})", column.sql_type),
        };
        write!(columns, "{value} AS {name}").expect("writing to a string does not fail");
    }
    format!("SELECT {columns} FROM {}", read_files(table))
}

fn select_nothing(table: &Table) -> String {
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|c| format!("CAST(NULL AS {}) AS {}", c.sql_type, identifier(&c.name)))
        .collect();
    format!("SELECT {} WHERE false", columns.join(", "))
}

fn read_files(table: &Table) -> String {
    let files: Vec<String> = table.files.iter().map(|path| text_literal(path)).collect();
    // Uniting by name reads the footer of every file before the first row.
    let unite = !table.equal_columns;
    format!(
        "read_parquet([{}], union_by_name = {unite})",
        files.join(", ")
    )
}

/// `'…'` with quotes doubled: the only sign that SQL's plain strings know.
pub fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// `"…"` with quotes doubled.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
