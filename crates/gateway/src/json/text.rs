//! From a string as it stands to the text that it means.

use std::borrow::Cow;

use super::RawText;

/// A string of which no text can be made: half of a surrogate pair stands
/// alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("half of a surrogate pair stands alone")]
pub struct BadText;

/// The text of a string. Borrowed unless it has escapes.
pub fn decode_text(raw: RawText<'_>) -> Result<Cow<'_, str>, BadText> {
    if !raw.escaped {
        return Ok(Cow::Borrowed(raw.inner));
    }
    let mut text = String::with_capacity(raw.inner.len());
    let mut rest = raw.inner;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let (character, taken) = escaped(&rest[at..])?;
        text.push(character);
        rest = &rest[at + taken..];
    }
    text.push_str(rest);
    Ok(Cow::Owned(text))
}

/// The character of the escape at the start of `text`, and its length. The
/// scanner has checked the grammar.
fn escaped(text: &str) -> Result<(char, usize), BadText> {
    let simple = match text.as_bytes().get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return of_units(text),
        Some(other) => char::from(*other),
        None => return Err(BadText),
    };
    Ok((simple, 2))
}

fn of_units(text: &str) -> Result<(char, usize), BadText> {
    let first = unit(text).ok_or(BadText)?;
    // Both ranges are closed: DFFF is a second half, as of U+1F3FF.
    if !(0xd800..=0xdfff).contains(&first) {
        return char::from_u32(first)
            .map(|character| (character, 6))
            .ok_or(BadText);
    }
    let second = text.get(6..).and_then(unit).ok_or(BadText)?;
    if first > 0xdbff || !(0xdc00..=0xdfff).contains(&second) {
        return Err(BadText);
    }
    let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    char::from_u32(code)
        .map(|character| (character, 12))
        .ok_or(BadText)
}

fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}
