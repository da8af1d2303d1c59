//! The identifier rule: a letter or digit, then letters, digits, `.` `_` `:` `-`.

use crate::limits::IDENTIFIER_BYTES_MAX;

/// True for 1 to 64 bytes: first an ASCII letter or digit, then also `.` `_` `:` `-`.
#[inline]
pub fn identifier_ok(bytes: &[u8]) -> bool {
    bytes.len() <= IDENTIFIER_BYTES_MAX
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && all_rest(bytes)
}

/// The identifier rule without `:`, which separates in keys.
#[inline]
pub fn agent_id_ok(bytes: &[u8]) -> bool {
    identifier_ok(bytes) && !bytes.contains(&b':')
}

/// True for a byte that may stand after the first. Sums and comparisons only, so that sixteen
/// bytes are judged at once in a vector register.
#[inline(always)]
const fn is_rest(byte: u8) -> bool {
    let is_letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    // The digits, and `:`, which is the byte behind them.
    let is_digit_or_colon = byte.wrapping_sub(b'0') < 11;
    // `-` and the byte behind it, `.`.
    let is_dash_or_dot = byte.wrapping_sub(b'-') < 2;
    is_letter | is_digit_or_colon | is_dash_or_dot | (byte == b'_')
}

/// [`is_rest`] of every byte, for ids too short for a vector register.
static IS_REST: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = is_rest(byte as u8);
        byte += 1;
    }
    table
};

#[inline(always)]
fn all_rest(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk::<16>() else {
        return bytes
            .iter()
            .fold(true, |holds, byte| holds & IS_REST[usize::from(*byte)]);
    };
    // The last chunk overlaps the one before it, so that no bytes are left over.
    let chunk_ok = |chunk: &[u8; 16]| {
        chunk
            .iter()
            .fold(true, |holds, byte| holds & is_rest(*byte))
    };
    chunk_ok(last) && bytes.as_chunks().0.iter().all(chunk_ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_in_every_place() {
        for byte in 0..=255u8 {
            let alphanumeric = byte.is_ascii_alphanumeric();
            let rest = alphanumeric || b"._:-".contains(&byte);
            assert_eq!(identifier_ok(&[byte]), alphanumeric, "{byte} first");
            assert_eq!(identifier_ok(&[b'a', byte]), rest, "{byte} second");
            assert_eq!(identifier_ok(&[b'a', byte, b'z']), rest, "{byte} within");
            assert_eq!(
                agent_id_ok(&[b'a', byte]),
                rest && byte != b':',
                "{byte} in an agent id"
            );
            for length in 2..=IDENTIFIER_BYTES_MAX {
                let mut text = vec![b'a'; length];
                text[length - 1] = byte;
                assert_eq!(identifier_ok(&text), rest, "{byte} last of {length}");
                text[length - 1] = b'a';
                text[length / 2] = byte;
                assert_eq!(
                    identifier_ok(&text),
                    rest,
                    "{byte} in the middle of {length}"
                );
            }
        }
    }

    #[test]
    fn one_to_64_bytes() {
        assert!(!identifier_ok(b""));
        assert!(identifier_ok(&[b'x'; 64]));
        assert!(!identifier_ok(&[b'x'; 65]));
        assert!(identifier_ok(b"0b1f7f2e-53a5-4a86-9c67-6c5a8cc1d4a7"));
    }
}
