//! What handlers are given, with our own problems where it is not what it should be.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use bounded::Budget;
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;

use super::problem::{Answer, Code, Problem};
use crate::app::App;
use crate::server::Owner;

/// Which session a request belongs to.
pub(crate) const SESSION: &str = "ringfence-session";

/// How long a client may take to send a body of this kind.
const PATIENCE: Duration = Duration::from_mins(2);
/// The most of a body that is read into memory, unless a handler says otherwise.
const MOST: usize = 4 << 20;
/// Memory for the values of a body, beside their texts.
const VALUES: u64 = 8 << 20;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) owner: Owner,
    pub(crate) session: Option<String>,
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Answer<Self> {
        let owner = parts.extensions.get::<Owner>().cloned();
        let owner = owner.ok_or_else(|| Problem::new(Code::Unauthorized, "nobody knows who asks"))?;
        let session = match parts.headers.get(SESSION) {
            None => None,
            Some(value) => {
                let name = value.to_str().map_err(|_| Problem::bad("the session's name is not text"))?;
                if !app.sessions.is_open(&owner, name) {
                    let detail = format!("there is no session `{}`", short(name));
                    let hint = "POST /v1/sessions gives one; it ends when its hold ends";
                    return Err(Problem::new(Code::NotFound, detail).hint(hint));
                }
                Some(name.to_owned())
            }
        };
        Ok(Self { owner, session })
    }
}

/// Something of the client's in our words: never long.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

/// The one part of the path that is not fixed.
pub(crate) struct Id(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(id)) => Ok(Self(id)),
            Err(_) => Err(Problem::new(Code::NotFound, "the path is not text")),
        }
    }
}

/// What is after the question mark.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        match axum::extract::Query::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(Problem::bad(short(&rejection.body_text()))),
        }
    }
}

/// A body of JSON, of at most this many bytes.
pub(crate) struct Json<T, const LIMIT: usize = MOST>(pub(crate) T);

impl<T: DeserializeOwned, const LIMIT: usize> FromRequest<Arc<App>> for Json<T, LIMIT> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &Arc<App>) -> Answer<Self> {
        let bytes = read(request.into_body(), LIMIT, PATIENCE).await?;
        parse(&bytes).map(Self)
    }
}

/// Reads a body whole, within its limits.
async fn read(body: Body, limit: usize, patience: Duration) -> Answer<Bytes> {
    match tokio::time::timeout(patience, Limited::new(body, limit).collect()).await {
        Err(_) => Err(Problem::new(Code::Timeout, format!("the body did not come within {patience:?}"))),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Problem::new(Code::TooLarge, format!("the body has more than {limit} bytes")))
        }
        Ok(Err(_)) => Err(Problem::bad("the body broke off")),
    }
}

/// The next bytes of a body that is taken by the part; `None` is its end.
pub(crate) async fn part(body: &mut Body, patience: Duration) -> Answer<Option<Bytes>> {
    loop {
        match tokio::time::timeout(patience, body.frame()).await {
            Ok(None) => return Ok(None),
            Ok(Some(Ok(frame))) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
            Ok(Some(Err(_))) => return Err(Problem::bad("the body broke off")),
            Err(_) => return Err(Problem::new(Code::Timeout, "the body does not go on")),
        }
    }
}

/// Reads JSON; an empty body is an empty object.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Answer<T> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    bounded::read(bytes, &Budget::new(VALUES + bytes.len() as u64)).map_err(|error| {
        Problem::bad(format!("the body is not what it should be: {}", short_line(&error.to_string())))
            .hint("GET /v1/openapi.json describes every body")
    })
}

fn short_line(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt as _, stream};

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    /// A body that begins and never ends.
    fn stuck() -> Body {
        let begun = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"{"))]);
        Body::from_stream(begun.chain(stream::pending()))
    }

    fn code<T>(answer: Answer<T>) -> String {
        answer.map_or_else(|problem| serde_json::json!(problem.body())["code"].to_string(), |_| "none".into())
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        assert_eq!(code(read(stuck(), 100, SHORT).await), "\"timeout\"");
        let mut body = stuck();
        assert_eq!(part(&mut body, SHORT).await.unwrap().unwrap(), "{");
        assert_eq!(code(part(&mut body, SHORT).await), "\"timeout\"");
    }

    #[test]
    fn a_body_of_many_small_values_is_refused() {
        let body = format!("{{\"a\":[{}[]]}}", "[],".repeat(1 << 20));
        assert!(body.len() < MOST);
        let Err(problem) = parse::<serde_json::Value>(body.as_bytes()) else { unreachable!("it was read") };
        let shown = serde_json::json!(problem.body()).to_string();
        assert!(shown.contains("too many values") && shown.contains("column"), "{shown}");
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(MOST - 8));
        assert!(parse::<serde_json::Value>(text.as_bytes()).is_ok(), "one long text is not many values");
    }

    #[tokio::test]
    async fn a_body_is_read_within_its_limit() {
        assert_eq!(read(Body::from("12345"), 5, SHORT).await.unwrap(), "12345");
        assert_eq!(code(read(Body::from("123456"), 5, SHORT).await), "\"too_large\"");
    }
}
