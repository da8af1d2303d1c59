//! Columns of many values a row: a map of texts, a list of texts.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use fulmar_event::Texts;

use super::column::{ColumnBuffer, ColumnKind, TextBuffer};

/// Parquet's own names for the parts of maps and lists, so that a file is read
/// back with the types that it was written with.
static ENTRY_FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    let text = |name| Field::new(name, DataType::Utf8, false);
    Fields::from(vec![text("key"), text("value")])
});
static ENTRIES: LazyLock<FieldRef> = LazyLock::new(|| {
    let pair = DataType::Struct(ENTRY_FIELDS.clone());
    Arc::new(Field::new("key_value", pair, false))
});
static ELEMENT: LazyLock<FieldRef> =
    LazyLock::new(|| Arc::new(Field::new("element", DataType::Utf8, false)));

/// Pairs of texts of one row, in memory that is kept from row to row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    text: String,
    /// Start of the key, its end, and the end of the value, in `text`.
    places: Vec<[u32; 3]>,
    /// A bit for each key's mark: a key whose bit is not set is new, and none is looked at.
    marks: [u64; 4],
}

impl Pairs {
    /// Forgets the pairs.
    pub fn clear(&mut self) {
        self.text.clear();
        self.places.clear();
        self.marks = [0; 4];
    }

    /// Sets the value of a key, which keeps the place that it had first. A look at every key when
    /// its mark was met costs less than a table of them, for the twenty or so that events have.
    pub fn set(&mut self, key: &str, value: &str) {
        let mark = mark(key.as_bytes());
        let (word, bit) = (usize::from(mark >> 6), 1 << (mark & 63));
        let known = (self.marks[word] & bit != 0)
            .then(|| self.iter().position(|(name, _)| name == key))
            .flatten();
        self.marks[word] |= bit;
        let start = self.text.len() as u32;
        self.text.push_str(key);
        let key_end = self.text.len() as u32;
        self.text.push_str(value);
        let place = [start, key_end, self.text.len() as u32];
        match known {
            Some(known) => self.places[known] = place,
            None => self.places.push(place),
        }
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.places.iter().map(|place| {
            let [start, key_end, end] = place.map(|place| place as usize);
            (&self.text[start..key_end], &self.text[key_end..end])
        })
    }
}

/// A byte that tells most keys of one event apart: of the length and three of its letters.
fn mark(key: &[u8]) -> u8 {
    let letter = |place: usize| key.get(place).copied().unwrap_or(0);
    letter(0)
        .wrapping_mul(7)
        .wrapping_add(letter(key.len() / 2).wrapping_mul(31))
        .wrapping_add(letter(key.len().wrapping_sub(1)).wrapping_mul(131))
        .wrapping_add(key.len() as u8)
}

/// Where each row's values end.
#[derive(Default)]
struct Ends(Vec<i32>);

impl Ends {
    fn range(&self, row: usize) -> Range<usize> {
        let start = if row == 0 { 0 } else { self.0[row - 1] };
        start as usize..self.0[row] as usize
    }

    /// A block's values are texts, whose bytes are bounded far below 2^31.
    fn close_row(&mut self, values: usize) {
        self.0
            .push(i32::try_from(values).expect("a block's values are below 2^31"));
    }

    fn take(&mut self) -> OffsetBuffer<i32> {
        let mut offsets = Vec::with_capacity(self.0.len() + 1);
        offsets.push(0);
        offsets.append(&mut self.0);
        OffsetBuffer::new(ScalarBuffer::from(offsets))
    }

    /// Appends `length` rows of an array from `start`; gives their values' range.
    fn push_run(&mut self, offsets: &[i32], start: usize, length: usize) -> Range<usize> {
        let offsets = &offsets[start..=start + length];
        let shift = self.0.last().copied().unwrap_or(0) - offsets[0];
        self.0.extend(offsets[1..].iter().map(|end| end + shift));
        offsets[0] as usize..offsets[length] as usize
    }
}

/// A map of texts: flat properties.
#[derive(Default)]
pub struct Properties {
    keys: TextBuffer,
    values: TextBuffer,
    ends: Ends,
}

impl Properties {
    fn array(keys: ArrayRef, values: ArrayRef, offsets: OffsetBuffer<i32>) -> ArrayRef {
        let entries = StructArray::new(ENTRY_FIELDS.clone(), vec![keys, values], None);
        let map = MapArray::try_new(ENTRIES.clone(), offsets, entries, None, false);
        Arc::new(map.expect("each row has as many keys as values"))
    }
}

impl ColumnKind for Properties {
    type Value<'a> = &'a Pairs;
    const STATISTICS: bool = false;
    fn data_type() -> DataType {
        DataType::Map(ENTRIES.clone(), false)
    }
    #[inline]
    fn push(&mut self, pairs: &Pairs) {
        for (key, value) in pairs.iter() {
            self.keys.push(key);
            self.values.push(value);
        }
        self.ends.close_row(self.keys.rows());
    }
}

