//! Where values end, in text whose grammar was checked.

use fulmar_event::string_stop;

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
