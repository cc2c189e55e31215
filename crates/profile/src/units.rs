//! Amounts with units, as people write them: `512MiB`, `300`, `5m`, `0.5`.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// An amount of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A length of time in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

/// A share of processors in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct MilliCpus(pub u64);

/// A count of things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Count(pub u64);

/// A text that is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}")]
pub struct ParseAmountError {
    text: String,
    what: &'static str,
}

/// Splits `text` into a number and its unit and scales it to `per_unit`; at most three decimals, never zero.
fn scale(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = unit.trim_start();
    let factor = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 3 {
        return None;
    }
    // Half a byte or half a process is a mistake, not something to round.
    if factor == 1 && fraction.bytes().any(|digit| digit != b'0') {
        return None;
    }
    let scaled_fraction =
        fraction.parse::<u64>().ok()?.checked_mul(factor)? / 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    whole.parse::<u64>().ok()?.checked_mul(factor)?.checked_add(scaled_fraction).filter(|&amount| amount > 0)
}

/// Implements parsing and the conversions that every amount has.
macro_rules! amount {
    ($amount:ident, $what:literal, $units:expr) => {
        impl FromStr for $amount {
            type Err = ParseAmountError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                scale(text, $units).map(Self).ok_or_else(|| ParseAmountError { text: text.to_owned(), what: $what })
            }
        }
    };
}

amount!(
    Bytes,
    "an amount of bytes above zero, such as 512MiB or 1000000",
    &[
        ("", 1),
        ("B", 1),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("K", 1 << 10),
        ("M", 1 << 20),
        ("G", 1 << 30),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ]
);
amount!(
    Millis,
    "a length of time above zero, such as 300 (seconds), 500ms, 5m or 2h",
    &[("", 1_000), ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000),]
);
amount!(MilliCpus, "a number of processors above zero, such as 0.5 or 2", &[("", 1_000), ("m", 1)]);

amount!(Count, "a whole number above zero", &[("", 1)]);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.iter().find(|(size, _)| self.0 >= *size && self.0.is_multiple_of(*size)) {
            Some((size, unit)) => write!(f, "{}{unit}", self.0 / size),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) { write!(f, "{}s", self.0 / 1000) } else { write!(f, "{}ms", self.0) }
    }
}

impl fmt::Display for MilliCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) { write!(f, "{}", self.0 / 1000) } else { write!(f, "{}m", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn people_write_amounts_in_many_ways() {
        for (text, bytes) in
            [("512MiB", 512 << 20), ("1.5GiB", 3 << 29), ("1000", 1000), ("64k", 64 << 10), ("2 GB", 2_000_000_000)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for (text, millis) in [("300", 300_000), ("0.25", 250), ("500ms", 500), ("5m", 300_000), ("2h", 7_200_000)] {
            assert_eq!(text.parse(), Ok(Millis(millis)), "{text}");
        }
        assert_eq!("0.5".parse(), Ok(MilliCpus(500)));
    }

    #[test]
    fn nonsense_and_zero_are_refused() {
        for text in [
            "",
            "0",
            "-1",
            "+1",
            "MiB",
            "1..5",
            ".5",
            "1.",
            "1.2345",
            "12 parsecs",
            "99999999999999999999",
            "99999999999TiB",
            "1e9",
            "٣",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
            assert!(text.parse::<Millis>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parse_after_print_is_identity(amount in 1..u64::MAX >> 20) {
            prop_assert_eq!(Bytes(amount).to_string().parse(), Ok(Bytes(amount)));
            prop_assert_eq!(Millis(amount).to_string().parse(), Ok(Millis(amount)));
            prop_assert_eq!(MilliCpus(amount).to_string().parse(), Ok(MilliCpus(amount)));
        }
    }
}
