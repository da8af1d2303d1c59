//! Streams the log, the tables and the receipts into a spill.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use fulmar_event::{Body, EventView};
use fulmar_log::{LogError, Reader, Record, Topic};
use fulmar_store::{Forgotten, Table};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::judge::{Identity, Met};
use crate::exit::{Context as _, Failure};

/// Bytes of the log that one read takes.
const READ_BYTES: usize = 1 << 20;
/// Longest line of a receipts file, in bytes: an id has at most 256, a project and a source 64
/// each, and each byte at most six in JSON.
const RECEIPT_BYTES_MAX: u64 = 4_096;

/// Whose an event is: what the comparison goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The project.
    pub project: &'a str,
    /// The authenticated agent or client.
    pub source: &'a str,
    /// The event's id, as sent.
    pub id: &'a str,
}

impl Name<'_> {
    /// Its 128 bits. Parts are length-prefixed, so that no two names run into one.
    pub fn identity(&self) -> Identity {
        let mut hasher = Sha256::new();
        for part in [self.project, self.source, self.id] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let hash: [u8; 32] = hasher.finalize().into();
        Identity(u128::from_le_bytes(
            hash[..16].try_into().expect("16 of 32 bytes"),
        ))
    }
}

/// The name of an event that no contract can read, by where it stands.
pub fn unreadable(offset: u64) -> Identity {
    let mut hasher = std::hash::DefaultHasher::new();
    offset.hash(&mut hasher);
    // Its own half of the space: a name is 128 bits of SHA-256, this is below 2^64.
    Identity(u128::from(hasher.finish()))
}

/// How long each table keeps its rows, by event time.
#[derive(Clone, Debug)]
pub struct Retention {
    /// Milliseconds since the epoch now.
    pub now_ms: i64,
    /// Milliseconds, by the table's name; a table that is not named keeps all.
    pub kept_ms: BTreeMap<String, i64>,
}

impl Retention {
    fn expired(&self, event: &EventView<'_>) -> bool {
        let table = Table::of_body(&event.body);
        let Some(&kept_ms) = table.and_then(|table| self.kept_ms.get(table.name())) else {
            return false;
        };
        let time_ms = event
            .event_time
            .map_or(0, fulmar_event::Timestamp::as_millis);
        time_ms < self.now_ms.saturating_sub(kept_ms)
    }
}

