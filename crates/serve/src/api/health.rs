//! Whether anybody is there.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::extract::Caller;

/// The version of this API.
const API: u32 = 1;

/// The server is there.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
    /// The program's version.
    version: &'static str,
    /// The version of this API.
    api: u32,
}

/// Whether anybody is there.
#[utoipa::path(get, path = "/v1/health", tag = "server", responses(
    (status = 200, description = "Somebody is", body = Health),
    (status = "default", description = "A problem", body = super::problem::ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn health(_: Caller) -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION"), api: API })
}
