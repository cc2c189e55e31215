//! Answers and how they are written.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::super::limits;
use super::head::Head;
use super::range::Part;

/// Bytes of the slow answer, and the pause before each.
const SLOW_BYTES: u64 = 30;
const SLOW_PAUSE: Duration = Duration::from_secs(1);

/// Whether the connection takes another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    KeepAlive,
    Close,
}

/// Where the bytes of an answer come from.
#[derive(Debug)]
pub(super) enum Content {
    Nothing,
    Bytes(Vec<u8>),
    Zeros(u64),
    Slowly,
    File { file: File, part: Part },
}

impl Content {
    fn length(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Bytes(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Self::Zeros(length) => *length,
            Self::Slowly => SLOW_BYTES,
            Self::File { part, .. } => part.length,
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    status: u16,
    kind: &'static str,
    more: Option<(&'static str, String)>,
    content: Content,
}

impl Reply {
    pub(super) fn new(status: u16, content: Content) -> Self {
        Self { status, kind: "application/octet-stream", more: None, content }
    }

    pub(super) fn text(text: String) -> Self {
        Self::new(200, Content::Bytes(text.into_bytes())).of_kind("text/plain; charset=utf-8")
    }

    pub(super) fn error(status: u16, text: &str) -> Self {
        Self { status, ..Self::text(format!("{text}\n")) }
    }

    pub(super) fn of_kind(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    pub(super) fn with(self, header: &'static str, value: String) -> Self {
        Self { more: Some((header, value)), ..self }
    }

    /// Writes this as the answer to a request; to what was none, and the connection ends then.
    pub(super) async fn write<W>(self, stream: &mut W, request: Option<&Head>) -> io::Result<Ending>
    where
        W: AsyncWrite + Unpin,
    {
        let ending = if request.is_some_and(|head| head.keeps_alive) { Ending::KeepAlive } else { Ending::Close };
        limits::patiently(stream.write_all(self.head(ending).as_bytes())).await?;
        if request.is_none_or(|head| head.method != "HEAD") {
            write_content(stream, &self.content).await?;
        }
        limits::patiently(stream.flush()).await?;
        Ok(ending)
    }

    fn head(&self, ending: Ending) -> String {
        let Self { status, kind, more, content } = self;
        let mut head = format!("HTTP/1.1 {status} {}\r\n", phrase(*status));
        if *status == 101 {
            return head + "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        }
        if let Some((name, value)) = more {
            // Writing to a string does not fail.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let connection = match ending {
            Ending::KeepAlive => "keep-alive",
            Ending::Close => "close",
        };
        let length = content.length();
        head + &format!("Content-Type: {kind}\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n")
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        101 => "Switching Protocols",
        200 => "OK",
        206 => "Partial Content",
        302 => "Found",
        404 => "Not Found",
        413 => "Content Too Large",
        416 => "Range Not Satisfiable",
        _ => "Bad Request",
    }
}

async fn write_content<W>(stream: &mut W, content: &Content) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    match content {
        Content::Nothing => Ok(()),
        Content::Bytes(bytes) => limits::patiently(stream.write_all(bytes)).await,
        Content::Zeros(length) => write_pieces(stream, *length, |_, _| Ok(())).await,
        Content::File { file, part } => {
            write_pieces(stream, part.length, |at, piece| file.read_exact_at(piece, part.from + at)).await
        }
        Content::Slowly => {
            for _ in 0..SLOW_BYTES {
                tokio::time::sleep(SLOW_PAUSE).await;
                limits::patiently(stream.write_all(b".")).await?;
                limits::patiently(stream.flush()).await?;
            }
            Ok(())
        }
    }
}

/// Writes this many bytes in pieces; `fill` gets each one, zeroed at first, with its offset.
async fn write_pieces<W>(
    stream: &mut W,
    length: u64,
    mut fill: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    let mut buffer = vec![0; limits::CHUNK];
    let mut at = 0;
    while at < length {
        let size = usize::try_from(length - at).map_or(limits::CHUNK, |left| left.min(limits::CHUNK));
        let piece = buffer.get_mut(..size).unwrap_or_default();
        fill(at, piece)?;
        limits::patiently(stream.write_all(piece)).await?;
        at += u64::try_from(size).unwrap_or(u64::MAX);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn written(reply: Reply, request: &str) -> (Ending, String) {
        let head = Head::parse(request.as_bytes());
        let mut bytes = Vec::new();
        let ending = reply.write(&mut bytes, head.as_ref()).await.unwrap();
        (ending, String::from_utf8(bytes).unwrap())
    }

    #[tokio::test]
    async fn a_reply_has_its_length_and_an_ending() {
        let (ending, text) = written(Reply::text("hi\n".into()), "GET / HTTP/1.1\r\n\r\n").await;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n";
        assert_eq!((ending, text), (Ending::KeepAlive, format!("{head}Connection: keep-alive\r\n\r\nhi\n")));
        let (ending, text) = written(Reply::text("hi\n".into()), "HEAD / HTTP/1.0\r\n\r\n").await;
        assert_eq!((ending, text), (Ending::Close, format!("{head}Connection: close\r\n\r\n")));
    }

    #[tokio::test]
    async fn long_content_is_whole() {
        let length = limits::CHUNK as u64 + 1;
        let (_, text) = written(Reply::new(200, Content::Zeros(length)), "GET / HTTP/1.1\r\n\r\n").await;
        assert_eq!(text.split_once("\r\n\r\n").unwrap().1.len(), limits::CHUNK + 1);
    }
}
