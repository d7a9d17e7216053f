//! Numbers that look like chance and are none (splitmix64): the same seed gives the same series, everywhere and for ever.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The next number of the series at that state.
pub const fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(STEP);
    mixed(*state)
}

/// The number at a place of the series of a seed.
#[must_use]
pub const fn at(seed: u64, place: u64) -> u64 {
    mixed(seed.wrapping_add(place.wrapping_mul(STEP)))
}

const fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored seeds and published scenarios depend on it.
    #[test]
    fn the_series_is_the_published_one() {
        let mut state = 1_234_567;
        let drawn = [next(&mut state), next(&mut state), next(&mut state)];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!(drawn, [at(1_234_567, 1), at(1_234_567, 2), at(1_234_567, 3)]);
    }
}
