//! A scanner of JSON text: it checks the grammar and finds where values stand,
//! and makes no tree. What a producer put in `data` is passed on as it stands,
//! numbers as they were written.
//!
//! It never recurses and never goes deeper than it is told, in values that it
//! skips too, so that no input can take the stack (field: `[` half a million
//! times over). Its input is a `str`: invalid UTF-8 is found before.

mod skip;
mod text;

pub use text::{BadText, decode_text};

use fulmar_event::string_stop;
use skip::{container_end, scalar_end};

/// Levels of objects and arrays in `data`.
pub const DEPTH_MAX: usize = 128;

/// Levels that a scanner can keep: `data` within an event within an array.
const LEVELS: usize = 192;

/// Where text stops being JSON, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {at}")]
pub struct JsonError {
    /// Byte in the scanned text.
    pub at: usize,
    /// What is wrong there.
    pub reason: &'static str,
}

/// The string of a value or a name: what stands between its quotes, unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawText<'a> {
    /// Grammar checked: escapes are well-formed, surrogates are not paired up.
    pub inner: &'a str,
    /// It has escapes, so that its text differs from `inner`.
    pub escaped: bool,
}

/// A place in JSON text.
#[derive(Debug, Clone)]
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// The grammar was checked before: values are skipped by their ends alone.
    sound: bool,
}

/// Which of an open container's two kinds stands at a level.
struct Levels {
    objects: [u64; LEVELS / 64],
    depth: usize,
}

impl Levels {
    fn open(&mut self, object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        self.objects[word] &= !(1 << bit);
        self.objects[word] |= u64::from(object) << bit;
        self.depth += 1;
    }

    fn innermost_is_object(&self) -> bool {
        let level = self.depth - 1;
        self.objects[level / 64] >> (level % 64) & 1 == 1
    }
}

