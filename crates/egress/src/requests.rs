//! HTTP on its way out: every request of a connection is checked, not only the first.

use std::sync::OnceLock;
use std::time::Duration;

use crate::chunks::Passing;
use crate::connection::read_more;
use crate::head::{Body, Head, MAX_HEAD, read_agreement, read_head};
use crate::reason::Reason;
use crate::relay::{Direction, Ended, Flow};
use crate::shown::Shown;
use crate::socket::Socket;
use crate::verdict::Upgrades;

/// How long a client gets to read why it was refused.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long the rest of a head may take once its first byte is there.
const HEAD: Duration = Duration::from_secs(10);

/// The first request's head; `bytes` holds it and what came behind it.
pub(crate) async fn first(
    stream: &Socket,
    bytes: &mut Vec<u8>,
    name: &str,
    upgrades: Upgrades,
) -> Result<Head, Reason> {
    let mut scanned = 0;
    loop {
        read_more(stream, bytes).await?;
        if is_worth_reading(bytes, &mut scanned)
            && let Some(head) = read_head(bytes, name, upgrades)?
        {
            return Ok(head);
        }
    }
}

/// Whether a head may be complete, too long, or no head at all: reading it anew for every byte would cost us more than
/// whoever sends it.
fn is_worth_reading(bytes: &[u8], scanned: &mut usize) -> bool {
    const BEGINNING: usize = 64;
    let (first, from) = (*scanned == 0, scanned.saturating_sub(3));
    *scanned = bytes.len();
    first
        || bytes.len() <= BEGINNING
        || bytes.len() > MAX_HEAD
        || bytes[from..].windows(4).any(|four| four == b"\r\n\r\n")
}

/// Tells the client why, in its own language, and lets it read that.
pub(crate) async fn forbid(stream: &Socket, reason: Reason) {
    let body = format!("refused by the sandbox's network rules: {} ({})\n", reason.describe(), reason.code());
    let answer = format!(
        "HTTP/1.1 403 Forbidden\r\nX-Ringfence-Reason: {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        reason.code(),
        body.len(),
    );
    // It fits into an empty socket's buffer; where it does not, the client is not reading.
    let _ = stream.try_write(answer.as_bytes());
    stream.end();
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

/// Requests of one connection on their way out.
pub(crate) struct Requests<'a> {
    pub(crate) flow: &'a Flow<'a>,
    pub(crate) stream: &'a Socket,
    pub(crate) other: &'a Socket,
    pub(crate) name: &'a str,
    /// Set to what a refused request presented.
    pub(crate) shown: &'a OnceLock<Shown>,
    /// What was read and not yet sent.
    pub(crate) bytes: Vec<u8>,
}

/// How a connection goes on after its first head was sent.
pub(crate) enum Began {
    /// With this body, and further requests.
    Http(Body),
    /// With whatever they agreed on.
    Opaque,
}

/// How long a server may take to agree to an upgrade.
const AGREEMENT: Duration = Duration::from_secs(30);

