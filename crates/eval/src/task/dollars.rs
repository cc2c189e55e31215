//! Money: dollars, to the millionth, so that adding up loses nothing.

use std::fmt;
use std::str::FromStr;

/// An amount of dollars, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dollars(pub u64);

/// A text that is no amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an amount of dollars, such as 5 or 0.25")]
pub struct ParseDollarsError(String);

/// The most that anybody may state; it fits with all its millionths.
const MOST: u64 = 1_000_000_000;

impl Dollars {
    /// As a number of dollars.
    #[expect(clippy::cast_precision_loss, reason = "amounts are shown and compared, not added up, as this")]
    pub fn amount(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl fmt::Display for Dollars {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "${}", self.amount())
    }
}

impl FromStr for Dollars {
    type Err = ParseDollarsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let amount = text.strip_prefix('$').unwrap_or(text);
        let (whole, part) = amount.split_once('.').unwrap_or((amount, "0"));
        let digits = |text: &str, most: usize| {
            (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let millionths = (digits(whole, 10) && digits(part, 6)).then(|| {
            let whole: u64 = whole.parse().ok().filter(|whole| *whole <= MOST)?;
            let part: u64 = format!("{part:0<6}").parse().ok()?;
            Some(whole * 1_000_000 + part).filter(|sum| *sum > 0)
        });
        millionths.flatten().map(Self).ok_or_else(|| ParseDollarsError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_to_the_millionth() {
        let read = |text: &str| text.parse::<Dollars>().ok().map(|dollars| dollars.0);
        assert_eq!(read("5"), Some(5_000_000));
        assert_eq!(read("$0.25"), Some(250_000));
        assert_eq!(read("0.000001"), Some(1));
        for odd in ["", "0", "-1", "1e3", "1.", ".5", "0.0000001", "99999999999", "$", "1,5", "inf", "١"] {
            assert_eq!(read(odd), None, "{odd}");
        }
        assert_eq!(Dollars(1_500_000).to_string(), "$1.5");
    }
}