impl ColumnBuffer for Properties {
    fn rows(&self) -> usize {
        self.ends.0.len()
    }
    fn value_bytes(&self) -> usize {
        self.keys.bytes() + self.values.bytes()
    }
    fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.ends.0.clear();
    }
    fn gather(&self, order: &[u32]) -> ArrayRef {
        let mut some = Properties::default();
        for &row in order {
            for pair in self.ends.range(row as usize) {
                some.keys.push_bytes(self.keys.row(pair));
                some.values.push_bytes(self.values.row(pair));
            }
            some.ends.close_row(some.keys.rows());
        }
        some.take()
    }
    fn take(&mut self) -> ArrayRef {
        Self::array(self.keys.take(), self.values.take(), self.ends.take())
    }
    fn push_run(&mut self, array: &dyn Array, start: usize, length: usize) {
        let map = array.as_map();
        let pairs = self.ends.push_run(map.value_offsets(), start, length);
        self.keys.push_run(map.keys(), pairs.start, pairs.len());
        self.values.push_run(map.values(), pairs.start, pairs.len());
    }
    fn push_zero(&mut self) {
        self.ends.close_row(self.keys.rows());
    }
}

/// A list of texts: the groups of an event.
#[derive(Default)]
pub struct TextList {
    values: TextBuffer,
    ends: Ends,
}

impl ColumnKind for TextList {
    type Value<'a> = Texts<'a>;
    const STATISTICS: bool = false;
    fn data_type() -> DataType {
        DataType::List(ELEMENT.clone())
    }
    #[inline]
    fn push(&mut self, texts: Texts<'_>) {
        for text in texts.iter() {
            self.values.push(text);
        }
        self.ends.close_row(self.values.rows());
    }
}

impl ColumnBuffer for TextList {
    fn rows(&self) -> usize {
        self.ends.0.len()
    }
    fn value_bytes(&self) -> usize {
        self.values.bytes() + size_of_val(self.ends.0.as_slice())
    }
    fn clear(&mut self) {
        self.values.clear();
        self.ends.0.clear();
    }
    fn gather(&self, order: &[u32]) -> ArrayRef {
        let mut some = TextList::default();
        for &row in order {
            for text in self.ends.range(row as usize) {
                some.values.push_bytes(self.values.row(text));
            }
            some.ends.close_row(some.values.rows());
        }
        some.take()
    }
    fn take(&mut self) -> ArrayRef {
        let (values, offsets) = (self.values.take(), self.ends.take());
        Arc::new(ListArray::new(ELEMENT.clone(), offsets, values, None))
    }
    fn push_run(&mut self, array: &dyn Array, start: usize, length: usize) {
        let list = array.as_list::<i32>();
        let texts = self.ends.push_run(list.value_offsets(), start, length);
        self.values
            .push_run(list.values(), texts.start, texts.len());
    }
    fn push_zero(&mut self) {
        self.ends.close_row(self.values.rows());
    }
}

#[cfg(test)]
mod tests {
    use fulmar_event::encode_texts;

    use super::*;

    fn pairs(of: &[(&str, &str)]) -> Pairs {
        let mut pairs = Pairs::default();
        for (key, value) in of {
            pairs.set(key, value);
        }
        pairs
    }

    fn texts(array: &ArrayRef) -> Vec<String> {
        let texts = array.as_string::<i32>().iter();
        texts.map(|text| text.unwrap().to_owned()).collect()
    }

    fn maps(array: &ArrayRef) -> Vec<String> {
        let shown = |entries: StructArray| {
            let (keys, values) = (texts(entries.column(0)), texts(entries.column(1)));
            let pairs = keys.iter().zip(&values);
            let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
            pairs.join(" ")
        };
        let maps = array.as_map().iter();
        maps.map(|entries| shown(entries.unwrap())).collect()
    }

    fn lists(array: &ArrayRef) -> Vec<String> {
        let lists = array.as_list::<i32>().iter();
        lists.map(|list| texts(&list.unwrap()).join(" ")).collect()
    }

    #[test]
    fn a_key_set_again_has_its_last_value() {
        let again = pairs(&[("a", "1"), ("b", "2"), ("a", "3")]);
        assert_eq!(again.iter().collect::<Vec<_>>(), [("a", "3"), ("b", "2")]);
    }

    #[test]
    fn maps_come_out_in_the_order_asked_for() {
        let mut column = Properties::default();
        column.push(&pairs(&[("plan", "pro"), ("n", "1")]));
        column.push_zero();
        column.push(&pairs(&[("é", "ü")]));
        assert_eq!(maps(&column.gather(&[2, 0])), ["é=ü", "plan=pro n=1"]);
        let all = column.take();
        assert_eq!(maps(&all), ["plan=pro n=1", "", "é=ü"]);
        assert_eq!(column.rows(), 0);
        let mut merged = Properties::default();
        merged.push(&pairs(&[("first", "0")]));
        merged.push_run(&all, 1, 2);
        assert_eq!(maps(&merged.take()), ["first=0", "", "é=ü"]);
    }

    #[test]
    fn lists_come_out_in_the_order_asked_for() {
        let mut column = TextList::default();
        let two = encode_texts(["org_1", "team_2"]);
        column.push(Texts::new(&two));
        column.push(Texts::default());
        assert_eq!(lists(&column.gather(&[1, 0])), ["", "org_1 team_2"]);
        let all = column.take();
        let mut merged = TextList::default();
        merged.push_zero();
        merged.push_run(&all, 0, 2);
        assert_eq!(lists(&merged.take()), ["", "org_1 team_2", ""]);
    }
}
