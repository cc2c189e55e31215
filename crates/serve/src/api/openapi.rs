//! The document that describes this API, made from the code.

use axum::Json;
use serde_json::Value;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::extract::Caller;
use super::problem::ProblemBody;
use super::{approvals, exec, files, health, metrics, proof, receipts, records, rules, sandboxes, sessions, stream};

#[derive(OpenApi)]
#[openapi(
    info(title = "Ringfence", description = "Sandboxes in profiles Tx.Hx.Nx that are enforced, proven and recorded."),
    paths(
        health::health, openapi, metrics::metrics,
        sessions::open, sessions::hold,
        sandboxes::create, sandboxes::list, sandboxes::get, sandboxes::delete,
        exec::exec, stream::stream,
        files::read, files::write, files::list, files::stat,
        records::records, records::totals, rules::put,
        approvals::list, approvals::decide,
        proof::verify, receipts::create,
    ),
    components(schemas(ProblemBody, stream::Order, exec::Ended)),
    modifiers(&Token),
)]
struct Document;

/// Over TCP a token says who asks; on a socket the kernel does.
struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        if let Some(components) = document.components.as_mut() {
            components.add_security_scheme("token", scheme);
        }
        let none = utoipa::openapi::security::SecurityRequirement::default();
        let token = utoipa::openapi::security::SecurityRequirement::new("token", Vec::<String>::new());
        document.security = Some(vec![none, token]);
    }
}

/// The document, as it is kept in `docs/openapi.json`.
pub fn openapi_text() -> String {
    let mut text = serde_json::to_string_pretty(&Document::openapi()).unwrap_or_default();
    text.push('\n');
    text
}

/// The document that describes this API.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "server", responses(
    (status = 200, description = "An OpenAPI document", body = Object),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn openapi(_: Caller) -> Json<Value> {
    Json(serde_json::to_value(Document::openapi()).unwrap_or_default())
}
