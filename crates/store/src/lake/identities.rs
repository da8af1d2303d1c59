//! The identities that a table holds, streamed for `verify`.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;

use super::Snapshot;
use super::repeats::identity_columns;
use crate::error::Result;
use crate::table_reader::TableReader;
use crate::tables::{Table, TextRows};

/// Whose an event is, and where its record stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The project.
    pub project: &'a str,
    /// The authenticated agent or client.
    pub source: &'a str,
    /// The event's id.
    pub event_id: &'a str,
    /// The record's offset in `events`.
    pub log_offset: u64,
}

/// Calls `visit` for every row of a table, file by file, with one batch of one
/// file in memory. The order is none in particular.
///
/// # Errors
/// When a file can't be read, or `visit` fails.
pub fn scan_identities<E: From<crate::StoreError>>(
    snapshot: &Snapshot,
    table: Table,
    mut visit: impl FnMut(Identity<'_>) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    for file in snapshot.files(table) {
        scan_file(table, &file.path, &mut visit)?;
    }
    Ok(())
}

/// Calls `visit` for every row of one file of a table: for whoever has the list
/// of a snapshot from another process.
///
/// # Errors
/// When the file can't be read, or `visit` fails.
pub fn scan_file<E: From<crate::StoreError>>(
    table: Table,
    path: &std::path::Path,
    visit: &mut impl FnMut(Identity<'_>) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut reader = open(table, path)?;
    while let Some(columns) = reader.next_columns(table)? {
        let [projects, sources, ids] = [0, 1, 2].map(|index| TextRows::new(&columns[index]));
        let offsets = columns[3].as_primitive::<Int64Type>();
        for row in 0..ids.len() {
            visit(Identity {
                project: projects.value(row),
                source: sources.value(row),
                event_id: ids.value(row),
                log_offset: offsets.value(row) as u64,
            })?;
        }
    }
    Ok(())
}

fn open(table: Table, path: &std::path::Path) -> Result<TableReader> {
    TableReader::open(table, path, &identity_columns(table))
}
