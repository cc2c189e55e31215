//! A profile proven, without a sandbox for anybody.

use std::sync::Arc;

use axum::extract::State;
use serde_json::Value;
use verify::Speed;

use super::extract::{Caller, Json};
use super::problem::{Answer, Code, Problem, ProblemBody};
use super::wish::{SandboxWish, VerifyWish};
use crate::app::App;
use crate::life::create::prepare;

/// Proves what a wish would be: the report of `ringfence verify --json`. All probes, unless `verify` says `fast`.
#[utoipa::path(post, path = "/v1/verify", tag = "server", request_body = SandboxWish, responses(
    (status = 200, description = "What was found", body = Object),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn verify(
    State(app): State<Arc<App>>,
    _: Caller,
    Json(wish): Json<SandboxWish>,
) -> Answer<axum::Json<Value>> {
    wish.check()?;
    let speed = match wish.verify {
        None | Some(VerifyWish::Full) => Speed::Full,
        Some(VerifyWish::Fast) => Speed::Fast,
        Some(VerifyWish::Off) => return Err(Problem::bad("`verify: off` proves nothing").hint("say fast or full")),
    };
    let made = prepare(&app, &wish).await?;
    if made.subjects.is_empty() {
        return Err(Problem::new(Code::Refused, "a local process has no wall that could be proven").hint("choose H1"));
    }
    Ok(axum::Json(app.proofs.report(speed, made.subjects).await?))
}
