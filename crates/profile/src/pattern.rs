//! Host patterns: `name` or `*.name`, nothing else.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::hostname::{HostName, HostNameError};

/// A set of host names: one name, or every name strictly below one.
///
/// `*.example.org` matches `a.example.org` and `a.b.example.org`, not `example.org` itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// Exactly this name.
    Exact(HostName),
    /// Every name with one or more labels below this one.
    Below(HostName),
}

impl HostPattern {
    /// Whether `name` is in the set.
    pub fn matches(&self, name: &HostName) -> bool {
        match self {
            Self::Exact(exact) => exact == name,
            Self::Below(base) => name.is_below(base),
        }
    }

    /// Whether every name of `other` is in this set.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Exact(name)) => self.matches(name),
            (Self::Exact(_), Self::Below(_)) => false,
            (Self::Below(base), Self::Below(below)) => base == below || below.is_below(base),
        }
    }

    /// Whether any name is in both sets.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self)
    }
}

impl FromStr for HostPattern {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("*.") {
            Some(base) => HostName::parse(base).map(Self::Below),
            None => HostName::parse(text).map(Self::Exact),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => name.fmt(f),
            Self::Below(base) => write!(f, "*.{base}"),
        }
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap()
    }

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[test]
    fn wildcard_matches_below_only() {
        let wildcard = pattern("*.example.org");
        assert!(wildcard.matches(&name("a.example.org")));
        assert!(wildcard.matches(&name("a.b.example.org")));
        for sibling in ["example.org", "badexample.org", "example.org.evil.net", "a.example.org.evil.net"] {
            assert!(!wildcard.matches(&name(sibling)), "{sibling}");
        }
    }

    #[test]
    fn odd_wildcards_are_not_patterns() {
        for text in
            ["*", "*.", "*.org", "a.*.org", "*a.example.org", "**.example.org", "*.*.example.org", "*.127.0.0.1"]
        {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }

    proptest! {
        /// `covers` is the subset relation of the sets that `matches` describes.
        #[test]
        fn covers_agrees_with_matches(a in "(\\*\\.)?([ab]\\.){1,3}org", b in "(\\*\\.)?([ab]\\.){1,3}org", n in "([abc]\\.){1,4}org") {
            let (a, b, n) = (pattern(&a), pattern(&b), name(&n));
            if a.covers(&b) && b.matches(&n) {
                prop_assert!(a.matches(&n));
            }
            if a.matches(&n) && b.matches(&n) {
                prop_assert!(a.overlaps(&b));
            }
            prop_assert_eq!(a.to_string().parse::<HostPattern>(), Ok(a.clone()));
        }
    }
}
