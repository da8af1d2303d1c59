//! The identifier rule: a letter or digit, then letters, digits, `.` `_` `:` `-`.

use crate::limits::IDENTIFIER_BYTES_MAX;

/// True for 1 to 64 bytes: first an ASCII letter or digit, then also `.` `_` `:` `-`.
#[inline]
pub fn identifier_ok(bytes: &[u8]) -> bool {
    matches(bytes, is_rest)
}

/// The identifier rule without `:`, which separates in keys.
#[inline]
pub fn agent_id_ok(bytes: &[u8]) -> bool {
    matches(bytes, |byte| is_rest(byte) & (byte != b':'))
}

/// True for a byte that may stand after the first. Sums and comparisons only, so that sixteen
/// bytes are judged at once in a vector register.
#[inline(always)]
fn is_rest(byte: u8) -> bool {
    let is_letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    // The digits, and `:`, which is the byte behind them.
    let is_digit_or_colon = byte.wrapping_sub(b'0') < 11;
    // `-` and the byte behind it, `.`.
    let is_dash_or_dot = byte.wrapping_sub(b'-') < 2;
    is_letter | is_digit_or_colon | is_dash_or_dot | (byte == b'_')
}

#[inline(always)]
fn matches(bytes: &[u8], is_rest: impl Fn(u8) -> bool + Copy) -> bool {
    let Some(first) = bytes.first() else {
        return false;
    };
    if bytes.len() > IDENTIFIER_BYTES_MAX || !first.is_ascii_alphanumeric() {
        return false;
    }
    // The last chunk overlaps the one before it, so that no bytes are left over.
    if let Some(last) = bytes.last_chunk::<16>() {
        return all(last, is_rest)
            && bytes
                .as_chunks()
                .0
                .iter()
                .all(|chunk| all::<16>(chunk, is_rest));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        let mut both = [0; 16];
        both[..8].copy_from_slice(first);
        both[8..].copy_from_slice(last);
        return all(&both, is_rest);
    }
    bytes
        .iter()
        .fold(true, |holds, byte| holds & is_rest(*byte))
}

#[inline(always)]
fn all<const N: usize>(chunk: &[u8; N], is_rest: impl Fn(u8) -> bool) -> bool {
    let mut holds = true;
    for byte in chunk {
        holds &= is_rest(*byte);
    }
    holds
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
