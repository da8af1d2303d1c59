//! Records of published messages, written by the JSON doors.

use crate::encode;
use crate::limits::SCHEMA_VERSION;
use crate::records::Records;
use crate::time::Timestamp;
use crate::view::CLASS_MESSAGE;

/// The door that a record came through. The discriminant is the number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the door of its name")]
pub enum Door {
    Agents = 1,
    Events = 2,
    Track = 3,
    Publish = 4,
}

/// What the check of a message against its type's schema gave. The discriminant is the number
/// on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SchemaCheck {
    /// No schema was registered for the type.
    #[default]
    None = 0,
    /// It holds.
    Valid = 1,
    /// It does not.
    Invalid = 2,
}

/// A published message to be written as a record. The caller has checked the contract's rules.
#[derive(Debug, Clone, Copy)]
pub struct MessageDraft<'a> {
    /// The event's id, as sent or minted by the door.
    pub event_id: &'a str,
    /// When it happened; without it, `ingest_time` counts.
    pub time: Option<Timestamp>,
    /// When the door accepted it.
    pub ingest_time: Timestamp,
    /// The door's name.
    pub gateway: &'a str,
    /// The request that carried it.
    pub batch_id: &'a str,
    /// The project, from the key that was shown.
    pub project: &'a str,
    /// The authenticated client: the source in the event's identity.
    pub client: &'a str,
    /// The ordering key (I3).
    pub key: &'a str,
    /// The door.
    pub door: Door,
    /// The registry version that the door had applied (R2).
    pub control_offset: u64,
    /// The type, contract field `type`.
    pub kind: &'a str,
    /// The producer's name of where it comes from, or empty.
    pub source: &'a str,
    /// What it is about, or empty.
    pub subject: &'a str,
    /// Whom it is for, or empty.
    pub consumer: &'a str,
    /// The producer's own bytes.
    pub data: &'a [u8],
    /// Content type of `data`, or empty.
    pub data_content_type: &'a str,
    /// True if `data` came as base64 and is binary.
    pub data_base64: bool,
    /// A JSON object of extension attributes, or empty.
    pub extensions: &'a [u8],
    /// A JSON object of strings, or empty.
    pub labels: &'a [u8],
    /// The producer's idempotency key, or empty.
    pub idempotency_key: &'a str,
    /// Result of the schema check.
    pub schema: SchemaCheck,
    /// When a delivery of it is of no use any more, in ms since the epoch; 0 is never.
    pub expires_ms: i64,
}

impl MessageDraft<'_> {
    /// Appends the message's record to `out`, in `partition`.
    pub fn append_to(&self, partition: u16, out: &mut Records) {
        let mark = out.begin(partition);
        self.encode(out.buffer());
        out.end(mark);
    }

    /// Appends the message to `out` as one `Event`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode::text(1, self.event_id, out);
        encode::number(2, u64::from(SCHEMA_VERSION), out);
        encode::enumeration(3, CLASS_MESSAGE, out);
        encode::message(4, out, |out| {
            encode::timestamp(1, self.time.unwrap_or(self.ingest_time), out);
        });
        encode::message(5, out, |out| encode::text(1, self.project, out));
        reception(self.ingest_time, self.gateway, self.batch_id, out);
        encode::message(112, out, |out| self.encode_body(out));
        let stamp = Stamp {
            project: self.project,
            source: self.client,
            door: self.door,
            control_offset: self.control_offset,
            key: self.key,
        };
        stamp.encode(out);
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        encode::text(1, self.kind, out);
        encode::text(2, self.source, out);
        encode::text(3, self.subject, out);
        encode::text(4, self.consumer, out);
        encode::bytes(5, self.data, out);
        encode::text(6, self.data_content_type, out);
        encode::number(7, u64::from(self.data_base64), out);
        encode::bytes(8, self.extensions, out);
        encode::bytes(9, self.labels, out);
        encode::text(10, self.idempotency_key, out);
        encode::enumeration(11, self.schema as i32, out);
        encode::number(12, self.expires_ms as u64, out);
    }
}

/// Names what was published under an idempotency key, beside the event's id: with it an index of
/// ids also tells whether a repeat of the key is of the same event (R4).
pub fn idempotent_body_id(event_id: &str, kind: &str, data: &[u8]) -> String {
    use sha2::{Digest as _, Sha256};
    use std::fmt::Write as _;
    let mut hash = Sha256::new();
    hash.update((kind.len() as u64).to_be_bytes());
    hash.update(kind.as_bytes());
    hash.update(data);
    // An id has no line break.
    let mut name = format!("{event_id}\n");
    for byte in &hash.finalize()[..16] {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// What a door observed, to be written as field 100.
pub(crate) struct Stamp<'a> {
    pub(crate) project: &'a str,
    pub(crate) source: &'a str,
    pub(crate) door: Door,
    pub(crate) control_offset: u64,
    pub(crate) key: &'a str,
}

impl Stamp<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        encode::message(100, out, |out| {
            encode::text(1, self.project, out);
            encode::text(2, self.source, out);
            encode::enumeration(3, self.door as i32, out);
            encode::number(4, self.control_offset, out);
            encode::text(5, self.key, out);
        });
    }
}

/// Appends `Event.reception`.
pub(crate) fn reception(ingest_time: Timestamp, gateway: &str, batch_id: &str, out: &mut Vec<u8>) {
    encode::message(7, out, |out| {
        encode::timestamp(1, ingest_time, out);
        encode::text(2, gateway, out);
        encode::text(3, batch_id, out);
    });
}
