//! What commands print: data to standard output, everything else to standard error.

use std::io::{IsTerminal as _, Write as _};

use serde_json::Value;

use crate::exit::{Exit, Failure, Outcome};

/// Prints one JSON document, indented.
pub fn print_json(value: &Value) -> Outcome {
    print_line(&serde_json::to_string_pretty(value)?)
}

/// Prints one line of data. A reader that went away, as `head` does, is no failure.
pub fn print_line(line: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot print: {error}")))
        }
        _ => Ok(Exit::Done),
    }
}

/// Tells a person something, on standard error.
pub fn note(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether standard output is a terminal: the only place that a secret is printed to.
pub fn to_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Prints an array of objects as a table of the named members; a missing one is `-`.
pub fn print_table(rows: &Value, columns: &[&str]) -> Outcome {
    let empty = Vec::new();
    let rows = rows.as_array().unwrap_or(&empty);
    let mut cells: Vec<Vec<String>> = vec![columns.iter().map(|c| c.to_uppercase()).collect()];
    cells.extend(
        rows.iter()
            .map(|row| columns.iter().map(|c| cell(&row[*c])).collect()),
    );
    print_line(&layout(&cells))
}

/// Prints one object, a line for each member.
pub fn print_members(object: &Value) -> Outcome {
    let members = object.as_object().into_iter().flatten();
    let cells: Vec<Vec<String>> = members
        .map(|(name, value)| vec![name.clone(), cell(value)])
        .collect();
    print_line(&layout(&cells))
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn layout(cells: &[Vec<String>]) -> String {
    let columns = cells.first().map_or(0, Vec::len);
    let width = |at: usize| {
        cells
            .iter()
            .map(|row| row[at].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let lines: Vec<String> = cells
        .iter()
        .map(|row| {
            let padded: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(text, width)| format!("{text:<width$}"))
                .collect();
            padded.join("  ").trim_end().to_owned()
        })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let cells = [["A", "LONG"], ["äöü", "x"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(layout(&cells), "A    LONG\näöü  x");
    }
}
