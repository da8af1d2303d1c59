//! The values of fields, read off the front of a message's bytes: each gives the value and
//! what is behind it, or none if it is cut short or spelled too long.

use crate::text::utf8_ok;
use crate::wire::Cursor;

/// An integer.
#[inline(always)]
pub(super) fn number(rest: &[u8]) -> Option<(u64, &[u8])> {
    match rest.split_first()? {
        (&byte, behind) if byte < 0x80 => Some((u64::from(byte), behind)),
        _ => long_number(rest),
    }
}

/// An integer of two bytes or more, eight at once if there are as many.
#[inline(always)]
fn long_number(rest: &[u8]) -> Option<(u64, &[u8])> {
    /// The bit of each byte that says that another follows.
    const MORE: u64 = 0x8080_8080_8080_8080;
    let word = match (rest.first_chunk::<8>(), rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        (Some(chunk), _, _) => u64::from_le_bytes(*chunk),
        // Two loads that overlap; what is behind them is as if more followed.
        (None, Some(first), Some(last)) => {
            let [first, last] = [first, last].map(|chunk| u64::from(u32::from_le_bytes(*chunk)));
            first | last << (8 * (rest.len() - 4)) | MORE << (8 * (rest.len() - 1)) << 8
        }
        _ => return slow_number(rest),
    };
    let stops = !word & MORE;
    if stops == 0 {
        return slow_number(rest);
    }
    let bytes = stops.trailing_zeros() as usize / 8 + 1;
    // What lies behind the first stop is cleared, then seven bits a byte close up.
    Some((close_up(word & (stops ^ (stops - 1))), &rest[bytes..]))
}

/// The low seven bits of each of eight bytes, as one number.
#[inline(always)]
fn close_up(bytes: u64) -> u64 {
    let pairs = (bytes & 0x007f_007f_007f_007f) | (bytes & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    (fours & 0x0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4
}

/// An integer near the message's end, or of nine or ten bytes.
#[inline(never)]
fn slow_number(rest: &[u8]) -> Option<(u64, &[u8])> {
    let mut cursor = Cursor::new(rest);
    let value = cursor.varint().ok()?;
    Some((value, cursor.rest()))
}

/// A length-delimited field's bytes.
#[inline(always)]
pub(super) fn block(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    match *rest {
        [length, ref behind @ ..] if length < 0x80 => {
            behind.split_at_checked(usize::from(length))
        }
        [low, high, ref behind @ ..] if high < 0x80 => {
            let length = usize::from(low & 0x7f) | usize::from(high) << 7;
            behind.split_at_checked(length)
        }
        _ => long_block(rest),
    }
}

/// A block whose length takes three bytes or more.
#[inline(never)]
fn long_block(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, behind) = slow_number(rest)?;
    behind.split_at_checked(usize::try_from(length).ok()?)
}

/// A string field's bytes, which are UTF-8.
#[inline(always)]
pub(super) fn text(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (text, behind) = block(rest)?;
    utf8_ok(text).then_some((text, behind))
}

/// What is behind an unknown field, whose key `field` begins with. None if its number is one
/// of `known` (a bit per number, below 64): it is then of another wire type, or its key is
/// spelled with more bytes than it needs.
#[inline(never)]
pub(super) fn skip_unknown(field: &[u8], known: u64) -> Option<&[u8]> {
    let mut cursor = Cursor::new(field);
    let key = cursor.key().ok()?;
    Some(cursor.skip_unknown(key, known).ok()?.rest())
}
