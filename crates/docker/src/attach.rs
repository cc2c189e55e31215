//! A container's attached stream: its output is the guest's half of the control stream, its errors are kept for whoever
//! must say why it failed.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bollard::container::LogOutput;
use bollard::errors::Error;
use bytes::{Buf as _, Bytes};
use futures_util::Stream;
use strangers::Shown;
use tokio::io::{AsyncRead, ReadBuf};

/// The most that is kept of what it says on standard error: the end of it.
const MAX_SAID: usize = 8 << 10;

/// What the entry process, or the guest, said on standard error.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said(Arc<Mutex<VecDeque<u8>>>);

impl Said {
    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let over = kept.len().saturating_sub(MAX_SAID);
        kept.drain(..over);
    }

    /// In one line that may be shown.
    pub(crate) fn shown(&self) -> Shown {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        Shown::new(&String::from_utf8_lossy(&bytes))
    }
}

/// What the container writes.
pub(crate) struct Output {
    frames: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    left: Bytes,
    said: Said,
}

impl Output {
    pub(crate) fn new(frames: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>) -> (Self, Said) {
        let said = Said::default();
        (Self { frames, left: Bytes::new(), said: said.clone() }, said)
    }
}

impl AsyncRead for Output {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            if !self.left.is_empty() {
                let count = self.left.len().min(into.remaining());
                into.put_slice(&self.left.split_to(count));
                return Poll::Ready(Ok(()));
            }
            match ready!(self.frames.as_mut().poll_next(context)) {
                None => return Poll::Ready(Ok(())),
                Some(Ok(LogOutput::StdOut { message })) => self.left = message,
                Some(Ok(LogOutput::StdErr { message })) => self.said.push(message.chunk()),
                // Without a terminal there is nothing but these two.
                Some(Ok(LogOutput::StdIn { .. } | LogOutput::Console { .. })) => {
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::InvalidData)));
                }
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn output(frames: Vec<Result<LogOutput, Error>>) -> (Output, Said) {
        Output::new(Box::pin(stream::iter(frames)))
    }

    #[tokio::test]
    async fn the_two_streams_are_apart_and_errors_are_bounded() {
        let out = |text: &'static str| Ok(LogOutput::StdOut { message: text.into() });
        let err = |bytes: Vec<u8>| Ok(LogOutput::StdErr { message: bytes.into() });
        let (mut output, said) =
            output(vec![out("ab"), err(vec![b'x'; 3 * MAX_SAID]), out(""), err(b"\x1b[0mend".into()), out("cd")]);
        let mut all = Vec::new();
        output.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"abcd");
        assert!(said.0.lock().unwrap().len() == MAX_SAID);
        assert!(!said.shown().as_str().contains('\u{1b}'));
    }

    #[tokio::test]
    async fn a_stream_without_heads_is_an_error() {
        let (mut output, _) = output(vec![Ok(LogOutput::Console { message: "ab".into() })]);
        assert!(output.read_to_end(&mut Vec::new()).await.is_err());
    }
}
