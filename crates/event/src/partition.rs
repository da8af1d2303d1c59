//! The partition of a key: Kafka's murmur2, so that both logs agree.

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;

/// Kafka's murmur2 of `key`, as its signed 32-bit result.
pub fn murmur2(key: &[u8]) -> i32 {
    let mut hash = SEED ^ key.len() as u32;
    let (words, tail) = key.as_chunks::<4>();
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed.wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        for (index, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    (hash ^ (hash >> 15)) as i32
}

/// The partition of `key` among `partitions`: the hash without its sign, modulo. 0 if there
/// are no partitions.
pub fn partition_of(key: &[u8], partitions: u16) -> u16 {
    let positive = murmur2(key) as u32 & 0x7fff_ffff;
    positive
        .checked_rem(u32::from(partitions))
        .map_or(0, |partition| partition as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pairs that Kafka's own tests of its hash publish.
    #[test]
    fn agrees_with_kafkas_published_values() {
        let published: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (
                b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            (b"abc", 479_470_107),
        ];
        for (key, hash) in published {
            assert_eq!(murmur2(key), hash, "{:?}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn the_partition_drops_the_sign_and_not_the_value() {
        // -973_932_308 without its sign bit is 1_173_551_340; modulo 16 that is 12.
        assert_eq!(partition_of(b"21", 16), 12);
        assert_eq!(partition_of(b"21", 1), 0);
        assert_eq!(partition_of(b"21", 0), 0);
    }
}
