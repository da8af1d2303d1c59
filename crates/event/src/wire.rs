//! The wire format of protobuf, read in place.
//!
//! A [`Cursor`] stands in a message and hands out keys, numbers and slices.
//! A *key* is a field's number and wire type as on the wire: `number << 3 | type`; it comes
//! out the same however many bytes it was spelled with, so that one `match` on keys sees
//! every spelling (I9).

use crate::limits::GROUP_DEPTH_MAX;
use crate::text;
use crate::values;

/// Wire type of integers and enums.
pub const VARINT: u32 = 0;
/// Wire type of eight bytes.
pub const FIXED64: u32 = 1;
/// Wire type of strings, bytes and messages.
pub const BLOCK: u32 = 2;
/// Wire type that opens a group.
pub const GROUP: u32 = 3;
/// Wire type that closes a group.
pub const GROUP_END: u32 = 4;
/// Wire type of four bytes.
pub const FIXED32: u32 = 5;

/// The key of field `number` as a length-delimited field.
pub const fn block_key(number: u32) -> u32 {
    number << 3 | BLOCK
}

/// The key of field `number` as an integer.
pub const fn varint_key(number: u32) -> u32 {
    number << 3 | VARINT
}

/// Why bytes are not the message that they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The message ends within a field.
    #[error("a field is cut short")]
    Truncated,
    /// An integer of more than 64 bits or ten bytes.
    #[error("an integer is over 64 bits")]
    Integer,
    /// A field number of 0 or over 29 bits, or a wire type that does not exist.
    #[error("a field has no valid key")]
    Key,
    /// A known field with another wire type than its own.
    #[error("field {0} has the wrong wire type")]
    WireType(u32),
    /// A group that is not closed, closed twice, or too deep.
    #[error("a group is not closed or too deep")]
    Group,
    /// A string that is not UTF-8.
    #[error("a string is not UTF-8")]
    Text,
}

/// A place in a message: what is left of it.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// At the start of the message that `bytes` are.
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// True at the end of the message.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes of the message that are left.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// The bytes of the message that are left.
    #[inline(always)]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The bytes between here and `later`, which is the same cursor moved on.
    #[inline]
    pub fn until(&self, later: Self) -> &'a [u8] {
        &self.rest[..self.rest.len() - later.rest.len()]
    }

    /// The next field's key.
    #[inline(always)]
    pub fn key(&mut self) -> Result<u32, Malformed> {
        // Field numbers up to 15, spelled as they should be; 0 to 7 would be field number 0.
        if let Some((&byte, behind)) = self.rest.split_first()
            && byte < 0x80
            && byte > 7
        {
            self.rest = behind;
            return Ok(u32::from(byte));
        }
        let (key, behind) = long_key(self.rest)?;
        self.rest = behind;
        Ok(key)
    }

    /// An integer.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let (value, behind) = values::number(self.rest).ok_or_else(|| number_fault(self.rest))?;
        self.rest = behind;
        Ok(value)
    }

    /// A length-delimited field's bytes.
    #[inline(always)]
    pub fn block(&mut self) -> Result<&'a [u8], Malformed> {
        let (bytes, behind) = values::block(self.rest).ok_or_else(|| block_fault(self.rest))?;
        self.rest = behind;
        Ok(bytes)
    }

    /// A string field's bytes, which are UTF-8.
    #[inline(always)]
    pub fn utf8(&mut self) -> Result<&'a [u8], Malformed> {
        let bytes = self.block()?;
        if text::utf8_ok(bytes) {
            Ok(bytes)
        } else {
            Err(Malformed::Text)
        }
    }

    /// A string field.
    #[inline(always)]
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        text::text(self.block()?).ok_or(Malformed::Text)
    }

    /// A submessage: a cursor at its start.
    #[inline(always)]
    pub fn message(&mut self) -> Result<Self, Malformed> {
        self.block().map(Self::new)
    }

    /// Steps over the value of an unknown field, whose key was just read.
    ///
    /// By value, as all that is rarely called: a cursor whose address is never taken stays in
    /// registers in the loops that matter.
    #[inline(never)]
    pub fn skip(mut self, key: u32) -> Result<Self, Malformed> {
        match key & 7 {
            GROUP => self.skip_group(key >> 3)?,
            GROUP_END => return Err(Malformed::Group),
            wire_type => self.skip_value(wire_type)?,
        }
        Ok(self)
    }

    /// Steps over a field that is not matched as a known one: an error if its number is one
    /// of `known` (a bit per number, below 64), whose wire type is then wrong.
    #[inline(never)]
    pub fn skip_unknown(self, key: u32, known: u64) -> Result<Self, Malformed> {
        let number = key >> 3;
        if number < 64 && known >> number & 1 == 1 {
            return Err(Malformed::WireType(number));
        }
        self.skip(key)
    }

    fn skip_value(&mut self, wire_type: u32) -> Result<(), Malformed> {
        let fixed = match wire_type {
            VARINT => return self.varint().map(|_| ()),
            BLOCK => return self.block().map(|_| ()),
            FIXED32 => 4,
            FIXED64 => 8,
            _ => return Err(Malformed::Key),
        };
        self.rest = self.rest.get(fixed..).ok_or(Malformed::Truncated)?;
        Ok(())
    }

    /// Steps over a group and those within it, which end in the order they opened.
    fn skip_group(&mut self, number: u32) -> Result<(), Malformed> {
        let mut open = [0u32; GROUP_DEPTH_MAX];
        open[0] = number;
        let mut depth = 1;
        while depth > 0 {
            let key = self.key()?;
            match key & 7 {
                GROUP if depth == GROUP_DEPTH_MAX => return Err(Malformed::Group),
                GROUP => {
                    open[depth] = key >> 3;
                    depth += 1;
                }
                GROUP_END if open[depth - 1] == key >> 3 => depth -= 1,
                GROUP_END => return Err(Malformed::Group),
                wire_type => self.skip_value(wire_type)?,
            }
        }
        Ok(())
    }
}

