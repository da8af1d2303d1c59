//! UTF-8 of the contract's strings, most of which are short and ASCII.

/// True if `bytes` is UTF-8.
#[inline(always)]
pub(crate) fn utf8_ok(bytes: &[u8]) -> bool {
    ascii_ok(bytes) || simdutf8_ok(bytes)
}

/// Apart, so that its tables and loops are not in the way of what is usual.
#[inline(never)]
fn simdutf8_ok(bytes: &[u8]) -> bool {
    simdutf8::basic::from_utf8(bytes).is_ok()
}

/// True if `bytes` is ASCII. Two loads that overlap for every length up to 16.
#[inline(always)]
fn ascii_ok(bytes: &[u8]) -> bool {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    if bytes.len() > 16 {
        return long_ascii_ok(bytes);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        return (u64::from_le_bytes(*first) | u64::from_le_bytes(*last)) & HIGH_BITS == 0;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return (u32::from_le_bytes(*first) | u32::from_le_bytes(*last)) & HIGH_BITS as u32 == 0;
    }
    bytes.iter().fold(0, |bits, byte| bits | byte) < 0x80
}

/// The same for over 16 bytes: the last chunk overlaps the one before it.
#[inline(never)]
fn long_ascii_ok(bytes: &[u8]) -> bool {
    const HIGH_BITS: u128 = u128::MAX / 255 * 0x80;
    let last = bytes
        .last_chunk::<16>()
        .map_or(0, |chunk| u128::from_le_bytes(*chunk));
    let mut bits = last;
    for chunk in bytes.as_chunks::<16>().0 {
        bits |= u128::from_le_bytes(*chunk);
    }
    bits & HIGH_BITS == 0
}

/// The text that `bytes` are; none if they are not UTF-8.
///
/// The one place of this crate that needs `unsafe`: the standard library would check again,
/// byte by byte, which cost a third of reading a record.
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    if !utf8_ok(bytes) {
        return None;
    }
    // SAFETY: `utf8_ok` is true only if every byte is ASCII, which is UTF-8, or if simdutf8
    // found the whole of `bytes` to be UTF-8.
    Some(unsafe { std::str::from_utf8_unchecked(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_every_length_counts() {
        for length in 0..=80 {
            let mut bytes = vec![b'a'; length];
            assert!(utf8_ok(&bytes), "{length} bytes");
            for bad in 0..length {
                bytes[bad] = 0xff;
                assert!(!utf8_ok(&bytes), "{length} bytes, {bad}");
                bytes[bad] = b'a';
            }
        }
    }

    #[test]
    fn agrees_with_the_standard_library() {
        for text in [
            "",
            "a",
            "é",
            "日本語",
            "\u{1f3ff}",
            "ascii then é, over sixteen bytes",
        ] {
            let bytes = text.as_bytes();
            for cut in 0..=bytes.len() {
                let whole = std::str::from_utf8(&bytes[..cut]).is_ok();
                assert_eq!(utf8_ok(&bytes[..cut]), whole, "{text:?} cut at {cut}");
            }
        }
    }
}
