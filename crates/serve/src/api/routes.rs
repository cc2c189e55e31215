//! Which path is whose.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post, put};

use super::problem::{Code, Problem};
use super::{approvals, exec, files, health, metrics, openapi, proof, receipts, records, rules, sandboxes, sessions};
use super::{extract::Caller, stream};
use crate::app::App;

/// Everything that is served.
pub(crate) fn router(app: Arc<App>) -> Router {
    let here = "/v1/sandboxes/{id}";
    let below = |path: &str| format!("{here}{path}");
    Router::new()
        .route("/v1/health", get(health::health))
        .route("/v1/openapi.json", get(openapi::openapi))
        .route("/metrics", get(metrics::metrics))
        .route("/v1/sessions", post(sessions::open))
        .route("/v1/sessions/{session}/hold", get(sessions::hold))
        .route("/v1/sandboxes", post(sandboxes::create).get(sandboxes::list))
        .route(here, get(sandboxes::get).delete(sandboxes::delete))
        .route(&below("/exec"), post(exec::exec))
        .route(&below("/exec/stream"), get(stream::stream))
        .route(&below("/files"), get(files::read).put(files::write))
        .route(&below("/files/list"), get(files::list))
        .route(&below("/files/stat"), get(files::stat))
        .route(&below("/records"), get(records::records))
        .route(&below("/totals"), get(records::totals))
        .route(&below("/rules"), put(rules::put))
        .route("/v1/approvals", get(approvals::list))
        .route("/v1/approvals/{id}", post(approvals::decide))
        .route("/v1/verify", post(proof::verify))
        .route("/v1/receipts", post(receipts::create))
        .fallback(nothing)
        .method_not_allowed_fallback(not_here)
        .layer(from_fn_with_state(Arc::clone(&app), count))
        .with_state(app)
}

async fn nothing(_: Caller) -> Problem {
    Problem::new(Code::NotFound, "nothing is served under this path").hint("GET /v1/openapi.json says what is")
}

async fn not_here(_: Caller) -> Problem {
    Problem::new(Code::MethodNotAllowed, "this path is served with another method")
        .hint("GET /v1/openapi.json says with which")
}

async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    app.metrics.count_response(response.status());
    response
}
