//! What a sandbox's network did.
#![expect(unused_qualifications, reason = "what utoipa makes of parameters names them from its own module")]

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::extract::{Caller, Id, Query};
use super::problem::{Answer, ProblemBody};
use crate::app::App;

/// Records of one answer.
const MOST: usize = 1000;

/// From where.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AfterQuery {
    /// The number of the last record that is known; 0 if absent.
    after: Option<u64>,
}

/// Records of a sandbox's network.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordList {
    /// As in the network log, with `number` and `service`; at most a thousand.
    #[schema(value_type = Vec<Object>)]
    records: Vec<Value>,
    /// What to ask after next time.
    next: u64,
    /// Records after `after` that are not kept any more.
    dropped: u64,
}

/// Sums over a sandbox's life.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Totals {
    /// Queries that were answered.
    queries: u64,
    /// Connections that went on.
    connections: u64,
    /// Queries and connections that were refused.
    refused: u64,
    /// Bytes from the sandbox.
    sent: u64,
    /// Bytes to the sandbox.
    received: u64,
    /// Records that were lost.
    records_lost: u64,
}

/// Every query, connection and refusal, in order.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/records", tag = "network",
    params(("id" = String, Path, description = "The sandbox"), AfterQuery), responses(
    (status = 200, description = "Records", body = RecordList),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn records(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Id,
    Query(query): Query<AfterQuery>,
) -> Answer<axum::Json<RecordList>> {
    let held = app.sandboxes.find(&caller.owner, &id.0)?;
    let part = held.records.after(query.after.unwrap_or(0), MOST);
    let records = part.records.into_iter().map(|one| {
        let mut value = json!(one.record);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("number".into(), json!(one.number));
            fields.insert("service".into(), json!(one.service));
        }
        value
    });
    Ok(axum::Json(RecordList { records: records.collect(), next: part.next, dropped: part.dropped }))
}

/// Sums over the sandbox's life.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/totals", tag = "network",
    params(("id" = String, Path, description = "The sandbox")), responses(
    (status = 200, description = "Sums", body = Totals),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn totals(State(app): State<Arc<App>>, caller: Caller, id: Id) -> Answer<axum::Json<Totals>> {
    let held = app.sandboxes.find(&caller.owner, &id.0)?;
    let sums = held.records.totals();
    Ok(axum::Json(Totals {
        queries: sums.queries,
        connections: sums.connections,
        refused: sums.refused,
        sent: sums.sent,
        received: sums.received,
        records_lost: sums.lost,
    }))
}
