//! A table for terminals: aligned columns, a ruler, and how many rows there were.

use super::Printer;
use crate::value::Reader;

/// Rows that are looked at before the widths are settled.
const ROWS_SETTLED: usize = 1000;
/// Bytes of cells held for the same: 1 MiB.
const BYTES_SETTLED: usize = 1 << 20;
/// Characters of a cell that widen its column; a longer cell is printed whole and only
/// pushes its own line.
const WIDTH_MAX: usize = 120;

/// Prints aligned text; rows after the first thousand keep the widths found by then.
pub struct TablePrinter {
    names: Vec<String>,
    numeric: Vec<bool>,
    widths: Vec<usize>,
    held: Vec<Vec<String>>,
    held_bytes: usize,
    settled: bool,
    rows: u64,
}

impl TablePrinter {
    /// A printer of columns with these names; numeric ones stand to the right.
    pub fn new(names: &[String], numeric: Vec<bool>) -> TablePrinter {
        let names: Vec<String> = names.iter().map(|name| printable(name)).collect();
        let widths = names.iter().map(|name| name.chars().count()).collect();
        TablePrinter {
            names,
            numeric,
            widths,
            held: Vec::new(),
            held_bytes: 0,
            settled: false,
            rows: 0,
        }
    }

    fn settle(&mut self, out: &mut Vec<u8>) {
        self.settled = true;
        for row in &self.held {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count().min(WIDTH_MAX));
            }
        }
        self.write_line(&self.names, out);
        for (number, width) in self.widths.iter().enumerate() {
            if number > 0 {
                out.extend_from_slice(b"-+-");
            }
            out.resize(out.len() + width, b'-');
        }
        out.push(b'\n');
        for row in std::mem::take(&mut self.held) {
            self.write_line(&row, out);
        }
    }

    fn write_line(&self, cells: &[String], out: &mut Vec<u8>) {
        let start = out.len();
        for (number, cell) in cells.iter().enumerate() {
            if number > 0 {
                out.extend_from_slice(b" | ");
            }
            let blanks = self.widths[number].saturating_sub(cell.chars().count());
            if self.numeric[number] {
                out.resize(out.len() + blanks, b' ');
            }
            out.extend_from_slice(cell.as_bytes());
            if !self.numeric[number] {
                out.resize(out.len() + blanks, b' ');
            }
        }
        while out.len() > start && out.last() == Some(&b' ') {
            out.pop();
        }
        out.push(b'\n');
    }
}

impl Printer for TablePrinter {
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn row(&mut self, columns: &[Reader<'_>], row: usize, out: &mut Vec<u8>) {
        self.rows += 1;
        let mut text = Vec::new();
        let mut cells = Vec::with_capacity(columns.len());
        for column in columns {
            text.clear();
            match column.is_null(row) {
                true => text.extend_from_slice(b"NULL"),
                false => column.write_text(row, &mut text),
            }
            cells.push(printable(&String::from_utf8_lossy(&text)));
        }
        if self.settled {
            return self.write_line(&cells, out);
        }
        self.held_bytes += cells.iter().map(String::len).sum::<usize>();
        self.held.push(cells);
        if self.held.len() >= ROWS_SETTLED || self.held_bytes >= BYTES_SETTLED {
            self.settle(out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if !self.settled {
            self.settle(out);
        }
        let noun = if self.rows == 1 { "row" } else { "rows" };
        out.extend_from_slice(format!("({} {noun})\n", self.rows).as_bytes());
    }
}

/// Control characters are shown by their escapes: what a producer sent must not steer the
/// reader's terminal.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() || is_direction(character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
}

/// Marks that reorder the text around them.
fn is_direction(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
