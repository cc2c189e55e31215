//! A refusal: everything that stands in the way of a profile, and what could be had instead.

use serde::Serialize;

use crate::level::Profile;
use crate::problem::Place;

/// Why a control is not met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Nobody could enforce it, or this host cannot.
    Unenforceable,
    /// Two things that were asked for exclude each other.
    Contradiction,
    /// A statement is missing that the profile demands: an approval policy, a justification.
    Required,
}

/// One thing that stands in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmet {
    /// Which control, such as `network.absent`.
    pub control: String,
    /// What sort of obstacle.
    pub cause: Cause,
    /// Why.
    pub reason: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where in the document, if it is there.
    pub place: Option<Place>,
}

impl Unmet {
    /// An obstacle without hint or place.
    pub fn new(cause: Cause, control: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { control: control.into(), cause, reason: reason.into(), hint: None, place: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same with its place, if it has one.
    #[must_use]
    pub fn at(mut self, place: Option<Place>) -> Self {
        self.place = place;
        self
    }
}

/// A profile that could be had instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alternative {
    /// The profile.
    pub profile: Profile,
    /// Whether it isolates or restricts less than what was asked for, in any of the three letters.
    pub weaker: bool,
    /// What it would give up or gain, in one line. The first word is `Weaker:` where it is weaker.
    pub difference: String,
}

/// The answer to a profile that cannot be had as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{profile} is refused")]
pub struct Refusal {
    /// The format of this record.
    pub schema: &'static str,
    /// The profile that was asked for.
    pub profile: Profile,
    /// The document, if there was one.
    pub origin: Option<String>,
    /// Everything in the way; never empty.
    pub unmet: Vec<Unmet>,
    /// The nearest profiles that could be had, nearest first.
    pub nearest: Vec<Alternative>,
}

impl Refusal {
    /// The format of this record.
    pub const SCHEMA: &'static str = "ringfence.refusal/1";
}
