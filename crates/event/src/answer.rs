//! The bodies of answers: acknowledgement, rejection and descriptor, written and read.

use crate::encode;
use crate::limits::{PROTOCOL_VERSION, SCHEMA_VERSION};
use crate::time::Timestamp;
use crate::verdict::Rejection;
use crate::view::merge_timestamp;
use crate::wire::{Cursor, Malformed, block_key, known, varint_key};

/// A `BatchAck` as read. A sender may forget a batch only if both flags are set and
/// `received` is what it sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ack {
    /// True on every 200.
    pub accepted: bool,
    /// True on every 200: the events are synced to disk (I1).
    pub durable: bool,
    /// Number of events in the batch.
    pub received: u32,
}

/// The `BatchAck` for `received` durable events.
pub fn encode_ack(received: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(12);
    encode::number(1, 1, &mut out);
    encode::number(2, 1, &mut out);
    encode::number(3, u64::from(received), &mut out);
    out
}

/// Reads a `BatchAck`.
///
/// # Errors
/// [`Malformed`] if it is none.
pub fn decode_ack(bytes: &[u8]) -> Result<Ack, Malformed> {
    const ACCEPTED: u32 = varint_key(1);
    const DURABLE: u32 = varint_key(2);
    const RECEIVED: u32 = varint_key(3);
    let mut ack = Ack::default();
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_empty() {
        match cursor.key()? {
            ACCEPTED => ack.accepted = cursor.varint()? != 0,
            DURABLE => ack.durable = cursor.varint()? != 0,
            RECEIVED => ack.received = cursor.varint()? as u32,
            key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3]))?,
        }
    }
    Ok(ack)
}

impl Rejection {
    /// The `Rejection` message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.detail.len() + self.field.len());
        encode::text(1, self.code.as_str(), &mut out);
        encode::text(2, &self.detail, &mut out);
        encode::text(3, &self.field, &mut out);
        encode::number(4, i64::from(self.event_index) as u64, &mut out);
        out
    }
}

/// A `Rejection` as read from a server, whose codes may be newer than ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refusal {
    /// Machine code.
    pub code: String,
    /// For people.
    pub detail: String,
    /// Dotted path of the field at fault, or empty.
    pub field: String,
    /// Zero-based index of the event at fault; -1 when the whole batch is.
    pub event_index: i32,
}

/// Reads a `Rejection`.
///
/// # Errors
/// [`Malformed`] if it is none.
pub fn decode_rejection(bytes: &[u8]) -> Result<Refusal, Malformed> {
    const CODE: u32 = block_key(1);
    const DETAIL: u32 = block_key(2);
    const FIELD: u32 = block_key(3);
    const EVENT_INDEX: u32 = varint_key(4);
    let mut refusal = Refusal::default();
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_empty() {
        match cursor.key()? {
            CODE => refusal.code = cursor.text()?.to_owned(),
            DETAIL => refusal.detail = cursor.text()?.to_owned(),
            FIELD => refusal.field = cursor.text()?.to_owned(),
            EVENT_INDEX => refusal.event_index = cursor.varint()? as i32,
            key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3, 4]))?,
        }
    }
    Ok(refusal)
}

/// A `Descriptor` as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Descriptor {
    /// Version of the agents door that the server speaks.
    pub protocol_version: u32,
    /// Lowest and highest protocol version that it accepts.
    pub supported_protocol: (u32, u32),
    /// Version of the event schema that the server writes.
    pub event_schema_version: u32,
    /// Lowest and highest schema version that it accepts.
    pub supported_event_schema: (u32, u32),
    /// The server's clock.
    pub server_time: Option<Timestamp>,
}

