//! Which statements may run: one that reads, over the tables, by DuckDB's own parser (G3).
//!
//! DuckDB's `json_serialize_sql` parses the text and gives the tree of SELECT statements
//! only; whatever it does not give a tree for is refused, so nothing has to be listed as
//! forbidden. The tree names every table and table function that the statement reads.

use std::collections::BTreeSet;

use duckdb::Connection;

use crate::failure::Failure;

/// Table functions that everyone may call: they only make rows of their arguments.
const PURE_FUNCTIONS: &[&str] = &[
    "generate_series",
    "json_each",
    "json_tree",
    "range",
    "repeat",
    "repeat_row",
    "unnest",
];

/// Table functions for the operator: what the tables' files and the catalogue are like.
/// Anything else (`query`, `enable_logging`, `read_text` …) is refused before DuckDB's own
/// lock would.
const OPERATOR_FUNCTIONS: &[&str] = &[
    "duckdb_columns",
    "duckdb_functions",
    "duckdb_keywords",
    "duckdb_settings",
    "duckdb_tables",
    "duckdb_types",
    "duckdb_views",
    "icu_calendar_names",
    "parquet_bloom_probe",
    "parquet_file_metadata",
    "parquet_full_metadata",
    "parquet_kv_metadata",
    "parquet_metadata",
    "parquet_scan",
    "parquet_schema",
    "pg_timezone_names",
    "pragma_table_info",
    "pragma_version",
    "read_parquet",
];

/// Prefixes of the system's own views, which a project does not see.
const SYSTEM_PREFIXES: &[&str] = &["duckdb_", "pg_", "pragma_", "sqlite_"];

/// A statement that may run.
#[derive(Debug, PartialEq, Eq)]
pub struct Examined {
    /// It is an EXPLAIN of the one that was examined.
    pub explain: bool,
    /// The tables that it names; `None` when it asks for the catalogue, so that all are
    /// wanted.
    pub tables: Option<BTreeSet<String>>,
}

/// One thing that a statement reads.
struct Reference {
    kind: String,
    table: String,
    schema: String,
    catalog: String,
    function: String,
    cte: String,
}

/// Says whether `sql` may run; `known` are the tables, `project` is set when a filter is.
pub fn examine(
    connection: &Connection,
    sql: &str,
    known: &BTreeSet<String>,
    project: bool,
) -> Result<Examined, Failure> {
    if sql.contains('\0') {
        return Err(Failure::Refused(
            "the statement has a zero byte".to_string(),
        ));
    }
    let explained = after_explain(sql);
    if explained.is_some() && project {
        return Err(Failure::Refused(
            "a project's key cannot EXPLAIN".to_string(),
        ));
    }
    let select = explained.unwrap_or(sql);
    check_single_select(connection, select)?;
    let references = read_references(connection, select)?;
    let tables = check_references(&references, known, project)?;
    Ok(Examined {
        explain: explained.is_some(),
        tables,
    })
}

/// What EXPLAIN explains: the text behind `EXPLAIN` or `EXPLAIN ANALYZE`. If that text is
/// one SELECT by itself, the whole is one EXPLAIN.
fn after_explain(sql: &str) -> Option<&str> {
    let rest = after_word(sql, "explain")?;
    Some(after_word(rest, "analyze").unwrap_or(rest))
}

fn after_word<'a>(sql: &'a str, word: &str) -> Option<&'a str> {
    let text = after_blanks(sql);
    let head = text.get(..word.len())?;
    let rest = &text[word.len()..];
    let ends = !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
    (head.eq_ignore_ascii_case(word) && ends).then_some(rest)
}

