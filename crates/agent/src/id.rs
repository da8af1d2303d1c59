//! Event ids that depend on nothing but where a line stands.

use sha2::{Digest, Sha256};

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The id of one event: hex of the first 16 bytes of SHA-256 over source, byte
/// offset, line and repeat index, each preceded by its length.
///
/// Lengths and numbers are little-endian u64, so no two tuples share an
/// encoding. `line` is without its line end; `repeat` counts from 0 within
/// a line that stands for several events. A file sent twice gives the same ids
/// (I2), while equal lines at different places give different ones.
pub fn event_id(source: &str, offset: u64, line: &[u8], repeat: u64) -> String {
    let mut hasher = Sha256::new();
    let parts: [&[u8]; 4] = [
        source.as_bytes(),
        &offset.to_le_bytes(),
        line,
        &repeat.to_le_bytes(),
    ];
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize()[..16])
}

/// Lower-case hex of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(HEX[usize::from(byte >> 4)] as char);
        text.push(HEX[usize::from(byte & 15)] as char);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked outside of this code with Python's hashlib over the bytes
    /// 01 00.. 'a' | 08 00.. 00.. | 01 00.. 'b' | 08 00.. 00..
    #[test]
    fn the_id_is_the_documented_hash() {
        assert_eq!(
            event_id("a", 0, b"b", 0),
            "c0e0253aa7f29b949f3e5cb868dd989d"
        );
        assert_eq!(
            event_id("/var/log/auth.log", 1234, b"x y", 2),
            "1ad3ca9221ea9d5f9b45f00e6461adb1"
        );
    }

    #[test]
    fn every_part_counts_and_none_runs_into_the_next() {
        let ids = [
            event_id("a", 0, b"b", 0),
            event_id("ab", 0, b"", 0),
            event_id("", 0, b"ab", 0),
            event_id("a", 1, b"b", 0),
            event_id("a", 0, b"b", 1),
        ];
        for (index, id) in ids.iter().enumerate() {
            assert_eq!(id.len(), 32);
            assert!(!ids[index + 1..].contains(id));
        }
    }
}
