//! Text of few distinct values, as numbers into a list of them.
//!
//! The numbers go through sorting, merging and into the file as they are: the
//! text itself is looked at once per row, and mostly only compared with the
//! row before, since records of one batch share most of their labels.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, StringArray};
use arrow_schema::DataType;

use super::column::string_array;

/// An empty place in the table of slots.
const FREE: i32 = -1;

/// Slots of a new table; it grows to at least twice the values.
const SLOTS_MIN: usize = 64;

/// Rows as codes, and the values that the codes name.
pub struct DictionaryBuffer {
    codes: Vec<i32>,
    /// The code of the last row; [`FREE`] before the first.
    last: i32,
    /// Where its value stands.
    last_value: Range<usize>,
    values: Values,
    /// What arrays' codes are here, the dictionary met last first.
    translations: Vec<Translation>,
}

/// Distinct values: bytes, ends, and a table from hash to code.
struct Values {
    bytes: Vec<u8>,
    ends: Vec<i32>,
    slots: Vec<i32>,
    /// Secret, so that no producer can aim values at one slot.
    seeds: [u64; 2],
}

/// What the codes of a dictionary are here. The dictionary is held, so that its place in memory
/// names it.
struct Translation {
    of: ArrayRef,
    codes: Vec<i32>,
}

/// Dictionaries whose codes are remembered: a merge turns from one of its sources to another with
/// every few rows, and each has one.
const TRANSLATIONS_MAX: usize = 32;

impl Default for DictionaryBuffer {
    fn default() -> DictionaryBuffer {
        DictionaryBuffer {
            codes: Vec::new(),
            last: FREE,
            last_value: 0..0,
            values: Values::new(),
            translations: Vec::new(),
        }
    }
}

impl DictionaryBuffer {
    /// The Arrow type of its arrays.
    pub fn data_type() -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    }

    /// Appends a row.
    #[inline]
    pub fn push(&mut self, value: &str) {
        let value = value.as_bytes();
        let last = &self.values.bytes[self.last_value.clone()];
        if !equal(last, value) || self.last == FREE {
            self.change(value);
        }
        self.codes.push(self.last);
    }

    /// Makes another value the last one.
    #[inline(never)]
    fn change(&mut self, value: &[u8]) {
        self.last = self.values.code_of(value);
        self.last_value = self.values.range(self.last);
    }

    /// The code of each row.
    pub fn codes(&self) -> &[i32] {
        &self.codes
    }

    /// Distinct values.
    pub fn distinct(&self) -> usize {
        self.values.ends.len()
    }

    /// The value that a code names.
    #[inline]
    pub fn value(&self, code: i32) -> &[u8] {
        self.values.get(code)
    }

    /// The value of a row.
    #[inline]
    pub fn row(&self, row: usize) -> &[u8] {
        self.values.get(self.codes[row])
    }

    /// Bytes held by codes and values.
    pub fn bytes(&self) -> usize {
        size_of_val(self.codes.as_slice()) + self.values.bytes.len()
    }

    /// Forgets rows and values.
    pub fn clear(&mut self) {
        self.codes.clear();
        self.last = FREE;
        self.last_value = 0..0;
        self.values.clear();
        self.translations.clear();
    }

    /// The rows named by `order`, in that order.
    pub fn gather(&self, order: &[u32]) -> ArrayRef {
        let codes = order.iter().map(|&row| self.codes[row as usize]).collect();
        self.array(codes)
    }

    /// All rows; the buffer is left empty.
    pub fn take(&mut self) -> ArrayRef {
        let codes = std::mem::take(&mut self.codes);
        let array = self.array(codes);
        self.clear();
        array
    }

    fn array(&self, codes: Vec<i32>) -> ArrayRef {
        let mut offsets = Vec::with_capacity(self.values.ends.len() + 1);
        offsets.push(0);
        offsets.extend_from_slice(&self.values.ends);
        let values = string_array(offsets, self.values.bytes.clone());
        let keys = Int32Array::new(codes.into(), None);
        let array = DictionaryArray::<Int32Type>::try_new(keys, values);
        Arc::new(array.expect("each code was given out with its value"))
    }

    /// Appends rows of an array of the same type.
    pub fn push_run(&mut self, array: &dyn Array, start: usize, length: usize) {
        let array = array.as_dictionary::<Int32Type>();
        let keys = &array.keys().values()[start..start + length];
        self.translate(array.values());
        let translated = &self.translations[0].codes;
        self.codes
            .extend(keys.iter().map(|&key| translated[key as usize]));
    }

    /// Brings to the front what the codes of a dictionary are here. A reader gives the batches of
    /// a row group the same one.
    fn translate(&mut self, values: &ArrayRef) {
        let strings = values.as_string::<i32>();
        let known = |one: &Translation| same_memory(one.of.as_string::<i32>(), strings);
        if let Some(place) = self.translations.iter().position(known) {
            self.translations[..=place].rotate_right(1);
            return;
        }
        let code_of = |code| self.values.code_of(strings.value(code).as_bytes());
        let codes = (0..strings.len()).map(code_of).collect();
        self.translations.truncate(TRANSLATIONS_MAX - 1);
        let of = Arc::clone(values);
        self.translations.insert(0, Translation { of, codes });
    }
}

fn same_memory(left: &StringArray, right: &StringArray) -> bool {
    let ends = |array: &StringArray| array.value_offsets().as_ptr_range();
    left.value_data().as_ptr_range() == right.value_data().as_ptr_range()
        && ends(left) == ends(right)
}

