//! Columns in which a value may be absent (null).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, PrimitiveArray, StringArray, TimestampMillisecondArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, TimeUnit};

use super::column::{ColumnBuffer, ColumnKind, TextBuffer, UTC};

/// Yes, no, or not asked (null).
#[derive(Default)]
pub struct MaybeFlag(Vec<Option<bool>>);

impl MaybeFlag {
    fn array(rows: impl ExactSizeIterator<Item = Option<bool>> + Clone) -> ArrayRef {
        let bits: BooleanBuffer = rows.clone().map(|row| row == Some(true)).collect();
        let valid: NullBuffer = rows.map(|row| row.is_some()).collect();
        Arc::new(BooleanArray::new(bits, Some(valid)))
    }
}

impl ColumnKind for MaybeFlag {
    type Value<'a> = Option<bool>;
    const NULLABLE: bool = true;
    fn data_type() -> DataType {
        DataType::Boolean
    }
    #[inline]
    fn push(&mut self, value: Option<bool>) {
        self.0.push(value);
    }
}

impl ColumnBuffer for MaybeFlag {
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
        Self::array(order.iter().map(|&row| self.0[row as usize]))
    }
    fn take(&mut self) -> ArrayRef {
        let rows = std::mem::take(&mut self.0);
        Self::array(rows.into_iter())
    }
    fn push_run(&mut self, array: &dyn Array, start: usize, length: usize) {
        let flags = array.as_boolean();
        self.0.extend(
            (start..start + length).map(|row| flags.is_valid(row).then(|| flags.value(row))),
        );
    }
    fn push_zero(&mut self) {
        self.0.push(None);
    }
}

/// Text of many distinct values, or none.
#[derive(Default)]
pub struct MaybeText {
    texts: TextBuffer,
    present: Vec<bool>,
}

impl MaybeText {
    fn array(texts: ArrayRef, present: NullBuffer) -> ArrayRef {
        let texts = texts.as_string::<i32>().clone();
        let (offsets, bytes, _) = texts.into_parts();
        Arc::new(StringArray::new(offsets, bytes, Some(present)))
    }
}

impl ColumnKind for MaybeText {
    type Value<'a> = Option<&'a str>;
    const NULLABLE: bool = true;
    const STATISTICS: bool = false;
    fn data_type() -> DataType {
        DataType::Utf8
    }
    #[inline]
    fn push(&mut self, value: Option<&str>) {
        self.texts.push(value.unwrap_or_default());
        self.present.push(value.is_some());
    }
}

impl ColumnBuffer for MaybeText {
    fn rows(&self) -> usize {
        self.present.len()
    }
    fn value_bytes(&self) -> usize {
        self.texts.bytes() + self.present.len()
    }
    fn clear(&mut self) {
        self.texts.clear();
        self.present.clear();
    }
    fn gather(&self, order: &[u32]) -> ArrayRef {
        let present = order.iter().map(|&row| self.present[row as usize]);
        Self::array(self.texts.gather(order), present.collect())
    }
    fn take(&mut self) -> ArrayRef {
        let present = std::mem::take(&mut self.present).into_iter();
        Self::array(self.texts.take(), present.collect())
    }
    fn push_run(&mut self, array: &dyn Array, start: usize, length: usize) {
        self.texts.push_run(array, start, length);
        self.present
            .extend((start..start + length).map(|row| array.is_valid(row)));
    }
    fn push_zero(&mut self) {
        self.push(None);
    }
}

macro_rules! optional_number {
    ($(#[$doc:meta])* $name:ident, $arrow:ty, $native:ty, $data_type:expr, $array:expr) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name(Vec<Option<$native>>);

        impl ColumnKind for $name {
            type Value<'a> = Option<$native>;
            const NULLABLE: bool = true;
            fn data_type() -> DataType {
                $data_type
            }
            #[inline]
            fn push(&mut self, value: Option<$native>) {
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
                $array(order.iter().map(|&row| self.0[row as usize]).collect())
            }
            fn take(&mut self) -> ArrayRef {
                $array(std::mem::take(&mut self.0))
            }
            fn push_run(&mut self, array: &dyn Array, start: usize, length: usize) {
                let values = array.as_primitive::<$arrow>();
                let rows = start..start + length;
                self.0
                    .extend(rows.map(|row| values.is_valid(row).then(|| values.value(row))));
            }
            fn push_zero(&mut self) {
                self.0.push(None);
            }
        }
    };
}

fn array<T: ArrowPrimitiveType>(values: Vec<Option<T::Native>>) -> PrimitiveArray<T> {
    values.into_iter().collect()
}

optional_number!(
    /// A coordinate, in degrees.
    MaybeF32,
    Float32Type,
    f32,
    DataType::Float32,
    |values| -> ArrayRef { Arc::new(array::<Float32Type>(values)) }
);
optional_number!(
    /// Milliseconds since the epoch, UTC.
    MaybeTime,
    TimestampMillisecondType,
    i64,
    DataType::Timestamp(TimeUnit::Millisecond, Some(UTC.into())),
    |values| -> ArrayRef {
        let times: TimestampMillisecondArray = array(values);
        Arc::new(times.with_timezone(UTC))
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(array: &ArrayRef) -> Vec<Option<&str>> {
        array.as_string::<i32>().iter().collect()
    }

    #[test]
    fn none_stays_none_and_is_not_the_empty_text() {
        let mut column = MaybeText::default();
        for value in [Some("a"), None, Some("")] {
            column.push(value);
        }
        assert_eq!(
            texts(&column.gather(&[2, 1, 0])),
            [Some(""), None, Some("a")]
        );
        let all = column.take();
        let mut merged = MaybeText::default();
        merged.push_zero();
        merged.push_run(&all, 1, 2);
        assert_eq!(texts(&merged.take()), [None, None, Some("")]);
    }

    #[test]
    fn numbers_may_be_none() {
        let mut column = MaybeF32::default();
        column.push(Some(59.5));
        column.push(None);
        let all = column.take();
        let mut merged = MaybeF32::default();
        merged.push_run(&all, 0, 2);
        let merged = merged.take();
        let found: Vec<Option<f32>> = merged.as_primitive::<Float32Type>().iter().collect();
        assert_eq!(found, [Some(59.5), None]);
    }
}
