//! The wire format of protobuf, written: fields appended to a buffer, zero values left out.

use crate::time::Timestamp;
use crate::wire::{block_key, varint_key};

/// Appends an integer.
#[inline]
pub(crate) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that an integer takes.
#[inline]
pub(crate) fn varint_bytes(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Appends an integer field.
pub(crate) fn number(field: u32, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        varint(u64::from(varint_key(field)), out);
        varint(value, out);
    }
}

/// Appends an enum field; a negative number takes ten bytes, as protobuf has it.
pub(crate) fn enumeration(field: u32, value: i32, out: &mut Vec<u8>) {
    number(field, i64::from(value) as u64, out);
}

/// Appends a length-delimited field, though it be empty.
pub(crate) fn block(field: u32, bytes: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(block_key(field)), out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a bytes field.
pub(crate) fn bytes(field: u32, value: &[u8], out: &mut Vec<u8>) {
    if !value.is_empty() {
        block(field, value, out);
    }
}

/// Appends a string field.
pub(crate) fn text(field: u32, value: &str, out: &mut Vec<u8>) {
    bytes(field, value.as_bytes(), out);
}

/// Appends a submessage that `write` appends the fields of.
pub(crate) fn message(field: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    varint(u64::from(block_key(field)), out);
    let at = out.len();
    // The length stands before what it measures; most take one byte.
    out.push(0);
    write(out);
    let end = out.len();
    let mut length = end - at - 1;
    let more_bytes = varint_bytes(length as u64) - 1;
    out.resize(end + more_bytes, 0);
    if more_bytes > 0 {
        out.copy_within(at + 1..end, at + 1 + more_bytes);
    }
    for byte in &mut out[at..at + more_bytes] {
        *byte = length as u8 | 0x80;
        length >>= 7;
    }
    out[at + more_bytes] = length as u8;
}

/// Appends a submessage, or nothing if `write` appends no field.
pub(crate) fn optional_message(field: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    message(field, out, write);
    if out.len() == start + varint_bytes(u64::from(block_key(field))) + 1 {
        out.truncate(start);
    }
}

/// Appends a `google.protobuf.Timestamp`.
pub(crate) fn timestamp(field: u32, time: Timestamp, out: &mut Vec<u8>) {
    message(field, out, |out| {
        number(1, time.seconds as u64, out);
        number(2, u64::from(time.nanos), out);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_an_integer_is_what_it_takes() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, u64::MAX] {
                let mut out = Vec::new();
                varint(value, &mut out);
                assert_eq!(out.len(), varint_bytes(value), "{value}");
            }
        }
    }

    #[test]
    fn a_submessage_of_any_length_stands_behind_its_length() {
        for length in [0usize, 1, 127, 128, 300, 20_000] {
            let mut out = vec![9];
            message(16, &mut out, |out| {
                out.extend(std::iter::repeat_n(7u8, length))
            });
            let mut expected = vec![9, 0x82, 0x01];
            varint(length as u64, &mut expected);
            expected.extend(std::iter::repeat_n(7u8, length));
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn an_empty_optional_submessage_is_left_out() {
        let mut out = Vec::new();
        optional_message(5, &mut out, |_| ());
        assert_eq!(out, []);
        optional_message(5, &mut out, |out| number(1, 0x80, out));
        assert_eq!(out, [0x2a, 3, 0x08, 0x80, 0x01]);
    }
}
