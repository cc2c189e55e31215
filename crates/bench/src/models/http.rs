//! Messages of HTTP/1.1 on a connection that stays: as much of it as a server and a client of the same benchmark need.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The longest head and body. Conversations here are a few KiB.
const MAX_HEAD: usize = 16 << 10;
const MAX_BODY: usize = 16 << 20;
const READ: usize = 16 << 10;

/// One connection.
pub(super) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// How much of the buffer was handed out already.
    taken: usize,
}

/// A request or a reply.
pub(super) struct Message<'a> {
    /// The first line.
    pub(super) line: &'a str,
    pub(super) body: &'a [u8],
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new(), taken: 0 })
    }

    /// The next message; none when the other side has ended between two.
    pub(super) async fn read(&mut self) -> io::Result<Option<Message<'_>>> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let (head, end) = loop {
            if let Some((head, length)) = head(&self.buffer)?
                && let Some(end) = head.checked_add(length).filter(|end| *end <= self.buffer.len())
            {
                break (head, end);
            }
            self.buffer.reserve(READ);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                let between = self.buffer.is_empty();
                return if between { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        };
        self.taken = end;
        let line = self.buffer[..head].split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(io::Error::other)?;
        Ok(Some(Message { line, body: &self.buffer[head..end] }))
    }

    /// Sends a first line, JSON and what goes between them, in one piece.
    pub(super) async fn write(&mut self, line: &str, body: &str) -> io::Result<()> {
        let length = body.len();
        let text = format!(
            "{line}\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(text.as_bytes()).await
    }
}

/// How long a head is and what it says of its body's length, once all of it is there.
fn head(bytes: &[u8]) -> io::Result<Option<(usize, usize)>> {
    let odd = |why: &'static str| io::Error::new(io::ErrorKind::InvalidData, why);
    let Some(end) = bytes.windows(4).take(MAX_HEAD).position(|window| window == b"\r\n\r\n") else {
        return if bytes.len() > MAX_HEAD { Err(odd("a head without an end")) } else { Ok(None) };
    };
    let text = std::str::from_utf8(&bytes[..end]).map_err(io::Error::other)?;
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    };
    let length = text.lines().find_map(field).unwrap_or(Ok(0)).map_err(io::Error::other)?;
    if length > MAX_BODY { Err(odd("a body that is too long")) } else { Ok(Some((end + 4, length))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_where_the_body_ends() {
        assert_eq!(head(b"POST / HTTP/1.1\r\ncontent-LENGTH: 12\r\n\r\n{").unwrap(), Some((39, 12)));
        assert_eq!(head(b"GET / HTTP/1.1\r\n\r\n").unwrap(), Some((18, 0)));
        assert_eq!(head(b"GET / HTTP/1.1\r\n").unwrap(), None);
        assert!(head(b"A\r\nContent-Length: many\r\n\r\n").is_err());
        assert!(head(b"A\r\nContent-Length: 99999999999\r\n\r\n").is_err());
        assert!(head(&vec![b'x'; MAX_HEAD + 4]).is_err());
    }
}
