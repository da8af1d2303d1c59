//! A block: a contiguous run of one stream, the unit that a fold does and commits at once.

use std::fmt;

use fulmar_log::{Chunk, Record};

/// The name of a block: its stream with its first and last offset, both inclusive.
///
/// Displayed as `events-00000000000000000000-00000000000000000041`, so that names sort as blocks
/// do; outputs carry it, which makes a replayed block overwrite its own (F4).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockName {
    /// The topic.
    pub stream: String,
    /// Offset of the first record.
    pub first: u64,
    /// Offset of the last record.
    pub last: u64,
}

impl BlockName {
    /// How many offsets it spans; the records of a block are dense.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Reads a name as displayed; none when `text` is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<BlockName> {
        let (rest, last) = text.rsplit_once('-')?;
        let (stream, first) = rest.rsplit_once('-')?;
        let name = BlockName {
            stream: stream.to_owned(),
            first: first.parse().ok()?,
            last: last.parse().ok()?,
        };
        let sound = name.first <= name.last && name.to_string() == text;
        sound.then_some(name)
    }
}

impl fmt::Display for BlockName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{:020}-{:020}", self.stream, self.first, self.last)
    }
}

/// The records of a block, as chunks of the log that are never copied.
#[derive(Debug)]
pub struct Block {
    name: BlockName,
    chunks: Vec<Chunk>,
    append_first_ms: i64,
    append_last_ms: i64,
    bytes: u64,
}

impl Block {
    /// A block of the records `name.first..=name.last`, which `chunks` hold in order; records
    /// beside that range are passed over.
    #[must_use]
    pub fn new(name: BlockName, chunks: Vec<Chunk>) -> Block {
        let mut block = Block {
            name,
            chunks,
            append_first_ms: 0,
            append_last_ms: 0,
            bytes: 0,
        };
        let (mut first_ms, mut last_ms, mut bytes) = (None, 0, 0);
        for record in block.records() {
            first_ms = first_ms.or(Some(record.append_time_ms));
            last_ms = record.append_time_ms;
            bytes += record.bytes.len() as u64;
        }
        block.append_first_ms = first_ms.unwrap_or(last_ms);
        block.append_last_ms = last_ms;
        block.bytes = bytes;
        block
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &BlockName {
        &self.name
    }

    /// Its records, in the order of the log.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let (first, last) = (self.name.first, self.name.last);
        self.chunks
            .iter()
            .flat_map(Chunk::iter)
            .skip_while(move |record| record.offset < first)
            .take_while(move |record| record.offset <= last)
    }

    /// How many records it holds.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.name.records()
    }

    /// Never: a block holds at least one record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Bytes of its records, without framing.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Append time of its first record, in milliseconds since the epoch.
    #[must_use]
    pub fn append_first_ms(&self) -> i64 {
        self.append_first_ms
    }

    /// Append time of its last record, in milliseconds since the epoch: the log's time at its
    /// end, since append times never run backwards in a stream (L5).
    #[must_use]
    pub fn append_last_ms(&self) -> i64 {
        self.append_last_ms
    }
}

/// When a block is closed (F6).
#[derive(Clone, Copy, Debug)]
pub struct BlockLimits {
    /// Records; a block ends with the chunk of the log that reaches this.
    pub rows: u64,
    /// Bytes of the log, framing included; likewise.
    pub bytes: u64,
    /// Milliseconds since the append of its oldest record.
    pub age_ms: i64,
}

impl Default for BlockLimits {
    /// The lake's: rows and bytes so that a block with its columns stays well under 128 MiB, an
    /// age so that a record is visible within two seconds.
    fn default() -> BlockLimits {
        BlockLimits {
            rows: 131_072,
            bytes: 32 * 1024 * 1024,
            age_ms: 1_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use fulmar_log::Records;

    use super::*;

    fn frame(first: u64, time_ms: i64, words: &[&str]) -> Chunk {
        let mut records = Records::new();
        for word in words {
            records.push(3, word.as_bytes());
        }
        Chunk::of_frame(records, first, time_ms)
    }

    #[test]
    fn a_name_is_read_as_it_is_shown() {
        let name = BlockName {
            stream: "events".to_owned(),
            first: 0,
            last: 41,
        };
        let text = "events-00000000000000000000-00000000000000000041";
        assert_eq!(name.to_string(), text);
        assert_eq!(BlockName::parse(text), Some(name));
        for other in [
            "",
            "events-0-41",
            "events-00000000000000000002-00000000000000000001",
        ] {
            assert_eq!(BlockName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn only_records_of_the_range_are_in_it() {
        let chunks = vec![frame(5, 100, &["a", "bb"]), frame(7, 200, &["ccc", "dddd"])];
        let name = BlockName {
            stream: "events".to_owned(),
            first: 6,
            last: 7,
        };
        let block = Block::new(name, chunks);
        let records: Vec<_> = block
            .records()
            .map(|record| {
                (
                    record.offset,
                    record.partition,
                    record.append_time_ms,
                    record.bytes,
                )
            })
            .collect();
        let expected: [(u64, u16, i64, &[u8]); 2] = [(6, 3, 100, b"bb"), (7, 3, 200, b"ccc")];
        assert_eq!(records, expected);
        assert_eq!((block.len(), block.bytes()), (2, 5));
        assert_eq!(
            (block.append_first_ms(), block.append_last_ms()),
            (100, 200)
        );
    }
}
