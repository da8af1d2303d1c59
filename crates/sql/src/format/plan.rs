//! What EXPLAIN says, as the drawing that it is.

use super::Printer;
use crate::value::Reader;

/// Prints the last column as it stands, its line breaks too.
pub struct PlanPrinter;

impl Printer for PlanPrinter {
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn row(&mut self, columns: &[Reader<'_>], row: usize, out: &mut Vec<u8>) {
        if let Some(plan) = columns.last() {
            plan.write_text(row, out);
            out.push(b'\n');
        }
    }

    fn end(&mut self, _out: &mut Vec<u8>) {}
}
