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

#[test]
fn rows_that_are_to_be_forgotten_are_not_shown() {
    let folder = TempDir::new().unwrap();
    let file = path_in(&folder, "a.parquet");
    write_parquet(
        &file,
        "SELECT * FROM (VALUES ('p1','a',1), ('p1','a',5), ('p1','it''s',2), ('p2','a',1)) \
         AS v(p,i,o)",
    );
    let mut table = json!({
        "files": [file],
        "columns": [
            {"name": "project_id", "shows": "p", "type": "VARCHAR"},
            {"name": "id", "shows": "i", "type": "VARCHAR"},
            {"name": "log_offset", "shows": "o", "type": "INTEGER"},
        ],
        "project_column": "project_id",
    });
    let sql = "SELECT project_id || id || log_offset AS r FROM sessions_latest ORDER BY 1";
    let shown = |table: &Value, project| {
        let rows = rows(table, sql, project);
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["r"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(&table, None), ["p1a1", "p1a5", "p1it's2", "p2a1"]);
    let hide = |rows: Value| json!({"rows": rows, "order": "log_offset", "whose_column": "id"});
    table["hidden"] = hide(json!([
        {"project": "p1", "whose": "a", "before": 5},
        {"project": "p1", "whose": "it's", "before": 3},
    ]));
    assert_eq!(shown(&table, None), ["p1a5", "p2a1"]);
    assert_eq!(shown(&table, Some("p1")), ["p1a5"]);
    table["hidden"] = hide(json!([{"project": "p1", "whose": null, "before": 5}]));
    assert_eq!(shown(&table, None), ["p1a5", "p2a1"]);
    // The other table names `a` for what `u` is: only what it knew before counts.
    let told = path_in(&folder, "told.parquet");
    write_parquet(
        &told,
        "SELECT * FROM (VALUES ('p1','u','a',1), ('p1','w','it''s',1), ('p2','u','a',9)) \
         AS v(p,u,i,o)",
    );
    table["hidden"] = hide(json!([]));
    table["hidden"]["told_by"] = json!({
        "rows": [
            {"project": "p1", "whose": "u", "before": 5},
            {"project": "p2", "whose": "u", "before": 5},
        ],
        "files": [told], "project_column": "p", "whose_column": "u", "id_column": "i",
        "order": "o",
    });
    assert_eq!(shown(&table, None), ["p1a5", "p1it's2", "p2a1"]);
}

#[test]
fn a_view_shows_what_its_table_shows() {
    let folder = TempDir::new().unwrap();
    let file = path_in(&folder, "a.parquet");
    write_parquet(
        &file,
        "SELECT * FROM (VALUES ('p1'), ('p1'), ('p2')) AS v(p)",
    );
    let table = json!({
        "files": [file],
        "columns": [{"name": "project_id", "shows": "p", "type": "VARCHAR"}],
        "project_column": "project_id",
    });
    let view = json!({"of": "t", "sql": "SELECT project_id, count(*) AS n FROM t GROUP BY 1"});
    let request = |sql: &str, project: Option<&str>| {
        run(&json!({
            "sql": sql, "format": "json", "memory_bytes": 256 << 20, "timeout_ms": 60_000,
            "tables": {"t": table}, "views": {"counts": view}, "project": project,
        }))
    };
    let shown = |project| {
        let output = request("SELECT * FROM counts ORDER BY 1", project);
        assert!(output.status.success(), "{}", error_line(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let both = json!([{"project_id": "p1", "n": 2}, {"project_id": "p2", "n": 1}]);
    assert_eq!(shown(None), both);
    assert_eq!(shown(Some("p2")), json!([both[1]]));
    // Another name is none of ours.
    assert!(!request("SELECT * FROM count", None).status.success());
}
