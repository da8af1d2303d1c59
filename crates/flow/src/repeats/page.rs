//! The pages of a run's file: sorted hashes, each page with its own checksum.

use super::hash::IdHash;

/// Bytes of a page: one block of most file systems, so that a question costs one read.
pub(super) const PAGE_BYTES: usize = 4096;
/// Bytes of a hash on disk.
pub(super) const HASH_BYTES: usize = 16;
/// Hashes in a full page; the last 16 bytes are the page's trailer.
pub(super) const PAGE_HASHES: usize = 255;

/// Where the trailer begins: page number (u64), hashes (u32), CRC32C of all before it (u32).
const TRAILER: usize = PAGE_HASHES * HASH_BYTES;

/// Appends a page of 1 to [`PAGE_HASHES`] ascending hashes to `out`.
pub(super) fn write_page(number: u64, hashes: &[IdHash], out: &mut Vec<u8>) {
    assert!((1..=PAGE_HASHES).contains(&hashes.len()));
    let begin = out.len();
    for hash in hashes {
        out.extend_from_slice(&hash.0.to_le_bytes());
    }
    out.resize(begin + TRAILER, 0);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&(hashes.len() as u32).to_le_bytes());
    let crc = crc32c::crc32c(&out[begin..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// A checked page.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    hashes: &'a [u8],
}

impl<'a> Page<'a> {
    /// Checks that `bytes` is page `number`, whole and unchanged.
    pub fn check(number: u64, bytes: &'a [u8]) -> Result<Page<'a>, &'static str> {
        let Ok(bytes) = <&[u8; PAGE_BYTES]>::try_from(bytes) else {
            return Err("the page is cut off");
        };
        let (body, crc) = bytes.split_at(PAGE_BYTES - 4);
        if crc32c::crc32c(body).to_le_bytes() != crc {
            return Err("the page does not match its checksum");
        }
        if body[TRAILER..TRAILER + 8] != number.to_le_bytes() {
            return Err("another page stands here");
        }
        let count = u32::from_le_bytes(body[TRAILER + 8..].try_into().expect("four bytes"));
        if count == 0 || count as usize > PAGE_HASHES {
            return Err("the page's count is out of range");
        }
        Ok(Page::checked(bytes))
    }

    /// A page that was checked before.
    pub fn checked(bytes: &'a [u8; PAGE_BYTES]) -> Page<'a> {
        let count = bytes[TRAILER + 8..TRAILER + 12]
            .try_into()
            .expect("four bytes");
        Page {
            hashes: &bytes[..u32::from_le_bytes(count) as usize * HASH_BYTES],
        }
    }

    pub fn len(&self) -> usize {
        self.hashes.len() / HASH_BYTES
    }

    pub fn hash(&self, index: usize) -> IdHash {
        let bytes = &self.hashes[index * HASH_BYTES..][..HASH_BYTES];
        IdHash(u128::from_le_bytes(
            bytes.try_into().expect("sixteen bytes"),
        ))
    }

    pub fn hashes(self) -> impl Iterator<Item = IdHash> + 'a {
        let hashes = self.hashes.chunks_exact(HASH_BYTES);
        hashes.map(|bytes| {
            IdHash(u128::from_le_bytes(
                bytes.try_into().expect("sixteen bytes"),
            ))
        })
    }

    /// Binary search: eight steps in memory.
    pub fn contains(&self, hash: IdHash) -> bool {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.hash(middle).cmp(&hash) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_as_written_and_any_flipped_bit_shows() {
        for count in [1, 2, 254, 255] {
            let hashes: Vec<_> = (0..count)
                .map(|n| IdHash(u128::from(n as u64) * 3 + 1))
                .collect();
            let mut bytes = Vec::new();
            write_page(9, &hashes, &mut bytes);
            assert_eq!(bytes.len(), PAGE_BYTES);
            let page = Page::check(9, &bytes).ok().unwrap();
            assert_eq!(page.hashes().collect::<Vec<_>>(), hashes);
            assert!(hashes.iter().all(|hash| page.contains(*hash)));
            assert!(!page.contains(IdHash(0)) && !page.contains(IdHash(2)));
            assert!(!page.contains(IdHash(u128::MAX)));
            assert!(Page::check(8, &bytes).is_err(), "a page in another's place");
            for at in [0, 17, TRAILER, TRAILER + 9, PAGE_BYTES - 1] {
                bytes[at] ^= 1;
                assert!(Page::check(9, &bytes).is_err(), "bit flipped in byte {at}");
                bytes[at] ^= 1;
            }
            assert!(Page::check(9, &bytes[1..]).is_err());
        }
    }
}
