//! A published message, borrowed from a record's bytes.

use crate::wire::{Cursor, Malformed, block_key, known, varint_key};

/// A published message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageView<'a> {
    /// The type, contract field `type`.
    pub kind: &'a str,
    /// The producer's name of where it comes from.
    pub source: &'a str,
    /// What it is about.
    pub subject: &'a str,
    /// Whom it is for.
    pub consumer: &'a str,
    /// The producer's own bytes.
    pub data: &'a [u8],
    /// Content type of `data`.
    pub data_content_type: &'a str,
    /// True if `data` came as base64 and is binary.
    pub data_base64: bool,
    /// A JSON object of extension attributes, or empty.
    pub extensions: &'a [u8],
    /// A JSON object of strings, or empty.
    pub labels: &'a [u8],
    /// The producer's idempotency key, or empty.
    pub idempotency_key: &'a str,
    /// Result of the schema check by number, see [`crate::SchemaCheck`].
    pub schema: i32,
    /// When a delivery of it is of no use any more, in ms since the epoch; 0 is never.
    pub expires_ms: i64,
}

impl<'a> MessageView<'a> {
    pub(super) fn merge(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const KIND: u32 = block_key(1);
        const SOURCE: u32 = block_key(2);
        const SUBJECT: u32 = block_key(3);
        const CONSUMER: u32 = block_key(4);
        const DATA: u32 = block_key(5);
        const DATA_CONTENT_TYPE: u32 = block_key(6);
        const DATA_BASE64: u32 = varint_key(7);
        const EXTENSIONS: u32 = block_key(8);
        const LABELS: u32 = block_key(9);
        const IDEMPOTENCY_KEY: u32 = block_key(10);
        const SCHEMA: u32 = varint_key(11);
        const EXPIRES: u32 = varint_key(12);
        const KNOWN: u64 = known(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        while !cursor.is_empty() {
            match cursor.key()? {
                KIND => self.kind = cursor.text()?,
                SOURCE => self.source = cursor.text()?,
                SUBJECT => self.subject = cursor.text()?,
                CONSUMER => self.consumer = cursor.text()?,
                DATA => self.data = cursor.block()?,
                DATA_CONTENT_TYPE => self.data_content_type = cursor.text()?,
                DATA_BASE64 => self.data_base64 = cursor.varint()? != 0,
                EXTENSIONS => self.extensions = cursor.block()?,
                LABELS => self.labels = cursor.block()?,
                IDEMPOTENCY_KEY => self.idempotency_key = cursor.text()?,
                SCHEMA => self.schema = cursor.varint()? as i32,
                EXPIRES => self.expires_ms = cursor.varint()? as i64,
                key => cursor = cursor.skip_unknown(key, KNOWN)?,
            }
        }
        Ok(())
    }
}
