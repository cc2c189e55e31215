//! A server on this machine that keeps what it was asked and says what a test wants.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;
use url::Url;

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: BTreeMap<String, String>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

pub(super) struct Fake {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    _serving: AbortOnDropHandle<()>,
}

/// What a server does when it is asked.
pub(super) enum Says {
    Bytes(Vec<u8>),
    /// Nothing, and the connection stays.
    Nothing,
    /// Bytes without end.
    Endless(Vec<u8>),
}

/// An answer with this status, type and body.
pub(super) fn answer(status: u16, kind: &str, body: &str) -> Says {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n");
    Says::Bytes(format!("{head}Connection: close\r\n\r\n{body}").into_bytes())
}

pub(super) fn redirect(status: u16, to: &str) -> Says {
    Says::Bytes(format!("HTTP/1.1 {status} X\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes())
}

impl Fake {
    pub(super) async fn start(says: impl Fn(&Asked) -> Says + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (kept, says) = (Arc::clone(&asked), Arc::new(says));
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&kept), Arc::clone(&says)));
            }
        });
        Self { address, asked, _serving: AbortOnDropHandle::new(serving) }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, kept: Arc<Mutex<Vec<Asked>>>, says: Arc<impl Fn(&Asked) -> Says>) {
    let Some(asked) = read(&mut stream).await else { return };
    let says = says(&asked);
    kept.lock().unwrap().push(asked);
    match says {
        Says::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Says::Nothing => tokio::time::sleep(Duration::from_secs(20)).await,
        Says::Endless(bytes) => while stream.write_all(&bytes).await.is_ok() {},
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&part[..count]);
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap().split(' ');
    let (method, target) = (first.next().unwrap().to_owned(), first.next().unwrap());
    assert_eq!(first.next(), Some("HTTP/1.1"));
    let url = Url::parse("http://x").unwrap().join(target).unwrap();
    let headers: BTreeMap<String, String> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.ok().filter(|count| *count > 0)?;
        body.extend_from_slice(&part[..count]);
    }
    Some(Asked {
        method,
        path: url.path().to_owned(),
        query: url.query_pairs().into_owned().collect(),
        headers,
        body: String::from_utf8(body).unwrap(),
    })
}
