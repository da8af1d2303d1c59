//! Records that could not be stored: looked at, and put into the log again.

use std::collections::{BTreeSet, HashMap};

use fulmar_event::Quarantined;
use fulmar_log::{Appended, Journal, Records};

use crate::error::Result;

/// Bytes of the log read at a time.
const READ_BYTES: usize = 1024 * 1024;

/// Offsets of one topic remembered to tell copies. Copies come of a block that
/// was tried again, and a block is far smaller.
const OFFSETS_REMEMBERED: usize = 1 << 20;

/// A record of the topic `quarantine`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedRecord {
    /// Its offset in `quarantine`: what names it in commands.
    pub id: u64,
    /// The topic that it came from.
    pub topic: String,
    /// Its partition there.
    pub partition: u16,
    /// Its offset there.
    pub offset: u64,
    /// Why it could not be stored, for machines.
    pub reason: String,
    /// Why, for people.
    pub detail: String,
    /// When it was appended there, ms since the epoch.
    pub time_ms: Option<i64>,
    /// The record as it stood in the log.
    pub original: Vec<u8>,
}

/// Calls `visit` for every quarantined record in order, the first copy only,
/// until it says false.
///
/// # Errors
/// When the log can't be read.
pub fn for_each(
    quarantine: &Journal,
    mut visit: impl FnMut(QuarantinedRecord) -> bool,
) -> Result<()> {
    let mut seen = Seen::default();
    let mut from = quarantine.start();
    while let Some(chunk) = quarantine.read(from, READ_BYTES)? {
        for record in &chunk {
            // What can't be read was not written by any version of ours.
            let Ok(parsed) = Quarantined::parse(record.bytes) else {
                continue;
            };
            let first_copy = seen.is_first(parsed.topic, parsed.offset);
            if first_copy && !visit(owned(record.offset, &parsed)) {
                return Ok(());
            }
        }
        from = chunk.end_offset();
    }
    Ok(())
}

/// The latest `count` records, oldest first.
///
/// # Errors
/// When the log can't be read.
pub fn list(quarantine: &Journal, count: usize) -> Result<Vec<QuarantinedRecord>> {
    let mut latest = std::collections::VecDeque::new();
    for_each(quarantine, |record| {
        latest.push_back(record);
        if latest.len() > count {
            latest.pop_front();
        }
        true
    })?;
    Ok(latest.into())
}

/// The record of that offset in `quarantine`.
///
/// # Errors
/// When the log can't be read.
pub fn show(quarantine: &Journal, id: u64) -> Result<Option<QuarantinedRecord>> {
    if id < quarantine.start() || id >= quarantine.end() {
        return Ok(None);
    }
    let Some(chunk) = quarantine.read(id, 1)? else {
        return Ok(None);
    };
    let record = chunk.iter().find(|record| record.offset == id);
    let parsed = record.and_then(|record| Quarantined::parse(record.bytes).ok());
    Ok(parsed.map(|parsed| owned(id, &parsed)))
}

/// Appends the original bytes to the topic that they came from as a new record,
/// which is folded as any other and counted as logged. It resolves when the
/// append is durable.
///
/// # Errors
/// When the log refuses.
pub fn replay(record: &QuarantinedRecord, topic: &Journal) -> Result<Appended> {
    let mut records = Records::new();
    records.push(record.partition, &record.original);
    Ok(topic.append_blocking(records)?)
}

fn owned(id: u64, record: &Quarantined<'_>) -> QuarantinedRecord {
    QuarantinedRecord {
        id,
        topic: record.topic.to_owned(),
        partition: record.partition,
        offset: record.offset,
        reason: record.reason.to_owned(),
        detail: record.detail.to_owned(),
        time_ms: record.time.map(fulmar_event::Timestamp::as_millis),
        original: record.original.to_owned(),
    }
}

/// The offsets met so far. An offset is one record of its topic, whatever its
/// partition.
#[derive(Default)]
struct Seen {
    offsets: HashMap<String, BTreeSet<u64>>,
}

impl Seen {
    fn is_first(&mut self, topic: &str, offset: u64) -> bool {
        if !self.offsets.contains_key(topic) {
            self.offsets.insert(topic.to_owned(), BTreeSet::new());
        }
        let offsets = self.offsets.get_mut(topic).expect("it was just put there");
        let first = offsets.insert(offset);
        if offsets.len() > OFFSETS_REMEMBERED {
            offsets.pop_first();
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_copy_counts_whatever_the_order() {
        let mut seen = Seen::default();
        let met = [
            ("events", 5),
            ("events", 7),
            ("events", 5),
            ("profiles", 5),
            ("events", 6),
        ];
        let first = met.map(|(topic, offset)| seen.is_first(topic, offset));
        assert_eq!(first, [true, true, false, true, true]);
    }
}
