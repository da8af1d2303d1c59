//! A stream of bytes cut into lines with their offsets.

use std::io::Read;

/// Bytes of one line. Longer ones are no log line but a broken file; they are
/// passed over, not held.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// Bytes asked for in one read.
const READ_BYTES: usize = 64 << 10;

/// One line, or that there was one too long to hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Byte offset of its start in the source.
    pub start: u64,
    /// Byte offset behind its line end.
    pub end: u64,
    /// Its bytes without the line end; `None` for one over `LINE_BYTES_MAX`.
    pub bytes: Option<&'a [u8]>,
}

/// Cuts what `fill` reads.
pub struct Lines {
    buffer: Vec<u8>,
    /// The first byte of `buffer` that is not yet given out.
    from: usize,
    /// Bytes behind `from` known to hold no line end.
    searched: usize,
    /// Offset in the source of `buffer[from]`.
    offset: u64,
    /// Start of the overlong line that is being passed over.
    overlong: Option<u64>,
}

impl Lines {
    /// Starts at `offset` of a source, which must be the start of a line.
    pub fn at(offset: u64) -> Lines {
        Lines {
            buffer: Vec::new(),
            from: 0,
            searched: 0,
            offset,
            overlong: None,
        }
    }

    /// Where the next line starts.
    pub fn offset(&self) -> u64 {
        self.overlong.unwrap_or(self.offset)
    }

    /// Reads once; 0 at the end for now. Bytes are kept over calls.
    pub fn fill(&mut self, reader: &mut impl Read) -> std::io::Result<usize> {
        self.buffer.drain(..self.from);
        self.from = 0;
        let length = self.buffer.len();
        self.buffer.resize(length + READ_BYTES, 0);
        let read = loop {
            match reader.read(&mut self.buffer[length..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(length + *read.as_ref().unwrap_or(&0));
        read
    }

    /// The next whole line in the buffer.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        let unread = &self.buffer[self.from + self.searched..];
        let Some(found) = unread.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len() - self.from;
            if self.searched > LINE_BYTES_MAX {
                self.pass_over();
            }
            return None;
        };
        let length = self.searched + found;
        Some(self.give(length, 1))
    }

    /// What stands behind the last line end, taken as a line.
    pub fn last_line(&mut self) -> Option<Line<'_>> {
        let length = self.buffer.len() - self.from;
        if length == 0 && self.overlong.is_none() {
            return None;
        }
        Some(self.give(length, 0))
    }

    fn pass_over(&mut self) {
        self.overlong.get_or_insert(self.offset);
        self.offset += self.searched as u64;
        self.from = self.buffer.len();
        self.searched = 0;
    }

    fn give(&mut self, length: usize, end_bytes: usize) -> Line<'_> {
        let begin = self.from;
        let start = self.overlong.take();
        let overlong = start.is_some() || length > LINE_BYTES_MAX;
        let start = start.unwrap_or(self.offset);
        self.from += length + end_bytes;
        self.offset += (length + end_bytes) as u64;
        self.searched = 0;
        let bytes = &self.buffer[begin..begin + length];
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        Line {
            start,
            end: self.offset,
            bytes: (!overlong).then_some(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Owned = (u64, u64, Option<Vec<u8>>);

    /// Gives at most `step` bytes a read.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let count = self.0.len().min(self.1).min(out.len());
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn all(text: &[u8], step: usize) -> Vec<Owned> {
        let mut lines = Lines::at(100);
        let mut reader = Slow(text, step);
        let mut found = Vec::new();
        let own = |line: Line<'_>| (line.start, line.end, line.bytes.map(<[u8]>::to_vec));
        while lines.fill(&mut reader).unwrap() > 0 {
            while let Some(line) = lines.next_line() {
                found.push(own(line));
            }
        }
        found.extend(lines.last_line().map(own));
        found
    }

    #[test]
    fn lines_have_their_offsets_and_no_line_end() {
        let got = all(b"ab\n\r\nc\r\nd", 3);
        let want: Vec<Owned> = vec![
            (100, 103, Some(b"ab".to_vec())),
            (103, 105, Some(b"".to_vec())),
            (105, 108, Some(b"c".to_vec())),
            (108, 109, Some(b"d".to_vec())),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn a_line_over_the_bound_is_passed_over_and_the_next_is_whole() {
        for extra in [1, 200_000] {
            let long = LINE_BYTES_MAX + extra;
            let mut text = vec![b'x'; long];
            text.extend_from_slice(b"\nok\n");
            let end = 100 + long as u64 + 1;
            let want = vec![(100, end, None), (end, end + 3, Some(b"ok".to_vec()))];
            assert_eq!(all(&text, 1 << 20), want);
        }
        let text = vec![b'x'; 2 * LINE_BYTES_MAX];
        assert_eq!(
            all(&text, 1 << 20),
            vec![(100, 100 + text.len() as u64, None)]
        );
    }

    proptest! {
        #[test]
        fn lines_joined_are_the_source(text in "[a\\n]{0,200}", step in 1usize..50) {
            let mut joined = Vec::new();
            let mut at = 100;
            for (start, end, bytes) in all(text.as_bytes(), step) {
                prop_assert_eq!(start, at);
                at = end;
                let bytes = bytes.unwrap();
                joined.extend_from_slice(&bytes);
                if (end - start) as usize > bytes.len() {
                    joined.push(b'\n');
                }
            }
            prop_assert_eq!(joined, text.into_bytes());
        }
    }
}
