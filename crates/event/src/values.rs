//! The values of fields, read off the front of a message's bytes: each gives the value and
//! what is behind it, or none if it is cut short or spelled too long. Free functions over
//! slices, so that the loops around them keep everything in registers.

use crate::text::utf8_ok;

/// An integer.
#[inline(always)]
pub(crate) fn number(rest: &[u8]) -> Option<(u64, &[u8])> {
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
    let word = match (
        rest.first_chunk::<8>(),
        rest.first_chunk::<4>(),
        rest.last_chunk::<4>(),
    ) {
        (Some(chunk), _, _) => u64::from_le_bytes(*chunk),
        // Two loads that overlap; what is behind them is as if more followed.
        (None, Some(first), Some(last)) => {
            let [first, last] = [first, last].map(|chunk| u64::from(u32::from_le_bytes(*chunk)));
            first | last << (8 * (rest.len() - 4)) | MORE << (8 * (rest.len() - 1)) << 8
        }
        _ => return short_number(rest),
    };
    let stops = !word & MORE;
    if stops == 0 {
        return slow_number(rest);
    }
    let bytes = stops.trailing_zeros() as usize / 8 + 1;
    // What lies behind the first stop is cleared, then seven bits a byte close up.
    Some((close_up(word & (stops ^ (stops - 1))), &rest[bytes..]))
}

/// An integer of two or three bytes at the very end of a message, as ports are.
#[inline(always)]
fn short_number(rest: &[u8]) -> Option<(u64, &[u8])> {
    let low = |byte: u8| u64::from(byte & 0x7f);
    match *rest {
        [first, last, ref behind @ ..] if last < 0x80 => {
            Some((low(first) | low(last) << 7, behind))
        }
        [first, second, last] if last < 0x80 => {
            Some((low(first) | low(second) << 7 | low(last) << 14, &[]))
        }
        _ => None,
    }
}

/// The low seven bits of each of eight bytes, as one number.
#[inline(always)]
fn close_up(bytes: u64) -> u64 {
    let pairs = (bytes & 0x007f_007f_007f_007f) | (bytes & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    (fours & 0x0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4
}

/// An integer byte by byte: cut short, or of nine or ten bytes.
#[inline(never)]
fn slow_number(rest: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in rest.iter().enumerate() {
        // The tenth byte holds the 64th bit and nothing else.
        if index == 9 && *byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Some((value, &rest[index + 1..]));
        }
    }
    None
}

/// A length-delimited field's bytes.
#[inline(always)]
pub(crate) fn block(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    match *rest {
        [length, ref behind @ ..] if length < 0x80 => behind.split_at_checked(usize::from(length)),
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
pub(crate) fn text(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (text, behind) = block(rest)?;
    utf8_ok(text).then_some((text, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length of integer, at every distance from the end of the message.
    #[test]
    fn integers_of_every_length_anywhere() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, (1 << shift) + 1, u64::MAX] {
                let mut bytes = Vec::new();
                crate::encode::varint(value, &mut bytes);
                let length = bytes.len();
                for behind in 0..12 {
                    for filling in [0, 0x7f, 0xff] {
                        bytes.truncate(length);
                        bytes.resize(length + behind, filling);
                        let read = number(&bytes);
                        assert_eq!(
                            read,
                            Some((value, &bytes[length..])),
                            "{value} and {behind}"
                        );
                    }
                }
                for cut in 0..length {
                    assert_eq!(number(&bytes[..cut]), None, "{value} cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn integers_spelled_too_long() {
        assert_eq!(number(&[0x80, 0x80, 0x00]), Some((0, &[][..])));
        assert_eq!(
            number(&[0x81, 0x80, 0x80, 0x80, 0x00, 9]),
            Some((1, &[9][..]))
        );
        let over = [255, 255, 255, 255, 255, 255, 255, 255, 255, 2];
        assert_eq!(number(&over), None);
        assert_eq!(number(&[0x80; 11]), None);
    }

    #[test]
    fn blocks_of_every_size_of_length() {
        for length in [0usize, 1, 127, 128, 129, 16_383, 16_384, 70_000] {
            let mut bytes = Vec::new();
            crate::encode::varint(length as u64, &mut bytes);
            let start = bytes.len();
            bytes.resize(start + length + 1, 7);
            assert_eq!(
                block(&bytes),
                Some((&bytes[start..start + length], &[7][..]))
            );
            if length > 0 {
                assert_eq!(block(&bytes[..start + length - 1]), None);
            }
        }
        assert_eq!(
            block(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0]),
            None
        );
        assert_eq!(block(&[0x80]), None);
        // Two bytes where one would do.
        assert_eq!(block(&[0x81, 0x00, 5, 6]), Some((&[5][..], &[6][..])));
    }
}
