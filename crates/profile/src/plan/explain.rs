//! Explaining a profile before anything is written down: what is missing is *required*, not refused.

use serde::Serialize;

use super::assess::assess;
use super::{Plan, nearest};
use crate::facts::Facts;
use crate::refusal::{Cause, Refusal, Unmet};
use crate::settings::Request;

/// What a profile would mean here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The format of this record.
    pub schema: &'static str,
    /// Statements that must be made before it runs.
    pub required: Vec<Unmet>,
    /// The plan as it would be.
    pub plan: Plan,
}

impl Explanation {
    /// The format of this record.
    pub const SCHEMA: &'static str = "ringfence.explanation/1";
}

/// Explains a request; only what is unenforceable or contradictory is refused.
pub fn explain(request: &Request, facts: &Facts) -> Result<Explanation, Refusal> {
    let assessment = assess(request, facts);
    let (required, blocking): (Vec<Unmet>, Vec<Unmet>) =
        assessment.unmet.into_iter().partition(|obstacle| obstacle.cause == Cause::Required);
    if blocking.is_empty() {
        return Ok(Explanation { schema: Explanation::SCHEMA, required, plan: assessment.plan });
    }
    Err(nearest::refuse(request, facts, blocking.into_iter().chain(required).collect()))
}
