//! JSON: one array of objects, or one object a line.

use super::Printer;
use crate::value::{Reader, write_json_value};

/// Prints objects whose members stand in the order of the columns.
pub struct JsonPrinter {
    /// `"name":` of each column, escaped once.
    keys: Vec<Vec<u8>>,
    array: bool,
    any: bool,
}

impl JsonPrinter {
    /// One array, a row a line.
    pub fn array(names: &[String]) -> JsonPrinter {
        JsonPrinter {
            keys: keys(names),
            array: true,
            any: false,
        }
    }

    /// One object a line.
    pub fn lines(names: &[String]) -> JsonPrinter {
        JsonPrinter {
            keys: keys(names),
            array: false,
            any: false,
        }
    }
}

fn keys(names: &[String]) -> Vec<Vec<u8>> {
    let key = |name: &String| {
        let mut text = Vec::new();
        write_json_value(name, &mut text);
        text.push(b':');
        text
    };
    names.iter().map(key).collect()
}

impl Printer for JsonPrinter {
    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.array {
            out.push(b'[');
        }
    }

    fn row(&mut self, columns: &[Reader<'_>], row: usize, out: &mut Vec<u8>) {
        if self.array {
            out.extend_from_slice(if self.any { b",\n" } else { b"\n" });
        }
        self.any = true;
        out.push(b'{');
        for (number, (key, column)) in self.keys.iter().zip(columns).enumerate() {
            if number > 0 {
                out.push(b',');
            }
            out.extend_from_slice(key);
            column.write_json(row, out);
        }
        out.push(b'}');
        if !self.array {
            out.push(b'\n');
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.array {
            out.extend_from_slice(if self.any { b"\n]\n" } else { b"]\n" });
        }
    }
}
