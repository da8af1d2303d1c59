//! Runs the examined statement and prints its rows as they come.

use std::io::{self, Write};

use duckdb::Connection;
use duckdb::arrow::datatypes::Schema;

use crate::database::{STDOUT_PATH, text_literal};
use crate::failure::Failure;
use crate::format::{plan_printer, printer};
use crate::request::{Format, Request};
use crate::statement::Examined;
use crate::value::Reader;

/// Bytes of text gathered before a write: one write per 64 KiB costs nothing beside the
/// formatting.
const WRITE_BYTES: usize = 64 << 10;

/// Rows of a group in a Parquet answer: each thread holds a group, and 32 Ki rows of 1 KiB
/// are 32 MiB.
const PARQUET_ROWS: usize = 32 << 10;

/// Prints the rows of `request.sql`, which has been examined.
pub fn print(
    connection: &Connection,
    request: &Request,
    examined: &Examined,
) -> Result<(), Failure> {
    if request.format == Format::Parquet {
        return print_parquet(connection, request, examined);
    }
    let fail = |error: duckdb::Error| run_time_failure(&error, request);
    let mut statement = connection.prepare(&request.sql).map_err(fail)?;
    // Starts the query in DuckDB's streaming mode; the rows are fetched below, because
    // the iterator that this gives panics where `step` returns the error.
    drop(statement.stream_arrow([]).map_err(fail)?);
    let schema = statement.schema();
    let names = distinct_names(&schema);
    let mut output = io::stdout().lock();
    let mut text = Vec::with_capacity(2 * WRITE_BYTES);
    let mut printer = match examined.explain && request.format == Format::Table {
        true => plan_printer(),
        false => printer(request.format, &names, &schema),
    };
    printer.begin(&mut text);
    while let Some(batch) = statement.step().map_err(fail)? {
        let columns: Result<Vec<Reader<'_>>, String> = batch
            .columns()
            .iter()
            .zip(&names)
            .map(|(array, name)| Reader::of(array).map_err(|what| untold(name, &what)))
            .collect();
        let columns = columns.map_err(Failure::Sql)?;
        for row in 0..duckdb::arrow::array::Array::len(&batch) {
            printer.row(&columns, row, &mut text);
            if text.len() >= WRITE_BYTES {
                output.write_all(&text)?;
                text.clear();
            }
        }
    }
    printer.end(&mut text);
    output.write_all(&text)?;
    output.flush()?;
    Ok(())
}

fn untold(name: &str, what: &str) -> String {
    format!("column {name:?} has the type {what}, which is not printed: cast it to VARCHAR")
}

/// A view takes the statement as it stands, whatever comment or semicolon it ends with.
fn print_parquet(
    connection: &Connection,
    request: &Request,
    examined: &Examined,
) -> Result<(), Failure> {
    if examined.explain {
        return Err(Failure::Refused("EXPLAIN gives no Parquet".to_string()));
    }
    let fail = |error: duckdb::Error| run_time_failure(&error, request);
    let view = format!("CREATE TEMP VIEW fulmar_answer AS {}", request.sql);
    connection.execute_batch(&view).map_err(fail)?;
    let copy = format!(
        "COPY (FROM temp.fulmar_answer) TO {}
         (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {PARQUET_ROWS}, USE_TMP_FILE false)",
        text_literal(STDOUT_PATH)
    );
    connection.execute_batch(&copy).map_err(fail)
}

/// The database may apply a project's own condition before ours, so an error that quotes a
/// value may quote another project's: a project learns what is wrong with its text only.
fn run_time_failure(error: &duckdb::Error, request: &Request) -> Failure {
    let failure = Failure::from_duckdb(error, request.memory_bytes);
    let Failure::Sql(text) = &failure else {
        return failure;
    };
    let of_the_text = [
        "Parser Error",
        "Binder Error",
        "Catalog Error",
        "INTERRUPT Error",
    ];
    if request.project.is_none() || of_the_text.iter().any(|kind| text.starts_with(kind)) {
        return failure;
    }
    Failure::Sql("the statement failed while it ran".to_string())
}

/// Column names, the second and later of equal ones with a number: objects have no two
/// members of one name.
fn distinct_names(schema: &Schema) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let mut name = field.name().clone();
        let mut number = 0;
        while names.contains(&name) {
            number += 1;
            name = format!("{}_{number}", field.name());
        }
        names.push(name);
    }
    names
}
