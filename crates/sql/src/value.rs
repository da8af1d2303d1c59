//! Values of Arrow columns as text and as JSON.

use std::io::Write as _;

use duckdb::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, DictionaryArray,
    GenericListArray, IntervalMonthDayNanoArray, LargeBinaryArray, MapArray, OffsetSizeTrait,
    PrimitiveArray, StringArray, StructArray, UnionArray,
};
use duckdb::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use crate::instant;

/// A column (or a nested part of one) whose type has been looked up once for all rows.
pub struct Reader<'a> {
    array: &'a dyn Array,
    kind: Kind<'a>,
}

/// Writes the value of a row.
type Write<'a> = Box<dyn Fn(usize, &mut Vec<u8>) + 'a>;

enum Kind<'a> {
    Null,
    Bool(&'a BooleanArray),
    /// Anything whose plain text is also its JSON number.
    Number(Write<'a>),
    Float(Box<dyn Fn(usize) -> f64 + 'a>),
    /// A column of 32-bit floats: printed with their own, shorter digits.
    Single(&'a PrimitiveArray<Float32Type>),
    Text(&'a StringArray),
    /// Text made from the value: dates, times, binary.
    Made(Write<'a>),
    List(Box<Reader<'a>>, Box<dyn Fn(usize) -> (usize, usize) + 'a>),
    Struct(Vec<(&'a str, Reader<'a>)>),
    Map(Box<Reader<'a>>, Box<Reader<'a>>, &'a MapArray),
    /// A value of another array: an enum's name.
    Chosen(Box<Reader<'a>>, Box<dyn Fn(usize) -> usize + 'a>),
    Union(Vec<(i8, Reader<'a>)>, &'a UnionArray),
}

impl<'a> Reader<'a> {
    /// Looks the type up; a type that has no text here is named in the error.
    pub fn of(array: &'a ArrayRef) -> Result<Reader<'a>, String> {
        let kind = match array.data_type() {
            DataType::Null => Kind::Null,
            DataType::Boolean => Kind::Bool(array.as_boolean()),
            DataType::Utf8 => Kind::Text(array.as_string()),
            DataType::Float32 => Kind::Single(array.as_primitive()),
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>();
                Kind::Float(Box::new(|row| values.value(row)))
            }
            DataType::List(_) => list_kind::<i32>(array.as_list())?,
            DataType::LargeList(_) => list_kind::<i64>(array.as_list())?,
            DataType::FixedSizeList(_, size) => {
                let values = array.as_fixed_size_list().values();
                let size = *size as usize;
                Kind::List(
                    Box::new(Reader::of(values)?),
                    Box::new(move |row| (row * size, (row + 1) * size)),
                )
            }
            DataType::Struct(_) => struct_kind(array.as_struct())?,
            DataType::Map(_, _) => map_kind(array.as_map())?,
            DataType::Dictionary(_, _) => chosen_kind(array)?,
            DataType::Union(_, _) => union_kind(array.as_union())?,
            _ => match number_kind(array).or_else(|| made_kind(array)) {
                Some(kind) => kind,
                None => return Err(array.data_type().to_string()),
            },
        };
        Ok(Reader {
            array: array.as_ref(),
            kind,
        })
    }

    /// Whether the value is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        match &self.kind {
            Kind::Null => true,
            Kind::Union(members, union) => {
                member(members, union, row).is_none_or(|(reader, place)| reader.is_null(place))
            }
            _ => self.array.is_null(row),
        }
    }

    /// The value as JSON: 64-bit and longer integers are numbers, NaN and infinities null.
    pub fn write_json(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            return out.extend_from_slice(b"null");
        }
        match &self.kind {
            Kind::Null => out.extend_from_slice(b"null"),
            Kind::Bool(values) => write_bool(values.value(row), out),
            Kind::Number(write) => write(row, out),
            Kind::Float(value) => write_json_value(&value(row), out),
            Kind::Single(values) => write_json_value(&values.value(row), out),
            Kind::Text(values) => write_json_value(values.value(row), out),
            Kind::Made(write) => {
                out.push(b'"');
                write(row, out);
                out.push(b'"');
            }
            Kind::List(values, range) => {
                let (from, to) = range(row);
                write_list(values, from, to, out);
            }
            Kind::Struct(fields) => write_struct(fields, row, out),
            Kind::Map(keys, values, map) => write_map(keys, values, map, row, out),
            Kind::Chosen(values, place) => values.write_json(place(row), out),
            Kind::Union(members, union) => {
                if let Some((reader, place)) = member(members, union, row) {
                    reader.write_json(place, out);
                }
            }
        }
    }

    /// The value as plain text; nested values as JSON. NULL writes nothing.
    pub fn write_text(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            return;
        }
        match &self.kind {
            Kind::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Kind::Made(write) => write(row, out),
            Kind::Float(value) => write_float(value(row), out),
            Kind::Single(values) if !values.value(row).is_finite() => {
                write_float(f64::from(values.value(row)), out);
            }
            Kind::Chosen(values, place) => values.write_text(place(row), out),
            Kind::Union(members, union) => {
                if let Some((reader, place)) = member(members, union, row) {
                    reader.write_text(place, out);
                }
            }
            _ => self.write_json(row, out),
        }
    }
}

/// Whether values of this type are aligned to the right.
pub fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

fn number_kind(array: &ArrayRef) -> Option<Kind<'_>> {
    fn whole<'a, T>(array: &'a ArrayRef) -> Kind<'a>
    where
        T: ArrowPrimitiveType,
        T::Native: std::fmt::Display,
    {
        let values = array.as_primitive::<T>();
        Kind::Number(Box::new(|row, out| write_display(&values.value(row), out)))
    }
    Some(match array.data_type() {
        DataType::Int8 => whole::<Int8Type>(array),
        DataType::Int16 => whole::<Int16Type>(array),
        DataType::Int32 => whole::<Int32Type>(array),
        DataType::Int64 => whole::<Int64Type>(array),
        DataType::UInt8 => whole::<UInt8Type>(array),
        DataType::UInt16 => whole::<UInt16Type>(array),
        DataType::UInt32 => whole::<UInt32Type>(array),
        DataType::UInt64 => whole::<UInt64Type>(array),
        DataType::Decimal128(_, scale) => {
            let values: &Decimal128Array = array.as_primitive::<Decimal128Type>();
            let scale = usize::try_from(*scale).unwrap_or(0);
            Kind::Number(Box::new(move |row, out| {
                write_decimal(values.value(row), scale, out)
            }))
        }
        _ => return None,
    })
}

fn made_kind(array: &ArrayRef) -> Option<Kind<'_>> {
    let write: Write<'_> = match array.data_type() {
        DataType::Date32 => {
            let values = array.as_primitive::<Date32Type>();
            Box::new(|row, out| instant::write_date(i64::from(values.value(row)), out))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            let values = array.as_primitive::<Time64MicrosecondType>();
            Box::new(|row, out| instant::write_time_of_day(values.value(row), out))
        }
        DataType::Time64(TimeUnit::Nanosecond) => {
            let values = array.as_primitive::<Time64NanosecondType>();
            Box::new(|row, out| instant::write_time_of_day(values.value(row) / 1000, out))
        }
        DataType::Timestamp(unit, _) => return Some(timestamp_kind(array, *unit)),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let values: &IntervalMonthDayNanoArray =
                array.as_primitive::<IntervalMonthDayNanoType>();
            Box::new(|row, out| {
                let value = values.value(row);
                instant::write_interval(value.months, value.days, value.nanoseconds, out);
            })
        }
        DataType::Binary => {
            let values: &BinaryArray = array.as_binary();
            Box::new(|row, out| write_base64(values.value(row), out))
        }
        DataType::LargeBinary => {
            let values: &LargeBinaryArray = array.as_binary();
            Box::new(|row, out| write_base64(values.value(row), out))
        }
        _ => return None,
    };
    Some(Kind::Made(write))
}

