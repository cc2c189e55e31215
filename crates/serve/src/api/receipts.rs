//! Receipts for logs that are closed.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{Caller, Json};
use super::problem::{Answer, Code, Problem, ProblemBody};
use crate::app::App;
use crate::workshop::ReceiptObstacle;

/// A log that is to be signed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReceiptWish {
    /// The log's absolute path on the server's machine. What the receipt says is read out of it and its audit chain.
    #[schema(max_length = 4096)]
    log: String,
}

/// A receipt.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReceiptView {
    /// Where it is: beside the log.
    receipt: String,
}

/// Signs a closed log with the user's key, beside the log.
#[utoipa::path(post, path = "/v1/receipts", tag = "receipts", request_body = ReceiptWish, responses(
    (status = 201, description = "It is there", body = ReceiptView),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn create(State(app): State<Arc<App>>, _: Caller, Json(wish): Json<ReceiptWish>) -> Answer<Response> {
    let log = PathBuf::from(&wish.log);
    if !log.is_absolute() || wish.log.len() > 4096 || wish.log.chars().any(char::is_control) {
        return Err(Problem::bad("`log` is not an absolute path"));
    }
    let workshop = Arc::clone(&app.workshop);
    let signed = tokio::task::spawn_blocking(move || workshop.receipt(&log)).await;
    let signed = signed.map_err(|error| Problem::new(Code::Unavailable, format!("cannot sign: {error}")))?;
    match signed {
        Ok(path) => {
            let receipt = path.to_string_lossy().into_owned();
            Ok((StatusCode::CREATED, axum::Json(ReceiptView { receipt })).into_response())
        }
        Err(ReceiptObstacle::NoKey) => {
            Err(Problem::new(Code::NoKey, ReceiptObstacle::NoKey.to_string()).hint("make one with `ringfence key new`"))
        }
        Err(ReceiptObstacle::Failed(why)) => Err(Problem::new(Code::Conflict, why)),
    }
}
