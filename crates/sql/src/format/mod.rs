//! How rows look: one printer per format, each a pure writer into a buffer.

mod csv;
mod json;
mod plan;
mod table;

use duckdb::arrow::datatypes::Schema;

use crate::request::Format;
use crate::value::{Reader, is_number};

/// Writes rows into `out`; whoever calls empties `out` as it grows.
pub trait Printer {
    /// What stands before the first row.
    fn begin(&mut self, out: &mut Vec<u8>);
    /// One row.
    fn row(&mut self, columns: &[Reader<'_>], row: usize, out: &mut Vec<u8>);
    /// What stands after the last row.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// The printer of a format; Parquet has none, DuckDB writes it.
pub fn printer(format: Format, names: &[String], schema: &Schema) -> Box<dyn Printer> {
    match format {
        Format::Json => Box::new(json::JsonPrinter::array(names)),
        Format::Ndjson | Format::Parquet => Box::new(json::JsonPrinter::lines(names)),
        Format::Csv => Box::new(csv::CsvPrinter::new(names)),
        Format::Table => {
            let numeric = schema
                .fields()
                .iter()
                .map(|f| is_number(f.data_type()))
                .collect();
            Box::new(table::TablePrinter::new(names, numeric))
        }
    }
}

/// The printer of EXPLAIN for a terminal: its plans are drawings of their own.
pub fn plan_printer() -> Box<dyn Printer> {
    Box::new(plan::PlanPrinter)
}
