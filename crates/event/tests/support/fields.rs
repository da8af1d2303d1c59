//! A message as a list of fields, knowing nothing of the contract: for what must survive byte
//! for byte, and for spelling fields as no encoder would.

/// One field with the bytes it was spelled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub number: u32,
    /// Key and value.
    pub bytes: Vec<u8>,
    /// The value without key and length.
    pub value: Vec<u8>,
}

/// The fields of a well-formed message, in order.
pub fn split(mut rest: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let start = rest;
        let key = read_varint(&mut rest) as u32;
        let value_start = rest;
        let value = match key & 7 {
            0 => {
                read_varint(&mut rest);
                &value_start[..value_start.len() - rest.len()]
            }
            1 => take(&mut rest, 8),
            2 => {
                let length = read_varint(&mut rest) as usize;
                take(&mut rest, length)
            }
            3 => {
                skip_group(&mut rest);
                &value_start[..value_start.len() - rest.len()]
            }
            5 => take(&mut rest, 4),
            wire_type => panic!("wire type {wire_type} in a well-formed message"),
        };
        let value = value.to_vec();
        let bytes = start[..start.len() - rest.len()].to_vec();
        fields.push(Field {
            number: key >> 3,
            bytes,
            value,
        });
    }
    fields
}

fn skip_group(rest: &mut &[u8]) {
    let mut depth = 1;
    while depth > 0 {
        match read_varint(rest) & 7 {
            0 => drop(read_varint(rest)),
            1 => drop(take(rest, 8)),
            2 => {
                let length = read_varint(rest) as usize;
                take(rest, length);
            }
            3 => depth += 1,
            4 => depth -= 1,
            _ => drop(take(rest, 4)),
        }
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(length);
    *rest = left;
    taken
}

fn read_varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(rest, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

/// An integer on the wire with `padding` bytes more than it needs.
pub fn varint(mut value: u64, padding: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    for _ in 0..padding.min(10 - bytes.len()) {
        *bytes.last_mut().unwrap() |= 0x80;
        bytes.push(0);
    }
    bytes
}

/// A length-delimited field.
pub fn block(number: u32, value: &[u8]) -> Vec<u8> {
    padded_block(number, value, 0)
}

/// A length-delimited field whose key and length are spelled with `padding` bytes too many.
pub fn padded_block(number: u32, value: &[u8], padding: usize) -> Vec<u8> {
    let key = varint(u64::from(number) << 3 | 2, padding.min(4));
    [key, varint(value.len() as u64, padding), value.to_vec()].concat()
}

/// An integer field.
pub fn number(number: u32, value: u64) -> Vec<u8> {
    [varint(u64::from(number) << 3, 0), varint(value, 0)].concat()
}
