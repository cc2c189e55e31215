//! A TCP connection inside a sandbox that is used outside of it: one that its guest opened for us, or that a program
//! opened and its guest relays.
//!
//! The guest connects, so that the sandbox's own network decides what can be reached; there is no socket of ours. What is
//! under way is bounded in both directions: by the window for what comes, by the window and one chunk for what goes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::{DialFailure, Host, MAX_CHUNK, Stream};

use crate::operation::{Event, Input, Running};
use crate::session::{Session, SessionError};

/// How much longer than it was given a guest may take to say that it could not connect.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest name in presentation form, with a dot at its end.
const MAX_HOST: usize = 254;

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DialError {
    /// It could not be opened from inside.
    #[error("{message}")]
    Failed {
        /// Why.
        why: DialFailure,
        /// In the guest's words: untrusted text.
        message: String,
    },
    /// The sandbox itself.
    #[error(transparent)]
    Session(#[from] SessionError),
}

type Sending = Pin<Box<dyn Future<Output = Result<(), SessionError>> + Send>>;

/// A connection from inside a sandbox. Dropping it closes it; before its writing side was shut down, that breaks it off.
pub struct Connection {
    running: Running,
    input: Input,
    /// What came and was not read yet.
    chunk: Vec<u8>,
    at: usize,
    end: End,
    /// What is on its way out: one chunk, or the end.
    sending: Option<Sending>,
    shut: bool,
}

/// Whether more may come.
enum End {
    NotYet,
    Clean,
    Broken(io::ErrorKind, String),
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Session {
    /// Opens a TCP connection from inside, by the sandbox's own resolver and network. `deadline` is for its opening.
    pub async fn dial(&self, host: &str, port: u16, deadline: Duration) -> Result<Connection, DialError> {
        Connection::open(self, host, port, deadline).await
    }
}

impl Connection {
    async fn open(session: &Session, host: &str, port: u16, deadline: Duration) -> Result<Self, DialError> {
        if host.len() > MAX_HOST {
            let message = String::from("this is neither a name nor an address");
            return Err(DialError::Failed { why: DialFailure::Invalid, message });
        }
        let (host, timeout_ms) = (host.to_owned(), u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX));
        let mut running = session.begin_link(|id, window| Host::Dial { id, host, port, timeout_ms, window })?;
        match tokio::time::timeout(deadline.saturating_add(PATIENCE), running.next()).await {
            Ok(Event::Connected) => Ok(Self::over(running)),
            Ok(Event::DialFailed(why, message)) => Err(DialError::Failed { why, message }),
            Ok(Event::Gone(error)) => Err(error.into()),
            Ok(_) => Err(SessionError::Died("its guest answered a call with something else".into()).into()),
            Err(_) => Err(DialError::Failed {
                why: DialFailure::TimedOut,
                message: "the guest did not say whether it could connect".into(),
            }),
        }
    }

    /// One that stands.
    pub(crate) fn over(running: Running) -> Self {
        let input = running.input();
        Self { running, input, chunk: Vec::new(), at: 0, end: End::NotYet, sending: None, shut: false }
    }

    /// Sees what is on its way out off.
    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(sending) = &mut self.sending else { return Poll::Ready(Ok(())) };
        let sent = ready!(sending.as_mut().poll(context));
        self.sending = None;
        // The connection is over: why, the reading side knows.
        Poll::Ready(sent.map_err(|error| io::Error::new(io::ErrorKind::BrokenPipe, error.to_string())))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Both sides have said everything: the guest ends it when the other side has taken it. An order to end it now
        // would overtake what is still on its way.
        if self.shut && self.sending.is_none() && matches!(self.end, End::Clean) {
            self.running.leave();
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let left = self.chunk.get(self.at..).unwrap_or_default();
            if !left.is_empty() {
                let count = left.len().min(buffer.remaining());
                buffer.put_slice(&left[..count]);
                self.at += count;
                return Poll::Ready(Ok(()));
            }
            match &self.end {
                End::NotYet => {}
                End::Clean => return Poll::Ready(Ok(())),
                End::Broken(kind, why) => return Poll::Ready(Err(io::Error::new(*kind, why.clone()))),
            }
            match ready!(self.running.poll_next(context)) {
                Event::Output(Stream::Out, bytes) => {
                    self.chunk = bytes;
                    self.at = 0;
                }
                Event::OutputEnd | Event::Done(_) => self.end = End::Clean,
                Event::DialFailed(why, message) => {
                    let kind = match why {
                        DialFailure::TimedOut => io::ErrorKind::TimedOut,
                        _ => io::ErrorKind::ConnectionReset,
                    };
                    self.end = End::Broken(kind, message);
                }
                Event::Gone(error) => self.end = End::Broken(io::ErrorKind::NotConnected, error.to_string()),
                _ => {
                    let why = String::from("the guest said something else of a connection");
                    self.end = End::Broken(io::ErrorKind::InvalidData, why);
                }
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.shut {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        ready!(self.poll_sent(context))?;
        let chunk = bytes.get(..bytes.len().min(MAX_CHUNK)).unwrap_or_default().to_vec();
        let count = chunk.len();
        if count == 0 {
            return Poll::Ready(Ok(0));
        }
        let input = self.input.clone();
        self.sending = Some(Box::pin(async move { input.write(&chunk).await }));
        match self.poll_sent(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // Taken, if not sent yet: the next write or flush waits for it.
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(count)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_sent(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_sent(context))?;
        if !self.shut {
            self.shut = true;
            let input = self.input.clone();
            self.sending = Some(Box::pin(async move {
                input.end().await;
                Ok(())
            }));
        }
        self.poll_sent(context)
    }
}
