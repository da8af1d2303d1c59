//! The control topic, as the registry needs it: append one record, read all of them.

use std::sync::Mutex;

use crate::error::RegistryError;

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
