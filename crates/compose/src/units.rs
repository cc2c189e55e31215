//! Amounts as Compose writes them. Not those of a profile document: here `1kb` has 1024 bytes.

use std::time::Duration;

/// An amount that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}")]
pub struct AmountError {
    text: String,
    what: &'static str,
}

fn error(text: &str, what: &'static str) -> AmountError {
    AmountError { text: text.chars().take(80).collect(), what }
}

/// `number × factor`, fractions cut off; at most nine decimals.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let whole = whole.parse::<u128>().ok()?.checked_mul(u128::from(factor))?;
    let part = fraction.parse::<u128>().ok()? * u128::from(factor) / 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    u64::try_from(whole.checked_add(part)?).ok()
}

/// Bytes: `512m`, `0.5gb`, `1073741824`; every unit is a power of 1024. Zero is an amount.
pub(crate) fn bytes(text: &str) -> Result<u64, AmountError> {
    let unknown = || error(text, "an amount of bytes, such as 512m or 2gb");
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = unit.strip_prefix(' ').unwrap_or(unit).to_ascii_lowercase();
    let power = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        "p" | "pb" | "pib" => 5,
        _ => return Err(unknown()),
    };
    scaled(number, 1 << (10 * power)).ok_or_else(unknown)
}

/// A whole number.
pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Result<T, AmountError> {
    text.parse().map_err(|_| error(text, "a whole number"))
}

/// Thousandths of a processor: `0.5` is 500. What is finer is cut off, but never to nothing.
pub(crate) fn cpus(text: &str) -> Result<u64, AmountError> {
    let thousandths = scaled(text, 1000).ok_or_else(|| error(text, "a number of processors, such as 0.5 or 2"))?;
    let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    Ok(if is_zero { 0 } else { thousandths.max(1) })
}

/// Units of time in nanoseconds.
const UNITS: [(&str, u64); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("w", 604_800_000_000_000),
];

/// A length of time: `90s`, `1m30s`, `1.5h`, `250ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, AmountError> {
    let unknown = || error(text, "a length of time with its unit, such as 5s or 1m30s");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() || rest.len() == text.len() {
        let split = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(unknown)?;
        let (number, after) = rest.split_at(split);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let factor = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(unknown)?.1;
        let part = scaled(number, factor).ok_or_else(unknown)?;
        total = total.checked_add(part).ok_or_else(unknown)?;
        rest = after;
    }
    Ok(Duration::from_nanos(total))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_those_of_compose() {
        for (text, expected) in [
            ("2g", 2 << 30),
            ("0.5gb", 1 << 29),
            ("1gb", 1 << 30),
            ("16G", 16 << 30),
            ("64 MiB", 64 << 20),
            ("1024", 1024),
            ("0", 0),
            ("1.5k", 1536),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for (text, expected) in [("4", 4000), ("1.0", 1000), ("0.5", 500), ("0.0001", 1), ("0.33333", 333), ("0.0", 0)]
        {
            assert_eq!(cpus(text), Ok(expected), "{text}");
        }
        for (text, millis) in
            [("5s", 5000), ("1m30s", 90_000), ("1.5h", 5_400_000), ("250ms", 250), ("0", 0), ("1d", 86_400_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_no_amount() {
        for text in
            ["", "-1", "g", "1..5", "1.", ".5", "1 parsec", "1e3", "99999999999999999999", "18446744073709551615k", "٣"]
        {
            assert!(bytes(text).is_err(), "{text}");
            assert!(cpus(text).is_err() || text == "18446744073709551615k", "{text}");
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(duration("5").is_err() && duration("5s5").is_err() && duration("1y").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_an_amount_or_an_error(text in ".{0,30}") {
            let _ = (bytes(&text), cpus(&text), duration(&text));
        }
    }
}
