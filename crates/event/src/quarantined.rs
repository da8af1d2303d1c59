//! Records that could not be stored, as they stand in the topic `quarantine`.

use crate::encode;
use crate::time::Timestamp;
use crate::view::merge_timestamp;
use crate::wire::{Cursor, Malformed, block_key, known, varint_key};

/// Why a record was not stored. The set is closed: it is a label of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuarantineReason {
    /// It is not an `Event`.
    Undecodable,
    /// It breaks a rule of the contract.
    ContractViolation,
    /// Its times are beyond what the tables hold.
    Unstorable,
    /// The store refused the row for good.
    RefusedByStore,
}

impl QuarantineReason {
    /// The reason as it stands on the wire and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Undecodable => "undecodable",
            Self::ContractViolation => "contract_violation",
            Self::Unstorable => "unstorable",
            Self::RefusedByStore => "refused_by_store",
        }
    }
}

/// A record that could not be stored, with where it stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quarantined<'a> {
    /// The topic that it was read from.
    pub topic: &'a str,
    /// Its partition.
    pub partition: u16,
    /// Its offset; readers keep the first record of a (topic, partition, offset).
    pub offset: u64,
    /// See [`QuarantineReason::as_str`].
    pub reason: &'a str,
    /// For people.
    pub detail: &'a str,
    /// The record as it stood in the log.
    pub original: &'a [u8],
    /// Its append time.
    pub time: Option<Timestamp>,
}

impl<'a> Quarantined<'a> {
    /// Appends the message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode::text(1, self.topic, out);
        encode::number(2, u64::from(self.partition), out);
        encode::number(3, self.offset, out);
        encode::text(4, self.reason, out);
        encode::text(5, self.detail, out);
        encode::bytes(6, self.original, out);
        if let Some(time) = self.time {
            encode::timestamp(7, time, out);
        }
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`Malformed`] if it is none, or its partition is over 65,535.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        const TOPIC: u32 = block_key(1);
        const PARTITION: u32 = varint_key(2);
        const OFFSET: u32 = varint_key(3);
        const REASON: u32 = block_key(4);
        const DETAIL: u32 = block_key(5);
        const ORIGINAL: u32 = block_key(6);
        const TIME: u32 = block_key(7);
        let mut record = Self::default();
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            match cursor.key()? {
                TOPIC => record.topic = cursor.text()?,
                PARTITION => {
                    let partition = cursor.varint()?;
                    record.partition = u16::try_from(partition).map_err(|_| Malformed::Integer)?;
                }
                OFFSET => record.offset = cursor.varint()?,
                REASON => record.reason = cursor.text()?,
                DETAIL => record.detail = cursor.text()?,
                ORIGINAL => record.original = cursor.block()?,
                TIME => merge_timestamp(&mut record.time, cursor.message()?)?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3, 4, 5, 6, 7]))?,
            }
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let record = Quarantined {
            topic: "events",
            partition: 15,
            offset: 1 << 40,
            reason: QuarantineReason::Unstorable.as_str(),
            detail: "time.event_time is out of range",
            original: &[0, 255, 1],
            time: Some(Timestamp {
                seconds: -5,
                nanos: 7,
            }),
        };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(Quarantined::parse(&bytes), Ok(record));
        for cut in 0..bytes.len() {
            // A cut at the end of a field is a shorter message; it must never be this one.
            assert_ne!(Quarantined::parse(&bytes[..cut]), Ok(record));
        }
    }

    #[test]
    fn a_partition_over_16_bits_is_malformed() {
        assert_eq!(
            Quarantined::parse(&[0x10, 0x80, 0x80, 0x04]),
            Err(Malformed::Integer)
        );
    }
}
