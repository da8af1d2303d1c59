//! CSV as RFC 4180 has it: a header, CRLF, quotes only where they are needed.

use super::Printer;
use crate::value::Reader;

/// Prints records; NULL is an empty field, an empty text is `""`.
pub struct CsvPrinter {
    names: Vec<String>,
    field: Vec<u8>,
}

impl CsvPrinter {
    /// A printer of columns with these names.
    pub fn new(names: &[String]) -> CsvPrinter {
        CsvPrinter {
            names: names.to_vec(),
            field: Vec::new(),
        }
    }
}

impl Printer for CsvPrinter {
    fn begin(&mut self, out: &mut Vec<u8>) {
        for (number, name) in self.names.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            write_field(name.as_bytes(), out);
        }
        out.extend_from_slice(b"\r\n");
    }

    fn row(&mut self, columns: &[Reader<'_>], row: usize, out: &mut Vec<u8>) {
        for (number, column) in columns.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            if column.is_null(row) {
                continue;
            }
            self.field.clear();
            column.write_text(row, &mut self.field);
            write_field(&self.field, out);
        }
        out.extend_from_slice(b"\r\n");
    }

    fn end(&mut self, _out: &mut Vec<u8>) {}
}

fn write_field(field: &[u8], out: &mut Vec<u8>) {
    let special = |b: &u8| matches!(b, b'"' | b',' | b'\r' | b'\n');
    if !field.is_empty() && !field.iter().any(special) {
        return out.extend_from_slice(field);
    }
    out.push(b'"');
    for &byte in field {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_stand_only_where_they_must() {
        let cases: [(&str, &str); 6] = [
            ("plain", "plain"),
            ("", "\"\""),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            (" blank ", " blank "),
        ];
        for (field, expected) in cases {
            let mut out = Vec::new();
            write_field(field.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