/// Calls `each` with every record of `events` from `from` up to `to`. Ranges that an operator gave
/// up are passed, and given in the answer.
pub fn log(
    reader: &mut Reader,
    to: u64,
    mut each: impl FnMut(&Record<'_>) -> Result<(), Failure>,
) -> Result<Vec<Range<u64>>, Failure> {
    let mut given_up = Vec::new();
    while reader.position() < to {
        let Some(chunk) = reader.next(READ_BYTES)? else {
            break;
        };
        if let Some(gap) = chunk.gap() {
            given_up.push(gap.start..gap.end.min(to).max(gap.start));
        }
        for record in &chunk {
            if record.offset >= to {
                break;
            }
            each(&record)?;
        }
        reader.recycle(chunk);
    }
    Ok(given_up)
}

/// What operators had deleted.
#[derive(Clone, Debug, Default)]
pub struct Deletions(Vec<Forgotten>);

impl Deletions {
    /// Out of all that were, those that are about offsets of `events`.
    pub fn new(all: Vec<Forgotten>) -> Self {
        let of_events = |one: &Forgotten| one.topic == Topic::Events.name();
        Self(all.into_iter().filter(of_events).collect())
    }

    /// Whether the row of the record may be gone by one.
    fn may_have_taken(&self, event: &EventView<'_>, offset: u64) -> bool {
        let is_whose = |profile: &str| match &event.body {
            Body::Track(track) if track.profile_id.is_empty() => track.device_id == profile,
            Body::Track(track) => track.profile_id == profile,
            // Only its session tells whose a recording is.
            Body::Replay(_) => true,
            _ => false,
        };
        self.0.iter().any(|one| {
            offset < one.before
                && one.project == event.stamp.project
                && one.profile.as_deref().is_none_or(is_whose)
        })
    }
}

/// What a record of the log is to the comparison; none for one that has no row by its kind.
pub fn of_record(
    record: &Record<'_>,
    quarantined: bool,
    retention: &Retention,
    deletions: &Deletions,
) -> Option<(Identity, Met)> {
    let offset = record.offset;
    let Ok(event) = EventView::parse(record.bytes) else {
        let met = if quarantined {
            Met::Quarantined { offset }
        } else {
            Met::Logged { offset }
        };
        return Some((unreadable(offset), met));
    };
    if matches!(&event.body, Body::Profile(view) if view.forgets().is_some()) {
        return None;
    }
    let name = Name {
        project: event.stamp.project,
        source: event.stamp.source,
        id: event.event_id,
    };
    let met = if quarantined {
        Met::Quarantined { offset }
    } else if deletions.may_have_taken(&event, offset) {
        Met::Deleted { offset }
    } else if retention.expired(&event) {
        Met::Expired { offset }
    } else {
        Met::Logged { offset }
    };
    Some((name.identity(), met))
}

/// Offsets of `events` that stand in the quarantine, sorted: 8 bytes each, and few. Ranges that an
/// operator gave up are passed.
pub fn quarantined(log: &Path, passed: Vec<Range<u64>>) -> Result<Vec<u64>, Failure> {
    let topic = fulmar_log::ReadOnly::open(log, Topic::Quarantine)?;
    let mut reader = topic.reader(topic.start());
    reader.accept_loss(passed);
    let mut offsets = Vec::new();
    loop {
        let chunk = match reader.next(READ_BYTES) {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            Err(LogError::OutOfRange { start, .. }) if reader.position() < start => {
                reader.seek(start);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for record in &chunk {
            if let Ok(parsed) = fulmar_event::Quarantined::parse(record.bytes)
                && parsed.topic == Topic::Events.name()
            {
                offsets.push(parsed.offset);
            }
        }
    }
    offsets.sort_unstable();
    offsets.dedup();
    Ok(offsets)
}

/// One file of a table.
#[derive(Clone, Debug, Deserialize)]
pub struct TableFile {
    /// The table's name.
    pub table: String,
    /// Where the file stands.
    pub path: PathBuf,
    /// Bytes that it is to have.
    pub bytes: u64,
    /// The CRC32C that they are to have; none for a file of a build that took none.
    pub crc32c: Option<u32>,
    /// Least offset in `events` of its rows.
    pub offset_min: u64,
    /// Greatest offset in `events` of its rows.
    pub offset_max: u64,
}

impl TableFile {
    /// Offsets of `events` whose rows it may hold; none for a table of versions.
    pub fn offsets(&self) -> Option<Range<u64>> {
        let table = Table::from_name(&self.table)?;
        (!table.is_versioned()).then(|| self.offset_min..self.offset_max.saturating_add(1))
    }

    /// What keeps the file's rows from being believed; `None` when its bytes are those listed.
    pub fn damage(&self) -> Option<String> {
        let listed = fulmar_store::Contents {
            bytes: self.bytes,
            crc32c: self.crc32c,
        };
        let error = listed.check(&self.path).err()?;
        Some(format!("{}: {error}", self.table))
    }
}

/// Calls `each` with every row of a file that a record of `events` became: its name and its
/// offset. Rows that folds make of others have no source, or are versions.
pub fn table_file(
    file: &TableFile,
    mut each: impl FnMut(Name<'_>, u64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let table = Table::from_name(&file.table)
        .ok_or_else(|| Failure::new(format!("no table `{}` is known", file.table)))?;
    if table.is_versioned() {
        return Ok(());
    }
    fulmar_store::scan_file::<Stopped>(table, &file.path, &mut |row| {
        if row.source.is_empty() {
            return Ok(());
        }
        let name = Name {
            project: row.project,
            source: row.source,
            id: row.event_id,
        };
        Ok(each(name, row.log_offset)?)
    })
    .map_err(|stopped| stopped.0)
}

/// Carries a failure of the visitor, or of the store, out of a scan.
struct Stopped(Failure);

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl From<fulmar_store::StoreError> for Stopped {
    fn from(error: fulmar_store::StoreError) -> Self {
        Self(error.into())
    }
}

/// Calls `each` with every receipt of a file. A last line that was cut short is no receipt: its
/// writer died before it was one.
pub fn receipts(
    path: &Path,
    mut each: impl FnMut(Name<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Line {
        project: String,
        source: String,
        id: String,
    }
    let file = File::open(path).context(format!("cannot read {}", path.display()))?;
    let mut file = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = file
            .by_ref()
            .take(RECEIPT_BYTES_MAX)
            .read_until(b'\n', &mut line)
            .context(format!("cannot read {}", path.display()))?;
        if read == 0 || line.last() != Some(&b'\n') && (line.len() as u64) < RECEIPT_BYTES_MAX {
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let receipt: Line = serde_json::from_slice(&line)
            .context(format!("{} line {number} is no receipt", path.display()))?;
        each(Name {
            project: &receipt.project,
            source: &receipt.source,
            id: &receipt.id,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_run_into_each_other() {
        let name = |project, source, id| {
            Name {
                project,
                source,
                id,
            }
            .identity()
        };
        assert_eq!(name("a", "b", "c"), name("a", "b", "c"));
        assert_ne!(name("a", "b", "c"), name("ab", "", "c"));
        assert_ne!(name("a", "bc", "d"), name("a", "b", "cd"));
    }

    #[test]
    fn a_cut_last_line_is_no_receipt_and_a_broken_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("receipts");
        let line = |id: &str| format!("{{\"project\":\"p\",\"source\":\"s\",\"id\":\"{id}\"}}\n");
        std::fs::write(
            &path,
            format!("{}{}{{\"project\":\"p\"", line("1"), line("2")),
        )
        .unwrap();
        let mut ids = Vec::new();
        receipts(&path, |name| {
            ids.push(name.id.to_owned());
            Ok(())
        })
        .unwrap();
        assert_eq!(ids, ["1", "2"]);
        std::fs::write(&path, format!("{}nonsense\n", line("1"))).unwrap();
        let told = receipts(&path, |_| Ok(())).unwrap_err().to_string();
        assert!(told.contains("line 2 is no receipt"), "{told}");
    }
}
