//! A run of records on its way to the log: `u32 LE length | u16 LE partition | bytes` each.
//!
//! Doors write straight into the buffer, and the log writes the buffer as the payload of one
//! frame, so that a batch is copied once and is atomic over its partitions.

use crate::limits;

/// Bytes before each record: its length and its partition.
const HEADER_BYTES: usize = 6;

/// A buffer of framed records. Cheap to clear and use again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    buffer: Vec<u8>,
    count: u32,
}

/// An open record: where its header stands. Give it back to [`Records::end`] or
/// [`Records::cancel`].
#[derive(Debug)]
#[must_use = "an open record must be ended or cancelled"]
pub struct Mark(usize);

impl Records {
    /// An empty run.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty run with room for `bytes` bytes, headers included.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            buffer: Vec::with_capacity(bytes),
            count: 0,
        }
    }

    /// An empty run in the memory of `buffer`.
    pub fn reusing(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self { buffer, count: 0 }
    }

    /// Opens a record; write its bytes to the end of [`Records::buffer`].
    #[inline]
    pub fn begin(&mut self, partition: u16) -> Mark {
        let mark = Mark(self.buffer.len());
        let [low, high] = partition.to_le_bytes();
        self.buffer.extend_from_slice(&[0, 0, 0, 0, low, high]);
        mark
    }

    /// The buffer, to append an open record's bytes to. What stands in it must not change.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Closes the open record by writing its length.
    ///
    /// # Panics
    /// If the record is over 4 GiB, which every limit of the contract forbids.
    #[inline]
    pub fn end(&mut self, mark: Mark) {
        let length = self.buffer.len() - mark.0 - HEADER_BYTES;
        let length = u32::try_from(length).expect("limits keep a record far under 4 GiB");
        self.buffer[mark.0..mark.0 + 4].copy_from_slice(&length.to_le_bytes());
        self.count += 1;
    }

    /// Takes the open record back.
    pub fn cancel(&mut self, mark: Mark) {
        self.buffer.truncate(mark.0);
    }

    /// Appends one record.
    pub fn push(&mut self, partition: u16, bytes: &[u8]) {
        let mark = self.begin(partition);
        self.buffer.extend_from_slice(bytes);
        self.end(mark);
    }

    /// Number of records.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The framed records.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// True without a record.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Drops the records and keeps the memory.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.count = 0;
    }

    /// The framed records, owned.
    pub fn into_bytes(self) -> Vec<u8> {
        self.buffer
    }

    /// The records, in order.
    pub fn iter(&self) -> RecordIter<'_> {
        RecordIter::new(&self.buffer)
    }

    /// Where the run ends now; [`Records::roll_back`] returns to it.
    pub(crate) fn checkpoint(&self) -> (usize, u32) {
        (self.buffer.len(), self.count)
    }

    /// Drops every record after `checkpoint`.
    pub(crate) fn roll_back(&mut self, checkpoint: (usize, u32)) {
        self.buffer.truncate(checkpoint.0);
        self.count = checkpoint.1;
    }
}

/// A record as it stands in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// The partition that its key selects.
    pub partition: u16,
    /// One `fulmar.event.v1.Event`, or another message, by topic.
    pub bytes: &'a [u8],
}

/// Why a buffer is not a run of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordsError {
    /// The buffer ends within a record.
    #[error("the buffer ends within a record at byte {at}")]
    Truncated {
        /// Where the record's header starts.
        at: usize,
    },
    /// A record is larger than any door can make.
    #[error("a record of {length} bytes at byte {at} is over {max}", max = RECORD_LENGTH_MAX)]
    TooLong {
        /// Where the record's header starts.
        at: usize,
        /// The length that the header gives.
        length: u32,
    },
}

/// Bytes of the largest record in any topic: a quarantined one carries another one whole.
const RECORD_LENGTH_MAX: u32 = limits::BODY_BYTES_MAX as u32 + limits::RECORD_BYTES_MAX;

/// Reads framed records from a buffer; stops after the first error.
#[derive(Debug, Clone)]
pub struct RecordIter<'a> {
    buffer: &'a [u8],
    at: usize,
}

impl<'a> RecordIter<'a> {
    /// Over the framed records of `buffer`; lengths are checked as it goes.
    pub fn new(buffer: &'a [u8]) -> Self {
        Self { buffer, at: 0 }
    }

    /// Where the next record's header starts.
    pub fn position(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<RawRecord<'a>, RecordsError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = &self.buffer[at..];
        if rest.is_empty() {
            return None;
        }
        self.at = self.buffer.len();
        let Some((header, rest)) = rest.split_first_chunk::<HEADER_BYTES>() else {
            return Some(Err(RecordsError::Truncated { at }));
        };
        let [l0, l1, l2, l3, p0, p1] = *header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if length > RECORD_LENGTH_MAX {
            return Some(Err(RecordsError::TooLong { at, length }));
        }
        let Some(bytes) = rest.get(..length as usize) else {
            return Some(Err(RecordsError::Truncated { at }));
        };
        self.at = at + HEADER_BYTES + bytes.len();
        Some(Ok(RawRecord {
            partition: u16::from_le_bytes([p0, p1]),
            bytes,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_length_partition_bytes() {
        let mut records = Records::new();
        records.push(0x0102, b"abc");
        assert_eq!(records.bytes(), [3, 0, 0, 0, 2, 1, b'a', b'b', b'c']);
        assert_eq!(records.count(), 1);
    }

    #[test]
    fn what_is_pushed_is_read_and_what_is_cancelled_is_not() {
        let mut records = Records::with_capacity(64);
        records.push(1, b"one");
        let mark = records.begin(2);
        records.buffer().extend_from_slice(b"never");
        records.cancel(mark);
        records.push(3, b"");
        let read: Vec<_> = records.iter().map(|r| r.unwrap()).collect();
        let one = RawRecord {
            partition: 1,
            bytes: b"one",
        };
        assert_eq!(
            read,
            [
                one,
                RawRecord {
                    partition: 3,
                    bytes: b""
                }
            ]
        );
        assert_eq!(records.count(), 2);
    }

    #[test]
    fn a_buffer_cut_at_any_byte_gives_whole_records_then_an_error() {
        let mut records = Records::new();
        records.push(0, b"first");
        let first_bytes = records.bytes().len();
        records.push(0, b"second");
        for cut in 0..records.bytes().len() {
            let read: Vec<_> = RecordIter::new(&records.bytes()[..cut]).collect();
            let whole = usize::from(cut >= first_bytes);
            assert_eq!(
                read.iter().filter(|r| r.is_ok()).count(),
                whole,
                "cut at {cut}"
            );
            let at_border = cut == 0 || cut == first_bytes;
            assert_eq!(
                read.last().is_some_and(|r| r.is_err()),
                !at_border,
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn an_absurd_length_is_named() {
        let read: Vec<_> = RecordIter::new(&[255, 255, 255, 255, 0, 0, 1]).collect();
        assert_eq!(
            read,
            [Err(RecordsError::TooLong {
                at: 0,
                length: u32::MAX
            })]
        );
    }
}
