//! Where a request's body ends, by its framing. Bytes pass unchanged; only their count matters here.

use crate::head::Body;
use crate::reason::Reason;

/// The most digits of a chunk's size.
const MAX_DIGITS: usize = 15;

/// A body that is being passed on.
#[derive(Debug)]
pub(crate) struct Passing(State);

#[derive(Debug)]
enum State {
    /// So many bytes are left, and then nothing.
    Plain(u64),
    /// A chunk's size line, as far as it was seen.
    Size(Vec<u8>),
    Data(u64),
    /// The CR LF after a chunk, from this byte of it.
    DataEnd(usize),
    /// The CR LF after the last chunk. No trailers: they could be read as headers.
    LastEnd(usize),
    Done,
}

const LINE_END: &[u8; 2] = b"\r\n";

impl Passing {
    pub(crate) fn new(body: Body) -> Self {
        Self(match body {
            Body::Length(0) | Body::Upgrade => State::Done,
            Body::Length(count) => State::Plain(count),
            Body::Chunked => State::Size(Vec::new()),
        })
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.0, State::Done)
    }

    /// How many of these bytes belong to the body; the rest is the next request.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<usize, Reason> {
        let mut taken = 0;
        while taken < bytes.len() && !self.is_done() {
            taken += self.step(&bytes[taken..])?;
        }
        Ok(taken)
    }

    /// At least one byte, at most all.
    fn step(&mut self, bytes: &[u8]) -> Result<usize, Reason> {
        let available = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        match &mut self.0 {
            State::Done => Ok(0),
            State::Plain(left) | State::Data(left) => {
                let count = available.min(*left);
                *left -= count;
                if *left == 0 {
                    self.0 = if matches!(self.0, State::Plain(_)) { State::Done } else { State::DataEnd(0) };
                }
                Ok(usize::try_from(count).unwrap_or(bytes.len()))
            }
            State::Size(line) => {
                // Byte by byte: what is no size must not have left before that is seen.
                let fits = match bytes[0] {
                    b'\r' => line.last().is_some_and(u8::is_ascii_hexdigit),
                    b'\n' => line.last() == Some(&b'\r'),
                    byte => byte.is_ascii_hexdigit() && line.len() < MAX_DIGITS && !line.contains(&b'\r'),
                };
                if !fits {
                    return Err(Reason::BadFraming);
                }
                line.push(bytes[0]);
                if bytes[0] == b'\n' {
                    self.0 = match chunk_size(line)? {
                        0 => State::LastEnd(0),
                        size => State::Data(size),
                    };
                }
                Ok(1)
            }
            State::DataEnd(at) | State::LastEnd(at) => {
                if bytes[0] != LINE_END[*at] {
                    return Err(Reason::BadFraming);
                }
                *at += 1;
                if *at == LINE_END.len() {
                    self.0 = if matches!(self.0, State::LastEnd(_)) { State::Done } else { State::Size(Vec::new()) };
                }
                Ok(1)
            }
        }
    }
}

/// Hexadecimal digits, then CR LF. Extensions are refused: nobody uses them but to confuse.
fn chunk_size(line: &[u8]) -> Result<u64, Reason> {
    let digits = line.strip_suffix(LINE_END).ok_or(Reason::BadFraming)?;
    let plain = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| plain).ok_or(Reason::BadFraming)?;
    u64::from_str_radix(text, 16).map_err(|_| Reason::BadFraming)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes the body takes, whichever way they come.
    fn length(body: Body, bytes: &[u8]) -> Result<(usize, bool), Reason> {
        let mut whole = Passing::new(body);
        let taken = whole.take(bytes)?;
        let mut single = Passing::new(body);
        let mut one_by_one = 0;
        for byte in bytes {
            one_by_one += single.take(&[*byte])?;
        }
        assert_eq!((taken, whole.is_done()), (one_by_one, single.is_done()));
        Ok((taken, whole.is_done()))
    }

    #[test]
    fn bodies_end_where_their_framing_says() {
        assert_eq!(length(Body::Length(3), b"abcGET"), Ok((3, true)));
        assert_eq!(length(Body::Length(3), b"ab"), Ok((2, false)));
        assert_eq!(length(Body::Length(0), b"GET"), Ok((0, true)));
        assert_eq!(length(Body::Chunked, b"3\r\nabc\r\n0\r\n\r\nGET"), Ok((13, true)));
        assert_eq!(length(Body::Chunked, b"A\r\n0123456789\r\n"), Ok((15, false)));
    }

    #[test]
    fn nothing_of_an_odd_line_is_passed_on() {
        for (bytes, good) in [(&b"0;GET"[..], 1), (b"3\rx", 2), (b"\r\n", 0), (b"12g", 2), (b"3\r\r", 2)] {
            let mut passing = Passing::new(Body::Chunked);
            let taken = bytes.iter().take_while(|byte| passing.take(&[**byte]).is_ok()).count();
            assert_eq!(taken, good, "{bytes:?}");
        }
    }

    #[test]
    fn odd_chunks_are_refused() {
        for bytes in [
            &b"3;ext=1\r\nabc\r\n0\r\n\r\n"[..],
            b"3\nabc\n0\n\n",
            b"0x3\r\nabc",
            b"-3\r\n",
            b" 3\r\n",
            b"\r\n",
            b"3\r\nabcd\r\n",
            b"0\r\nTrailer: x\r\n\r\n",
            b"ffffffffffffffff\r\n",
        ] {
            assert_eq!(length(Body::Chunked, bytes), Err(Reason::BadFraming), "{bytes:?}");
        }
    }
}
