//! The control topic, as the registry needs it: append one record, read all of them.

use std::sync::Mutex;

use fulmar_log::{Journal, LogError, Records};

use crate::error::RegistryError;

/// Bytes of the topic that one read takes: control records are a few hundred bytes each.
const READ_BYTES_MAX: usize = 1 << 20;

/// What a replay calls with the offset and the bytes of each record.
pub type EachRecord<'a> = dyn FnMut(u64, &[u8]) -> Result<(), RegistryError> + 'a;

/// An append-only log of control records, kept for ever (R1).
pub trait ControlLog: Send + Sync {
    /// Appends one record and returns its offset once it is durable (I1).
    ///
    /// # Errors
    /// `Log` when the record may not be on disk.
    fn append(&self, bytes: &[u8]) -> Result<u64, RegistryError>;

    /// Calls `each` with every record from the first on, in order.
    ///
    /// # Errors
    /// `Log` when the topic cannot be read, or what `each` returns.
    fn replay(&self, each: &mut EachRecord<'_>) -> Result<(), RegistryError>;
}

impl ControlLog for Journal {
    fn append(&self, bytes: &[u8]) -> Result<u64, RegistryError> {
        let mut records = Records::new();
        records.push(0, bytes);
        Ok(self.append_blocking(records)?.first_offset)
    }

    fn replay(&self, each: &mut EachRecord<'_>) -> Result<(), RegistryError> {
        let mut position = self.start();
        while let Some(chunk) = self.read(position, READ_BYTES_MAX)? {
            for record in &chunk {
                each(record.offset, record.bytes)?;
            }
            position = chunk.end_offset();
        }
        Ok(())
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

    fn replay(&self, each: &mut EachRecord<'_>) -> Result<(), RegistryError> {
        let records = self.records.lock().expect("no holder panics").clone();
        for (offset, bytes) in records.iter().enumerate() {
            each(offset as u64, bytes)?;
        }
        Ok(())
    }
}

impl<T: ControlLog> ControlLog for std::sync::Arc<T> {
    fn append(&self, bytes: &[u8]) -> Result<u64, RegistryError> {
        (**self).append(bytes)
    }

    fn replay(&self, each: &mut EachRecord<'_>) -> Result<(), RegistryError> {
        (**self).replay(each)
    }
}
