//! Files: read and written by the chunk, listed, looked at.
#![expect(unused_qualifications, reason = "what utoipa makes of parameters names them from its own module")]

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream;
use http_body_util::BodyExt as _;
use sandbox::{FileKind, Reading, SessionError, Stat};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extract::{Caller, Id, Query, part};
use super::problem::{Answer, Code, Problem, ProblemBody};
use crate::app::App;
use crate::life::held::Using;

/// The largest file that is read or written.
const MAX_FILE: u64 = 4 << 30;
/// The longest path that the kernel takes.
const MAX_PATH: usize = 4096;
/// How long a client may take between two parts of a body.
const PATIENCE: Duration = Duration::from_mins(1);
/// What is read of a body that nobody wants any more, so that the client hears why.
const DRAINED: u64 = 128 << 20;

/// Which file.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FileQuery {
    /// Absolute, or relative to the service's directory.
    #[param(max_length = 4096, min_length = 1)]
    path: String,
    /// Which container; the default one if absent.
    service: Option<String>,
    /// Whose rights count; the service's user if absent.
    user: Option<String>,
    /// Fail if it is larger.
    #[param(minimum = 0, maximum = 4_294_967_296_u64)]
    limit: Option<u64>,
    /// Permission bits of a new file, in octal; 644 if absent.
    #[param(pattern = "^[0-7]{1,4}$")]
    mode: Option<String>,
}

impl FileQuery {
    fn check(&self) -> Answer<()> {
        if self.path.is_empty() || self.path.len() > MAX_PATH || self.path.contains('\0') {
            return Err(Problem::bad("the path is empty, too long, or has a NUL in it"));
        }
        if self.user.as_ref().is_some_and(|user| user.len() > 256 || user.contains('\0')) {
            return Err(Problem::bad("the user is too long, or has a NUL in it"));
        }
        Ok(())
    }

    fn permissions(&self) -> Answer<u32> {
        let Some(text) = &self.mode else { return Ok(0o644) };
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && text.len() <= 4);
        mode.ok_or_else(|| Problem::bad("`mode` is not permission bits in octal").hint("such as 644 or 755"))
    }
}

/// Reads a file. Where it breaks off, so does the response.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files", tag = "files",
    params(("id" = String, Path, description = "The sandbox"), FileQuery), responses(
    (status = 200, description = "Its bytes", content_type = "application/octet-stream", body = Vec<u8>),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Id,
    Query(query): Query<FileQuery>,
) -> Answer<Response> {
    query.check()?;
    let held = app.sandboxes.find(&caller.owner, &id.0)?;
    let service = held.service(query.service.as_deref())?;
    let limit = query.limit.unwrap_or(MAX_FILE);
    if limit > MAX_FILE {
        return Err(Problem::bad(format!("`limit` is at most {MAX_FILE}")));
    }
    let user = service.file_user(query.user.as_deref());
    let mut reading = service.view.open_file(&service.resolve(&query.path), limit, user)?;
    // Whether there is a file at all is known with its first bytes.
    let ahead = reading.next().await?;
    let rest = stream::unfold(Transfer { is_empty: ahead.is_none(), reading, held, ahead }, Transfer::step);
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], Body::from_stream(rest)).into_response())
}

/// A file on its way out; its sandbox is in use meanwhile.
struct Transfer {
    reading: Reading,
    held: Using,
    /// What was read ahead.
    ahead: Option<Vec<u8>>,
    /// Whether even that was the end.
    is_empty: bool,
}

impl Transfer {
    async fn step(mut self) -> Option<(Result<Bytes, SessionError>, Self)> {
        if self.is_empty {
            return None;
        }
        let chunk = if let Some(chunk) = self.ahead.take() {
            Ok(Some(chunk))
        } else {
            let ending = self.held.ending.clone();
            tokio::select! {
                chunk = self.reading.next() => chunk,
                () = ending.wanted() => Err(SessionError::Died(ending.why())),
            }
        };
        match chunk {
            Ok(chunk) => Some((Ok(Bytes::from(chunk?)), self)),
            Err(error) => Some((Err(error), self)),
        }
    }
}

