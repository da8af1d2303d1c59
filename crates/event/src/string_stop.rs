//! Where the plain part of a JSON string stops.

/// The low bit of each of eight bytes, and the high one.
const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The first byte of a JSON string from `at` on that is a quote, a backslash or a control
/// character; the length of `bytes` if there is none. Looks at eight bytes at a time.
pub fn string_stop(bytes: &[u8], mut at: usize) -> usize {
    while let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*eight);
        let stops = zero_bytes(word ^ (LOW * 0x22))
            | zero_bytes(word ^ (LOW * 0x5C))
            | word.wrapping_sub(LOW * 0x20) & !word & HIGH;
        // A borrow may mark a byte above the first that is one, never the first.
        if stops != 0 {
            return at + stops.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let stop = rest
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | ..=0x1F));
    stop.map_or(bytes.len(), |stop| at + stop)
}

/// The high bit of each byte that is zero, and perhaps of bytes above one.
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(LOW) & !word & HIGH
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::string_stop;

    proptest! {
        /// As one that looks at each byte.
        #[test]
        fn the_first_stop_is_found_wherever_it_stands(
            bytes in proptest::collection::vec(
                prop_oneof![
                    4 => any::<u8>(),
                    6 => b'a'..=b'z',
                    1 => Just(b'"'),
                    1 => Just(0x1F),
                    1 => Just(0x20),
                ],
                0..40,
            ),
            at in 0_usize..45,
        ) {
            let is_stop = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
            let rest = bytes.get(at..).unwrap_or_default();
            let expected = rest.iter().position(is_stop).map_or(bytes.len(), |stop| at + stop);
            prop_assert_eq!(string_stop(&bytes, at), expected);
        }
    }
}
