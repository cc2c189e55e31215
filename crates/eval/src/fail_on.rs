//! When failed samples fail an evaluation: as it is said, and as it is written down.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// When failed samples fail the evaluation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FailOn {
    /// At the first.
    Any,
    /// When more than this share of all samples has failed.
    Share(f64),
    /// When more than so many have failed.
    Count(u64),
    /// Never.
    Never,
}

/// A text that does not say when failed samples fail an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("write true, false, a count, or a share such as 0.1")]
pub struct ParseFailOnError;

impl FromStr for FailOn {
    type Err = ParseFailOnError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "true" => return Ok(Self::Any),
            "false" => return Ok(Self::Never),
            _ => {}
        }
        if let Ok(count) = text.parse::<u64>() {
            return Ok(Self::Count(count));
        }
        let share = text.parse::<f64>().ok().filter(|share| (0.0..1.0).contains(share));
        share.map(Self::Share).ok_or(ParseFailOnError)
    }
}

impl fmt::Display for FailOn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => out.write_str("true"),
            Self::Never => out.write_str("false"),
            // A share of 0 is not a count of 0, but they mean the same.
            Self::Share(share) => share.fmt(out),
            Self::Count(count) => count.fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_is_read_back() {
        for when in [FailOn::Any, FailOn::Never, FailOn::Count(3), FailOn::Share(0.25)] {
            assert_eq!(when.to_string().parse(), Ok(when));
        }
        for odd in ["", "1.0", "-1", "nan", "sometimes"] {
            assert_eq!(odd.parse::<FailOn>(), Err(ParseFailOnError), "{odd}");
        }
    }
}
