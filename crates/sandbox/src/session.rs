//! One guest, many operations at once, over one byte stream.
//!
//! Nothing here trusts the guest. Frames are bounded by the codec; bytes of a stream are counted against the window that
//! was granted; whatever breaks the rules ends the session, and with it every operation, as [`SessionError::Died`].
//! A guest that is there and does not answer in time is [`SessionError::Unresponsive`]: the workload may have starved it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use wire::{
    Decoder, Entry, FailureKind, Guest, Host, MAX_CHUNK, MAX_LISTED, MAX_LISTED_BYTES, MAX_QUESTION, PROTOCOL_VERSION,
    Stream, WINDOW, encode,
};

use crate::operation::{Event, Running};

/// How long a fresh guest may take to say hello.
const HELLO: Duration = Duration::from_secs(10);
/// How often a guest is asked whether it is there, and how long it may take to answer. A guest that hangs is dead.
const HEARTBEAT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(30);
/// Frames that carry data and wait to be written.
const DATA_QUEUE: usize = 8;
/// Bytes of a connection that may be under way in each direction, and the same where there are many: whoever takes
/// nothing of them has us keep as much of each.
const LINK_WINDOW: u32 = 256 << 10;
const NARROW_WINDOW: u32 = 64 << 10;
/// From so many operations on there are many.
const MANY: usize = 192;

/// Why something could not be done in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The guest could not do it; the sandbox is fine.
    #[error("{message}")]
    Failed {
        /// Why.
        kind: FailureKind,
        /// In the guest's words: untrusted text.
        message: String,
    },
    /// The sandbox is gone.
    #[error("the sandbox died: {0}")]
    Died(String),
    /// The sandbox is there, as far as is known, and its guest did not answer in time: it was given up. What runs inside can
    /// cause this by starving the guest.
    #[error("the sandbox does not respond: {0}")]
    Unresponsive(String),
}

/// What the reading side knows of an operation.
struct Operation {
    events: mpsc::UnboundedSender<Event>,
    /// The most that may be under way of a stream.
    size: u32,
    /// Bytes that the guest may still send, per stream.
    window: [u32; 2],
    /// Bytes that the consumer has taken and that are not granted again yet, per stream.
    taken: [u32; 2],
    input: Arc<Semaphore>,
    connection: Connection,
    /// Entries of a directory, and bytes of their names, that the guest has sent.
    listed: (usize, usize),
}

impl Operation {
    /// Counts entries of a list before they are kept: no window bounds them.
    fn count_listed(&mut self, entries: &[Entry]) -> Result<(), &'static str> {
        let (count, bytes) = &mut self.listed;
        *count = count.saturating_add(entries.len());
        *bytes = entries.iter().fold(*bytes, |bytes, entry| bytes.saturating_add(entry.name.len()));
        if *count > MAX_LISTED || *bytes > MAX_LISTED_BYTES {
            return Err("its guest lists without end");
        }
        Ok(())
    }
}

/// What was said of a connection: each once, so that saying it again and again fills nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Connection {
    NotYet,
    Stands,
    OutputEnded,
}

#[derive(Default)]
struct Table {
    operations: HashMap<u32, Operation>,
    dead: Option<SessionError>,
}

impl Table {
    /// Notes how far a connection is; never twice the same, and never back.
    fn advance(&mut self, id: u32, to: Connection) -> Result<(), &'static str> {
        let Some(operation) = self.operations.get_mut(&id) else { return Ok(()) };
        if operation.connection >= to {
            return Err("its guest said twice the same of a connection");
        }
        operation.connection = to;
        Ok(())
    }
}

/// What all users of a session share.
pub(crate) struct Shared {
    table: Mutex<Table>,
    next_id: AtomicU32,
    control: mpsc::UnboundedSender<Host>,
    data: mpsc::Sender<Host>,
    alive: watch::Sender<bool>,
    /// How often the sandbox was and is frozen: a guest that stands still is not a dead one.
    suspensions: Mutex<Suspensions>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Suspensions {
    ever: u64,
    now: u32,
}

/// A session whose guest is frozen and need not answer. Ends when it is dropped.
pub(crate) struct Suspended(Arc<Shared>);

impl Drop for Suspended {
    fn drop(&mut self) {
        let mut suspensions = self.0.suspensions();
        suspensions.now = suspensions.now.saturating_sub(1);
    }
}

/// A conversation with a guest.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Begins a conversation: the guest must say hello in time, in our version.
    pub async fn open(stream: UnixStream) -> Result<Self, SessionError> {
        let (reader, writer) = stream.into_split();
        Self::open_over(reader, writer).await
    }

