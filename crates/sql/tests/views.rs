//! Views over a table's files: the last of versions, and columns under another name.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod runner;

use runner::{error_line, path_in, run, write_parquet};
use serde_json::{Value, json};
use tempfile::TempDir;

fn rows(table: &Value, sql: &str, project: Option<&str>) -> Value {
    let output = run(&json!({
        "sql": sql,
        "format": "json",
        "tables": {"sessions_latest": table},
        "memory_bytes": 256 << 20,
        "timeout_ms": 60_000,
        "project": project,
    }));
    assert!(output.status.success(), "{sql}: {}", error_line(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_last_version_of_each_id_is_shown_whatever_file_it_is_in() {
    let folder = TempDir::new().unwrap();
    let (old, new) = (path_in(&folder, "a.parquet"), path_in(&folder, "b.parquet"));
    // Session `s` of two projects: three versions of the one, one of the other.
    write_parquet(
        &old,
        "SELECT * FROM (VALUES ('p1','s',1,7), ('p1','s',3,9), ('p2','s',1,8)) AS v(p,i,n,o)",
    );
    write_parquet(&new, "SELECT 'p1' AS p, 's' AS i, 2 AS n, 8 AS o");
    let table = json!({
        "files": [old, new],
        "columns": [
            {"name": "project_id", "shows": "p", "type": "VARCHAR"},
            {"name": "id", "shows": "i", "type": "VARCHAR"},
            {"name": "version", "shows": "n", "type": "INTEGER"},
            {"name": "log_offset", "shows": "o", "type": "INTEGER"},
        ],
        "project_column": "project_id",
        "last_of": {"keys": ["project_id", "id"], "order": "log_offset"},
    });
    let sql = "SELECT project_id, version FROM sessions_latest ORDER BY 1";
    let both = json!([{"project_id": "p1", "version": 3}, {"project_id": "p2", "version": 1}]);
    assert_eq!(rows(&table, sql, None), both);
    assert_eq!(rows(&table, sql, Some("p2")), json!([both[1]]));
}
