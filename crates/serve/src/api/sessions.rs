//! Sessions: opened, and held by a response that does not end.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{Caller, Id, Json};
use super::problem::{Answer, Problem, ProblemBody};
use crate::app::App;
use crate::life::sessions::{Hold, hold as take_hold, open as open_session};

/// How often a held response says that it is there.
const BEAT: Duration = Duration::from_secs(5);

/// A session that a client wants.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionWish {
    /// What it is called; for people.
    #[schema(max_length = 256)]
    name: Option<String>,
}

/// A session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Session {
    /// To be named in the header `Ringfence-Session`.
    session: String,
}

/// Opens a session. It ends within a minute unless it is held.
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", request_body = SessionWish, responses(
    (status = 201, description = "It is open", body = Session),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn open(State(app): State<Arc<App>>, caller: Caller, wish: Json<SessionWish>) -> Answer<Response> {
    if wish.0.name.is_some_and(|name| name.len() > 256) {
        return Err(Problem::bad("the session's name is too long"));
    }
    let session = open_session(&app, &caller.owner)?;
    Ok((StatusCode::CREATED, axum::Json(Session { session })).into_response())
}

/// Holds a session: the response does not end. When its last such connection ends, its sandboxes end.
#[utoipa::path(get, path = "/v1/sessions/{session}/hold", tag = "sessions",
    params(("session" = String, Path, description = "The session")), responses(
    (status = 200, description = "One byte now and then", content_type = "text/plain", body = String),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn hold(State(app): State<Arc<App>>, caller: Caller, id: Id) -> Answer<Response> {
    let hold = take_hold(&app, &caller.owner, &id.0)?;
    let beats = stream::unfold((hold, app, false), |(hold, app, later): (Hold, Arc<App>, bool)| async move {
        if later {
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                () = app.closing.cancelled() => return None,
            }
        }
        Some((Ok::<_, Infallible>(Bytes::from_static(b"\n")), (hold, app, true)))
    });
    Ok(([(header::CONTENT_TYPE, "text/plain")], Body::from_stream(beats)).into_response())
}
