//! How sure a mean is, by drawing the same samples again and again. Always the same draws: a log that is scored again says
//! the same.

use super::reduce::mean;

/// Where the draws begin.
const SEED: u64 = 0x5269_6e67_6665_6e63;

/// What the means of all draws come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bootstrap {
    /// Their standard deviation.
    pub(super) stderr: f64,
    /// So many of them lie below this and
    pub(super) low: f64,
    /// as many above this, that `level` of them lie between.
    pub(super) high: f64,
}

/// Steele, Lea and Flood's `SplitMix64`: small, fast, and good enough to draw samples with.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Below `end`, each about equally likely.
    fn below(&mut self, end: usize) -> usize {
        let place = (u128::from(self.next()) * end as u128) >> 64;
        usize::try_from(place).unwrap_or(0)
    }
}

/// Draws as many as there are, with repetition, `resamples` times.
#[expect(clippy::cast_precision_loss, reason = "a count of samples")]
pub(super) fn bootstrap(values: &[f64], resamples: u32, level: f64) -> Bootstrap {
    let mut draws = Draws(SEED);
    let count = values.len();
    if count == 0 {
        return Bootstrap { stderr: 0.0, low: 0.0, high: 0.0 };
    }
    let mut means: Vec<f64> = (0..resamples)
        .map(|_| (0..count).filter_map(|_| values.get(draws.below(count))).sum::<f64>() / count as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    let centre = mean(&means);
    let spread = means.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / f64::from(resamples.max(1));
    let tail = (1.0 - level) / 2.0;
    Bootstrap { stderr: spread.sqrt(), low: quantile(&means, tail), high: quantile(&means, 1.0 - tail) }
}

/// Between two neighbours, as far as the share lies between them.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place in a list"
)]
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * sorted.len().saturating_sub(1) as f64;
    let below = place.floor() as usize;
    let low = sorted.get(below).copied().unwrap_or(0.0);
    let high = sorted.get(below + 1).copied().unwrap_or(low);
    low + (high - low) * (place - place.floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_mean_and_is_always_the_same() {
        let values: Vec<f64> = (0..200).map(|index| f64::from(index % 2)).collect();
        let first = bootstrap(&values, 2000, 0.95);
        assert_eq!(first, bootstrap(&values, 2000, 0.95));
        // 0.5 / √200, and 1.96 times that to each side.
        assert!((first.stderr - 0.035_36).abs() < 0.002, "{first:?}");
        assert!((first.low - 0.431).abs() < 0.01 && (first.high - 0.569).abs() < 0.01, "{first:?}");
        let wide = bootstrap(&values, 2000, 0.99);
        assert!(wide.low < first.low && wide.high > first.high);
        let alone = bootstrap(&[0.7], 100, 0.95);
        assert!(alone.stderr < 1e-12 && (alone.low - 0.7).abs() < 1e-12 && (alone.high - 0.7).abs() < 1e-12);
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        let sorted = [0.0, 1.0, 2.0, 4.0];
        for (share, value) in [(0.0, 0.0), (1.0, 4.0), (0.5, 1.5), (0.75, 2.5), (0.9, 3.4)] {
            assert!((quantile(&sorted, share) - value).abs() < 1e-12, "{share}");
        }
    }
}
