//! A list of texts in one field of bytes, read in place.

use crate::encode;
use crate::wire::{Cursor, block_key};

const TEXT: u32 = block_key(1);

/// A list of texts, borrowed from a record's bytes. On the wire: the bytes of a message whose one
/// field is a repeated string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Texts<'a>(&'a [u8]);

impl<'a> Texts<'a> {
    /// The list that `bytes` are. It ends where they are none.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The list as it stands in a record.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// True without a text.
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }

    /// The texts, in order.
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        let mut cursor = Cursor::new(self.0);
        std::iter::from_fn(move || {
            while !cursor.is_empty() {
                match cursor.key().ok()? {
                    TEXT => return cursor.text().ok(),
                    key => cursor = cursor.skip(key).ok()?,
                }
            }
            None
        })
    }
}

/// The bytes of a list of texts, for [`Texts::new`].
pub fn encode_texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<u8> {
    let mut out = Vec::new();
    for text in texts {
        encode::block(1, text.as_bytes(), &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for texts in [&[][..], &["a"], &["", "é", "a b"]] {
            let bytes = encode_texts(texts.iter().copied());
            let read = Texts::new(&bytes);
            assert_eq!(read.iter().collect::<Vec<_>>(), texts);
            assert_eq!(read.is_empty(), texts.is_empty());
        }
    }

    #[test]
    fn a_list_ends_where_it_is_none() {
        for broken in [&[0x08, 1][..], &[0x0a, 2, b'a'], &[0x0a, 1, 0xff], &[0x4c]] {
            let bytes = [&[0x0a, 1, b'a'], broken].concat();
            assert_eq!(Texts::new(&bytes).iter().next(), Some("a"));
            assert_eq!(Texts::new(&bytes).iter().count(), 1);
        }
        let unknown = Texts::new(&[0x10, 7, 0x0a, 1, b'a']);
        assert_eq!(unknown.iter().collect::<Vec<_>>(), ["a"]);
    }
}
