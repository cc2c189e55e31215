//! Reads the heads of HTTP/1 requests (RFC 9112) as strictly as any server could: what two readers might understand in
//! two ways is refused, so that the name we check is the name the server serves.

use crate::reason::Reason;
use crate::shown::{FORWARDING, header_name};
use crate::verdict::Upgrades;

/// The longest head, with its request line.
pub const MAX_HEAD: usize = 64 << 10;
const MAX_HEADERS: usize = 128;

/// What follows a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// None; and if the server agrees, the connection is no HTTP any more.
    Upgrade,
}

/// A request that may be sent on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Its length, with the empty line.
    pub length: usize,
    /// What follows it.
    pub body: Body,
    /// Method and target, for the record.
    pub request: String,
}

/// Reads the head at the start of `bytes` and checks it against the name; `Ok(None)` when more bytes are needed.
pub fn read_head(bytes: &[u8], name: &str, upgrades: Upgrades) -> Result<Option<Head>, Reason> {
    if bytes.starts_with(b"PRI ") {
        return Err(Reason::Http2);
    }
    let Some(length) = head_length(bytes)? else {
        return if bytes.len() > MAX_HEAD { Err(Reason::HeadTooLong) } else { Ok(None) };
    };
    if length > MAX_HEAD {
        return Err(Reason::HeadTooLong);
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(&bytes[..length]) {
        Ok(httparse::Status::Complete(parsed)) if parsed == length => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Reason::HeadTooLong),
        _ => return Err(Reason::NotHttp),
    }
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(Reason::NotHttp);
    };
    if method == "CONNECT" {
        return Err(Reason::ConnectMethod);
    }
    check_host(request.headers, name)?;
    check_target(method, target, name)?;
    check_forwarding(request.headers, name)?;
    let length_given = body_of(request.headers, version)?;
    // Some servers take a body where none belongs for the next request.
    if matches!(method, "GET" | "HEAD") && length_given != Body::Length(0) {
        return Err(Reason::BadFraming);
    }
    let becomes_another = is_upgraded(request.headers, upgrades)?;
    if becomes_another && (method != "GET" || version != 1) {
        return Err(Reason::Upgrade);
    }
    let body = if becomes_another { Body::Upgrade } else { length_given };
    Ok(Some(Head { length, body, request: shown(method, target) }))
}

/// For the record: bounded, and nothing that speaks to a terminal.
fn shown(method: &str, target: &str) -> String {
    let plain = |c: char| if c.is_ascii_graphic() { c.to_string() } else { c.escape_unicode().to_string() };
    let target: String = target.chars().take(200).map(plain).collect();
    format!("{method} {target}")
}

/// Where the head ends. Every line ends with CR LF, and neither stands alone.
fn head_length(bytes: &[u8]) -> Result<Option<usize>, Reason> {
    let window = &bytes[..bytes.len().min(MAX_HEAD + 4)];
    let end = window.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
    let head = &window[..end.unwrap_or(window.len())];
    // An early word for what is no request at all: a method is letters.
    let word = head.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    if head.get(word).is_some_and(|&byte| byte != b' ' || word == 0) || word > 20 {
        return Err(Reason::NotHttp);
    }
    for (at, &byte) in head.iter().enumerate() {
        let alone = match byte {
            b'\n' => at == 0 || head[at - 1] != b'\r',
            b'\r' => head.get(at + 1).is_some_and(|&next| next != b'\n'),
            0 => true,
            _ => false,
        };
        if alone {
            return Err(Reason::BadFraming);
        }
    }
    Ok(end)
}

fn values<'a>(headers: &'a [httparse::Header<'a>], name: &str) -> Vec<&'a [u8]> {
    headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value).collect()
}

/// Whether a text names our host, with or without its port.
fn names(authority: &[u8], name: &str) -> bool {
    let authority = authority.strip_suffix(b":80").unwrap_or(authority);
    authority.eq_ignore_ascii_case(name.as_bytes())
}

