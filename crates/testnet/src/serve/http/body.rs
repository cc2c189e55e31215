//! The body of a request: read to its end, counted and thrown away.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

use super::super::limits;
use super::head::Framing;

/// Bytes of the line before a chunk.
const CHUNK_LINE: usize = 1024;

/// What there was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    Length(u64),
    TooLong,
    Malformed,
}

/// Reads a body to its end.
pub(super) async fn skip<R>(reader: &mut R, framing: Framing) -> io::Result<Body>
where
    R: AsyncBufRead + Unpin,
{
    match framing {
        Framing::Length(length) if length > limits::BODY => Ok(Body::TooLong),
        Framing::Length(length) => skip_bytes(reader, length).await.map(|()| Body::Length(length)),
        Framing::Chunked => skip_chunks(reader).await,
    }
}

async fn skip_bytes<R>(reader: &mut R, mut length: u64) -> io::Result<()>
where
    R: AsyncBufRead + Unpin,
{
    while length > 0 {
        let there = limits::patiently(reader.fill_buf()).await?.len();
        if there == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let taken = usize::try_from(length).map_or(there, |length| length.min(there));
        reader.consume(taken);
        length = length.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX));
    }
    Ok(())
}

async fn skip_chunks<R>(reader: &mut R) -> io::Result<Body>
where
    R: AsyncBufRead + Unpin,
{
    let mut total = 0u64;
    loop {
        let mut line = Vec::new();
        limits::read_line(reader, &mut line, CHUNK_LINE).await?;
        let Some(size) = chunk_size(&line) else { return Ok(Body::Malformed) };
        total = total.saturating_add(size);
        if total > limits::BODY {
            return Ok(Body::TooLong);
        }
        if size == 0 {
            limits::read_block(reader, &mut Vec::new(), limits::HEAD).await?;
            return Ok(Body::Length(total));
        }
        skip_bytes(reader, size).await?;
        let mut end = Vec::new();
        limits::read_line(reader, &mut end, CHUNK_LINE).await?;
        if end != b"\r\n" {
            return Ok(Body::Malformed);
        }
    }
}

/// The size at the start of a line, before extensions (RFC 9112, 7.1).
fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = std::str::from_utf8(line).ok()?.strip_suffix("\r\n")?.split(';').next()?.trim_end();
    // Hexadecimal digits only: `from_str_radix` alone would take a sign.
    let hexadecimal = size.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hexadecimal { u64::from_str_radix(size, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn chunked(mut bytes: &[u8]) -> (Body, Vec<u8>) {
        let body = skip(&mut bytes, Framing::Chunked).await.unwrap();
        (body, bytes.to_vec())
    }

    #[tokio::test]
    async fn a_body_ends_where_the_next_request_begins() {
        let mut bytes: &[u8] = b"helloGET";
        assert_eq!(skip(&mut bytes, Framing::Length(5)).await.unwrap(), Body::Length(5));
        assert_eq!(bytes, b"GET");
        let (body, rest) = chunked(b"5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: a\r\n\r\nGET").await;
        assert_eq!((body, rest), (Body::Length(15), b"GET".to_vec()));
    }

    #[tokio::test]
    async fn bad_bodies_are_refused() {
        for bytes in [&b"x\r\n"[..], b"\r\n", b"+5\r\nhello\r\n", b"5\nhello\r\n", b"5\r\nhellox\r\n0\r\n\r\n"] {
            assert_eq!(chunked(bytes).await.0, Body::Malformed, "{}", bytes.escape_ascii());
        }
        assert_eq!(chunked(b"FFFFFFFFFFFFFFFF\r\n").await.0, Body::TooLong);
        assert_eq!(skip(&mut &b""[..], Framing::Length(limits::BODY + 1)).await.unwrap(), Body::TooLong);
        assert!(skip(&mut &b"short"[..], Framing::Length(6)).await.is_err());
    }
}
