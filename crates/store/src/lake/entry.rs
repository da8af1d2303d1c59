//! What the committed list says of a file, and its form in the state store.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::checksum::Contents;
use crate::error::{Result, StoreError};
use crate::tables::{RowBounds, Table};

/// Keyspace of the file list.
pub(crate) const KEYSPACE: &str = "lake";

/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 86_400_000;

/// How far a file has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// One block's rows, of any days: what a fold committed.
    Block,
    /// Rows of one day, merged from some of its blocks.
    Part,
    /// Rows of one day, merged from all that the day had; repeats are out.
    Day,
}

/// One file of the committed list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name in the table's folder; never used again for other rows, but
    /// for a block's replay.
    pub name: String,
    /// How far it has come.
    pub level: Level,
    /// The UTC day of all its rows, in days since the epoch; none for a block.
    pub day: Option<i32>,
    /// The merge that wrote it; the files of one run do not overlap and follow
    /// each other by name. 0 for a block.
    pub run: u64,
    /// Rows.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// CRC32C of those bytes; none for a file of a build that took none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32c: Option<u32>,
    /// Least event time, ms since the epoch.
    pub time_min_ms: i64,
    /// Greatest event time, ms since the epoch.
    pub time_max_ms: i64,
    /// Least offset in the log.
    pub offset_min: i64,
    /// Greatest offset in the log.
    pub offset_max: i64,
    /// The table's version that wrote it.
    pub version: u32,
}

impl FileEntry {
    /// Whether compaction has written it.
    pub fn compacted(&self) -> bool {
        self.level != Level::Block
    }

    /// What the file is to hold.
    pub fn contents(&self) -> Contents {
        Contents {
            bytes: self.bytes,
            crc32c: self.crc32c,
        }
    }

    /// What its rows span.
    pub fn bounds(&self) -> RowBounds {
        RowBounds {
            time_min_ms: self.time_min_ms,
            time_max_ms: self.time_max_ms,
            offset_min: self.offset_min,
            offset_max: self.offset_max,
        }
    }

    /// Its key in the state store.
    pub(crate) fn key(table: Table, name: &str) -> Vec<u8> {
        format!("file/{}/{name}", table.name()).into_bytes()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and text always encode")
    }
}

/// A listed file, with the place where it stands. While one of these is held,
/// the file stays on disk.
#[derive(Debug, PartialEq, Eq)]
pub struct LakeFile {
    /// Its table.
    pub table: Table,
    /// What the list says.
    pub entry: FileEntry,
    /// Where it stands. Shared by all that name this file.
    pub path: Arc<PathBuf>,
}

/// Key prefix of listed files.
pub(crate) const FILE_PREFIX: &[u8] = b"file/";
/// Key prefix of files replaced and not yet unlinked.
pub(crate) const DEAD_PREFIX: &[u8] = b"dead/";
/// Key of the number that the next compacted file takes.
pub(crate) const SEQUENCE_KEY: &[u8] = b"sequence";

/// Key of the version of the newest file that a table had.
pub(crate) fn version_key(table: Table) -> Vec<u8> {
    format!("version/{}", table.name()).into_bytes()
}

/// Key of a replaced file; its value is when it was replaced, ms as text.
pub(crate) fn dead_key(table: Table, name: &str) -> Vec<u8> {
    format!("dead/{}/{name}", table.name()).into_bytes()
}

/// Reads an entry as the state store has it.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<(Table, FileEntry)> {
    let (table, _) = split_key(key)?;
    let entry =
        serde_json::from_slice(value).map_err(|error| bad_entry(key, &error.to_string()))?;
    Ok((table, entry))
}

/// The table and the file's name in a key `file/…` or `dead/…`.
pub(crate) fn split_key(key: &[u8]) -> Result<(Table, String)> {
    let text = std::str::from_utf8(key).map_err(|_| bad_entry(key, "its key is no text"))?;
    let mut parts = text.splitn(3, '/').skip(1);
    let (Some(table), Some(name)) = (parts.next(), parts.next()) else {
        return Err(bad_entry(key, "its key names no table and file"));
    };
    let table = Table::from_name(table).ok_or_else(|| bad_entry(key, "its table is unknown"))?;
    Ok((table, name.to_owned()))
}

pub(crate) fn bad_entry(key: &[u8], reason: &str) -> StoreError {
    let key = String::from_utf8_lossy(key).into_owned();
    StoreError::Entry {
        key,
        reason: reason.to_owned(),
    }
}

/// The day of a time, in days since the epoch (UTC).
pub fn day_of(time_ms: i64) -> i32 {
    // 1900 to 2262 is what a table holds: some 133,000 days.
    time_ms.div_euclid(DAY_MS) as i32
}

/// A day as `YYYY-MM-DD`.
pub fn day_name(day: i32) -> String {
    let start = jiff::Timestamp::from_millisecond(i64::from(day) * DAY_MS);
    let start = start.unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    start.strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight_utc_on_both_sides_of_the_epoch() {
        assert_eq!(day_of(0), 0);
        assert_eq!(day_of(DAY_MS - 1), 0);
        assert_eq!(day_of(DAY_MS), 1);
        assert_eq!(day_of(-1), -1);
        assert_eq!(day_name(0), "1970-01-01");
        assert_eq!(day_name(-1), "1969-12-31");
        // 2024-02-29 is day 19,782: 54 years with 13 leap days before 2024 are
        // 19,723 days, January has 31, and 28 more days of February pass.
        assert_eq!(day_name(19_723 + 31 + 28), "2024-02-29");
    }

    #[test]
    fn an_entry_is_read_as_written() {
        let entry = FileEntry {
            name: "events-1-2.parquet".to_owned(),
            level: Level::Part,
            day: Some(19_782),
            run: 3,
            rows: 2,
            bytes: 3,
            crc32c: Some(0x8000_0000),
            time_min_ms: -4,
            time_max_ms: 5,
            offset_min: 6,
            offset_max: 7,
            version: 1,
        };
        let key = FileEntry::key(Table::Messages, &entry.name);
        let read = decode(&key, &entry.encode()).expect("it is read");
        assert_eq!(read, (Table::Messages, entry));
    }

    #[test]
    fn a_key_of_no_table_is_refused() {
        assert!(split_key(b"file/nothing/x").is_err());
        assert!(split_key(b"file/messages").is_err());
        assert!(split_key(b"dead/messages/a/b").is_ok());
    }
}