/// A key of more than one byte, or a bad one: the key, and what is behind it.
#[inline(never)]
fn long_key(rest: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    let (key, behind) = values::number(rest).ok_or_else(|| number_fault(rest))?;
    match u32::try_from(key) {
        Ok(key) if key > 7 => Ok((key, behind)),
        _ => Err(Malformed::Key),
    }
}

/// Why `rest` begins with no integer.
#[cold]
fn number_fault(rest: &[u8]) -> Malformed {
    // Nine bytes that all say that another follows leave one bit, and a tenth that holds it.
    let ends = rest.iter().take(10).any(|byte| *byte < 0x80);
    if ends || rest.len() >= 10 {
        Malformed::Integer
    } else {
        Malformed::Truncated
    }
}

/// Why `rest` begins with no block.
#[cold]
fn block_fault(rest: &[u8]) -> Malformed {
    match values::number(rest) {
        Some(_) => Malformed::Truncated,
        None => number_fault(rest),
    }
}

/// A bit for each field number given, for [`Cursor::skip_unknown`].
pub const fn known(numbers: &[u32]) -> u64 {
    let mut bits = 0;
    let mut index = 0;
    while index < numbers.len() {
        bits |= 1 << numbers[index];
        index += 1;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(bytes: &[u8]) -> Result<u64, Malformed> {
        let mut cursor = Cursor::new(bytes);
        let value = cursor.varint()?;
        assert!(cursor.is_empty());
        Ok(value)
    }

    #[test]
    fn integers_of_every_length() {
        assert_eq!(varint(&[0]), Ok(0));
        assert_eq!(varint(&[0x96, 1]), Ok(150));
        assert_eq!(varint(&[0x80, 0x80, 0x00]), Ok(0));
        let most = [255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
        assert_eq!(varint(&most), Ok(u64::MAX));
        let over = [255, 255, 255, 255, 255, 255, 255, 255, 255, 2];
        assert_eq!(varint(&over), Err(Malformed::Integer));
        for cut in 0..most.len() {
            assert_eq!(varint(&most[..cut]), Err(Malformed::Truncated));
        }
    }

    #[test]
    fn keys_come_out_the_same_in_every_spelling() {
        for bytes in [&[0x0a][..], &[0x8a, 0x00], &[0x8a, 0x80, 0x80, 0x00]] {
            assert_eq!(Cursor::new(bytes).key(), Ok(block_key(1)));
        }
        for bytes in [&[0x02][..], &[0x82, 0x00], &[0xfa, 0xff, 0xff, 0xff, 0x7f]] {
            assert_eq!(Cursor::new(bytes).key(), Err(Malformed::Key));
        }
    }

    #[test]
    fn groups_must_close_in_order() {
        let skip = |bytes: &[u8]| {
            let mut cursor = Cursor::new(bytes);
            let key = cursor.key()?;
            Ok(cursor.skip(key)?.is_empty())
        };
        // 0x4b, 0x4c: group 9 opens, closes; 0x53, 0x54: group 10.
        assert_eq!(skip(&[0x4b, 0x4c]), Ok(true));
        assert_eq!(skip(&[0x4b, 0x53, 0x08, 0x01, 0x54, 0x4c]), Ok(true));
        assert_eq!(skip(&[0x4b, 0x53, 0x4c, 0x54]), Err(Malformed::Group));
        assert_eq!(skip(&[0x4b, 0x53, 0x54]), Err(Malformed::Truncated));
        assert_eq!(skip(&[0x4c]), Err(Malformed::Group));
        let deep = |depth| [vec![0x4b; depth], vec![0x4c; depth]].concat();
        assert_eq!(skip(&deep(GROUP_DEPTH_MAX)), Ok(true));
        assert_eq!(skip(&deep(GROUP_DEPTH_MAX + 1)), Err(Malformed::Group));
        assert_eq!(skip(&[0x4e]), Err(Malformed::Key));
    }
}