impl Values {
    fn new() -> Values {
        let random = RandomState::new();
        Values {
            bytes: Vec::new(),
            ends: Vec::new(),
            slots: vec![FREE; SLOTS_MIN],
            seeds: [random.hash_one(0), random.hash_one(1) | 1],
        }
    }

    #[inline]
    fn get(&self, code: i32) -> &[u8] {
        &self.bytes[self.range(code)]
    }

    #[inline]
    fn range(&self, code: i32) -> Range<usize> {
        let code = code as usize;
        let start = if code == 0 { 0 } else { self.ends[code - 1] };
        start as usize..self.ends[code] as usize
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.slots.clear();
        self.slots.resize(SLOTS_MIN, FREE);
    }

    /// The code of a value, a new one if it is not known yet.
    fn code_of(&mut self, value: &[u8]) -> i32 {
        let mask = self.slots.len() - 1;
        let mut slot = self.hash(value) as usize & mask;
        while self.slots[slot] != FREE {
            let code = self.slots[slot];
            if self.get(code) == value {
                return code;
            }
            slot = (slot + 1) & mask;
        }
        let code = self.ends.len() as i32;
        self.bytes.extend_from_slice(value);
        let end = i32::try_from(self.bytes.len()).expect("a block's text is below 2 GiB");
        self.ends.push(end);
        self.slots[slot] = code;
        if self.ends.len() * 2 > self.slots.len() {
            self.grow();
        }
        code
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 4;
        self.slots.clear();
        self.slots.resize(size, FREE);
        for code in 0..self.ends.len() as i32 {
            let mut slot = self.hash(self.get(code)) as usize & (size - 1);
            while self.slots[slot] != FREE {
                slot = (slot + 1) & (size - 1);
            }
            self.slots[slot] = code;
        }
    }

    /// Eight bytes at a time, each multiplied to 128 bits and folded.
    #[inline]
    fn hash(&self, value: &[u8]) -> u64 {
        let mut hash = self.seeds[0] ^ value.len() as u64;
        let mut chunks = value.chunks_exact(8);
        for chunk in &mut chunks {
            let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
            hash = fold(hash ^ word, self.seeds[1]);
        }
        let mut last = [0; 8];
        last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
        fold(hash ^ u64::from_le_bytes(last), self.seeds[1])
    }
}

/// Equality of mostly short text: up to 16 bytes in two loads each, without a
/// call.
#[inline(always)]
fn equal(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    if let (Some(a), Some(b)) = (left.first_chunk::<8>(), right.first_chunk::<8>()) {
        if left.len() > 16 {
            return left == right;
        }
        let (c, d) = (left.last_chunk::<8>(), right.last_chunk::<8>());
        return a == b && c == d;
    }
    if let (Some(a), Some(b)) = (left.first_chunk::<4>(), right.first_chunk::<4>()) {
        return a == b && left.last_chunk::<4>() == right.last_chunk::<4>();
    }
    left.iter().zip(right).all(|(a, b)| a == b)
}

#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product >> 64) as u64 ^ product as u64
}

/// Text of an array of either form, by row.
pub struct TextRows {
    keys: Option<Int32Array>,
    values: StringArray,
}

impl TextRows {
    /// Over a string array, plain or as a dictionary.
    pub(crate) fn new(array: &ArrayRef) -> TextRows {
        match array.as_dictionary_opt::<Int32Type>() {
            Some(array) => TextRows {
                keys: Some(array.keys().clone()),
                values: array.values().as_string::<i32>().clone(),
            },
            None => TextRows {
                keys: None,
                values: array.as_string::<i32>().clone(),
            },
        }
    }

    /// Over an array, if it is one of texts.
    #[must_use]
    pub fn of(array: &ArrayRef) -> Option<TextRows> {
        let is_text = match array.data_type() {
            DataType::Dictionary(_, values) => **values == DataType::Utf8,
            other => *other == DataType::Utf8,
        };
        is_text.then(|| TextRows::new(array))
    }

    /// The text of a row.
    #[inline]
    #[must_use]
    pub fn value(&self, row: usize) -> &str {
        match &self.keys {
            Some(keys) => self.values.value(keys.value(row) as usize),
            None => self.values.value(row),
        }
    }

    /// Rows.
    pub(crate) fn len(&self) -> usize {
        self.keys.as_ref().map_or(self.values.len(), Array::len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_come_back_as_they_went_in(values in proptest::collection::vec("[a-c]{0,10}", 1..400)) {
            let mut buffer = DictionaryBuffer::default();
            values.iter().for_each(|value| buffer.push(value));
            let distinct: std::collections::BTreeSet<&String> = values.iter().collect();
            prop_assert_eq!(buffer.distinct(), distinct.len());
            let order: Vec<u32> = (0..values.len() as u32).rev().collect();
            let backwards = buffer.gather(&order);
            let mut copy = DictionaryBuffer::default();
            copy.push("other");
            copy.push_run(&backwards, 1, values.len() - 1);
            copy.push_run(&backwards, 0, 1);
            let rows = TextRows::new(&copy.take());
            prop_assert_eq!(rows.len(), values.len() + 1);
            prop_assert_eq!(rows.value(0), "other");
            for (row, value) in values.iter().rev().skip(1).enumerate() {
                prop_assert_eq!(rows.value(row + 1), value);
            }
            prop_assert_eq!(rows.value(values.len()), &values[values.len() - 1]);
            prop_assert_eq!(copy.codes().len(), 0);
        }
    }
}
