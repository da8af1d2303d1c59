//! Properties of an event: from the producer's JSON to flat (key, value) pairs.

use crate::json::{DEPTH_MAX, JsonFault, Reader};

/// Pairs of one event. SDKs send some twenty; each pair is a map entry in the store, and a
/// thousand is far beyond what a query can use.
pub const PAIRS_MAX: usize = 1_000;

/// Bytes of all keys and values of one event, flattened. Nested keys repeat their prefix, so
/// that 64 KiB of JSON with one long key could otherwise become hundreds of megabytes.
pub const FLAT_BYTES_MAX: usize = 256 * 1024;

/// Members of the outermost object that have columns of their own.
const HAS_COLUMN: [&str; 4] = ["__path", "__referrer", "__timestamp", "__revenue"];

/// Why properties cannot be flattened. Pairs that were handed out before are to be discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FlattenError {
    /// The text is not one JSON object, or is nested too deep.
    #[error("properties: {0}")]
    Json(#[from] JsonFault),
    /// More than [`PAIRS_MAX`] pairs.
    #[error("properties: more than {PAIRS_MAX} values")]
    TooManyPairs,
    /// More than [`FLAT_BYTES_MAX`] bytes of keys and values.
    #[error("properties: more than {FLAT_BYTES_MAX} bytes of flattened keys and values")]
    TooLarge,
}

/// Hands each property of a JSON object to `sink` as (key, value), in the order of the text.
///
/// Members of nested objects have dotted keys (`a.b`), elements of arrays their index
/// (`a.0`). Strings are trimmed; a string that then starts and ends as an object or array does
/// is read as one, and left out when it is none. `null` and empty strings are left out, and so
/// are `__path`, `__referrer`, `__timestamp` and `__revenue`. Numbers are written as
/// ECMAScript writes them, but whole numbers written plainly keep all their digits. A repeated
/// member is handed out each time.
pub fn flatten_properties(json: &str, sink: impl FnMut(&str, &str)) -> Result<(), FlattenError> {
    let mut reader = Reader::new(json);
    if reader.peek() != Some(b'{') {
        return Err(reader.fault().into());
    }
    let mut flattener = Flattener {
        key: String::new(),
        pairs: 0,
        bytes: 0,
        sink,
    };
    flattener.value(&mut reader, 0)?;
    Ok(reader.end()?)
}

struct Flattener<S> {
    key: String,
    pairs: usize,
    bytes: usize,
    sink: S,
}

impl<S: FnMut(&str, &str)> Flattener<S> {
    fn value(&mut self, reader: &mut Reader<'_>, depth: usize) -> Result<(), FlattenError> {
        match reader.peek().ok_or(reader.fault())? {
            b'{' | b'[' if depth == DEPTH_MAX => Err(JsonFault::TooDeep.into()),
            b'{' => self.object(reader, depth + 1),
            b'[' => self.array(reader, depth + 1),
            b'"' => {
                let text = reader.string()?;
                self.text(text.trim(), depth)
            }
            b't' | b'f' | b'n' => match reader.literal()? {
                "null" => Ok(()),
                word => self.emit(word),
            },
            _ => {
                let written = reader.number()?;
                if plain_integer(written) {
                    self.emit(written)
                } else {
                    self.emit(&number(written))
                }
            }
        }
    }

    fn object(&mut self, reader: &mut Reader<'_>, depth: usize) -> Result<(), FlattenError> {
        reader.expect(b'{')?;
        if reader.take(b'}') {
            return Ok(());
        }
        loop {
            let name = reader.string()?;
            reader.expect(b':')?;
            if depth == 1 && HAS_COLUMN.contains(&name.as_ref()) {
                reader.skip_value(depth)?;
            } else {
                self.below(&name, depth, |flattener| flattener.value(reader, depth))?;
            }
            if !reader.further(b'}')? {
                return Ok(());
            }
        }
    }

    fn array(&mut self, reader: &mut Reader<'_>, depth: usize) -> Result<(), FlattenError> {
        reader.expect(b'[')?;
        if reader.take(b']') {
            return Ok(());
        }
        for index in 0_usize.. {
            self.below(&index.to_string(), depth, |flattener| {
                flattener.value(reader, depth)
            })?;
            if !reader.further(b']')? {
                break;
            }
        }
        Ok(())
    }

    /// Runs `inside` with the key extended by one part, and restores the key.
    fn below(
        &mut self,
        part: &str,
        depth: usize,
        inside: impl FnOnce(&mut Self) -> Result<(), FlattenError>,
    ) -> Result<(), FlattenError> {
        let length = self.key.len();
        if depth > 1 {
            self.key.push('.');
        }
        self.key.push_str(part);
        let done = inside(self);
        self.key.truncate(length);
        done
    }

    fn text(&mut self, text: &str, depth: usize) -> Result<(), FlattenError> {
        let object = text.starts_with('{') && text.ends_with('}');
        let array = text.starts_with('[') && text.ends_with(']');
        if !object && !array {
            return if text.is_empty() {
                Ok(())
            } else {
                self.emit(text)
            };
        }
        // Checked whole before anything of it is handed out.
        let mut check = Reader::new(text);
        if check.skip_value(depth).and_then(|()| check.end()).is_err() {
            return Ok(());
        }
        self.value(&mut Reader::new(text), depth)
    }

    fn emit(&mut self, value: &str) -> Result<(), FlattenError> {
        self.pairs += 1;
        self.bytes += self.key.len() + value.len();
        if self.pairs > PAIRS_MAX {
            return Err(FlattenError::TooManyPairs);
        }
        if self.bytes > FLAT_BYTES_MAX {
            return Err(FlattenError::TooLarge);
        }
        (self.sink)(&self.key, value);
        Ok(())
    }
}

fn plain_integer(written: &str) -> bool {
    written != "-0" && !written.contains(['.', 'e', 'E'])
}

/// A number as ECMAScript's `Number::toString` writes it: decimal from 1e-6 to below 1e21,
/// else with an exponent. Beyond the range of a double it stays as written.
fn number(written: &str) -> String {
    let value: f64 = written.parse().unwrap_or(f64::INFINITY);
    if !value.is_finite() {
        return written.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    if (1e-6..1e21).contains(&value.abs()) {
        return value.to_string();
    }
    let scientific = format!("{value:e}");
    if scientific.contains("e-") {
        scientific
    } else {
        scientific.replace('e', "e+")
    }
}
