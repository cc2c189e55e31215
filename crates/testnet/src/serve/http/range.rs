//! The part of a file that a client asks for (RFC 9110, 14.2): `bytes=a-b` or `bytes=a-`.

use super::head::digits;

/// From a byte to another, or to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    first: u64,
    last: Option<u64>,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) from: u64,
    pub(super) length: u64,
}

impl Range {
    /// None when it is of another form; a server may then answer with the whole.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
        let first = digits(first)?;
        let last = if last.is_empty() { None } else { Some(digits(last)?) };
        last.is_none_or(|last| first <= last).then_some(Self { first, last })
    }

    /// The part of a file of this length; none when the file ends before it begins.
    pub(super) fn of(self, total: u64) -> Option<Part> {
        let end = self.last.map_or(total, |last| last.saturating_add(1)).min(total);
        (self.first < total).then(|| Part { from: self.first, length: end - self.first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_to_the_file() {
        let part = |text: &str, total| Range::parse(text).unwrap().of(total);
        assert_eq!(part("bytes=2-4", 10), Some(Part { from: 2, length: 3 }));
        assert_eq!(part("bytes=2-", 10), Some(Part { from: 2, length: 8 }));
        assert_eq!(part("bytes=9-99", 10), Some(Part { from: 9, length: 1 }));
        assert_eq!(part("bytes=0-18446744073709551615", 10), Some(Part { from: 0, length: 10 }));
        assert_eq!(part("bytes=10-", 10), None);
        assert_eq!(part("bytes=0-0", 0), None);
    }

    #[test]
    fn other_forms_are_no_range() {
        for text in ["", "bytes=", "bytes=-5", "bytes=5-4", "bytes=1-2,4-5", "lines=1-2", "bytes=+1-2"] {
            assert_eq!(Range::parse(text), None, "{text:?}");
        }
    }
}
