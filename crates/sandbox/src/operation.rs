//! One operation of a session: a command that runs, a file under way, a question.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{Semaphore, mpsc};
use wire::{DialFailure, Entry, Host, MAX_CHUNK, Outcome, Stat, Stream, WindowSize};

use crate::session::{SessionError, Shared};

/// What an operation hears.
#[derive(Debug)]
pub enum Event {
    /// Bytes of a stream. Taking them lets the guest send more.
    Output(Stream, Vec<u8>),
    /// The command ended.
    Ended(Outcome),
    /// The transfer is complete, with this many bytes.
    Done(u64),
    /// What is at a path.
    Stat(Option<Stat>),
    /// Entries of a directory, and whether these are the last.
    Entries(Vec<Entry>, bool),
    /// The answer to a ping.
    Pong,
    /// The connection stands.
    Connected,
    /// The other side of the connection sends no more.
    OutputEnd,
    /// There is no connection, or no more; in the guest's words.
    DialFailed(DialFailure, String),
    /// A program inside has connected, to this address if to any.
    Accepted(Option<SocketAddr>),
    /// A program inside has a question to a name server.
    Asked(Vec<u8>),
    /// It failed, or the sandbox died.
    Gone(SessionError),
}

impl Event {
    /// Whether nothing follows.
    pub(crate) fn is_last(&self) -> bool {
        !matches!(
            self,
            Self::Output(..)
                | Self::Entries(_, false)
                | Self::Connected
                | Self::OutputEnd
                | Self::Accepted(_)
                | Self::Asked(_)
        )
    }
}

/// An operation under way. Dropping it kills the command or forgets the transfer.
pub struct Running {
    id: u32,
    events: mpsc::UnboundedReceiver<Event>,
    /// Bytes that may still be sent, and the most that may be under way.
    input: (Arc<Semaphore>, usize),
    shared: Arc<Shared>,
    finished: bool,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The input side of a command, to be used beside its events.
#[derive(Clone)]
pub struct Input {
    id: u32,
    window: Arc<Semaphore>,
    size: usize,
    shared: Arc<Shared>,
}

impl Input {
    /// Sends bytes; waits while the command does not read. An error means that the command is over: it reads no more.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), SessionError> {
        for chunk in bytes.chunks(self.size.clamp(1, MAX_CHUNK)) {
            let count = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
            let granted = self.window.acquire_many(count).await.map_err(|_| self.shared.death())?;
            // The guest gives the permits back as the command reads.
            granted.forget();
            self.shared.send_data(Host::Input { id: self.id, bytes: chunk.to_vec() }).await?;
        }
        Ok(())
    }

    /// Gives the command's terminal a new size, before input that is written later.
    pub fn resize(&self, size: WindowSize) {
        self.shared.send(Host::Resize { id: self.id, size });
    }

    /// Ends the input.
    pub async fn end(&self) {
        // In turn with the data before it. If it cannot be sent, there is no command either.
        let _ = self.shared.send_data(Host::InputEnd { id: self.id }).await;
    }
}

impl Running {
    pub(crate) fn new(
        id: u32,
        events: mpsc::UnboundedReceiver<Event>,
        input: (Arc<Semaphore>, usize),
        shared: Arc<Shared>,
    ) -> Self {
        Self { id, events, input, shared, finished: false }
    }

    /// The next event. After the last one, [`Event::Gone`] for ever.
    pub async fn next(&mut self) -> Event {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// The same for those who poll.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        let Poll::Ready(event) = self.events.poll_recv(context) else { return Poll::Pending };
        let event = event.unwrap_or_else(|| Event::Gone(self.shared.death()));
        if let Event::Output(stream, bytes) = &event {
            self.shared.grant(self.id, *stream, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        self.finished |= event.is_last();
        Poll::Ready(event)
    }

    /// The command's input.
    pub fn input(&self) -> Input {
        let (window, size) = (Arc::clone(&self.input.0), self.input.1);
        Input { id: self.id, window, size, shared: Arc::clone(&self.shared) }
    }

    /// Ends the command's whole tree; its end is still an event.
    pub fn kill(&self) {
        self.shared.send(Host::Kill { id: self.id });
    }

    /// Answers a question; nothing follows.
    pub(crate) fn answer(&mut self, answer: Vec<u8>) {
        self.shared.send(Host::Answer { id: self.id, answer });
        self.leave();
    }

    /// Lets it end by itself; nobody hears of it any more.
    pub(crate) fn leave(&mut self) {
        self.finished = true;
        self.shared.forget(self.id);
    }

    /// Tells the command's terminal its new size.
    pub fn resize(&self, size: WindowSize) {
        self.shared.send(Host::Resize { id: self.id, size });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.finished && self.shared.forget(self.id) {
            self.kill();
        }
    }
}
