//! Column buffers: what a row is appended to, and what becomes an Arrow array.
//!
//! A buffer keeps its memory between blocks, so that a row costs copies and no
//! allocation. Rows leave either in arrival order, by handing the buffer itself
//! to Arrow, or gathered in the order of the table's key.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float64Type, Int8Type, Int32Type, Int64Type, TimestampMillisecondType, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringArray,
    TimestampMillisecondArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};

use super::dictionary::DictionaryBuffer;
pub use super::nested::{Properties, TextList};
pub use super::optional::{MaybeF32, MaybeFlag, MaybeText, MaybeTime};

/// The name of an enum's value, or the bare number of a value that this build
/// does not know. Zero has no name: it is stored as the empty string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnumName {
    /// The short name of a known value: its prefix stripped, in lower case.
    Known(&'static str),
    /// A number of a newer contract, stored as its decimal digits.
    Unknown(i32),
}

/// A column under construction.
pub trait ColumnBuffer: Send {
    /// Rows held.
    fn rows(&self) -> usize;
    /// Bytes of values held; what a block is bounded by.
    fn value_bytes(&self) -> usize;
    /// Forgets the rows and keeps the memory.
    fn clear(&mut self);
    /// The rows named by `order`, in that order, as an array.
    fn gather(&self, order: &[u32]) -> ArrayRef;
    /// All rows in arrival order as an array; the buffer is left empty.
    fn take(&mut self) -> ArrayRef;
    /// Appends `length` rows of `array` from `start`. The array's type is the
    /// column's own: callers adapt older files before they append.
    fn push_run(&mut self, array: &dyn Array, start: usize, length: usize);
    /// Appends one row of the column's zero value (absent in an older file).
    fn push_zero(&mut self);
    /// The codes and values of a column of few distinct values.
    fn dictionary(&self) -> Option<&DictionaryBuffer> {
        None
    }
}

/// What a kind of column takes for a value.
pub trait ColumnKind {
    /// One value of a row.
    type Value<'a>: Copy;
    /// The Arrow type.
    fn data_type() -> DataType;
    /// Whether the array may hold nulls.
    const NULLABLE: bool = false;
    /// Whether its rows are codes into a list of values.
    const DICTIONARY: bool = false;
    /// Whether least and greatest of a file help to leave it out.
    const STATISTICS: bool = true;
    /// Whether Parquet's differences pay: values that mostly rise.
    const DELTA: bool = false;
    /// Appends one value.
    fn push(&mut self, value: Self::Value<'_>);
}

// ---- text -----------------------------------------------------------------

/// UTF-8 text, as one buffer of bytes and one of ends.
#[derive(Default)]
pub(super) struct TextBuffer {
    bytes: Vec<u8>,
    /// `ends[i]` is the end of row i; it starts where row i-1 ends.
    ends: Vec<i32>,
}

impl TextBuffer {
    #[inline]
    pub(super) fn push(&mut self, value: &str) {
        self.push_bytes(value.as_bytes());
    }

    /// The bytes of another row.
    #[inline]
    pub(super) fn push_bytes(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.close_row();
    }

    pub(super) fn rows(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    #[inline]
    fn close_row(&mut self) {
        // A block is bounded far below 2 GiB (BLOCK_BYTES_MAX), so the end fits.
        let end = i32::try_from(self.bytes.len()).expect("a block's text is below 2 GiB");
        self.ends.push(end);
    }

    #[inline]
    pub(super) fn row(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start as usize..self.ends[row] as usize]
    }

    pub(super) fn gather(&self, order: &[u32]) -> ArrayRef {
        let mut bytes = Vec::with_capacity(self.bytes.len() * order.len() / self.ends.len().max(1));
        let mut offsets = Vec::with_capacity(order.len() + 1);
        offsets.push(0);
        for &row in order {
            bytes.extend_from_slice(self.row(row as usize));
            offsets.push(bytes.len() as i32);
        }
        string_array(offsets, bytes)
    }

    pub(super) fn take(&mut self) -> ArrayRef {
        let mut offsets = Vec::with_capacity(self.ends.len() + 1);
        offsets.push(0);
        offsets.extend_from_slice(&self.ends);
        self.ends.clear();
        string_array(offsets, std::mem::take(&mut self.bytes))
    }

