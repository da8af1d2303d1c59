//! A reader of JSON text (RFC 8259) token by token, without building a tree.

use std::borrow::Cow;

use crate::string_stop;

/// Levels of arrays and objects inside each other. RFC 8259 section 9 lets a reader set one;
/// 128 is what the other doors allow, and keeps recursion within a small stack.
pub const DEPTH_MAX: usize = 128;

/// Why a text cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonFault {
    /// Not JSON.
    #[error("not JSON at byte {at}")]
    Malformed {
        /// Bytes before the fault.
        at: usize,
    },
    /// More than [`DEPTH_MAX`] levels.
    #[error("more than {DEPTH_MAX} levels of nesting")]
    TooDeep,
}

/// A place in a JSON text.
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn fault(&self) -> JsonFault {
        JsonFault::Malformed { at: self.at }
    }

    /// The first byte of the next token; none at the end.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = self.byte()?;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Takes the next token if it is this byte.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), JsonFault> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(self.fault())
        }
    }

    /// A comma before a further element (true), or the closing byte (false).
    pub(crate) fn further(&mut self, close: u8) -> Result<bool, JsonFault> {
        if self.take(b',') {
            return Ok(true);
        }
        self.expect(close).map(|()| false)
    }

    pub(crate) fn end(&mut self) -> Result<(), JsonFault> {
        if self.peek().is_none() {
            Ok(())
        } else {
            Err(self.fault())
        }
    }

    /// `true`, `false` or `null`.
    pub(crate) fn literal(&mut self) -> Result<&'a str, JsonFault> {
        let rest = &self.text[self.at..];
        let word = ["true", "false", "null"]
            .into_iter()
            .find(|word| rest.starts_with(word));
        let word = word.ok_or(self.fault())?;
        self.at += word.len();
        Ok(word)
    }

    /// A number, as written.
    pub(crate) fn number(&mut self) -> Result<&'a str, JsonFault> {
        let start = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        if self.byte() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    /// A string's value. Halves of surrogate pairs that stand alone are left out.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, JsonFault> {
        self.expect(b'"')?;
        let mut value = Cow::Borrowed("");
        loop {
            let start = self.at;
            self.at = string_stop(self.text.as_bytes(), start);
            let plain = &self.text[start..self.at];
            if value.is_empty() {
                value = Cow::Borrowed(plain);
            } else {
                value.to_mut().push_str(plain);
            }
            match self.byte() {
                Some(b'"') => break,
                Some(b'\\') => value.to_mut().extend(self.escape()?),
                _ => return Err(self.fault()),
            }
        }
        self.at += 1;
        Ok(value)
    }

    /// Passes over a value, checking it.
    pub(crate) fn skip_value(&mut self, depth: usize) -> Result<(), JsonFault> {
        let open = self.peek().ok_or(self.fault())?;
        match open {
            b'{' | b'[' if depth == DEPTH_MAX => Err(JsonFault::TooDeep),
            b'{' | b'[' => self.skip_members(open, depth + 1),
            b'"' => self.string().map(drop),
            b't' | b'f' | b'n' => self.literal().map(drop),
            _ => self.number().map(drop),
        }
    }

    fn skip_members(&mut self, open: u8, depth: usize) -> Result<(), JsonFault> {
        self.expect(open)?;
        let close = if open == b'{' { b'}' } else { b']' };
        if self.take(close) {
            return Ok(());
        }
        loop {
            if open == b'{' {
                self.string()?;
                self.expect(b':')?;
            }
            self.skip_value(depth)?;
            if !self.further(close)? {
                return Ok(());
            }
        }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count > 0 { Ok(()) } else { Err(self.fault()) }
    }

    /// An escape sequence; none for half of a surrogate pair.
    fn escape(&mut self) -> Result<Option<char>, JsonFault> {
        self.at += 1;
        let letter = self.byte().ok_or(self.fault())?;
        let character = match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(self.fault()),
        };
        self.at += 1;
        Ok(Some(character))
    }

    fn unicode_escape(&mut self) -> Result<Option<char>, JsonFault> {
        let high = self.unit(self.at + 1).ok_or(self.fault())?;
        self.at += 5;
        let paired = self.text[self.at..].starts_with("\\u");
        if let Some(low) = paired.then(|| self.unit(self.at + 2)).flatten()
            && let Some(Ok(character)) = char::decode_utf16([high, low]).next()
            && character.len_utf16() == 2
        {
            self.at += 6;
            return Ok(Some(character));
        }
        Ok(char::from_u32(u32::from(high)))
    }

    fn unit(&self, at: usize) -> Option<u16> {
        let digits = self.text.get(at..at + 4)?;
        let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        hexadecimal
            .then(|| u16::from_str_radix(digits, 16).ok())
            .flatten()
    }
}