fn timestamp_kind(array: &ArrayRef, unit: TimeUnit) -> Kind<'_> {
    Kind::Made(match unit {
        TimeUnit::Second => {
            let values = array.as_primitive::<TimestampSecondType>();
            Box::new(|row, out| instant::write_millis(values.value(row) * 1000, out))
        }
        TimeUnit::Millisecond => {
            let values = array.as_primitive::<TimestampMillisecondType>();
            Box::new(|row, out| instant::write_millis(values.value(row), out))
        }
        TimeUnit::Microsecond => {
            let values = array.as_primitive::<TimestampMicrosecondType>();
            Box::new(|row, out| instant::write_micros(values.value(row), out))
        }
        TimeUnit::Nanosecond => {
            let values = array.as_primitive::<TimestampNanosecondType>();
            Box::new(|row, out| {
                instant::write_millis(values.value(row).div_euclid(1_000_000), out);
            })
        }
    })
}

fn list_kind<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Result<Kind<'_>, String> {
    let offsets = list.value_offsets();
    let range = |row: usize| (offsets[row].as_usize(), offsets[row + 1].as_usize());
    Ok(Kind::List(
        Box::new(Reader::of(list.values())?),
        Box::new(range),
    ))
}

fn struct_kind(array: &StructArray) -> Result<Kind<'_>, String> {
    let mut fields = Vec::with_capacity(array.num_columns());
    for (field, column) in array.fields().iter().zip(array.columns()) {
        fields.push((field.name().as_str(), Reader::of(column)?));
    }
    Ok(Kind::Struct(fields))
}