/// The `Descriptor` of this build, with the server's clock.
pub fn encode_descriptor(now: Timestamp) -> Vec<u8> {
    let range = |field, version, out: &mut Vec<u8>| {
        encode::message(field, out, |out| {
            encode::number(1, u64::from(version), out);
            encode::number(2, u64::from(version), out);
        });
    };
    let mut out = Vec::with_capacity(32);
    encode::number(1, u64::from(PROTOCOL_VERSION), &mut out);
    range(2, PROTOCOL_VERSION, &mut out);
    encode::number(3, u64::from(SCHEMA_VERSION), &mut out);
    range(4, SCHEMA_VERSION, &mut out);
    encode::timestamp(5, now, &mut out);
    out
}

/// Reads a `Descriptor`.
///
/// # Errors
/// [`Malformed`] if it is none.
pub fn decode_descriptor(bytes: &[u8]) -> Result<Descriptor, Malformed> {
    const PROTOCOL: u32 = varint_key(1);
    const SUPPORTED_PROTOCOL: u32 = block_key(2);
    const SCHEMA: u32 = varint_key(3);
    const SUPPORTED_SCHEMA: u32 = block_key(4);
    const SERVER_TIME: u32 = block_key(5);
    let mut descriptor = Descriptor::default();
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_empty() {
        match cursor.key()? {
            PROTOCOL => descriptor.protocol_version = cursor.varint()? as u32,
            SUPPORTED_PROTOCOL => {
                merge_range(&mut descriptor.supported_protocol, cursor.message()?)?;
            }
            SCHEMA => descriptor.event_schema_version = cursor.varint()? as u32,
            SUPPORTED_SCHEMA => {
                merge_range(&mut descriptor.supported_event_schema, cursor.message()?)?;
            }
            SERVER_TIME => merge_timestamp(&mut descriptor.server_time, cursor.message()?)?,
            key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3, 4, 5]))?,
        }
    }
    Ok(descriptor)
}

fn merge_range(range: &mut (u32, u32), mut cursor: Cursor<'_>) -> Result<(), Malformed> {
    const MINIMUM: u32 = varint_key(1);
    const MAXIMUM: u32 = varint_key(2);
    while !cursor.is_empty() {
        match cursor.key()? {
            MINIMUM => range.0 = cursor.varint()? as u32,
            MAXIMUM => range.1 = cursor.varint()? as u32,
            key => cursor = cursor.skip_unknown(key, known(&[1, 2]))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Code;

    #[test]
    fn the_acknowledgement_byte_for_byte() {
        assert_eq!(encode_ack(300), [0x08, 1, 0x10, 1, 0x18, 0xac, 0x02]);
        let ack = Ack {
            accepted: true,
            durable: true,
            received: 300,
        };
        assert_eq!(decode_ack(&encode_ack(300)), Ok(ack));
        assert_eq!(decode_ack(&[]), Ok(Ack::default()));
        assert_eq!(decode_ack(&[0x08]), Err(Malformed::Truncated));
    }

    #[test]
    fn the_rejection_byte_for_byte() {
        let rejection = Rejection::of_batch(Code::EmptyBatch, "d");
        let mut expected = vec![0x0a, 11];
        expected.extend(b"empty_batch");
        // -1 as an int32 is ten bytes on the wire.
        expected.extend([
            0x12, 1, b'd', 0x20, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1,
        ]);
        assert_eq!(rejection.encode(), expected);
        let read = decode_rejection(&expected).unwrap();
        assert_eq!(
            (read.code.as_str(), read.detail.as_str()),
            ("empty_batch", "d")
        );
        assert_eq!((read.field.as_str(), read.event_index), ("", -1));
    }

    #[test]
    fn the_descriptor_says_one_to_one() {
        let now = Timestamp {
            seconds: 1_700_000_000,
            nanos: 5,
        };
        let descriptor = Descriptor {
            protocol_version: 1,
            supported_protocol: (1, 1),
            event_schema_version: 1,
            supported_event_schema: (1, 1),
            server_time: Some(now),
        };
        assert_eq!(decode_descriptor(&encode_descriptor(now)), Ok(descriptor));
    }
}
