//! A blocked bloom filter: one cache line per question.
//!
//! A hash's line is picked by its upper 64 bits, in proportion, so that sorted hashes walk the
//! filter from front to back: building one is sequential, and a sorted batch of questions meets
//! few pages. Its bits in the line come from the lower 64 bits, which the line does not depend on.

use super::hash::IdHash;

/// Bits per id. Eleven give one false positive in about 150; 150 million ids take 197 MiB, which
/// leaves room under 256 MiB for merges and for the block at hand.
const BITS_PER_ID: u64 = 11;
/// Bits of a line: one cache line.
const LINE_BITS: u64 = 512;
/// Bits set per id: seven picks of nine bits use 63 of the 64 bits at hand, and seven is near the
/// best number for eleven bits an id in lines of 512.
const PICKS: u32 = 7;
/// Bits of one pick (2^9 = 512).
const PICK_BITS: u32 = 9;

/// Bytes of a line on disk and in memory.
pub(super) const LINE_BYTES: usize = 64;

/// One cache line of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
struct Line([u64; 8]);

/// The filter of one run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filter {
    lines: Vec<Line>,
}

impl Filter {
    /// An empty filter for this many ids.
    pub fn for_ids(ids: u64) -> Filter {
        Filter::with_lines(lines_for(ids))
    }

    pub fn with_lines(lines: u64) -> Filter {
        let lines = usize::try_from(lines).expect("a filter fits in memory");
        Filter {
            lines: vec![Line([0; 8]); lines],
        }
    }

    pub fn lines(&self) -> u64 {
        self.lines.len() as u64
    }

    pub fn bytes(&self) -> u64 {
        self.lines() * LINE_BYTES as u64
    }

    pub fn insert(&mut self, hash: IdHash) {
        let index = self.index(hash);
        let line = &mut self.lines[index].0;
        let mut picks = hash.0 as u64;
        for _ in 0..PICKS {
            let bit = picks as usize % LINE_BITS as usize;
            line[bit / 64] |= 1 << (bit % 64);
            picks >>= PICK_BITS;
        }
    }

    /// False when the hash was surely never inserted.
    pub fn may_contain(&self, hash: IdHash) -> bool {
        let line = &self.lines[self.index(hash)].0;
        let mut picks = hash.0 as u64;
        let mut all = true;
        for _ in 0..PICKS {
            let bit = picks as usize % LINE_BITS as usize;
            all &= line[bit / 64] >> (bit % 64) & 1 == 1;
            picks >>= PICK_BITS;
        }
        all
    }

    /// The line of a hash: its upper half as a fraction of the lines.
    fn index(&self, hash: IdHash) -> usize {
        let upper = hash.0 >> 64;
        ((upper * self.lines.len() as u128) >> 64) as usize
    }

    /// Appends lines `from..to` to `out`, as on disk.
    pub fn write_lines(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        for line in &self.lines[from..to] {
            for word in line.0 {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
    }

    /// Sets the lines from `from` on to what `bytes` hold, as on disk.
    pub fn read_lines(&mut self, from: usize, bytes: &[u8]) {
        let lines = self.lines[from..].iter_mut();
        for (line, bytes) in lines.zip(bytes.chunks_exact(LINE_BYTES)) {
            for (word, bytes) in line.0.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().expect("chunks of eight"));
            }
        }
    }
}

/// Lines of a filter for this many ids; at least one.
pub(super) fn lines_for(ids: u64) -> u64 {
    (ids * BITS_PER_ID).div_ceil(LINE_BITS).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::hash::IdHasher;
    use super::*;

    fn hashes(count: u32, salt: &[u8]) -> Vec<IdHash> {
        let hasher = IdHasher::new(&[3; 16]);
        (0..count)
            .map(|n| hasher.hash(b"p", salt, &n.to_le_bytes()))
            .collect()
    }

    #[test]
    fn knows_what_was_inserted_and_little_else() {
        let inserted = hashes(100_000, b"in");
        let mut filter = Filter::for_ids(100_000);
        assert_eq!(
            filter.bytes(),
            2_149 * 64,
            "11 bits an id, rounded up to lines"
        );
        for hash in &inserted {
            filter.insert(*hash);
        }
        assert!(inserted.iter().all(|hash| filter.may_contain(*hash)));
        let strangers = hashes(100_000, b"out");
        let false_positives = strangers
            .iter()
            .filter(|hash| filter.may_contain(**hash))
            .count();
        assert!(
            false_positives < 1_000,
            "{false_positives} of 100,000: more than one in 100"
        );
    }

    #[test]
    fn is_the_same_after_a_trip_through_bytes() {
        let mut filter = Filter::for_ids(1_000);
        for hash in hashes(1_000, b"in") {
            filter.insert(hash);
        }
        let mut bytes = Vec::new();
        let lines = filter.lines() as usize;
        filter.write_lines(0, 5, &mut bytes);
        filter.write_lines(5, lines, &mut bytes);
        let mut back = Filter::with_lines(filter.lines());
        let (front, rest) = bytes.split_at(3 * LINE_BYTES);
        back.read_lines(0, front);
        back.read_lines(3, rest);
        assert_eq!(back, filter);
    }
}