    /// The same over any two halves of a stream.
    pub async fn open_over(
        reader: impl AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Self, SessionError> {
        let (session, greeted) = Self::speak(reader, writer);
        session.shared.greet(greeted).await?;
        tokio::spawn(watch_over(Arc::downgrade(&session.shared)));
        Ok(session)
    }

    /// Begins a conversation with a guest of which somebody we trust says that it is there: it can be asked for something
    /// before it has said hello. One that does not say so in time, in our version, is dead, as whoever asked will hear.
    pub fn open_at_once(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        let (session, greeted) = Self::speak(reader, writer);
        let watched = Arc::downgrade(&session.shared);
        tokio::spawn(async move {
            let Some(shared) = watched.upgrade() else { return };
            match shared.greet(greeted).await {
                Err(error) => return shared.die(error),
                Ok(()) => drop(shared),
            }
            watch_over(watched).await;
        });
        session
    }

    /// Says hello; the guest's own version comes where this leads.
    fn speak(
        reader: impl AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + Send + 'static,
    ) -> (Self, oneshot::Receiver<u32>) {
        let (control, control_queue) = mpsc::unbounded_channel();
        let (data, data_queue) = mpsc::channel(DATA_QUEUE);
        let (alive, _) = watch::channel(true);
        let shared = Arc::new(Shared {
            table: Mutex::default(),
            next_id: AtomicU32::new(1),
            control,
            data,
            alive,
            suspensions: Mutex::default(),
        });
        let (hello, greeted) = oneshot::channel();
        // Both tasks end with the stream: the reader at its end, the writer when the session's last user is gone.
        tokio::spawn(write(writer, control_queue, data_queue));
        tokio::spawn(read(reader, Arc::clone(&shared), hello));
        shared.send(Host::Hello { version: PROTOCOL_VERSION });
        (Self { shared }, greeted)
    }

    /// Starts an operation; `first` makes its first frame from its id.
    pub(crate) fn begin(&self, first: impl FnOnce(u32) -> Host) -> Result<Running, SessionError> {
        self.begin_within(WINDOW, first)
    }

    /// The same for a connection; its first frame says how much may be under way.
    pub(crate) fn begin_link(&self, first: impl FnOnce(u32, u32) -> Host) -> Result<Running, SessionError> {
        let many = self.shared.table().operations.len() > MANY;
        let window = if many { NARROW_WINDOW } else { LINK_WINDOW };
        self.begin_within(window, |id| first(id, window))
    }

    /// The same with so many bytes under way in each direction as its first frame says.
    pub(crate) fn begin_within(&self, window: u32, first: impl FnOnce(u32) -> Host) -> Result<Running, SessionError> {
        let window = window.clamp(1, WINDOW);
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let (events, incoming) = mpsc::unbounded_channel();
        let size = usize::try_from(window).unwrap_or(MAX_CHUNK);
        let input = Arc::new(Semaphore::new(size));
        {
            let mut table = self.shared.table();
            if let Some(error) = &table.dead {
                return Err(error.clone());
            }
            let operation = Operation {
                events,
                size: window,
                window: [window; 2],
                taken: [0; 2],
                input: Arc::clone(&input),
                connection: Connection::NotYet,
                listed: (0, 0),
            };
            table.operations.insert(id, operation);
        }
        self.shared.send(first(id));
        Ok(Running::new(id, incoming, (input, size), Arc::clone(&self.shared)))
    }

    /// Whether the guest answers within `deadline`.
    pub async fn ping(&self, deadline: Duration) -> Result<(), SessionError> {
        let mut running = self.begin(|id| Host::Ping { id })?;
        match tokio::time::timeout(deadline, running.next()).await {
            Ok(Event::Pong) => Ok(()),
            Ok(Event::Gone(error)) => Err(error),
            Ok(_) => Err(SessionError::Died("its guest answered a ping with something else".into())),
            Err(_) => Err(SessionError::Unresponsive(format!("its guest did not answer within {deadline:?}"))),
        }
    }

    /// Stops every process of the sandbox where it is, until [`Session::resume`]. By SIGSTOP: a process that has prepared
    /// for it goes on, and [`Session::resume`] then fails.
    pub async fn pause(&self) -> Result<(), SessionError> {
        self.ask(|id| Host::Pause { id }).await
    }

    /// Lets the processes of the sandbox go on. Fails if one of them ran since [`Session::pause`].
    pub async fn resume(&self) -> Result<(), SessionError> {
        self.ask(|id| Host::Resume { id }).await
    }

    /// Takes note that the guest is frozen, until this is dropped.
    pub(crate) fn suspend(&self) -> Suspended {
        let mut suspensions = self.shared.suspensions();
        suspensions.ever += 1;
        suspensions.now += 1;
        Suspended(Arc::clone(&self.shared))
    }

    /// Ends every process of the sandbox; the sandbox itself, and its files, stay.
    pub async fn end_all(&self) -> Result<(), SessionError> {
        self.ask(|id| Host::EndAll { id }).await
    }

    async fn ask(&self, question: impl FnOnce(u32) -> Host) -> Result<(), SessionError> {
        match self.begin(question)?.next().await {
            Event::Done(_) => Ok(()),
            Event::Gone(error) => Err(error),
            _ => Err(SessionError::Died("its guest answered a question with something else".into())),
        }
    }

    /// Whether the sandbox is there, as far as we know.
    pub fn is_alive(&self) -> bool {
        self.shared.table().dead.is_none()
    }

    /// Why the session ended, if it did.
    pub fn end(&self) -> Option<SessionError> {
        self.shared.table().dead.clone()
    }

    /// Ends the session because its guest did not do something in time: nothing more can be done in the sandbox. Its holder
    /// ends it from outside.
    pub(crate) fn give_up(&self, reason: &str) {
        self.shared.die(SessionError::Unresponsive(reason.to_owned()));
    }

    /// Asks the guest to end. The stream ends soon after.
    pub fn shutdown(&self) {
        self.shared.send(Host::Shutdown);
    }

    /// Resolves when the sandbox is gone.
    pub async fn gone(&self) {
        let mut alive = self.shared.alive.subscribe();
        // An error means that the sender is gone, and so is everything.
        let _ = alive.wait_for(|alive| !alive).await;
    }
}

impl Shared {
    /// Waits for the guest's hello.
    async fn greet(&self, greeted: oneshot::Receiver<u32>) -> Result<(), SessionError> {
        match tokio::time::timeout(HELLO, greeted).await {
            Ok(Ok(PROTOCOL_VERSION)) => Ok(()),
            Ok(Ok(version)) => Err(SessionError::Died(format!("its guest speaks version {version}"))),
            Ok(Err(_)) => Err(self.death()),
            Err(_) => Err(SessionError::Died(format!("its guest said nothing within {HELLO:?}"))),
        }
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        // A panic elsewhere leaves the table as it is: plain data.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn suspensions(&self) -> std::sync::MutexGuard<'_, Suspensions> {
        self.suspensions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends before any data that waits.
    pub(crate) fn send(&self, message: Host) {
        // If the writer is gone, so is the sandbox, and every operation hears of that.
        let _ = self.control.send(message);
    }

    /// Sends in turn with other data; waits while the stream is busy.
    pub(crate) async fn send_data(&self, message: Host) -> Result<(), SessionError> {
        self.data.send(message).await.map_err(|_| self.death())
    }

    /// Takes note that the consumer has taken `bytes`, and lets the guest send as many more.
    pub(crate) fn grant(&self, id: u32, stream: Stream, bytes: u32) {
        let granted = {
            let mut table = self.table();
            let Some(operation) = table.operations.get_mut(&id) else { return };
            let taken = &mut operation.taken[index(stream)];
            *taken = taken.saturating_add(bytes);
            // In large steps: a guest that reads nothing must not make us write one frame for each of its own.
            if *taken < operation.size / 4 {
                return;
            }
            let granted = std::mem::take(taken);
            let window = &mut operation.window[index(stream)];
            *window = window.saturating_add(granted).min(operation.size);
            granted
        };
        self.send(Host::Credit { id, stream, bytes: granted });
    }

    pub(crate) fn forget(&self, id: u32) -> bool {
        self.table().operations.remove(&id).is_some()
    }

    pub(crate) fn death(&self) -> SessionError {
        self.table().dead.clone().unwrap_or_else(|| SessionError::Died("its stream ended".into()))
    }

    /// Ends every operation. The first reason counts.
    fn die(&self, error: SessionError) {
        let mut table = self.table();
        let error = table.dead.get_or_insert(error).clone();
        for (_, operation) in table.operations.drain() {
            operation.input.close();
            let _ = operation.events.send(Event::Gone(error.clone()));
        }
        self.alive.send_replace(false);
    }

    /// Hands a message to its operation; an error is a breach of the protocol.
    fn deliver(&self, message: Guest) -> Result<(), &'static str> {
        let mut table = self.table();
        let (id, event) = match message {
            Guest::Hello { .. } => return Err("its guest said hello twice"),
            // It would cost no window, and so could be sent without end.
            Guest::Output { bytes, .. } if bytes.is_empty() => return Err("its guest sent an empty chunk"),
            Guest::Entries { entries, last: false, .. } if entries.is_empty() => {
                return Err("its guest sent an empty list");
            }
            Guest::Output { id, stream, bytes } => {
                if let Some(operation) = table.operations.get_mut(&id) {
                    let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                    let window = &mut operation.window[index(stream)];
                    *window = window.checked_sub(count).ok_or("its guest sent more than it was granted")?;
                    if operation.connection == Connection::OutputEnded {
                        return Err("its guest sent more after the end");
                    }
                }
                (id, Event::Output(stream, bytes))
            }
            Guest::Credit { id, bytes } => {
                if let Some(operation) = table.operations.get(&id) {
                    let more = usize::try_from(bytes).unwrap_or(usize::MAX);
                    let window = usize::try_from(operation.size).unwrap_or(usize::MAX);
                    if operation.input.available_permits().saturating_add(more) > window {
                        return Err("its guest granted more than it was sent");
                    }
                    operation.input.add_permits(more);
                }
                return Ok(());
            }
            Guest::Ended { id, outcome } => (id, Event::Ended(outcome)),
            Guest::Done { id, bytes } => (id, Event::Done(bytes)),
            Guest::Failed { id, kind, message } => (id, Event::Gone(SessionError::Failed { kind, message })),
            Guest::Stat { id, stat } => (id, Event::Stat(stat)),
            Guest::Entries { id, entries, last } => {
                if let Some(operation) = table.operations.get_mut(&id) {
                    operation.count_listed(&entries)?;
                }
                (id, Event::Entries(entries, last))
            }
            Guest::Pong { id } => (id, Event::Pong),
            Guest::Connected { id } => {
                table.advance(id, Connection::Stands)?;
                (id, Event::Connected)
            }
            Guest::OutputEnd { id } => {
                table.advance(id, Connection::OutputEnded)?;
                (id, Event::OutputEnd)
            }
            Guest::DialFailed { id, why, message } => (id, Event::DialFailed(why, message)),
            Guest::Accepted { id, to } => {
                table.advance(id, Connection::Stands)?;
                (id, Event::Accepted(to))
            }
            Guest::Asked { question, .. } if question.len() > MAX_QUESTION => {
                return Err("its guest sent a question that is too long");
            }
            Guest::Asked { id, question } => {
                table.advance(id, Connection::Stands)?;
                (id, Event::Asked(question))
            }
        };
        let last = event.is_last();
        // An operation that nobody waits for any more may still be answered.
        if let Some(operation) = table.operations.get(&id) {
            let _ = operation.events.send(event);
            if last {
                operation.input.close();
                table.operations.remove(&id);
            }
        }
        Ok(())
    }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Out => 0,
        Stream::Err => 1,
    }
}

