//! Where strings and values end, found eight bytes at a time or by the class of a byte.

/// The low bit of each of eight bytes, and the high one.
const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The first byte from `at` on that is a quote, a backslash or a control character; the length
/// of `bytes` if there is none.
pub(super) fn string_stop(bytes: &[u8], mut at: usize) -> usize {
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

/// One past the end of the object or array that begins at `at`; none when it goes deeper than
/// `depth_max`. The text is sound: what does not close ends with it.
pub(super) fn container_end(bytes: &[u8], mut at: usize, depth_max: usize) -> Option<usize> {
    let mut depth = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at = string_end(bytes, at),
            b'{' | b'[' => {
                depth += 1;
                if depth > depth_max {
                    return None;
                }
            }
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    Some(at)
}

/// One past the closing quote of the string whose first byte is at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        at = string_stop(bytes, at);
        match bytes.get(at) {
            None => return bytes.len(),
            Some(b'"') => return at + 1,
            // Of an escape only the byte behind the backslash could be taken for an end.
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// The end of the number or word that begins at `at`.
pub(super) fn scalar_end(bytes: &[u8], at: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter()
        .position(ends)
        .map_or(bytes.len(), |end| at + end)
}