/// Skips white space and comments.
fn after_blanks(sql: &str) -> &str {
    let mut text = sql;
    loop {
        text = text.trim_start();
        if let Some(rest) = text.strip_prefix("--") {
            text = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(rest) = text.strip_prefix("/*") {
            text = rest.split_once("*/").map_or("", |(_, after)| after);
        } else {
            return text;
        }
    }
}

fn check_single_select(connection: &Connection, sql: &str) -> Result<(), Failure> {
    let ask = "SELECT json_extract_string(tree, '$.error_type'),
                      json_extract_string(tree, '$.error_message'),
                      json_array_length(tree, '$.statements')
               FROM (SELECT json_serialize_sql(CAST(? AS VARCHAR))::JSON AS tree)";
    let row = connection.query_row(ask, [sql], |row| {
        let kind: Option<String> = row.get(0)?;
        let message: Option<String> = row.get(1)?;
        let count: Option<u64> = row.get(2)?;
        Ok((kind, message, count))
    });
    let (error, message, count) = row.map_err(|error| Failure::Sql(error.to_string()))?;
    match (error.as_deref(), count) {
        (None, Some(1)) => Ok(()),
        (None, Some(0)) => Err(Failure::Refused("there is no statement".to_string())),
        (None, _) => Err(Failure::Refused("one statement at a time".to_string())),
        (Some("not implemented"), _) => {
            let word = first_word(sql);
            Err(Failure::Refused(format!(
                "{word} is refused: only one statement that reads may run \
                 (SELECT, WITH, FROM, VALUES, DESCRIBE, SUMMARIZE, SHOW or EXPLAIN)"
            )))
        }
        (Some(kind), _) => {
            let message = message.unwrap_or_default();
            Err(Failure::Sql(format!("{kind} error: {message}")))
        }
    }
}

fn first_word(sql: &str) -> String {
    let text = after_blanks(sql);
    let end = text
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    text[..end.min(32)].to_ascii_uppercase()
}

/// Every node of the tree that reads a table, and every name that WITH gives.
fn read_references(connection: &Connection, sql: &str) -> Result<Vec<Reference>, Failure> {
    let ask = "SELECT coalesce(json_extract_string(value, '$.type'), ''),
                      coalesce(json_extract_string(value, '$.table_name'), ''),
                      coalesce(json_extract_string(value, '$.schema_name'), ''),
                      coalesce(json_extract_string(value, '$.catalog_name'), ''),
                      coalesce(json_extract_string(value, '$.function.function_name'), ''),
                      coalesce(json_extract_string(value, '$.key'), '')
               FROM json_tree(json_serialize_sql(CAST(? AS VARCHAR))::JSON) AS node
               WHERE node.type = 'OBJECT'
                 AND (json_extract_string(value, '$.type')
                        IN ('BASE_TABLE', 'TABLE_FUNCTION', 'SHOW_REF')
                      OR json_exists(value, '$.value.query'))";
    let fail = |error: duckdb::Error| Failure::Sql(error.to_string());
    let mut statement = connection.prepare(ask).map_err(fail)?;
    let rows = statement
        .query_map([sql], |row| {
            Ok(Reference {
                kind: row.get(0)?,
                table: row.get(1)?,
                schema: row.get(2)?,
                catalog: row.get(3)?,
                function: row.get(4)?,
                cte: row.get(5)?,
            })
        })
        .map_err(fail)?;
    rows.collect::<duckdb::Result<Vec<_>>>().map_err(fail)
}

fn check_references(
    references: &[Reference],
    known: &BTreeSet<String>,
    project: bool,
) -> Result<Option<BTreeSet<String>>, Failure> {
    let ctes: BTreeSet<String> = references
        .iter()
        .filter(|r| !r.cte.is_empty())
        .map(|r| r.cte.to_lowercase())
        .collect();
    if project && let Some(name) = ctes.iter().find(|name| !plain_cte(name)) {
        return Err(Failure::Refused(format!(
            "{name:?} is refused as a name in WITH"
        )));
    }
    let mut tables = BTreeSet::new();
    let mut catalogue = false;
    for reference in references {
        let name = reference.table.to_lowercase();
        match reference.kind.as_str() {
            "TABLE_FUNCTION" => {
                check_function(&reference.function.to_lowercase(), project)?;
                catalogue |= !PURE_FUNCTIONS.contains(&reference.function.as_str());
            }
            "BASE_TABLE" if is_table(reference, &name, known) => {
                tables.insert(name);
            }
            "BASE_TABLE" if reference.schema.is_empty() && ctes.contains(&name) => {}
            "SHOW_REF" if !project || shown_to_project(&name) => catalogue = true,
            "BASE_TABLE" if !project => catalogue = true,
            "BASE_TABLE" | "SHOW_REF" => {
                return Err(Failure::Refused(format!("there is no table {name:?} here")));
            }
            _ => {}
        }
    }
    Ok((!catalogue).then_some(tables))
}

fn is_table(reference: &Reference, name: &str, known: &BTreeSet<String>) -> bool {
    let at_home = matches!(reference.schema.as_str(), "" | "main")
        && matches!(reference.catalog.as_str(), "" | "memory");
    at_home && known.contains(name)
}

fn check_function(name: &str, project: bool) -> Result<(), Failure> {
    let allowed =
        PURE_FUNCTIONS.contains(&name) || (!project && OPERATOR_FUNCTIONS.contains(&name));
    if allowed {
        return Ok(());
    }
    Err(Failure::Refused(format!(
        "the table function {name} is refused"
    )))
}

/// A name in WITH holds only inside its own query, but is looked for everywhere here; so a
/// project may give none that means a file or a system view elsewhere.
fn plain_cte(name: &str) -> bool {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain
        && !SYSTEM_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// `SHOW TABLES` and its like; DESCRIBE and SUMMARIZE name no table themselves, the query
/// inside them does.
fn shown_to_project(table: &str) -> bool {
    matches!(
        table.trim_matches('"'),
        "" | "tables" | "__show_tables_expanded"
    )
}

#[cfg(test)]
#[path = "statement_tests.rs"]
mod tests;
