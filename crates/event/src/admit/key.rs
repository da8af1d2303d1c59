//! Keys as single bytes: a field's number and wire type, for fields up to 15.

use crate::wire::{Cursor, block_key, varint_key};

pub(super) const BLOCK_1: u8 = block_key(1) as u8;
pub(super) const BLOCK_2: u8 = block_key(2) as u8;
pub(super) const BLOCK_3: u8 = block_key(3) as u8;
pub(super) const BLOCK_4: u8 = block_key(4) as u8;
pub(super) const BLOCK_5: u8 = block_key(5) as u8;
pub(super) const BLOCK_6: u8 = block_key(6) as u8;
pub(super) const BLOCK_7: u8 = block_key(7) as u8;
pub(super) const BLOCK_15: u8 = block_key(15) as u8;
pub(super) const NUMBER_1: u8 = varint_key(1) as u8;
pub(super) const NUMBER_2: u8 = varint_key(2) as u8;
pub(super) const NUMBER_3: u8 = varint_key(3) as u8;
/// The payload, field 16, is the only one whose key takes two bytes.
pub(super) const BLOCK_16: [u8; 2] = [0x82, 0x01];

/// What is behind an unknown field, whose key `field` begins with. None if its number is one
/// of `known` (a bit per number, below 64): it is then of another wire type, or its key is
/// spelled with more bytes than it needs.
#[inline(never)]
pub(super) fn skip_unknown(field: &[u8], known: u64) -> Option<&[u8]> {
    let mut cursor = Cursor::new(field);
    let key = cursor.key().ok()?;
    Some(cursor.skip_unknown(key, known).ok()?.rest())
}
