//! Names that wait for a person's yes or no.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{Caller, Id, Json, short};
use super::problem::{Answer, Code, Problem, ProblemBody};
use crate::app::App;

/// A name that a sandbox asks for and no rule lists.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApprovalView {
    /// To be decided under.
    id: String,
    /// Who asks.
    sandbox: String,
    /// Which container of it.
    service: String,
    /// The name; from inside, so it may be anything that is a name.
    name: String,
    /// When, in milliseconds since 1970. Nobody's answer within half a minute is no.
    asked_ms: u64,
}

/// What waits.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApprovalList {
    /// Oldest first.
    approvals: Vec<ApprovalView>,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Decision {
    Approve,
    Reject,
}

/// A person's answer.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionWish {
    decision: Decision,
    /// Why; for the client's own records.
    #[schema(max_length = 4096)]
    explanation: Option<String>,
}

/// What waits for a decision.
#[utoipa::path(get, path = "/v1/approvals", tag = "approvals", responses(
    (status = 200, description = "What waits", body = ApprovalList),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> axum::Json<ApprovalList> {
    let approvals = app.approvals.of(&caller.owner).into_iter().map(|waiting| ApprovalView {
        id: waiting.id,
        sandbox: waiting.sandbox,
        service: waiting.service,
        name: waiting.name,
        asked_ms: waiting.asked_ms,
    });
    axum::Json(ApprovalList { approvals: approvals.collect() })
}

/// Decides. The name may then be reached by that sandbox to its end, or not.
#[utoipa::path(post, path = "/v1/approvals/{id}", tag = "approvals", request_body = DecisionWish,
    params(("id" = String, Path, description = "What is decided")), responses(
    (status = 204, description = "It is decided"),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn decide(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Id,
    Json(wish): Json<DecisionWish>,
) -> Answer<StatusCode> {
    if wish.explanation.is_some_and(|explanation| explanation.len() > 4096) {
        return Err(Problem::bad("the explanation is too long"));
    }
    match app.approvals.decide(&caller.owner, &id.0, wish.decision == Decision::Approve) {
        Some(_) => Ok(StatusCode::NO_CONTENT),
        None => Err(Problem::new(Code::NotFound, format!("nothing waits under `{}`", short(&id.0)))
            .hint("it was decided, or whoever asked has given up")),
    }
}
