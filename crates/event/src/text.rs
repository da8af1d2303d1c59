//! UTF-8 of the contract's strings, most of which are short and ASCII.

/// For each length up to 16, the high bits of that many bytes of a little-endian word: a
/// string whose word has none of them is ASCII.
const HIGH_BITS: [u128; 17] = high_bits();

const fn high_bits() -> [u128; 17] {
    let mut masks = [0; 17];
    let mut length = 1;
    while length <= 16 {
        masks[length] = masks[length - 1] | 0x80 << (8 * (length - 1));
        length += 1;
    }
    masks
}

/// True if `bytes` is UTF-8.
#[inline]
pub(crate) fn utf8_ok(bytes: &[u8]) -> bool {
    bytes.is_ascii() || simdutf8::basic::from_utf8(bytes).is_ok()
}

/// True if `body[at..at + length]`, which must lie in `body`, is UTF-8. A string of up to 16
/// bytes, as most are, costs one load: what follows it in the body is masked.
#[inline(always)]
pub(crate) fn range_utf8_ok(body: &[u8], at: usize, length: usize) -> bool {
    if length <= 16
        && let Some(chunk) = body.get(at..).and_then(|rest| rest.first_chunk::<16>())
        && u128::from_le_bytes(*chunk) & HIGH_BITS[length] == 0
    {
        return true;
    }
    utf8_ok(&body[at..at + length])
}

/// The text of `body[at..at + length]`, which must lie in `body`; none if it is not UTF-8.
#[inline(always)]
pub(crate) fn range_text(body: &[u8], at: usize, length: usize) -> Option<&str> {
    std::str::from_utf8(&body[at..at + length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bytes_of_the_range_count() {
        for length in 0..=40 {
            for before in 0..3 {
                let mut body = vec![0xff; before];
                body.resize(before + length, b'a');
                body.extend([0xff; 17]);
                assert!(range_utf8_ok(&body, before, length), "{length} bytes");
                for bad in before..before + length {
                    body[bad] = 0xff;
                    assert!(
                        !range_utf8_ok(&body, before, length),
                        "{length} bytes, {bad}"
                    );
                    body[bad] = b'a';
                }
            }
        }
    }

    #[test]
    fn agrees_with_the_standard_library_at_the_end_of_a_body() {
        for text in [
            "",
            "a",
            "é",
            "日本語",
            "\u{1f3ff}",
            "ascii then é, over sixteen bytes",
        ] {
            let body = text.as_bytes();
            for cut in 0..=body.len() {
                let whole = std::str::from_utf8(&body[..cut]).is_ok();
                assert_eq!(range_utf8_ok(body, 0, cut), whole, "{text:?} cut at {cut}");
                assert_eq!(utf8_ok(&body[..cut]), whole, "{text:?} cut at {cut}");
            }
        }
    }
}
