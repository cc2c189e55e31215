//! What an approver says.

use std::str::FromStr;
use std::time::Duration;

use serde_json::{Map, Value};

use super::bound::Bound;

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Approve,
    /// Approve, with other arguments.
    Modify,
    Reject,
    /// Ends the sample.
    Terminate,
    /// The next approver decides.
    Escalate,
}

impl Decision {
    pub(super) const ALL: [Self; 5] = [Self::Approve, Self::Modify, Self::Reject, Self::Terminate, Self::Escalate];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Modify => "modify",
            Self::Reject => "reject",
            Self::Terminate => "terminate",
            Self::Escalate => "escalate",
        }
    }
}

impl FromStr for Decision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|decision| decision.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            format!("`{text}` is not a decision: use {}", names.join(", "))
        })
    }
}

/// A decision, why, and what comes with it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) decision: Decision,
    pub(crate) explanation: String,
    /// Other arguments, for [`Decision::Modify`] of a call.
    pub(crate) arguments: Option<Map<String, Value>>,
    /// Another result, for [`Decision::Modify`] of a result.
    pub(crate) result: Option<String>,
    /// What the approval is bound to.
    pub(crate) bound: Bound,
}

impl Answer {
    pub(super) fn new(decision: Decision, explanation: impl Into<String>) -> Self {
        Self { decision, explanation: explanation.into(), arguments: None, result: None, bound: Bound::default() }
    }
}

/// An answer, with who gave it and how long that took.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decided {
    pub(crate) approver: String,
    pub(crate) answer: Answer,
    pub(crate) latency: Duration,
}
