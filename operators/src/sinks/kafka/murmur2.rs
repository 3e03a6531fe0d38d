//! The hash by which Kafka's own producers choose the partition of a key (MurmurHash2 of 32 bits, by Austin Appleby, with the
//! seed of Kafka's `Utils.murmur2`): events of a stream are where those of any other producer with that key are.

const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;

/// The partition of `key` among `partitions` of them, which is more than none.
pub(super) fn partition_of(key: &[u8], partitions: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % partitions.max(1)
}

fn murmur2(key: &[u8]) -> u32 {
    let mut hash = SEED ^ key.len() as u32;
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Kafka's own test of its hash.
    #[test]
    fn it_is_the_hash_of_kafka() {
        let check = |key: &str, expected: i32| assert_eq!(murmur2(key.as_bytes()) as i32, expected, "{key}");
        check("21", -973_932_308);
        check("foobar", -790_332_482);
        check("a-little-bit-long-string", -985_981_536);
        check("a-little-bit-longer-string", -1_486_304_829);
        check("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971);
        check("abc", 479_470_107);
        assert!((0..7).contains(&partition_of(b"north", 7)));
    }
}