    pub(super) fn push_run(&mut self, array: &dyn Array, start: usize, length: usize) {
        let strings = array.as_string::<i32>();
        let offsets = &strings.value_offsets()[start..=start + length];
        let first = offsets[0];
        let shift = self.bytes.len() as i32 - first;
        let values = strings.value_data();
        self.bytes
            .extend_from_slice(&values[first as usize..offsets[length] as usize]);
        self.ends
            .extend(offsets[1..].iter().map(|offset| offset + shift));
    }
}

/// Arrow checks the bytes once more; it costs little beside the rest and keeps
/// this module free of unsafe code.
pub(super) fn string_array(offsets: Vec<i32>, bytes: Vec<u8>) -> ArrayRef {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let array = StringArray::try_new(offsets, Buffer::from_vec(bytes), None);
    Arc::new(array.expect("only whole strings are appended"))
}

/// Text of many distinct values: ids, raw lines, payloads.
#[derive(Default)]
pub struct Text(TextBuffer);

impl Text {
    /// The text of one row.
    #[inline]
    pub fn row(&self, row: usize) -> &[u8] {
        self.0.row(row)
    }
}

impl ColumnKind for Text {
    type Value<'a> = &'a str;
    const STATISTICS: bool = false;
    fn data_type() -> DataType {
        DataType::Utf8
    }
    #[inline]
    fn push(&mut self, value: &str) {
        self.0.push(value);
    }
}

impl ColumnBuffer for Text {
    fn rows(&self) -> usize {
        self.0.ends.len()
    }
    fn value_bytes(&self) -> usize {
        self.0.bytes.len()
    }
    fn clear(&mut self) {
        self.0.clear();
    }
    fn gather(&self, order: &[u32]) -> ArrayRef {
        self.0.gather(order)
    }
    fn take(&mut self) -> ArrayRef {
        self.0.take()
    }
    fn push_run(&mut self, array: &dyn Array, start: usize, length: usize) {
        self.0.push_run(array, start, length);
    }
    fn push_zero(&mut self) {
        self.0.push("");
    }
}

macro_rules! code_methods {
    () => {
        fn rows(&self) -> usize {
            self.0.codes().len()
        }
        fn value_bytes(&self) -> usize {
            self.0.bytes()
        }
        fn clear(&mut self) {
            self.0.clear();
        }
        fn gather(&self, order: &[u32]) -> ArrayRef {
            self.0.gather(order)
        }
        fn take(&mut self) -> ArrayRef {
            self.0.take()
        }
        fn push_run(&mut self, array: &dyn Array, start: usize, length: usize) {
            self.0.push_run(array, start, length);
        }
        fn push_zero(&mut self) {
            self.0.push("");
        }
        fn dictionary(&self) -> Option<&DictionaryBuffer> {
            Some(&self.0)
        }
    };
}

/// Text of few distinct values: tenants, hosts, methods.
#[derive(Default)]
pub struct Label(DictionaryBuffer);

impl Label {
    /// The text of one row.
    #[inline]
    pub fn row(&self, row: usize) -> &[u8] {
        self.0.row(row)
    }
}

impl ColumnKind for Label {
    type Value<'a> = &'a str;
    const DICTIONARY: bool = true;
    fn data_type() -> DataType {
        DictionaryBuffer::data_type()
    }
    #[inline]
    fn push(&mut self, value: &str) {
        self.0.push(value);
    }
}

impl ColumnBuffer for Label {
    code_methods!();
}

/// The short name of an enum's value.
#[derive(Default)]
pub struct Name(DictionaryBuffer);

impl ColumnKind for Name {
    type Value<'a> = EnumName;
    const DICTIONARY: bool = true;
    fn data_type() -> DataType {
        DictionaryBuffer::data_type()
    }
    #[inline]
    fn push(&mut self, value: EnumName) {
        match value {
            EnumName::Known(name) => self.0.push(name),
            EnumName::Unknown(number) => self.0.push(&number.to_string()),
        }
    }
}

impl ColumnBuffer for Name {
    code_methods!();
}

// ---- numbers and times ----------------------------------------------------

macro_rules! number_kind {
    ($(#[$doc:meta])* $name:ident, $arrow:ty, $native:ty, $data_type:expr,
     delta: $delta:literal) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name(Vec<$native>);

        impl $name {
            /// The value of one row.
            #[inline]
            pub fn row(&self, row: usize) -> $native {
                self.0[row]
            }
        }

        impl ColumnKind for $name {
            type Value<'a> = $native;
            const DELTA: bool = $delta;
            fn data_type() -> DataType {
                $data_type
            }
            #[inline]
            fn push(&mut self, value: $native) {
                self.0.push(value);
            }
        }

        impl ColumnBuffer for $name {
            fn rows(&self) -> usize {
                self.0.len()
            }
            fn value_bytes(&self) -> usize {
                size_of_val(self.0.as_slice())
            }
            fn clear(&mut self) {
                self.0.clear();
            }
            fn gather(&self, order: &[u32]) -> ArrayRef {
                let values = order.iter().map(|&row| self.0[row as usize]).collect();
                primitive_array::<$arrow>(values)
            }
            fn take(&mut self) -> ArrayRef {
                primitive_array::<$arrow>(std::mem::take(&mut self.0))
            }
            fn push_run(&mut self, array: &dyn Array, start: usize, length: usize) {
                let values = array.as_primitive::<$arrow>().values();
                self.0.extend_from_slice(&values[start..start + length]);
            }
            fn push_zero(&mut self) {
                self.0.push(Default::default());
            }
        }
    };
}

fn primitive_array<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef
where
    Vec<T::Native>: Into<ScalarBuffer<T::Native>>,
{
    let array = PrimitiveArray::<T>::new(values.into(), None);
    if T::DATA_TYPE == TimestampMillisecondType::DATA_TYPE {
        let times: &TimestampMillisecondArray = array.as_any().downcast_ref().expect("its type");
        return Arc::new(times.clone().with_timezone(UTC));
    }
    Arc::new(array)
}

/// The zone that every time column carries.
pub const UTC: &str = "UTC";

number_kind!(
    /// Milliseconds since the epoch, UTC.
    Time,
    TimestampMillisecondType,
    i64,
    DataType::Timestamp(TimeUnit::Millisecond, Some(UTC.into())),
    delta: true
);
number_kind!(
    /// A port.
    U16,
    UInt16Type,
    u16,
    DataType::UInt16,
    delta: false
);
number_kind!(
    /// A version.
    U32,
    UInt32Type,
    u32,
    DataType::UInt32,
    delta: true
);
number_kind!(
    /// A producer's sequence number, all 64 bits of it.
    U64,
    UInt64Type,
    u64,
    DataType::UInt64,
    delta: true
);
number_kind!(
    /// A partition: signed, since readers without unsigned types exist.
    Partition,
    Int32Type,
    i32,
    DataType::Int32,
    delta: true
);
number_kind!(
    /// A small number with a sign.
    I8,
    Int8Type,
    i8,
    DataType::Int8,
    delta: false
);
number_kind!(
    /// A count.
    I32,
    Int32Type,
    i32,
    DataType::Int32,
    delta: false
);
number_kind!(
    /// A sum of money in the type that OpenPanel's sessions have.
    F64,
    Float64Type,
    f64,
    DataType::Float64,
    delta: false
);
number_kind!(
    /// An offset: signed, so that a difference of two is a number in any SQL.
    Offset,
    Int64Type,
    i64,
    DataType::Int64,
    delta: true
);

// ---- flags ----------------------------------------------------------------

/// Yes or no.
#[derive(Default)]
pub struct Flag(Vec<bool>);

impl ColumnKind for Flag {
    type Value<'a> = bool;
    fn data_type() -> DataType {
        DataType::Boolean
    }
    #[inline]
    fn push(&mut self, value: bool) {
        self.0.push(value);
    }
}

impl ColumnBuffer for Flag {
    fn rows(&self) -> usize {
        self.0.len()
    }
    fn value_bytes(&self) -> usize {
        self.0.len()
    }
    fn clear(&mut self) {
        self.0.clear();
    }
    fn gather(&self, order: &[u32]) -> ArrayRef {
        let bits = BooleanBuffer::collect_bool(order.len(), |at| self.0[order[at] as usize]);
        Arc::new(BooleanArray::new(bits, None))
    }
    fn take(&mut self) -> ArrayRef {
        let rows = std::mem::take(&mut self.0);
        Arc::new(BooleanArray::new(BooleanBuffer::from(rows), None))
    }
    fn push_run(&mut self, array: &dyn Array, start: usize, length: usize) {
        let flags = array.as_boolean();
        self.0
            .extend((start..start + length).map(|row| flags.value(row)));
    }
    fn push_zero(&mut self) {
        self.0.push(false);
    }
}