fn map_kind(map: &MapArray) -> Result<Kind<'_>, String> {
    let keys = Box::new(Reader::of(map.keys())?);
    Ok(Kind::Map(keys, Box::new(Reader::of(map.values())?), map))
}

fn chosen_kind(array: &ArrayRef) -> Result<Kind<'_>, String> {
    let DataType::Dictionary(key, _) = array.data_type() else {
        return Err(array.data_type().to_string());
    };
    fn chosen<'a, K>(array: &'a ArrayRef) -> Result<Kind<'a>, String>
    where
        K: duckdb::arrow::datatypes::ArrowDictionaryKeyType,
    {
        let dictionary: &DictionaryArray<K> = array.as_dictionary::<K>();
        let values = Box::new(Reader::of(dictionary.values())?);
        let place = |row: usize| dictionary.key(row).unwrap_or(0);
        Ok(Kind::Chosen(values, Box::new(place)))
    }
    match key.as_ref() {
        DataType::UInt8 => chosen::<UInt8Type>(array),
        DataType::UInt16 => chosen::<UInt16Type>(array),
        DataType::UInt32 => chosen::<UInt32Type>(array),
        _ => Err(array.data_type().to_string()),
    }
}

fn union_kind(union: &UnionArray) -> Result<Kind<'_>, String> {
    let DataType::Union(fields, _) = union.data_type() else {
        return Err(union.data_type().to_string());
    };
    let mut members = Vec::with_capacity(fields.len());
    for (id, _) in fields.iter() {
        members.push((id, Reader::of(union.child(id))?));
    }
    Ok(Kind::Union(members, union))
}

fn member<'r, 'a>(
    members: &'r [(i8, Reader<'a>)],
    union: &UnionArray,
    row: usize,
) -> Option<(&'r Reader<'a>, usize)> {
    let id = union.type_id(row);
    let (_, reader) = members.iter().find(|(member, _)| *member == id)?;
    Some((reader, union.value_offset(row)))
}

fn write_list(values: &Reader<'_>, from: usize, to: usize, out: &mut Vec<u8>) {
    out.push(b'[');
    for place in from..to {
        if place > from {
            out.push(b',');
        }
        values.write_json(place, out);
    }
    out.push(b']');
}

fn write_struct(fields: &[(&str, Reader<'_>)], row: usize, out: &mut Vec<u8>) {
    out.push(b'{');
    for (number, (name, reader)) in fields.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        write_json_value(*name, out);
        out.push(b':');
        reader.write_json(row, out);
    }
    out.push(b'}');
}

/// A map is an object; keys that are no text are put into quotes as their text.
fn write_map(
    keys: &Reader<'_>,
    values: &Reader<'_>,
    map: &MapArray,
    row: usize,
    out: &mut Vec<u8>,
) {
    let offsets = map.value_offsets();
    let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
    out.push(b'{');
    for place in from..to {
        if place > from {
            out.push(b',');
        }
        let mut key = Vec::new();
        keys.write_text(place, &mut key);
        write_json_value(&String::from_utf8_lossy(&key), out);
        out.push(b':');
        values.write_json(place, out);
    }
    out.push(b'}');
}

/// A string with its escapes, or a float with its shortest digits; no NaN, no infinity.
pub fn write_json_value<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("text and numbers in memory serialise");
}

fn write_bool(value: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

fn write_display(value: &impl std::fmt::Display, out: &mut Vec<u8>) {
    write!(out, "{value}").expect("writing to memory does not fail");
}

fn write_float(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 {
            b"Infinity"
        } else {
            b"-Infinity"
        });
    } else {
        write_json_value(&value, out);
    }
}

fn write_decimal(value: i128, scale: usize, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let digits = format!("{:0width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    out.extend_from_slice(whole.as_bytes());
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(fraction.as_bytes());
    }
}

fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let sign = ALPHABET[(group >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= chunk.len() { sign } else { b'=' });
        }
    }
}
