//! One connection: who is on its other side, what is asked of its requests before anybody looks at them, and its limits.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::owner::Owner;
use super::patient::Patient;
use super::places::Seat;
use super::tokens::Tokens;
use crate::api::problem::{Answer, Code, Problem};

/// How long the head of a request may take; a connection that asks nothing ends after that too.
const HEAD: Duration = Duration::from_mins(1);
/// The same until a connection has shown a token for the first time.
const STRANGER: Duration = Duration::from_secs(5);
/// How long a client may take nothing of what it is sent.
const STALL: Duration = Duration::from_mins(1);
/// The largest head, and how many fields it may have.
const MAX_HEAD: usize = 64 << 10;
const MAX_FIELDS: usize = 64;

/// How it is found out who asks.
#[derive(Clone)]
pub(crate) enum Who {
    /// The kernel has said.
    Known(Owner),
    /// Each request brings a token.
    Token(Arc<Tokens>),
}

impl Who {
    /// How long it may take until somebody known asks.
    fn patience(&self) -> Duration {
        match self {
            Self::Known(_) => HEAD,
            Self::Token(_) => STRANGER,
        }
    }

    fn owner(&self, headers: &HeaderMap) -> Answer<Owner> {
        let tokens = match self {
            Self::Known(owner) => return Ok(owner.clone()),
            Self::Token(tokens) => tokens,
        };
        check_origin(headers)?;
        let stated = headers.get(header::AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.as_bytes().split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
        });
        let unknown = |detail| {
            Problem::new(Code::Unauthorized, detail).hint("send `Authorization: Bearer TOKEN` with a token of the file")
        };
        let stated = stated.ok_or_else(|| unknown("the request has no token"))?;
        tokens.find(stated).map(Owner::Token).ok_or_else(|| unknown("nobody knows this token"))
    }
}

/// Refuses what a browser would send for a page: no page is to speak with us, whatever its name resolves to.
fn check_origin(headers: &HeaderMap) -> Answer<()> {
    if headers.contains_key(header::ORIGIN) {
        return Err(Problem::new(Code::PermissionDenied, "requests of web pages are not answered"));
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).filter(|_| hosts.next().is_none());
    if host.is_some_and(is_address) {
        return Ok(());
    }
    Err(Problem::new(Code::PermissionDenied, "the host of the request is not an address, nor localhost")
        .hint("ask by the address that the server printed: a name may lead anywhere"))
}

/// Whether a `Host` is an address or `localhost`, with or without a port.
fn is_address(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, port)) if port.is_empty() || port.starts_with(':') => name,
        Some(_) => return false,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

async fn answer(router: Router, who: Who, seat: Arc<Seat>, request: Request<Incoming>) -> Result<Response, Infallible> {
    let mut request = request.map(Body::new);
    let owner = who.owner(request.headers()).and_then(|owner| seat.admit(&owner).map(|()| owner));
    match owner {
        Ok(owner) => {
            request.extensions_mut().insert(owner);
            // A WebSocket outlives what is served here, and keeps its place.
            request.extensions_mut().insert(seat);
            router.oneshot(request).await
        }
        Err(problem) => {
            let mut response = problem.into_response();
            // Whoever is not let in has no further question.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            Ok(response)
        }
    }
}

/// Serves one connection to its end; when `closing` says so it ends after the request that is under way.
pub(crate) async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    who: Who,
    seat: Arc<Seat>,
    closing: CancellationToken,
) {
    let (patience, taken) = (who.patience(), Arc::clone(&seat));
    let service = service_fn(move |request| answer(router.clone(), who.clone(), Arc::clone(&taken), request));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(MAX_HEAD).max_headers(MAX_FIELDS);
    let stream = TokioIo::new(Patient::new(stream, STALL));
    let connection = builder.serve_connection(stream, service).with_upgrades();
    tokio::pin!(connection);
    tokio::select! {
        // Whatever a client does wrong on this level ends its connection, and nothing else.
        _ = connection.as_mut() => return,
        () = seat.overdue(patience) => return,
        () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_answered() {
        for host in ["127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8080", "localhost", "LocalHost:1"] {
            assert!(is_address(host), "{host}");
        }
        for host in ["", "example.org", "example.org:80", "127.0.0.1.example.org", "[::1].example.org", "[x]:1"] {
            assert!(!is_address(host), "{host}");
        }
    }
}
