//! What is wrong with a text that somebody wrote, where, and what to do.

use std::fmt;

use serde::Serialize;

/// A place in a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The character in the line.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value with the place it was written at, if it was written in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it stands; `None` for what came from a default, the environment or the command line.
    pub place: Option<Place>,
}

impl<T> Located<T> {
    /// A value that stands at `place`.
    pub fn at(place: Place, value: T) -> Self {
        Self { value, place: Some(place) }
    }

    /// A value that stands in no file.
    pub fn nowhere(value: T) -> Self {
        Self { value, place: None }
    }
}

/// One thing that is wrong with an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where, if it is in a file.
    pub place: Option<Place>,
    /// What.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem at a place in a file.
    pub fn at(place: Place, message: impl Into<String>) -> Self {
        Self { place: Some(place), message: message.into(), hint: None }
    }

    /// A problem of something that stands in no file.
    pub fn new(message: impl Into<String>) -> Self {
        Self { place: None, message: message.into(), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Everything that is wrong with one input, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {} in {origin}", problems.len(), if problems.len() == 1 { "problem" } else { "problems" })]
pub struct Problems {
    /// Which input: a file's name, `the environment`, `the command line`.
    pub origin: String,
    /// What is wrong with it; never empty.
    pub problems: Vec<Problem>,
}

/// The longest word that is looked at for a slip: comparing takes memory by the product of both lengths.
const MAX_SLIP_BYTES: usize = 100;

/// The known word nearest to `word`, if one is near enough to be a slip.
pub fn nearest_word<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_SLIP_BYTES {
        return None;
    }
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= MAX_SLIP_BYTES)
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 2.max(candidate.len() / 4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
