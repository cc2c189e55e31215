//! One setting through its layers.

use std::fmt;

use serde::Serialize;

use crate::problem::Place;
use crate::refusal::{Cause, Unmet};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// The profile implies it.
    Profile,
    /// The document, at this place.
    File(Option<Place>),
    /// This environment variable.
    Environment(&'static str),
    /// The command line.
    CommandLine,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Profile => f.write_str("implied by the profile"),
            Self::File(Some(place)) => write!(f, "file, line {place}"),
            Self::File(None) => f.write_str("file"),
            Self::Environment(variable) => f.write_str(variable),
            Self::CommandLine => f.write_str("command line"),
        }
    }
}

/// A setting's value in force, who set it and whom that overrides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// Which setting.
    pub setting: &'static str,
    /// Its value.
    pub value: String,
    /// Who set it.
    pub source: Source,
    /// The value and source of the layer below, if one was overridden.
    pub overrides: Option<(String, Source)>,
}

impl Provenance {
    /// A setting that has no layers but the one it came from.
    pub(super) fn plain(setting: &'static str, value: impl fmt::Display, source: Source) -> Self {
        Self { setting, value: value.to_string(), source, overrides: None }
    }
}

/// Collects provenance and the widenings that the environment tried.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) provenance: Vec<Provenance>,
    pub(super) conflicts: Vec<Unmet>,
}

/// The layers of one setting, lowest first.
pub(super) struct Layers<T> {
    pub(super) setting: &'static str,
    pub(super) default: (T, Source),
    pub(super) file: Option<(T, Option<Place>)>,
    pub(super) environment: Option<(&'static str, T)>,
    pub(super) command_line: Option<T>,
}

impl Ledger {
    /// The value in force. `narrows(file, environment)` says whether the environment's value is within the file's.
    pub(super) fn settle<T: fmt::Display>(&mut self, layers: Layers<T>, narrows: impl Fn(&T, &T) -> bool) -> T {
        let Layers { setting, default, file, environment, command_line } = layers;
        // What the profile implies is a safeguard like one of the file's.
        let below = match (&file, &default) {
            (Some((file, place)), _) => Some((file, "the file's", *place)),
            (None, (implied, Source::Profile)) => Some((implied, "the profile's", None)),
            (None, _) => None,
        };
        if let (Some((lower, whose, place)), Some((variable, wanted)), None) = (below, &environment, &command_line)
            && !narrows(lower, wanted)
        {
            self.conflicts.push(
                Unmet::new(
                    Cause::Contradiction,
                    format!("settings.{setting}"),
                    format!(
                        "{variable}={wanted} would widen {whose} {setting} {lower}; the environment may only narrow it"
                    ),
                )
                .hint(format!("unset {variable}, or state {setting} in the file"))
                .at(place),
            );
        }
        let mut stack = vec![default];
        stack.extend(file.map(|(value, place)| (value, Source::File(place))));
        stack.extend(environment.map(|(variable, value)| (value, Source::Environment(variable))));
        stack.extend(command_line.map(|value| (value, Source::CommandLine)));
        let below =
            stack.len().checked_sub(2).filter(|&index| !matches!(stack[index].1, Source::Default | Source::Profile));
        let overrides = below.map(|index| (stack[index].0.to_string(), stack[index].1.clone()));
        // The default is always there, so the stack is never empty.
        let (value, source) = stack.swap_remove(stack.len() - 1);
        self.provenance.push(Provenance { setting, value: value.to_string(), source, overrides });
        value
    }
}
