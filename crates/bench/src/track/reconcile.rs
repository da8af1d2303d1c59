//! Reconciliation by id: every event a row, once; a session for each identity, with its count of
//! events; its profile.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array as _, ArrayRef};
use fulmar_flow::State;
use fulmar_log::lock_folder;
use fulmar_store::{Lake, LakeConfig, Snapshot, Table, TableReader, TextRows};

use super::workload::Workload;
use crate::BenchError;

/// What the tables hold of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Reconciled {
    /// Rows of events that were sent.
    pub stored: u64,
    /// Acknowledged and in no row.
    pub lost: u64,
    /// Rows beyond the first of their id.
    pub doubled: u64,
    /// Rows that nobody sent.
    pub foreign: u64,
    /// Sessions, the last version of each.
    pub sessions: u64,
    /// Events that sessions count.
    pub session_events: u64,
    /// Profiles.
    pub profiles: u64,
    /// Identities with other than one session, with another count than their events in it, or
    /// without a profile.
    pub identities_at_fault: u64,
    /// The first that is wrong, in words.
    pub first_fault: Option<String>,
}

impl Reconciled {
    /// Whether nothing is wrong.
    pub fn is_exact(&self) -> bool {
        self.lost + self.doubled + self.foreign + self.identities_at_fault == 0
    }

    fn fault(&mut self, text: impl FnOnce() -> String) {
        self.first_fault.get_or_insert_with(text);
    }
}

/// Reads the tables of a folder that no server holds any more; `unsure` are events that may be
/// there or not.
///
/// # Errors
/// When they can't be read.
pub fn reconcile(
    dir: &Path,
    workload: &Workload,
    unsure: &[std::ops::Range<u64>],
) -> Result<Reconciled, BenchError> {
    let _lock = lock_folder(dir)?;
    let state = Arc::new(State::open(&dir.join("state"))?);
    let snapshot = Lake::open(dir, state, LakeConfig::default())?.snapshot();
    let mut found = Reconciled::default();
    events(&snapshot, workload, unsure, &mut found)?;
    let sessions = sessions(&snapshot)?;
    let profiles = profiles(&snapshot)?;
    found.sessions = sessions.values().map(|of| of.len() as u64).sum();
    found.session_events = sessions
        .values()
        .flat_map(HashMap::values)
        .map(|last| last.1)
        .sum();
    found.profiles = profiles.len() as u64;
    if unsure.is_empty() {
        identities(workload, &sessions, &profiles, &mut found);
    }
    Ok(found)
}

fn events(
    snapshot: &Snapshot,
    workload: &Workload,
    unsure: &[std::ops::Range<u64>],
    found: &mut Reconciled,
) -> Result<(), BenchError> {
    let mut seen = vec![0_u64; workload.events.div_ceil(64) as usize];
    each_row(snapshot, Table::Events, &["event_id", "client_id"], |row| {
        // What sessions add bears no client.
        if row.text(1).is_empty() {
            return;
        }
        let id = row.text(0);
        let Some(number) = workload.number(id) else {
            found.foreign += 1;
            return found.fault(|| format!("foreign: {id}"));
        };
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if seen[word] & bit != 0 {
            found.doubled += 1;
            return found.fault(|| format!("doubled: {id}"));
        }
        seen[word] |= bit;
        found.stored += 1;
    })?;
    for number in 0..workload.events {
        let is_there = seen[(number / 64) as usize] & (1 << (number % 64)) != 0;
        if !is_there && !unsure.iter().any(|range| range.contains(&number)) {
            found.lost += 1;
            found.fault(|| format!("lost: event {number}"));
        }
    }
    Ok(())
}

/// By device, by session: the offset of the last version and its count of events.
type Sessions = HashMap<String, HashMap<String, (i64, u64)>>;

fn sessions(snapshot: &Snapshot) -> Result<Sessions, BenchError> {
    let mut sessions = Sessions::new();
    let columns = [
        "id",
        "device_id",
        "event_count",
        "screen_view_count",
        "log_offset",
    ];
    each_row(snapshot, Table::Sessions, &columns, |row| {
        let of_device = sessions.entry(row.text(1).to_owned()).or_default();
        let last = of_device
            .entry(row.text(0).to_owned())
            .or_insert((i64::MIN, 0));
        let offset = row.columns[4].as_primitive::<Int64Type>().value(row.row);
        if offset >= last.0 {
            *last = (offset, row.count(2) + row.count(3));
        }
    })?;
    Ok(sessions)
}

fn profiles(snapshot: &Snapshot) -> Result<std::collections::HashSet<String>, BenchError> {
    let mut profiles = std::collections::HashSet::new();
    each_row(snapshot, Table::Profiles, &["id"], |row| {
        if !profiles.contains(row.text(0)) {
            profiles.insert(row.text(0).to_owned());
        }
    })?;
    Ok(profiles)
}

fn identities(
    workload: &Workload,
    sessions: &Sessions,
    profiles: &std::collections::HashSet<String>,
    found: &mut Reconciled,
) {
    for (identity, events) in (0..).zip(workload.events_of_identities()) {
        let (device, account) = Workload::names(identity);
        let counts: Vec<u64> = sessions
            .get(&device)
            .map(|of| of.values().map(|last| last.1).collect())
            .unwrap_or_default();
        let expected = if events == 0 { vec![] } else { vec![events] };
        let has_profile = profiles.contains(&account) == (events > 0);
        if counts != expected || !has_profile {
            found.identities_at_fault += 1;
            found.fault(|| {
                format!("{device}: {events} events, sessions of {counts:?}, profile {has_profile}")
            });
        }
    }
}

/// A row of the columns asked for.
struct Row<'c> {
    columns: &'c [ArrayRef],
    texts: &'c [Option<TextRows>],
    row: usize,
}

impl Row<'_> {
    fn text(&self, column: usize) -> &str {
        self.texts[column]
            .as_ref()
            .map_or("", |texts| texts.value(self.row))
    }

    fn count(&self, column: usize) -> u64 {
        let count = self.columns[column]
            .as_primitive::<Int32Type>()
            .value(self.row);
        u64::try_from(count).unwrap_or(0)
    }
}

fn each_row(
    snapshot: &Snapshot,
    table: Table,
    columns: &[&str],
    mut visit: impl FnMut(&Row<'_>),
) -> Result<(), BenchError> {
    let specs = table.columns();
    let place = |name: &&str| specs.iter().position(|spec| spec.name == *name);
    let places: Vec<usize> = columns.iter().filter_map(place).collect();
    assert_eq!(places.len(), columns.len(), "{table:?} has {columns:?}");
    for file in snapshot.files(table) {
        let mut reader = TableReader::open(table, &file.path, &places)?;
        while let Some(columns) = reader.next_columns(table)? {
            let texts: Vec<_> = columns.iter().map(TextRows::of).collect();
            for row in 0..columns.first().map_or(0, |column| column.len()) {
                visit(&Row {
                    columns: &columns,
                    texts: &texts,
                    row,
                });
            }
        }
    }
    Ok(())
}
