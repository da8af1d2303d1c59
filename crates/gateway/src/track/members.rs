//! Members of the objects that SDKs send: read where they stand, with the name of the field in
//! every refusal. An unknown member is passed over, a repeated one counts last, and `null` is
//! absence, as the SDKs' own server takes them. The text was checked when the body was.

use std::borrow::Cow;

use crate::events::Fault;
use crate::events::event::{each_member, malformed};
use crate::json::{RawText, Scanner, decode_text};

/// Bytes of an id of a profile, group or session that a producer names.
pub(super) const ID_BYTES_MAX: usize = 256;
/// Bytes of a name or an address of a profile or group.
pub(super) const TEXT_BYTES_MAX: usize = 1_024;

/// Calls `visit` with each member of the object `text`; `null` members are left out.
pub(super) fn members<'a>(
    text: &'a str,
    field: &str,
    mut visit: impl FnMut(&str, &'a str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if !text.starts_with('{') {
        return Err(Fault::of_field(field, "must be an object"));
    }
    let mut scanner = Scanner::of_sound(text);
    each_member(&mut scanner, |name, value| match value {
        "null" => Ok(()),
        value => visit(&name, value),
    })
}

/// Calls `visit` with each element of the array `text`.
pub(super) fn elements<'a>(
    text: &'a str,
    field: &str,
    mut visit: impl FnMut(&'a str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut scanner = Scanner::of_sound(text);
    if !scanner.take(b'[') {
        return Err(Fault::of_field(field, "must be an array"));
    }
    if scanner.take(b']') {
        return Ok(());
    }
    loop {
        visit(scanner.value(usize::MAX).map_err(malformed)?)?;
        if !scanner.take(b',') {
            return scanner
                .expect(b']', "a bracket is missing")
                .map_err(malformed);
        }
    }
}

/// The text of a string; none for another kind of value.
pub(super) fn string<'a>(value: &'a str, field: &str) -> Result<Option<Cow<'a, str>>, Fault> {
    let Some(inner) = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')) else {
        return Ok(None);
    };
    let escaped = inner.contains('\\');
    match decode_text(RawText { inner, escaped }) {
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(Fault::of_field(field, error.to_string())),
    }
}

/// A string of at most so many bytes.
pub(super) fn text<'a>(
    value: &'a str,
    field: &str,
    bytes_max: usize,
) -> Result<Cow<'a, str>, Fault> {
    let Some(text) = string(value, field)? else {
        return Err(Fault::of_field(field, "must be a string"));
    };
    if text.len() > bytes_max {
        let detail = format!("has more than {bytes_max} bytes");
        return Err(Fault::of_field(field, detail));
    }
    Ok(text)
}

/// An id: a string that is not empty, or a number as it is written.
pub(super) fn id<'a>(value: &'a str, field: &str) -> Result<Cow<'a, str>, Fault> {
    if value.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Ok(Cow::Borrowed(value));
    }
    let text = text(value, field, ID_BYTES_MAX).map_err(|fault| match value.starts_with('"') {
        true => fault,
        false => Fault::of_field(field, "must be a string or a number"),
    })?;
    match text.is_empty() {
        true => Err(Fault::of_field(field, "is empty")),
        false => Ok(text),
    }
}

/// An object as it stands.
pub(super) fn object<'a>(value: &'a str, field: &str) -> Result<&'a str, Fault> {
    match value.starts_with('{') {
        true => Ok(value),
        false => Err(Fault::of_field(field, "must be an object")),
    }
}

/// A whole number in a range.
pub(super) fn count(value: &str, field: &str, min: u32, max: u32) -> Result<u32, Fault> {
    let number = value.parse().ok();
    number
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| {
            Fault::of_field(field, format!("must be a whole number from {min} to {max}"))
        })
}

/// `true` or `false`.
pub(super) fn flag(value: &str, field: &str) -> Result<bool, Fault> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Fault::of_field(field, "must be true or false")),
    }
}

/// What a required member's absence is called.
pub(super) fn missing(field: &str) -> Fault {
    Fault::of_field(field, "is missing")
}
