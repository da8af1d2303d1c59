//! Identities as keyed 128-bit hashes.

use std::fmt;

use siphasher::sip128::SipHasher13;

/// Longest identity that is hashed from the stack: three identifiers of 64 bytes and their
/// lengths fit.
const STACK_BYTES: usize = 256;

/// The hash of one identity (project, source, event id).
///
/// Uniform and unpredictable to producers, because the key is secret: so runs can be searched by
/// interpolation, filters need no further hashing, and nobody can aim at a collision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdHash(pub(crate) u128);

impl IdHash {
    /// The hash as a number: for doors, which keep the ids that are under way.
    #[must_use]
    pub fn as_u128(self) -> u128 {
        self.0
    }

    /// The hash of a number that [`IdHash::as_u128`] gave.
    #[must_use]
    pub fn from_u128(hash: u128) -> IdHash {
        IdHash(hash)
    }

    /// The upper half: what filters and fences go by.
    pub(super) fn upper(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

impl fmt::Debug for IdHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

/// Hashes identities with the index's key. Cheap to copy; a door can keep one.
#[derive(Clone, Copy)]
pub struct IdHasher {
    hasher: SipHasher13,
}

impl IdHasher {
    pub(crate) fn new(key: &[u8; 16]) -> IdHasher {
        IdHasher {
            hasher: SipHasher13::new_with_key(key),
        }
    }

    /// The hash of an identity. Each part is prefixed by its length, so that no two identities
    /// have the same bytes.
    #[must_use]
    pub fn hash(&self, project: &[u8], source: &[u8], event_id: &[u8]) -> IdHash {
        let parts = [project, source, event_id];
        let len = parts.iter().map(|part| 4 + part.len()).sum::<usize>();
        let mut stack = [0u8; STACK_BYTES];
        if len <= STACK_BYTES {
            let mut at = 0;
            for part in parts {
                stack[at..at + 4].copy_from_slice(&length(part));
                stack[at + 4..at + 4 + part.len()].copy_from_slice(part);
                at += 4 + part.len();
            }
            return self.hash_bytes(&stack[..len]);
        }
        let mut bytes = Vec::with_capacity(len);
        for part in parts {
            bytes.extend_from_slice(&length(part));
            bytes.extend_from_slice(part);
        }
        self.hash_bytes(&bytes)
    }

    fn hash_bytes(&self, bytes: &[u8]) -> IdHash {
        let hash = self.hasher.hash(bytes);
        IdHash((u128::from(hash.h1) << 64) | u128::from(hash.h2))
    }
}

/// Lengths beyond 4 GiB can't occur: a record has at most 64 KiB.
fn length(part: &[u8]) -> [u8; 4] {
    (part.len() as u32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_together() {
        let hasher = IdHasher::new(&[7; 16]);
        let one = hasher.hash(b"ab", b"c", b"d");
        assert_ne!(one, hasher.hash(b"a", b"bc", b"d"));
        assert_ne!(one, hasher.hash(b"a", b"b", b"cd"));
        assert_eq!(one, hasher.hash(b"ab", b"c", b"d"));
    }

    #[test]
    fn the_key_decides() {
        let hash = |key| IdHasher::new(&[key; 16]).hash(b"p", b"s", b"i");
        assert_ne!(hash(1), hash(2));
    }

    #[test]
    fn long_identities_hash_as_short_ones_do() {
        let hasher = IdHasher::new(&[7; 16]);
        // 4 + 4 + 4 + 244 bytes are the longest on the stack, one more goes the other way; both
        // must be the hash of the same encoding.
        for id_bytes in [244, 245] {
            let id = vec![b'x'; id_bytes];
            let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, 0];
            bytes.extend_from_slice(&(id_bytes as u32).to_le_bytes());
            bytes.extend_from_slice(&id);
            assert_eq!(hasher.hash(b"", b"", &id), hasher.hash_bytes(&bytes));
        }
    }
}
