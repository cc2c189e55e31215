//! One request over a connection from inside the sandbox: TLS and HTTP are spoken here, the network is the sandbox's.

use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body as _, Bytes};
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, HOST, HeaderMap, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use sandbox::{DialError, Sandbox};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::tls;

/// The most of a page that is read.
pub(super) const MOST_BODY: usize = 5 << 20;
/// The most of a head that is read.
const MOST_HEAD: usize = 64 << 10;
const ACCEPTED: &str = "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9";

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// No connection was opened.
    Dial(DialError),
    /// The connection broke before an answer came: so does one that the rules refuse.
    Broken(String),
    /// The server's certificate, or its TLS.
    Tls(String),
    /// Longer than it may be.
    TooLong,
}

/// An answer, whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Where an address leads: a host as it is dialed, and a port.
pub(super) fn target(url: &Url) -> (String, u16) {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    (host, url.port_or_known_default().unwrap_or(0))
}

/// Asks for a page.
pub(super) async fn get(url: &Url, sandbox: &Sandbox, deadline: Duration) -> Result<Answer, Trouble> {
    let (host, port) = target(url);
    let connection = sandbox.dial(&host, port, deadline).await.map_err(Trouble::Dial)?;
    if url.scheme() == "http" {
        return ask(url, connection).await;
    }
    let name = match host.parse::<IpAddr>() {
        Ok(address) => ServerName::from(address),
        Err(_) => ServerName::try_from(host).map_err(|error| Trouble::Tls(error.to_string()))?,
    };
    let connector = TlsConnector::from(tls::trusting_the_system().map_err(Trouble::Tls)?);
    let secure = connector.connect(name, connection).await.map_err(|error| {
        // What TLS itself says is wrong with the other side is no break.
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(inner) => Trouble::Tls(inner.to_string()),
            None => Trouble::Broken(error.to_string()),
        }
    })?;
    ask(url, secure).await
}

async fn ask(url: &Url, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Answer, Trouble> {
    let broken = |error: hyper::Error| Trouble::Broken(error.to_string());
    let handshake = hyper::client::conn::http1::Builder::new()
        .max_buf_size(MOST_HEAD)
        .handshake::<_, Empty<Bytes>>(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(broken)?;
    // Ends with us: nobody else uses it.
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let request = Request::get(path)
        .header(HOST, &url[url::Position::BeforeHost..url::Position::AfterPort])
        .header(USER_AGENT, super::USER_AGENT)
        .header(ACCEPT, ACCEPTED)
        .header(ACCEPT_ENCODING, "identity")
        .header(CONNECTION, "close")
        .body(Empty::new())
        .map_err(|error| Trouble::Broken(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(broken)?;
    let (parts, mut incoming) = response.into_parts();
    let mut body = Vec::new();
    if incoming.size_hint().lower() > u64::try_from(MOST_BODY).unwrap_or(u64::MAX) {
        return Err(Trouble::TooLong);
    }
    while let Some(frame) = incoming.frame().await {
        if let Ok(data) = frame.map_err(broken)?.into_data() {
            body.extend_from_slice(&data);
        }
        if body.len() > MOST_BODY {
            return Err(Trouble::TooLong);
        }
    }
    Ok(Answer { status: parts.status, headers: parts.headers, body })
}
