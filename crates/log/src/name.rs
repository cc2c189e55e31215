//! How logs, and samples in them, are named: as Inspect does, since its tools find them by these names.

use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::LogError;

/// The longest id: a zip entry's name has 16 bits for its length, and Inspect's name for a sample goes around the id.
pub(crate) const MAX_ID: usize = 60_000;

/// How a log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// A zip of JSON documents: opens at any moment, even if the writer was killed.
    #[default]
    Eval,
    /// One JSON document, which appears when the evaluation ends.
    Json,
}

impl Format {
    /// How the files' names end.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Eval => "eval",
            Self::Json => "json",
        }
    }
}

/// A sample's id, as its data set has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub enum SampleName {
    /// Counted.
    Number(i64),
    /// In words.
    Text(String),
}

/// By hand: for an untagged enum serde first holds whatever is there, and a list of millions is no id.
impl<'de> Deserialize<'de> for SampleName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Id;
        impl Visitor<'_> for Id {
            type Value = SampleName;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a sample's id: a text or a whole number")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<SampleName, E> {
                Ok(SampleName::Number(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<SampleName, E> {
                i64::try_from(number).map(SampleName::Number).map_err(|_| E::custom("a sample's id is too large"))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SampleName, E> {
                Ok(SampleName::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Id)
    }
}

impl fmt::Display for SampleName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(out),
            Self::Text(text) => text.fmt(out),
        }
    }
}

/// The name of a sample's entry.
///
/// Inspect puts the id there as it is, slashes and all, and looks a sample up by exactly this name. So do we. Nobody unpacks
/// these entries by name into a file system: our reader, and Inspect's, only compare.
pub(crate) fn entry(id: &SampleName, epoch: u32) -> String {
    format!("samples/{id}_epoch_{epoch}.json")
}

/// Refuses ids that would not come back: programs that read zips cut names at a zero byte.
pub(crate) fn check(id: &SampleName) -> Result<(), LogError> {
    match id {
        SampleName::Text(text) if text.len() > MAX_ID || text.contains('\0') => Err(LogError::SampleName),
        SampleName::Text(_) | SampleName::Number(_) => Ok(()),
    }
}

/// A log's name without its extension: when, which task, which run.
///
/// Parts are separated by `_`, so none of them keeps one. A task's name is anybody's: what could leave the directory, hide the
/// file or be too long for a file system goes too.
pub(crate) fn stem(created: &str, task: &str, id: &str) -> String {
    let task = task.rsplit('/').next().unwrap_or(task);
    format!("{}_{}_{}", clean(created, 40), clean(task, 120), clean(id, 64))
}

fn clean(part: &str, most: usize) -> String {
    part.chars()
        .map(|c| if c.is_alphanumeric() || matches!(c, '-' | '.') { c } else { '-' })
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= most).then_some(c)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_inspect() {
        assert_eq!(stem("2026-10-04T12:30:00+00:00", "suite/my_task", "ABC"), "2026-10-04T12-30-00-00-00_my-task_ABC");
        assert_eq!(entry(&SampleName::Number(7), 2), "samples/7_epoch_2.json");
        assert_eq!(entry(&SampleName::Text("a/b c".into()), 1), "samples/a/b c_epoch_1.json");
    }

    #[test]
    fn a_task_cannot_choose_another_directory() {
        assert_eq!(stem("t", "../../etc/pass\0wd", "../x"), "t_pass-wd_..-x");
        assert!(stem("t", &"é".repeat(500), "x").len() < 255);
    }

    #[test]
    fn ids_that_would_not_come_back_are_refused() {
        assert!(check(&SampleName::Text("a\0b".into())).is_err());
        assert!(check(&SampleName::Text("a".repeat(MAX_ID + 1))).is_err());
        assert!(check(&SampleName::Text("../é\n".into())).is_ok());
    }
}
