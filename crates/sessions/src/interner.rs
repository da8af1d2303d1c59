//! Texts that many sessions share, each kept once: paths, origins, programs, places, campaigns.

use std::collections::HashMap;
use std::sync::Arc;

/// The place of a text in its interner; by default that of the empty text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Symbol(u32);

struct Entry {
    text: Arc<[u8]>,
    /// Sessions that hold it; at none its place is free.
    holders: u32,
}

/// Texts by number, counted, so that a text goes with the last session that has it.
pub(crate) struct Interner {
    entries: Vec<Entry>,
    places: HashMap<Arc<[u8]>, u32>,
    free: Vec<u32>,
}

impl Default for Interner {
    /// The empty text is always there, as the symbol of zero.
    fn default() -> Self {
        let mut interner = Self {
            entries: Vec::new(),
            places: HashMap::new(),
            free: Vec::new(),
        };
        interner.hold(b"");
        interner
    }
}

impl Interner {
    /// The symbol of a text, held once more.
    pub fn hold(&mut self, text: &[u8]) -> Symbol {
        if text.is_empty() && !self.entries.is_empty() {
            return Symbol::default();
        }
        if let Some(&place) = self.places.get(text) {
            self.entries[place as usize].holders += 1;
            return Symbol(place);
        }
        let text: Arc<[u8]> = text.into();
        let entry = Entry {
            text: Arc::clone(&text),
            holders: 1,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.places.insert(text, place);
        Symbol(place)
    }

    /// Gives a held symbol back. The empty text stays.
    pub fn release(&mut self, symbol: Symbol) {
        if symbol == Symbol::default() {
            return;
        }
        let entry = &mut self.entries[symbol.0 as usize];
        entry.holders -= 1;
        if entry.holders == 0 {
            self.places.remove(&entry.text);
            entry.text = Arc::from(&b""[..]);
            self.free.push(symbol.0);
        }
    }

    /// Makes `symbol` stand for `text`.
    pub fn replace(&mut self, symbol: &mut Symbol, text: &[u8]) {
        if self.get(*symbol) != text {
            let new = self.hold(text);
            self.release(std::mem::replace(symbol, new));
        }
    }

    pub fn get(&self, symbol: Symbol) -> &[u8] {
        &self.entries[symbol.0 as usize].text
    }

    /// A text that was taken from text.
    pub fn text(&self, symbol: Symbol) -> &str {
        std::str::from_utf8(self.get(symbol)).unwrap_or_default()
    }

    /// Texts held.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_goes_with_its_last_holder() {
        let mut interner = Interner::default();
        let first = interner.hold(b"/a");
        let mut second = interner.hold(b"/a");
        assert_eq!((first, interner.len()), (second, 2));
        interner.replace(&mut second, b"/b");
        assert_eq!((interner.text(first), interner.text(second)), ("/a", "/b"));
        interner.release(first);
        assert_eq!(interner.len(), 2);
        // The freed place is used again, and the map does not know the old text.
        let third = interner.hold(b"/c");
        assert_eq!((third, interner.text(third)), (first, "/c"));
        let symbol = interner.hold(b"");
        assert_eq!(symbol, Symbol::default());
    }
}
