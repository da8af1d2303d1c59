//! Runs the built program and makes files of Parquet for it.

#![allow(dead_code, reason = "each test crate uses its own part")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with two tables in files: `messages` in two of different columns, `security`
/// in one.
pub struct Lake {
    pub folder: TempDir,
    pub tables: Value,
}

impl Lake {
    pub fn new() -> Lake {
        let folder = TempDir::new().unwrap();
        let old = path_in(&folder, "old.parquet");
        let new = path_in(&folder, "new.parquet");
        write_parquet(
            &old,
            "SELECT 'e' || i AS event_id, 'p' || (i % 2) AS project_id, i AS log_offset
             FROM range(0, 3) AS r(i)",
        );
        write_parquet(
            &new,
            "SELECT 'e' || i AS event_id, 'p' || (i % 2) AS project_id, i AS log_offset,
                    TIMESTAMPTZ '2026-01-02 03:04:05.678901+00' AS ts,
                    '{\"n\":' || i || '}' AS data
             FROM range(3, 5) AS r(i)",
        );
        let tables = json!({
            "messages": {
                "files": [old, new],
                "columns": [
                    {"name": "event_id", "type": "VARCHAR"},
                    {"name": "project_id", "type": "VARCHAR"},
                    {"name": "ts", "type": "TIMESTAMP WITH TIME ZONE"},
                    {"name": "data", "type": "VARCHAR"},
                    {"name": "labels", "type": "MAP(VARCHAR, VARCHAR)"},
                    {"name": "log_offset", "type": "UBIGINT"},
                ],
                "project_column": "project_id",
            },
            "empty": { "columns": [{"name": "x", "type": "BIGINT"}] },
        });
        Lake { folder, tables }
    }

    /// A request over the tables, with the limits that the tests want.
    pub fn request(&self, sql: &str, format: &str) -> Value {
        json!({
            "sql": sql,
            "format": format,
            "tables": self.tables,
            "memory_bytes": 256 << 20,
            "timeout_ms": 60_000,
        })
    }

    /// Rows of a statement as JSON; panics with the program's words if there are none.
    pub fn rows(&self, sql: &str) -> Value {
        let output = run(&self.request(sql, "json"));
        assert!(output.status.success(), "{sql}: {}", error_line(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The answer in a format, as text.
    pub fn text(&self, sql: &str, format: &str) -> String {
        let output = run(&self.request(sql, format));
        assert!(output.status.success(), "{sql}: {}", error_line(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

pub fn path_in(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

/// Writes the rows of a SELECT with an open DuckDB of the test's own.
pub fn write_parquet(path: &Path, select: &str) {
    let connection = duckdb::Connection::open_in_memory().unwrap();
    let path = path.to_str().unwrap().replace('\'', "''");
    let copy = format!("SET TimeZone = 'UTC'; COPY ({select}) TO '{path}' (FORMAT parquet)");
    connection.execute_batch(&copy).unwrap();
}

/// Starts the program without any environment and gives it the request.
pub fn start(request: &Value) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fulmar-sql"))
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = request.to_string();
    line.push('\n');
    child
        .stdin
        .as_mut()
        .unwrap()
        .write_all(line.as_bytes())
        .unwrap();
    child
}

pub fn run(request: &Value) -> Output {
    start(request).wait_with_output().unwrap()
}

pub fn error_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The code of the one line of JSON on standard error.
pub fn error_code(output: &Output) -> String {
    let line: Value = serde_json::from_slice(&output.stderr)
        .unwrap_or_else(|_| panic!("no line of JSON: {}", error_line(output)));
    line["code"].as_str().unwrap().to_string()
}
