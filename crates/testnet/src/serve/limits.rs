//! Bounds of everything that a client can make a server hold or wait for.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// Open TCP connections of all servers together; what comes beyond is noted and closed.
pub(crate) const CONNECTIONS: usize = 6000;
/// Bytes of the head of a request, and of the trailers behind a chunked body.
pub(crate) const HEAD: usize = 64 << 10;
/// Bytes of the body of a request.
pub(crate) const BODY: u64 = 64 << 20;
/// Bytes that are read or written at once.
pub(crate) const CHUNK: usize = 64 << 10;
/// Events that are kept.
pub(crate) const EVENTS: usize = 100_000;
/// Server names with a certificate at the same time.
pub(crate) const CERTIFICATES: usize = 1024;
/// How long a client may be silent, or not take what is sent.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// How long a listener waits after it could not accept: descriptors may be scarce for a moment.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// Waits for a client no longer than [`PATIENCE`].
pub(crate) async fn patiently<T>(io: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(PATIENCE, io).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Appends a line with its end to `bytes`, which may grow up to `limit`.
///
/// Fails when the stream ends or the limit is reached before the line ends; what was read is in `bytes` all the same.
pub(crate) async fn read_line<R>(reader: &mut R, bytes: &mut Vec<u8>, limit: usize) -> io::Result<()>
where
    R: AsyncBufRead + Unpin,
{
    let room = u64::try_from(limit.saturating_sub(bytes.len())).unwrap_or(u64::MAX);
    let before = bytes.len();
    patiently(reader.take(room).read_until(b'\n', bytes)).await?;
    match bytes.last() {
        Some(b'\n') if bytes.len() > before => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Appends lines up to and with the first empty one to `bytes`, which may grow up to `limit`.
pub(crate) async fn read_block<R>(reader: &mut R, bytes: &mut Vec<u8>, limit: usize) -> io::Result<()>
where
    R: AsyncBufRead + Unpin,
{
    loop {
        let before = bytes.len();
        read_line(reader, bytes, limit).await?;
        if matches!(bytes.get(before..), Some(b"\n" | b"\r\n")) {
            return Ok(());
        }
    }
}