fn check_host(headers: &[httparse::Header<'_>], name: &str) -> Result<(), Reason> {
    match values(headers, "host").as_slice() {
        [] => Err(Reason::HostMissing),
        [host] if names(host, name) => Ok(()),
        _ => Err(Reason::HostMismatch),
    }
}

/// A path, or a whole address of our host; `*` only where it has a meaning.
fn check_target(method: &str, target: &str, name: &str) -> Result<(), Reason> {
    if target.starts_with('/') || (target == "*" && method == "OPTIONS") {
        return Ok(());
    }
    let scheme = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let rest = scheme.and_then(|_| target.get(7..)).ok_or(Reason::TargetMismatch)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if names(&rest.as_bytes()[..end], name) { Ok(()) } else { Err(Reason::TargetMismatch) }
}

/// Headers by which a proxy in front of the server may choose another host than `Host`: all that they name is ours.
fn check_forwarding(headers: &[httparse::Header<'_>], name: &str) -> Result<(), Reason> {
    for header in headers {
        let (kind, value) = (header_name(header.name.as_bytes()), header.value.trim_ascii());
        let ours = match kind.as_str() {
            // A path stays on the host; `//` begins an authority.
            "x-original-url" | "x-rewrite-url" | "x-http-destinationurl" => {
                if value.starts_with(b"/") {
                    !value.starts_with(b"//")
                } else {
                    std::str::from_utf8(value).is_ok_and(|target| check_target("GET", target, name).is_ok())
                }
            }
            "forwarded" => value.split(|byte| b",;".contains(byte)).all(|pair| names_forwarded(pair, name)),
            kind if FORWARDING.contains(&kind) => {
                value.split(|&byte| byte == b',').all(|host| names(host.trim_ascii(), name))
            }
            _ => true,
        };
        if !ours {
            return Err(Reason::ForwardedHost);
        }
    }
    Ok(())
}

/// Whether one parameter of `Forwarded` (RFC 7239) is not a host, or is ours. Quotes are not followed: a quoted value that
/// holds separators could be read in two ways, and then every part of it counts.
fn names_forwarded(pair: &[u8], name: &str) -> bool {
    let Some(equals) = pair.iter().position(|&byte| byte == b'=') else { return true };
    let (key, value) = (pair[..equals].to_ascii_lowercase(), pair[equals + 1..].trim_ascii());
    let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    !key.windows(4).any(|part| part == b"host") || names(value, name)
}

fn body_of(headers: &[httparse::Header<'_>], version: u8) -> Result<Body, Reason> {
    let (lengths, codings) = (values(headers, "content-length"), values(headers, "transfer-encoding"));
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Ok(Body::Length(0)),
        ([length], []) => {
            let digits = !length.is_empty() && length.len() <= 18 && length.iter().all(u8::is_ascii_digit);
            let length = std::str::from_utf8(length).ok().filter(|_| digits).and_then(|text| text.parse().ok());
            length.map(Body::Length).ok_or(Reason::BadFraming)
        }
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") && version == 1 => Ok(Body::Chunked),
        _ => Err(Reason::BadFraming),
    }
}

/// What a request for a WebSocket must have (RFC 6455 §4.1).
fn is_web_socket(headers: &[httparse::Header<'_>]) -> bool {
    let key = values(headers, "sec-websocket-key");
    let version = values(headers, "sec-websocket-version");
    matches!(key.as_slice(), [key] if key.len() == 24) && matches!(version.as_slice(), [b"13"])
}

/// Whether a server agreed to a WebSocket; `Ok(None)` when more bytes are needed.
pub(crate) fn read_agreement(bytes: &[u8]) -> Result<Option<bool>, Reason> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {
            let upgrade = values(response.headers, "upgrade");
            let web_socket = matches!(upgrade.as_slice(), [one] if one.eq_ignore_ascii_case(b"websocket"));
            Ok(Some(response.code == Some(101) && web_socket))
        }
        Ok(httparse::Status::Partial) if bytes.len() <= MAX_HEAD => Ok(None),
        _ => Err(Reason::NotHttp),
    }
}

fn is_upgraded(headers: &[httparse::Header<'_>], upgrades: Upgrades) -> Result<bool, Reason> {
    if !values(headers, "http2-settings").is_empty() {
        return Err(Reason::Http2);
    }
    let wanted = values(headers, "upgrade");
    let connection = values(headers, "connection");
    let mentioned = connection
        .iter()
        .flat_map(|value| value.split(|&byte| byte == b','))
        .any(|word| word.trim_ascii().eq_ignore_ascii_case(b"upgrade"));
    match (wanted.as_slice(), upgrades) {
        ([], _) if !mentioned => Ok(false),
        ([protocol], Upgrades::WebSocket)
            if mentioned && protocol.eq_ignore_ascii_case(b"websocket") && is_web_socket(headers) =>
        {
            Ok(true)
        }
        ([protocol], _) if protocol.to_ascii_lowercase().starts_with(b"h2") => Err(Reason::Http2),
        _ => Err(Reason::Upgrade),
    }
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