impl Requests<'_> {
    async fn send(&mut self, count: usize) -> Result<(), Ended> {
        self.flow.write(self.other, &self.bytes[..count], Direction::Out).await?;
        self.bytes.drain(..count);
        Ok(())
    }

    /// Sends the first head. If it asks for an upgrade, nothing more is sent before the server has agreed.
    pub(crate) async fn begin(&mut self, head: Head) -> Result<Began, Ended> {
        self.send(head.length).await?;
        if head.body != Body::Upgrade {
            return Ok(Began::Http(head.body));
        }
        let mut answer = Vec::new();
        let read = async {
            loop {
                if let Some(agreed) = read_agreement(&answer)? {
                    return Ok(agreed);
                }
                read_more(self.other, &mut answer).await?;
            }
        };
        let agreed = tokio::time::timeout(AGREEMENT, read).await.unwrap_or(Err(Reason::HostTimeout))?;
        self.flow.write(self.stream, &answer, Direction::In).await?;
        Ok(if agreed { Began::Opaque } else { Began::Http(Body::Length(0)) })
    }

    /// Sends requests on, one after the other, each only after its head was read and checked.
    pub(crate) async fn pass(mut self, began: Began) -> Ended {
        let mut body = match began {
            Began::Http(body) => body,
            Began::Opaque => {
                let rest = std::mem::take(&mut self.bytes);
                return match self.flow.write(self.other, &rest, Direction::Out).await {
                    Ok(()) => self.flow.pump(self.stream, self.other, Direction::Out).await,
                    Err(ended) => ended,
                };
            }
        };
        loop {
            match self.pass_body(body).await {
                Ok(true) => {}
                Ok(false) => return done(self.other),
                Err(ended) => return ended,
            }
            // An upgrade is for a connection's first request: later ones have answers on the way.
            let head = next_head(self.stream, &mut self.bytes, self.name, Upgrades::Refused).await;
            let head = match head {
                Ok(Some(head)) => head,
                Ok(None) => return done(self.other),
                Err(reason) => {
                    if let Some(presented) = Shown::by_http(&self.bytes) {
                        let _ = self.shown.set(presented);
                    }
                    return Ended::Cut(reason);
                }
            };
            if let Err(ended) = self.send(head.length).await {
                return ended;
            }
            body = head.body;
        }
    }

    /// False when the client went away in the middle of it.
    async fn pass_body(&mut self, body: Body) -> Result<bool, Ended> {
        let mut passing = Passing::new(body);
        loop {
            let taken = passing.take(&self.bytes)?;
            self.send(taken).await?;
            if passing.is_done() {
                return Ok(true);
            }
            if read_more(self.stream, &mut self.bytes).await.is_err() {
                return Ok(false);
            }
        }
    }
}

fn done(other: &Socket) -> Ended {
    other.end();
    Ended::Done
}

async fn next_head(
    stream: &Socket,
    bytes: &mut Vec<u8>,
    name: &str,
    upgrades: Upgrades,
) -> Result<Option<Head>, Reason> {
    if bytes.is_empty() && read_more(stream, bytes).await.is_err() {
        return Ok(None);
    }
    let mut scanned = 0;
    let rest = async {
        loop {
            if is_worth_reading(bytes, &mut scanned)
                && let Some(head) = read_head(bytes, name, upgrades)?
            {
                return Ok(Some(head));
            }
            if read_more(stream, bytes).await.is_err() {
                return Ok(None);
            }
        }
    };
    tokio::time::timeout(HEAD, rest).await.unwrap_or(Err(Reason::TooSlow))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::relay::{Allowance, Buffers, Meter};
    use crate::testing::pair;

    /// A request for a WebSocket that a server answers with this; what of the rest then leaves.
    async fn what_leaves(answer: &str, rest: &str) -> (String, bool) {
        let ((mut client, stream), (other, mut server)) = (pair().await, pair().await);
        let (meter, allowance, buffers) = (Meter::new(), Allowance::new(None, None), Buffers::default());
        let flow = Flow { meter: &meter, allowance: &allowance, buffers: &buffers, crowded: false };
        let socket = "GET / HTTP/1.1\r\nHost: a.org\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
        client.write_all(format!("{socket}{rest}").as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let mut bytes = Vec::new();
        let head = first(&stream, &mut bytes, "a.org", Upgrades::WebSocket).await.unwrap();
        let shown = OnceLock::new();
        let mut requests =
            Requests { flow: &flow, stream: &stream, other: &other, name: "a.org", shown: &shown, bytes };
        server.write_all(answer.as_bytes()).await.unwrap();
        let began = requests.begin(head).await.unwrap_or(Began::Http(Body::Length(0)));
        let cut = matches!(requests.pass(began).await, Ended::Cut(_));
        drop(other);
        let mut sent = String::new();
        server.read_to_string(&mut sent).await.unwrap();
        assert_eq!(shown.get().map(|shown| shown.host.as_slice()), cut.then_some(&["b.org".to_owned()][..]));
        (sent.strip_prefix(socket).unwrap().to_owned(), cut)
    }

    #[tokio::test]
    async fn an_upgrade_is_one_when_the_server_agrees() {
        let agreed = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";
        assert_eq!(what_leaves(agreed, "any bytes").await, ("any bytes".into(), false));
        let other_host = "GET /steal HTTP/1.1\r\nHost: b.org\r\n\r\n";
        let ignored = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(what_leaves(ignored, other_host).await, (String::new(), true), "else every request is checked");
        let own_host = "GET /more HTTP/1.1\r\nHost: a.org\r\n\r\n";
        assert_eq!(what_leaves(ignored, own_host).await, (own_host.into(), false));
    }
}
