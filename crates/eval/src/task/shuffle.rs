//! Another order of the samples, the same for the same seed on every machine and in every version.
//!
//! `SplitMix64` (Steele, Lea, Flood 2014) drives a Fisher–Yates shuffle from the last place to the second. Both are a few
//! lines, so they are here: a library may change its generator, and with it the order that a log refers to.

/// The generator.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, by the high half of a product; its bias is below `bound` in 2⁶⁴.
    fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.next()) * (bound as u128);
        usize::try_from(product >> 64).unwrap_or(0)
    }
}

/// Puts `items` into the order of `seed`.
pub(super) fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut random = SplitMix64(seed);
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_a_seed_never_changes() {
        // The first numbers of the published generator for this seed.
        let mut random = SplitMix64(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        let mut items: Vec<u32> = (0..10).collect();
        shuffle(&mut items, 42);
        assert_eq!(items, [8, 3, 6, 5, 4, 0, 9, 2, 1, 7]);
        let mut sorted = items.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<_>>());
    }
}
