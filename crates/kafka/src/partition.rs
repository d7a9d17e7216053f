//! Which partition a key belongs to: the same as every Java client says, so that other programs may write to our topics.

/// Java's murmur2 of these bytes, with the seed that Kafka's clients use.
#[must_use]
pub fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const FACTOR: u32 = 0x5bd1_e995;
    let mixed = |word: u32| {
        let word = word.wrapping_mul(FACTOR);
        (word ^ word >> 24).wrapping_mul(FACTOR)
    };
    // Java counts in 32 bits; a longer key than that cannot be sent.
    #[allow(clippy::cast_possible_truncation, reason = "as Java does")]
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        hash = hash.wrapping_mul(FACTOR) ^ mixed(u32::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(FACTOR);
    hash ^ hash >> 15
}

/// The partition of a key among so many.
///
/// # Panics
/// If there are no partitions.
#[must_use]
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    // Java drops the sign.
    (murmur2(key) & 0x7fff_ffff) % partitions
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hash and partition among 12, as `Utils.murmur2` and `Utils.toPositive` of Kafka's Java client 4.1.1 give them.
    const OF_JAVA: [(&str, i32, u32); 15] = [
        ("", 275_646_681, 9),
        ("1", -1_993_445_489, 3),
        ("7", -1_961_297_549, 3),
        ("42", 417_700_972, 4),
        ("123", -267_702_483, 5),
        ("1234", -1_614_185_708, 0),
        ("21", -973_932_308, 0),
        ("abc", 479_470_107, 3),
        ("foobar", -790_332_482, 6),
        ("a-little-bit-long-string", -985_981_536, 8),
        ("a-little-bit-longer-string", -1_486_304_829, 11),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971, 5),
        ("0d6b1a2c-3f4e-4a5b-8c6d-7e8f9a0b1c2d", 2_066_017_358, 2),
        ("ffffffff-ffff-ffff-ffff-ffffffffffff", -359_870_222, 6),
        ("grün", 350_648_321, 5),
    ];

    #[test]
    fn java_agrees() {
        for (key, hash, partition) in OF_JAVA {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
            assert_eq!(partition_of(key.as_bytes(), 12), partition, "{key}");
        }
        let bytes = [0xff, 0x80, 0, 1, 0xfe];
        assert_eq!((murmur2(&bytes).cast_signed(), partition_of(&bytes, 12)), (-173_560_464, 8));
    }
}
