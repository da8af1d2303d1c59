//! The identifier rule: a letter or digit, then letters, digits, `.` `_` `:` `-`.

use crate::limits::IDENTIFIER_BYTES_MAX;

/// May stand in an identifier after its first byte.
const REST: u8 = 1;
/// May stand first.
const FIRST: u8 = 2;
/// May stand in an agent id after its first byte: no `:`, which separates in keys.
const AGENT: u8 = 4;

/// What each byte may be. One load and one mask a byte, no branch.
const CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let character = byte as u8;
        if character.is_ascii_alphanumeric() {
            table[byte] = FIRST | REST | AGENT;
        } else if matches!(character, b'.' | b'_' | b'-') {
            table[byte] = REST | AGENT;
        } else if character == b':' {
            table[byte] = REST;
        }
        byte += 1;
    }
    table
}

/// True for 1 to 64 bytes: first an ASCII letter or digit, then also `.` `_` `:` `-`.
#[inline]
pub fn identifier_ok(bytes: &[u8]) -> bool {
    matches(bytes, REST)
}

/// The identifier rule without `:`.
#[inline]
pub fn agent_id_ok(bytes: &[u8]) -> bool {
    matches(bytes, AGENT)
}

#[inline]
fn matches(bytes: &[u8], class: u8) -> bool {
    let Some(first) = bytes.first() else {
        return false;
    };
    if bytes.len() > IDENTIFIER_BYTES_MAX || CLASSES[*first as usize] & FIRST == 0 {
        return false;
    }
    let mut common = class;
    for byte in bytes {
        common &= CLASSES[*byte as usize];
    }
    common != 0
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