/// Asks the guest now and then whether it is there, as long as somebody uses the session.
async fn watch_over(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        let Some(shared) = shared.upgrade() else { return };
        let session = Session { shared };
        let before = *session.shared.suspensions();
        if before.now > 0 {
            continue;
        }
        if session.ping(SILENCE).await.is_err() {
            // It may have been frozen meanwhile: then it is asked again.
            if session.is_alive() && *session.shared.suspensions() != before {
                continue;
            }
            session.shared.die(SessionError::Unresponsive("its guest does not answer".into()));
            return;
        }
    }
}

async fn write(
    mut stream: impl AsyncWrite + Unpin,
    mut control: mpsc::UnboundedReceiver<Host>,
    mut data: mpsc::Receiver<Host>,
) {
    let mut frame = Vec::new();
    loop {
        let message = tokio::select! {
            biased;
            message = control.recv() => message,
            message = data.recv() => message,
        };
        let Some(message) = message else { return };
        frame.clear();
        // Too long for a frame: the operation that asked is told by whoever made it (`Running` checks beforehand).
        if encode(&message, &mut frame).is_ok() && send_all(&mut stream, &frame).await.is_err() {
            return;
        }
    }
}

/// Writes all of it, and holds nothing back: a stream may have buffers of its own.
async fn send_all(stream: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> std::io::Result<()> {
    stream.write_all(frame).await?;
    stream.flush().await
}

async fn read(mut stream: impl AsyncRead + Unpin, shared: Arc<Shared>, hello: oneshot::Sender<u32>) {
    let mut decoder = Decoder::new();
    let mut buffer = vec![0; MAX_CHUNK];
    let mut hello = Some(hello);
    let reason = loop {
        let count = match stream.read(&mut buffer).await {
            Ok(0) => break "its stream ended".to_owned(),
            Ok(count) => count,
            Err(error) => break format!("its stream failed: {error}"),
        };
        decoder.push(&buffer[..count]);
        let breach = loop {
            let message = match decoder.take::<Guest>() {
                Ok(Some(message)) => message,
                Ok(None) => break None,
                Err(error) => break Some(error.to_string()),
            };
            if let Some(hello) = hello.take() {
                let Guest::Hello { version } = message else { break Some("its guest did not say hello".to_owned()) };
                let _ = hello.send(version);
                continue;
            }
            if let Err(breach) = shared.deliver(message) {
                break Some(breach.to_owned());
            }
        };
        if let Some(breach) = breach {
            break breach;
        }
    };
    shared.die(SessionError::Died(reason));
}
