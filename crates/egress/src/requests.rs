//! HTTP on its way out: every request of a connection is checked, not only the first.

use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::chunks::Passing;
use crate::connection::read_more;
use crate::head::{Head, read_head};
use crate::reason::Reason;
use crate::relay::{Direction, Ended, Flow};
use crate::verdict::Upgrades;

/// How long a client gets to read why it was refused.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long the rest of a head may take once its first byte is there.
const HEAD: Duration = Duration::from_secs(10);

/// The first request's head; `bytes` holds it and what came behind it.
pub(crate) async fn first(
    stream: &TcpStream,
    bytes: &mut Vec<u8>,
    name: &str,
    upgrades: Upgrades,
) -> Result<Head, Reason> {
    loop {
        read_more(stream, bytes).await?;
        if let Some(head) = read_head(bytes, name, upgrades)? {
            return Ok(head);
        }
    }
}

/// Tells the client why, in its own language, and lets it read that.
pub(crate) async fn forbid(stream: &TcpStream, reason: Reason) {
    let body = format!("refused by the sandbox's network rules: {} ({})\n", reason.describe(), reason.code());
    let answer = format!(
        "HTTP/1.1 403 Forbidden\r\nX-Ringfence-Reason: {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        reason.code(),
        body.len(),
    );
    // It fits into an empty socket's buffer; where it does not, the client is not reading.
    let _ = stream.try_write(answer.as_bytes());
    let _ = SockRef::from(stream).shutdown(std::net::Shutdown::Write);
    // Closing with unread bytes would reset the connection before the answer is read.
    let drain = async {
        let mut left = 1 << 20;
        let mut part = [0; 4096];
        while left > 0 && stream.readable().await.is_ok() {
            match stream.try_read(&mut part) {
                Ok(0) => return,
                Ok(count) => left -= count.min(left),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    };
    let _ = tokio::time::timeout(FAREWELL, drain).await;
}

/// Sends requests on, one after the other, each only after its head was read and checked.
pub(crate) async fn pass(
    flow: &Flow<'_>,
    stream: &TcpStream,
    other: &TcpStream,
    mut bytes: Vec<u8>,
    mut head: Head,
    name: &str,
    upgrades: Upgrades,
) -> Ended {
    loop {
        if let Err(ended) = flow.write(other, &bytes[..head.length], Direction::Out).await {
            return ended;
        }
        bytes.drain(..head.length);
        if head.body == crate::head::Body::Opaque {
            if let Err(ended) = flow.write(other, &bytes, Direction::Out).await {
                return ended;
            }
            drop(bytes);
            return flow.pump(stream, other, Direction::Out).await;
        }
        let mut passing = Passing::new(head.body);
        loop {
            let taken = match passing.take(&bytes) {
                Ok(taken) => taken,
                Err(reason) => return Ended::Cut(reason),
            };
            if let Err(ended) = flow.write(other, &bytes[..taken], Direction::Out).await {
                return ended;
            }
            bytes.drain(..taken);
            if passing.is_done() {
                break;
            }
            if read_more(stream, &mut bytes).await.is_err() {
                return done(other);
            }
        }
        // Between requests a connection may be silent; within a head it may not.
        head = match next_head(stream, &mut bytes, name, upgrades).await {
            Ok(Some(head)) => head,
            Ok(None) => return done(other),
            Err(reason) => return Ended::Cut(reason),
        };
    }
}

fn done(other: &TcpStream) -> Ended {
    let _ = SockRef::from(other).shutdown(std::net::Shutdown::Write);
    Ended::Done
}

async fn next_head(
    stream: &TcpStream,
    bytes: &mut Vec<u8>,
    name: &str,
    upgrades: Upgrades,
) -> Result<Option<Head>, Reason> {
    if bytes.is_empty() && read_more(stream, bytes).await.is_err() {
        return Ok(None);
    }
    let rest = async {
        loop {
            if let Some(head) = read_head(bytes, name, upgrades)? {
                return Ok(Some(head));
            }
            if read_more(stream, bytes).await.is_err() {
                return Ok(None);
            }
        }
    };
    tokio::time::timeout(HEAD, rest).await.unwrap_or(Err(Reason::TooSlow))
}
