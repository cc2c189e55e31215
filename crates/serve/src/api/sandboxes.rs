//! Sandboxes: made, listed, looked at, ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;
use utoipa::ToSchema;

use super::extract::{Caller, Id, Json};
use super::problem::{Answer, Code, Problem, ProblemBody};
use super::wish::SandboxWish;
use crate::app::App;
use crate::life::create::create as make;
use crate::life::held::Held;

/// How long whoever ends a sandbox waits for that.
const PATIENCE: Duration = Duration::from_secs(30);

/// One container of a sandbox.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServiceView {
    /// Who commands run as; absent is root inside.
    user: Option<String>,
    /// Where commands start and relative paths begin.
    workdir: Option<String>,
    /// The image.
    image: String,
    /// Its name for `ringfence sandbox exec`, where it is on that list.
    listed: Option<String>,
}

/// A sandbox.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SandboxView {
    /// Its name.
    id: String,
    /// The service that is meant where none is named.
    default: String,
    /// Its containers.
    services: BTreeMap<String, ServiceView>,
    /// The profile that was asked for.
    requested: String,
    /// The profile in force.
    profile: String,
    /// SHA-256 of the plan's canonical JSON.
    plan_hash: String,
    /// What is enforced, as `ringfence plan --json` has it.
    #[schema(value_type = Object)]
    plan: Value,
    /// What probes saw.
    #[schema(value_type = Object)]
    observed: Value,
    /// The client's own words.
    labels: BTreeMap<String, String>,
    /// Its session.
    session: Option<String>,
    /// Whether it outlives its client.
    detached: bool,
    /// Ends it when nobody has asked for it for so long.
    lease_seconds: Option<f64>,
    /// When it was made, in milliseconds since 1970.
    created_ms: u64,
}

impl From<&Held> for SandboxView {
    fn from(held: &Held) -> Self {
        let services = held.services.iter().map(|(name, service)| {
            let view = ServiceView {
                user: service.user.clone(),
                workdir: service.workdir.clone(),
                image: service.image.clone(),
                listed: service.listed.clone(),
            };
            (name.clone(), view)
        });
        Self {
            id: held.id.clone(),
            default: held.default.clone(),
            services: services.collect(),
            requested: held.requested.clone(),
            profile: held.profile.clone(),
            plan_hash: held.plan_hash.clone(),
            plan: held.plan.clone(),
            observed: held.observed.clone(),
            labels: held.labels.clone(),
            session: held.session.clone(),
            detached: held.detached,
            lease_seconds: held.lease.map(|lease| lease.as_secs_f64()),
            created_ms: held.created_ms,
        }
    }
}

/// One's own sandboxes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SandboxList {
    /// Oldest first.
    sandboxes: Vec<SandboxView>,
}

/// Makes a sandbox as a profile says, or says why not.
#[utoipa::path(post, path = "/v1/sandboxes", tag = "sandboxes", request_body = SandboxWish,
    params(("Ringfence-Session" = Option<String>, Header, description = "The session that it ends with")), responses(
    (status = 201, description = "It lives", body = SandboxView),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn create(State(app): State<Arc<App>>, caller: Caller, wish: Json<SandboxWish>) -> Answer<Response> {
    wish.0.check()?;
    let (tell, made) = oneshot::channel();
    let task = Arc::clone(&app);
    // Not in this request: a client that goes away must not leave half a sandbox, nor one that nobody knows of.
    app.tasks.spawn(async move {
        let made = make(task, caller, wish.0).await;
        if let Err(Ok(held)) = tell.send(made) {
            held.ending.want("whoever wanted it is gone");
        }
    });
    let held = made.await.map_err(|_| Problem::new(Code::Unavailable, "the sandbox could not be made"))??;
    let place = [(header::LOCATION, format!("/v1/sandboxes/{}", held.id))];
    Ok((StatusCode::CREATED, place, axum::Json(SandboxView::from(&*held))).into_response())
}

/// One's own sandboxes.
#[utoipa::path(get, path = "/v1/sandboxes", tag = "sandboxes", responses(
    (status = 200, description = "Those that live", body = SandboxList),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> axum::Json<SandboxList> {
    let sandboxes = app.sandboxes.of(&caller.owner).iter().map(|held| SandboxView::from(&**held)).collect();
    axum::Json(SandboxList { sandboxes })
}

/// One sandbox.
#[utoipa::path(get, path = "/v1/sandboxes/{id}", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox")), responses(
    (status = 200, description = "It lives", body = SandboxView),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn get(State(app): State<Arc<App>>, caller: Caller, id: Id) -> Answer<axum::Json<SandboxView>> {
    let held = app.sandboxes.find(&caller.owner, &id.0)?;
    Ok(axum::Json(SandboxView::from(&*held)))
}

/// Ends a sandbox and everything in it. When this is answered, nothing of it is left.
#[utoipa::path(delete, path = "/v1/sandboxes/{id}", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox")), responses(
    (status = 204, description = "It is gone"),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn delete(State(app): State<Arc<App>>, caller: Caller, id: Id) -> Answer<StatusCode> {
    let ending = app.sandboxes.find(&caller.owner, &id.0)?.ending.clone();
    ending.want("it was deleted");
    match tokio::time::timeout(PATIENCE, ending.finished()).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(_) => Err(Problem::new(Code::Unavailable, "the sandbox does not end")),
    }
}
