//! What a read gives: whole frames, checked, and the records in them.

use std::ops::Range;

use fulmar_event::{RawRecord, RecordIter, Records as Framed};

/// One record in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its ordinal in the journal.
    pub offset: u64,
    /// Its partition.
    pub partition: u16,
    /// When its append was stamped, in ms since the epoch; never runs
    /// backwards in a topic (L5).
    pub append_time_ms: i64,
    /// Its bytes, as they were appended.
    pub bytes: &'a [u8],
}

impl Record<'_> {
    /// Whether it is a tick (F2): without bytes, it only moves the log's time on.
    #[must_use]
    pub fn is_tick(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Where one frame's records stand in the chunk's buffer.
#[derive(Clone, Debug)]
pub(crate) struct FrameSpan {
    pub payload: Range<usize>,
    pub first_offset: u64,
    pub append_time_ms: i64,
}

/// A run of records, read at once, or a gap that an operator accepted.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    pub(crate) buffer: Vec<u8>,
    pub(crate) frames: Vec<FrameSpan>,
    pub(crate) from: u64,
    pub(crate) end: u64,
    pub(crate) is_gap: bool,
}

impl Chunk {
    /// A chunk of one frame as a read would give it, without a log: for proofs
    /// of what reads chunks.
    pub fn of_frame(records: Framed, first_offset: u64, append_time_ms: i64) -> Chunk {
        let count = records.count();
        let buffer = records.into_bytes();
        let payload = 0..buffer.len();
        Chunk {
            buffer,
            frames: vec![FrameSpan {
                payload,
                first_offset,
                append_time_ms,
            }],
            from: first_offset,
            end: first_offset + u64::from(count),
            is_gap: false,
        }
    }

    /// A gap as a read would give it, without a log.
    pub fn of_gap(offsets: Range<u64>) -> Chunk {
        Chunk {
            from: offsets.start,
            end: offsets.end,
            is_gap: true,
            ..Chunk::default()
        }
    }

    /// Offset of the first record.
    pub fn first_offset(&self) -> u64 {
        self.from
    }

    /// One past the last record: where to read on.
    pub fn end_offset(&self) -> u64 {
        self.end
    }

    /// Number of records; 0 for a gap.
    pub fn count(&self) -> u64 {
        if self.is_gap { 0 } else { self.end - self.from }
    }

    /// Bytes of the payloads that were read.
    pub fn payload_bytes(&self) -> usize {
        self.frames.iter().map(|frame| frame.payload.len()).sum()
    }

    /// The offsets that are lost, when this stands for a damaged range that
    /// an operator accepted (L1). Such a chunk has no records.
    pub fn gap(&self) -> Option<Range<u64>> {
        self.is_gap.then_some(self.from..self.end)
    }

    /// Append time of the first record, in ms since the epoch.
    pub fn first_time_ms(&self) -> Option<i64> {
        Some(self.frames.first()?.append_time_ms)
    }

    /// Append time of the last record, in ms since the epoch.
    pub fn last_time_ms(&self) -> Option<i64> {
        Some(self.frames.last()?.append_time_ms)
    }

    /// The records in order.
    pub fn iter(&self) -> Records<'_> {
        Records {
            chunk: self,
            frame: 0,
            inside: RecordIter::new(&[]),
            offset: 0,
            time_ms: 0,
        }
    }
}

impl<'a> IntoIterator for &'a Chunk {
    type Item = Record<'a>;
    type IntoIter = Records<'a>;

    fn into_iter(self) -> Records<'a> {
        self.iter()
    }
}

/// Iterator over a chunk's records.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    chunk: &'a Chunk,
    frame: usize,
    inside: RecordIter<'a>,
    offset: u64,
    time_ms: i64,
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            // A frame's framing was checked as it was read, so that an error
            // can't come here; it would end the frame.
            if let Some(Ok(RawRecord { partition, bytes })) = self.inside.next() {
                let offset = self.offset;
                self.offset += 1;
                if offset < self.chunk.from {
                    continue;
                }
                return Some(Record {
                    offset,
                    partition,
                    append_time_ms: self.time_ms,
                    bytes,
                });
            }
            let span = self.chunk.frames.get(self.frame)?;
            self.frame += 1;
            self.inside = RecordIter::new(&self.chunk.buffer[span.payload.clone()]);
            self.offset = span.first_offset;
            self.time_ms = span.append_time_ms;
        }
    }
}
