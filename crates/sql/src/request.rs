//! One request, as read from standard input.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::PathBuf;

use serde::Deserialize;

use crate::failure::Failure;

/// Bytes of a request: 16 MiB hold the paths of 100,000 files.
pub const REQUEST_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a statement: no hand and no tool writes a longer one for reading.
pub const STATEMENT_BYTES_MAX: usize = 256 << 10;
/// The least memory that DuckDB starts in.
pub const MEMORY_BYTES_MIN: u64 = 64 << 20;

/// What to run, over what, within which limits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The statement.
    pub sql: String,
    /// How the rows are printed.
    pub format: Format,
    /// The tables that exist, by name.
    #[serde(default)]
    pub tables: BTreeMap<String, Table>,
    /// Views over tables, by name. They are what the caller says, and show what the tables show.
    #[serde(default)]
    pub views: BTreeMap<String, View>,
    /// The folder that relative file names start at. A path may then hold characters that
    /// DuckDB takes for a pattern.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// Bytes of memory for the query.
    pub memory_bytes: u64,
    /// Milliseconds for the whole query, writing included.
    pub timeout_ms: u64,
    /// Threads of the query.
    #[serde(default = "default_threads")]
    pub threads: u32,
    /// Where the query may spill to; without one it may not.
    #[serde(default)]
    pub temp_dir: Option<PathBuf>,
    /// Bytes it may spill.
    #[serde(default)]
    pub temp_bytes_max: u64,
    /// Only rows of this project are to be seen (G3).
    #[serde(default)]
    pub project: Option<String>,
    /// The end of standard input ends the query: its caller is gone.
    #[serde(default)]
    pub until_stdin_closes: bool,
}

/// A view over one table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// The table.
    pub of: String,
    /// The statement that it stands for, which names the table.
    pub sql: String,
}

/// One table: files of Parquet, and the columns that it has even where no file has them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The files, in order.
    #[serde(default)]
    pub files: Vec<String>,
    /// The columns, in order; empty takes the files' own.
    #[serde(default)]
    pub columns: Vec<Column>,
    /// Every file has exactly these columns.
    #[serde(default)]
    pub equal_columns: bool,
    /// The column that names the project; a table without one is not shown to a project.
    #[serde(default)]
    pub project_column: Option<String>,
    /// Of rows that are versions, only the last is shown.
    #[serde(default)]
    pub last_of: Option<LastOf>,
    /// Rows that are not to be seen although files hold them.
    #[serde(default)]
    pub hidden: Option<Hidden>,
}

/// Rows that are not to be seen. Without a project column the table hides none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hidden {
    /// Which.
    pub rows: Vec<HiddenRows>,
    /// The column that `before` is about.
    pub order: String,
    /// The column that says whose a row is, in a table that tells.
    #[serde(default)]
    pub whose_column: Option<String>,
    /// Another table, which tells whose further rows are that the column names.
    #[serde(default)]
    pub told_by: Option<ToldBy>,
}

/// Rows of a project from before a number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HiddenRows {
    /// The project.
    pub project: String,
    /// Whose they are; without it all of the project's.
    #[serde(default)]
    pub whose: Option<String>,
    /// Rows of lower numbers are meant.
    pub before: u64,
}

/// A table that tells whose the rows of another are.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToldBy {
    /// Whose rows.
    pub rows: Vec<HiddenRows>,
    /// Its files; none tell of nothing.
    pub files: Vec<String>,
    /// Its column of projects.
    pub project_column: String,
    /// Its column that says whose.
    pub whose_column: String,
    /// Its column that the other table names it by.
    pub id_column: String,
    /// Its column that `before` is about.
    pub order: String,
}

/// Which of a table's versions is the last.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastOf {
    /// The columns that name what a row is a version of.
    pub keys: Vec<String>,
    /// The column that is greatest in the last one.
    pub order: String,
}

/// A column of a table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The files' column that it shows, where that has another name.
    #[serde(default)]
    pub shows: Option<String>,
    /// Its type in SQL, such as `VARCHAR` or `TIMESTAMP WITH TIME ZONE`.
    #[serde(rename = "type")]
    pub sql_type: String,
}

impl Column {
    /// The files' column that it shows.
    pub fn of_file(&self) -> &str {
        self.shows.as_deref().unwrap_or(&self.name)
    }
}

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Aligned columns for a terminal.
    Table,
    /// One array of objects.
    Json,
    /// RFC 4180 with a header.
    Csv,
    /// One object a line.
    Ndjson,
    /// One file of Parquet.
    Parquet,
}

