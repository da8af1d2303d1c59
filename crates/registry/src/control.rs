//! The control topic, as the registry needs it: append one record, read all of them.

use std::sync::Mutex;

use fulmar_log::{Journal, LogError, ReadOnly, Reader, Records};

use crate::error::RegistryError;

/// Bytes of the topic that one read takes: control records are a few hundred bytes each.
const READ_BYTES_MAX: usize = 1 << 20;

/// What a replay calls with the offset and the bytes of each record.
pub type EachRecord<'a> = dyn FnMut(u64, &[u8]) -> Result<(), RegistryError> + 'a;

/// Control records that can't be read (L1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRecords {
    /// First offset.
    pub from: u64,
    /// One past the last offset.
    pub end: u64,
    /// The place and what is wrong there.
    pub place: String,
}

/// The records of an append-only log of control records, kept for ever (R1).
pub trait ControlRecords {
    /// Calls `each` with every record from an offset on, in order, up to the end (then `None`) or
    /// to records that can't be read.
    ///
    /// # Errors
    /// `Log` when the topic cannot be read for another reason than damage, or what `each` returns.
    fn replay(
        &self,
        from: u64,
        each: &mut EachRecord<'_>,
    ) -> Result<Option<LostRecords>, RegistryError>;
}

/// A log of control records that can be appended to.
pub trait ControlLog: ControlRecords + Send + Sync {
    /// Appends one record and returns its offset once it is durable (I1).
    ///
    /// # Errors
    /// `Log` when the record may not be on disk.
    fn append(&self, bytes: &[u8]) -> Result<u64, RegistryError>;
}

impl ControlLog for Journal {
    fn append(&self, bytes: &[u8]) -> Result<u64, RegistryError> {
        let mut records = Records::new();
        records.push(0, bytes);
        Ok(self.append_blocking(records)?.first_offset)
    }
}

impl ControlRecords for Journal {
    fn replay(
        &self,
        from: u64,
        each: &mut EachRecord<'_>,
    ) -> Result<Option<LostRecords>, RegistryError> {
        read_on(self.start(), from, |from| self.reader(from), each)
    }
}

impl ControlRecords for ReadOnly {
    fn replay(
        &self,
        from: u64,
        each: &mut EachRecord<'_>,
    ) -> Result<Option<LostRecords>, RegistryError> {
        read_on(self.start(), from, |from| self.reader(from), each)
    }
}

fn read_on(
    start: u64,
    from: u64,
    reader: impl FnOnce(u64) -> Reader,
    each: &mut EachRecord<'_>,
) -> Result<Option<LostRecords>, RegistryError> {
    // No retention takes control records: what is not there is lost.
    if from < start {
        let place = "the first segments of control are missing".to_owned();
        let end = start;
        return Ok(Some(LostRecords { from, end, place }));
    }
    let mut reader = reader(from);
    loop {
        match reader.next(READ_BYTES_MAX) {
            Ok(Some(chunk)) => {
                for record in &chunk {
                    each(record.offset, record.bytes)?;
                }
                reader.recycle(chunk);
            }
            Ok(None) => return Ok(None),
            Err(LogError::Damaged(damage)) => {
                return Ok(Some(LostRecords {
                    from: damage.first_offset.max(reader.position()),
                    end: damage.end_offset,
                    place: damage.to_string(),
                }));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

impl From<LogError> for RegistryError {
    fn from(error: LogError) -> Self {
        Self::Log(Box::new(error))
    }
}

/// A control topic in memory, for tests of those who use a registry.
#[derive(Default)]
pub struct MemoryLog {
    records: Mutex<Vec<Vec<u8>>>,
}

impl ControlLog for MemoryLog {
    fn append(&self, bytes: &[u8]) -> Result<u64, RegistryError> {
        let mut records = self.records.lock().expect("no holder panics");
        records.push(bytes.to_vec());
        Ok(records.len() as u64 - 1)
    }
}

impl ControlRecords for MemoryLog {
    fn replay(
        &self,
        from: u64,
        each: &mut EachRecord<'_>,
    ) -> Result<Option<LostRecords>, RegistryError> {
        let records = self.records.lock().expect("no holder panics").clone();
        for (offset, bytes) in records.iter().enumerate().skip(from as usize) {
            each(offset as u64, bytes)?;
        }
        Ok(None)
    }
}

impl<T: ControlLog> ControlLog for std::sync::Arc<T> {
    fn append(&self, bytes: &[u8]) -> Result<u64, RegistryError> {
        (**self).append(bytes)
    }
}

impl<T: ControlRecords> ControlRecords for std::sync::Arc<T> {
    fn replay(
        &self,
        from: u64,
        each: &mut EachRecord<'_>,
    ) -> Result<Option<LostRecords>, RegistryError> {
        (**self).replay(from, each)
    }
}