/// Writes a file, making its parents.
#[utoipa::path(put, path = "/v1/sandboxes/{id}/files", tag = "files",
    params(("id" = String, Path, description = "The sandbox"), FileQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"), responses(
    (status = 204, description = "It is written"),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn write(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Id,
    Query(query): Query<FileQuery>,
    mut body: Body,
) -> Answer<StatusCode> {
    let written = write_body(&app, &caller, &id.0, &query, &mut body).await;
    if written.is_err() {
        drain(body).await;
    }
    written.map(|()| StatusCode::NO_CONTENT)
}

async fn write_body(app: &App, caller: &Caller, id: &str, query: &FileQuery, body: &mut Body) -> Answer<()> {
    query.check()?;
    let permissions = query.permissions()?;
    let held = app.sandboxes.find(&caller.owner, id)?;
    let service = held.service(query.service.as_deref())?;
    let user = service.file_user(query.user.as_deref());
    let most = query.limit.unwrap_or(MAX_FILE).min(MAX_FILE);
    let mut writing = service.view.create_file(&service.resolve(&query.path), permissions, user)?;
    let mut left = most;
    while let Some(bytes) = part(body, PATIENCE).await? {
        let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        left =
            left.checked_sub(count).ok_or_else(|| Problem::new(Code::TooLarge, format!("more than {most} bytes")))?;
        writing.write(&bytes).await?;
    }
    writing.finish().await?;
    Ok(())
}

/// Takes what a client still sends, so that it reads our answer and not a broken connection; within bounds.
async fn drain(mut body: Body) {
    let taken = async {
        let mut left = DRAINED;
        while let Some(Ok(frame)) = body.frame().await {
            let count = frame.data_ref().map_or(0, |bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            let Some(less) = left.checked_sub(count) else { return };
            left = less;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(10), taken).await;
}

/// What sort of thing is at a path.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    File,
    Directory,
    Link,
    Other,
}

/// What is at a path.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FileView {
    /// What sort of thing; a link itself, not what it leads to.
    kind: Kind,
    /// In bytes.
    size: u64,
    /// Permission bits, in octal.
    mode: String,
}

impl From<Stat> for FileView {
    fn from(stat: Stat) -> Self {
        let kind = match stat.kind {
            FileKind::File => Kind::File,
            FileKind::Directory => Kind::Directory,
            FileKind::Link => Kind::Link,
            FileKind::Other => Kind::Other,
        };
        Self { kind, size: stat.size, mode: format!("{:03o}", stat.permissions) }
    }
}

/// One entry of a directory.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EntryView {
    /// Its name; what is not text is shown as it can be.
    name: String,
    /// Its name's bytes, where they are not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_base64: Option<String>,
    #[serde(flatten)]
    file: FileView,
}

/// A directory.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Entries {
    /// By name.
    entries: Vec<EntryView>,
}

/// What is in a directory.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files/list", tag = "files",
    params(("id" = String, Path, description = "The sandbox"), FileQuery), responses(
    (status = 200, description = "Its entries", body = Entries),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Id,
    Query(query): Query<FileQuery>,
) -> Answer<axum::Json<Entries>> {
    query.check()?;
    let held = app.sandboxes.find(&caller.owner, &id.0)?;
    let service = held.service(query.service.as_deref())?;
    let user = service.file_user(query.user.as_deref());
    let mut entries = service.view.list_as(&service.resolve(&query.path), user).await?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let entries = entries.into_iter().map(|entry| {
        let (name, name_base64) = match String::from_utf8(entry.name) {
            Ok(name) => (name, None),
            Err(error) => {
                let encoded = STANDARD.encode(error.as_bytes());
                (String::from_utf8_lossy(error.as_bytes()).into_owned(), Some(encoded))
            }
        };
        EntryView { name, name_base64, file: entry.stat.into() }
    });
    Ok(axum::Json(Entries { entries: entries.collect() }))
}

/// What is at a path.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files/stat", tag = "files",
    params(("id" = String, Path, description = "The sandbox"), FileQuery), responses(
    (status = 200, description = "What is there", body = FileView),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn stat(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Id,
    Query(query): Query<FileQuery>,
) -> Answer<axum::Json<FileView>> {
    query.check()?;
    let held = app.sandboxes.find(&caller.owner, &id.0)?;
    let service = held.service(query.service.as_deref())?;
    let user = service.file_user(query.user.as_deref());
    match service.view.stat_as(&service.resolve(&query.path), user).await? {
        Some(stat) => Ok(axum::Json(stat.into())),
        None => Err(Problem::new(Code::FileNotFound, format!("{}: no such file or directory", query.path))),
    }
}