fn default_threads() -> u32 {
    2
}

impl Request {
    /// Reads one line of JSON and checks it.
    pub fn read(input: &mut impl BufRead) -> Result<Request, Failure> {
        let mut line = Vec::new();
        let mut limited = std::io::Read::take(&mut *input, REQUEST_BYTES_MAX + 1);
        limited
            .read_until(b'\n', &mut line)
            .map_err(|error| Failure::BadRequest(format!("cannot read the request: {error}")))?;
        if line.len() as u64 > REQUEST_BYTES_MAX {
            return Err(Failure::BadRequest(format!(
                "over {REQUEST_BYTES_MAX} bytes"
            )));
        }
        let request: Request = serde_json::from_slice(&line).map_err(|error| {
            Failure::BadRequest(format!("the request is no JSON of ours: {error}"))
        })?;
        request.check()?;
        Ok(request)
    }

    fn check(&self) -> Result<(), Failure> {
        let bad = |what: String| Err(Failure::BadRequest(what));
        if self.sql.len() > STATEMENT_BYTES_MAX {
            return bad(format!("the statement is over {STATEMENT_BYTES_MAX} bytes"));
        }
        if self.memory_bytes < MEMORY_BYTES_MIN {
            return bad(format!("memory_bytes is below {MEMORY_BYTES_MIN}"));
        }
        if self.timeout_ms == 0 {
            return bad("timeout_ms is 0".to_string());
        }
        if !(1..=256).contains(&self.threads) {
            return bad("threads is not in 1 to 256".to_string());
        }
        for (name, table) in &self.tables {
            if !plain_name(name) {
                return bad(format!("{name:?} is no name of a table"));
            }
            if table.files.is_empty() && table.columns.is_empty() {
                return bad(format!("table {name} has neither files nor columns"));
            }
            if table.equal_columns && table.columns.is_empty() {
                return bad(format!("table {name} has equal columns and names none"));
            }
            if let Some(column) = table.columns.iter().find(|c| !plain_type(&c.sql_type)) {
                return bad(format!("{:?} is no type of a column", column.sql_type));
            }
        }
        Ok(())
    }
}

/// A table's name is put where SQL has an identifier, so it is held to plain letters.
fn plain_name(name: &str) -> bool {
    let first = name.as_bytes().first().copied().unwrap_or(0);
    let body = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    first.is_ascii_lowercase() && name.len() <= 63 && name.bytes().all(body)
}

/// A type is put into SQL as it stands: letters, digits and the signs of nested types only.
fn plain_type(sql_type: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b" _(),[]".contains(&b);
    !sql_type.is_empty() && sql_type.len() <= 255 && sql_type.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Request, Failure> {
        Request::read(&mut text.as_bytes())
    }

    #[test]
    fn a_whole_request_is_read() {
        let request = read(concat!(
            r#"{"sql":"select 1","format":"ndjson","memory_bytes":134217728,"timeout_ms":5,"#,
            r#""tables":{"t":{"files":["a.parquet"],"columns":[{"name":"x","type":"BIGINT"}]}}}"#
        ))
        .unwrap();
        assert_eq!(request.format, Format::Ndjson);
        assert_eq!(request.tables["t"].columns[0].sql_type, "BIGINT");
        assert_eq!(request.threads, 2);
    }

    #[test]
    fn what_could_leave_its_place_in_the_sql_is_refused() {
        let with = |tables: &str| {
            format!(
                concat!(
                    r#"{{"sql":"","format":"csv","memory_bytes":134217728,"timeout_ms":5,"#,
                    r#""tables":{}}}"#
                ),
                tables
            )
        };
        let columns = |sql_type: &str| {
            with(&format!(
                r#"{{"t":{{"columns":[{{"name":"x","type":"{sql_type}"}}]}}}}"#
            ))
        };
        assert!(read(&columns("MAP(VARCHAR, VARCHAR)")).is_ok());
        for bad in ["", "INT; DROP", "INT'", "INT--"] {
            assert!(
                matches!(read(&columns(bad)), Err(Failure::BadRequest(_))),
                "{bad}"
            );
        }
        for bad in ["", "T", "a b", "a\\\"", "9a"] {
            let tables = with(&format!(r#"{{"{bad}":{{"files":["x"]}}}}"#));
            assert!(
                matches!(read(&tables), Err(Failure::BadRequest(_))),
                "{bad}"
            );
        }
        assert!(matches!(read("{}"), Err(Failure::BadRequest(_))));
        assert!(matches!(read(""), Err(Failure::BadRequest(_))));
    }
}