impl<'a> Scanner<'a> {
    /// At the start of `text`.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            sound: false,
        }
    }

    /// At the start of a value that another scanner gave: its grammar is not checked again, which
    /// takes a third of the time. Over any other text it may find anything, and ends.
    pub fn of_sound(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            sound: true,
        }
    }

    /// The byte that comes next.
    pub fn position(&self) -> usize {
        self.at
    }

    fn fault<T>(&self, reason: &'static str) -> Result<T, JsonError> {
        Err(JsonError {
            at: self.at,
            reason,
        })
    }

    /// The next byte that is no white space, not taken.
    pub fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Takes the next byte after white space if it is `byte`.
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes the next byte after white space, which has to be `byte`.
    pub fn expect(&mut self, byte: u8, reason: &'static str) -> Result<(), JsonError> {
        if self.take(byte) {
            Ok(())
        } else {
            self.fault(reason)
        }
    }

    /// Nothing but white space is left.
    pub fn finish(&mut self) -> Result<(), JsonError> {
        if self.peek().is_some() {
            return self.fault("more after the end of the document");
        }
        Ok(())
    }

    /// Takes a member's name and the colon after it.
    pub fn name(&mut self) -> Result<RawText<'a>, JsonError> {
        if self.peek() != Some(b'"') {
            return self.fault("a member's name is missing");
        }
        let name = self.string()?;
        self.expect(b':', "a colon is missing")?;
        Ok(name)
    }

    /// Takes a string; the next byte is its quote.
    pub fn string(&mut self) -> Result<RawText<'a>, JsonError> {
        self.expect(b'"', "a string is missing")?;
        let start = self.at;
        let mut escaped = false;
        loop {
            let bytes = self.text.as_bytes();
            self.at = string_stop(bytes, self.at);
            match bytes.get(self.at) {
                None => return self.fault("a string does not end"),
                Some(b'"') => {
                    let inner = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(RawText { inner, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return self.fault("a control character in a string"),
            }
        }
    }

    /// Takes an escape. Halves of surrogate pairs are let through: they are
    /// grammar, and only a reader of the text has to refuse them.
    fn escape(&mut self) -> Result<(), JsonError> {
        let bytes = self.text.as_bytes();
        let length = match bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => 6,
            _ => return self.fault("an unknown escape in a string"),
        };
        if length == 6 {
            let digits = bytes.get(self.at + 2..self.at + 6).unwrap_or(&[]);
            if digits.len() < 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                return self.fault("an unknown escape in a string");
            }
        }
        self.at += length;
        Ok(())
    }

    /// Takes one value of any kind, at most `depth_max` levels deep (and never
    /// deeper than a scanner can go), and gives it as it stands.
    pub fn value(&mut self, depth_max: usize) -> Result<&'a str, JsonError> {
        let depth_max = depth_max.min(LEVELS);
        let first = self.peek();
        let start = self.at;
        if self.sound {
            self.skip(first, depth_max)?;
            return Ok(&self.text[start..self.at]);
        }
        let mut levels = Levels {
            objects: [0; LEVELS / 64],
            depth: 0,
        };
        loop {
            let complete = self.begin_value(&mut levels, depth_max)?;
            if complete && self.end_value(&mut levels)? {
                return Ok(&self.text[start..self.at]);
            }
        }
    }

    /// Takes a value of sound text that begins with `first`.
    fn skip(&mut self, first: Option<u8>, depth_max: usize) -> Result<(), JsonError> {
        let bytes = self.text.as_bytes();
        match first {
            Some(b'{' | b'[') => match container_end(bytes, self.at, depth_max) {
                Some(end) => self.at = end,
                None => return self.fault("nested too deep"),
            },
            Some(b'"') => drop(self.string()?),
            Some(_) => self.at = scalar_end(bytes, self.at),
            None => return self.fault("the document ends within a value"),
        }
        Ok(())
    }

    /// Takes one value and nothing after it.
    pub fn whole_value(&mut self, depth_max: usize) -> Result<&'a str, JsonError> {
        let value = self.value(depth_max)?;
        self.finish()?;
        Ok(value)
    }

    /// Takes a scalar, an empty container, or the start of one up to its first
    /// value. True when a value is complete.
    fn begin_value(&mut self, levels: &mut Levels, depth_max: usize) -> Result<bool, JsonError> {
        match self.peek() {
            Some(open @ (b'{' | b'[')) => {
                if levels.depth == depth_max {
                    return self.fault("nested too deep");
                }
                self.at += 1;
                let object = open == b'{';
                if self.take(if object { b'}' } else { b']' }) {
                    return Ok(true);
                }
                levels.open(object);
                if object {
                    self.name()?;
                }
                Ok(false)
            }
            Some(b'"') => self.string().map(|_| true),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| true),
            Some(_) => self.fault("a value is missing"),
            None => self.fault("the document ends within a value"),
        }
    }

    /// After a complete value: takes what closes, or what leads to the next
    /// value. True when the outermost value is complete.
    fn end_value(&mut self, levels: &mut Levels) -> Result<bool, JsonError> {
        while levels.depth > 0 {
            let object = levels.innermost_is_object();
            if self.take(b',') {
                if object {
                    self.name()?;
                }
                return Ok(false);
            }
            let reason = "a comma or the end of a container is missing";
            self.expect(if object { b'}' } else { b']' }, reason)?;
            levels.depth -= 1;
        }
        Ok(true)
    }

    fn literal(&mut self, word: &'static str) -> Result<bool, JsonError> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return self.fault("a value is missing");
        }
        self.at += word.len();
        Ok(true)
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return self.fault("a number lacks a digit");
        }
        self.at += count;
        Ok(())
    }

    fn next_is(&self, wanted: &[u8]) -> bool {
        self.text
            .as_bytes()
            .get(self.at)
            .is_some_and(|byte| wanted.contains(byte))
    }

    fn number(&mut self) -> Result<(), JsonError> {
        self.at += usize::from(self.next_is(b"-"));
        if self.next_is(b"0") {
            self.at += 1;
            if self.next_is(b"0123456789") {
                return self.fault("a number starts with zero");
            }
        } else {
            self.digits()?;
        }
        if self.next_is(b".") {
            self.at += 1;
            self.digits()?;
        }
        if self.next_is(b"eE") {
            self.at += 1;
            self.at += usize::from(self.next_is(b"+-"));
            self.digits()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
