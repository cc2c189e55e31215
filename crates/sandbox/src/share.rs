//! Lets other processes of the same user work in a sandbox that this one holds.
//!
//! On the socket we speak as a guest would; every operation becomes one of our own session, under its own number. A
//! client that goes away takes its operations along, and nothing else.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::task::JoinSet;
use wire::{Decoder, Guest, Host, MAX_CHUNK, PROTOCOL_VERSION, Stream, WINDOW, encode};

use crate::operation::{Event, Input, Running};
use crate::paused::Paused;
use crate::session::{Session, SessionError};
use crate::snapshot::Changes;

/// Clients at the same time.
const MAX_CLIENTS: usize = 64;

/// Serves clients until it is dropped.
pub async fn share(session: Session, changes: Option<Changes>, listener: UnixListener) {
    let mut clients = JoinSet::new();
    let alone = Alone::default();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        while clients.try_join_next().is_some() {}
        if clients.len() < MAX_CLIENTS {
            clients.spawn(serve(session.clone(), Arc::clone(&alone), changes.clone(), stream));
        }
    }
}

/// Who has it may have the sandbox's processes stand still.
type Alone = Arc<Mutex<()>>;

/// Makes an operation's first frame from its number.
type FirstFrame = Box<dyn FnOnce(u32) -> Host + Send>;

type Sender = mpsc::UnboundedSender<Guest>;

/// What we know of a client's operation.
struct Open {
    /// Its input and its orders; what we answer ourselves has neither.
    running: Option<(Input, mpsc::UnboundedSender<Control>)>,
    windows: Windows,
    /// The most that a client may be sent before it takes some.
    window: u32,
}

/// What a client may be sent of each stream before it takes some.
type Windows = [Arc<Semaphore>; 2];

fn windows(window: u32) -> Windows {
    [(); 2].map(|()| Arc::new(Semaphore::new(usize::try_from(window).unwrap_or(0))))
}

impl Open {
    fn input(&self) -> Option<Input> {
        self.running.as_ref().map(|(input, _)| input.clone())
    }
}

/// What a client asks of an operation that runs.
enum Control {
    Kill,
    Resize(wire::WindowSize),
}

async fn serve(session: Session, alone: Alone, changes: Option<Changes>, stream: UnixStream) {
    let (reader, writer) = stream.into_split();
    let (replies, queue) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    tasks.spawn(write(writer, queue));
    // Whatever ends this ends the client's operations with it: dropping a task drops its operation.
    let _ = read((&session, &alone), changes.as_ref(), reader, &replies, &mut tasks).await;
}

async fn write(mut stream: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Guest>) {
    let mut frame = Vec::new();
    while let Some(message) = queue.recv().await {
        frame.clear();
        if encode(&message, &mut frame).is_ok() && stream.write_all(&frame).await.is_err() {
            return;
        }
    }
}

async fn read(
    (session, alone): (&Session, &Alone),
    changes: Option<&Changes>,
    mut stream: OwnedReadHalf,
    replies: &Sender,
    tasks: &mut JoinSet<()>,
) -> io::Result<()> {
    let open: Arc<Mutex<HashMap<u32, Open>>> = Arc::default();
    let mut decoder = Decoder::new();
    let mut buffer = vec![0; MAX_CHUNK];
    let _ = replies.send(Guest::Hello { version: PROTOCOL_VERSION });
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        decoder.push(&buffer[..count]);
        while let Some(message) = decoder.take::<Host>().map_err(io::Error::other)? {
            while tasks.try_join_next().is_some() {}
            match message {
                Host::Hello { version } if version != PROTOCOL_VERSION => return Ok(()),
                Host::Hello { .. } => {}
                Host::Shutdown => session.shutdown(),
                Host::Input { id, bytes } => {
                    let input = open.lock().await.get(&id).and_then(Open::input);
                    let credit = Guest::Credit { id, bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX) };
                    // In order: the next frame waits until the command has taken this one.
                    if let Some(input) = input
                        && input.write(&bytes).await.is_ok()
                    {
                        let _ = replies.send(credit);
                    }
                }
                Host::InputEnd { id } => {
                    let input = open.lock().await.get(&id).and_then(Open::input);
                    if let Some(input) = input {
                        input.end().await;
                    }
                }
                Host::Kill { id } => control(&open, id, Control::Kill).await,
                Host::Resize { id, size } => control(&open, id, Control::Resize(size)).await,
                Host::Credit { id, stream, bytes } => {
                    if let Some(open) = open.lock().await.get(&id) {
                        let window = &open.windows[usize::from(stream == Stream::Err)];
                        let most = usize::try_from(open.window).unwrap_or(0);
                        let room = most.saturating_sub(window.available_permits());
                        window.add_permits(usize::try_from(bytes).unwrap_or(0).min(room));
                    }
                }
                Host::Save { id } => {
                    let windows = windows(WINDOW);
                    open.lock().await.insert(id, Open { running: None, windows: windows.clone(), window: WINDOW });
                    let whose = (session.clone(), Arc::clone(alone));
                    tasks.spawn(save(id, whose, changes.cloned(), windows, replies.clone()));
                }
                first => begin(session, first, &open, replies, tasks).await,
            }
        }
    }
}

async fn control(open: &Mutex<HashMap<u32, Open>>, id: u32, what: Control) {
    if let Some(Open { running: Some((_, control)), .. }) = open.lock().await.get(&id) {
        let _ = control.send(what);
    }
}

/// Starts an operation of our own for a client's.
async fn begin(
    session: &Session,
    first: Host,
    open: &Arc<Mutex<HashMap<u32, Open>>>,
    replies: &Sender,
    tasks: &mut JoinSet<()>,
) {
    // Of a connection no more than the client says, so that what it may have to keep is its own choice.
    let window = match &first {
        Host::Dial { window, .. } => (*window).clamp(1, WINDOW),
        _ => WINDOW,
    };
    let Some((id, renumbered)) = renumber(first) else { return };
    match session.begin_within(window, renumbered) {
        Err(error) => {
            let _ = replies.send(failure(id, error));
        }
        Ok(running) => {
            let (control, orders) = mpsc::unbounded_channel();
            let windows = windows(window);
            let own = Some((running.input(), control));
            open.lock().await.insert(id, Open { running: own, windows: windows.clone(), window });
            let (open, replies) = (Arc::clone(open), replies.clone());
            tasks.spawn(async move {
                forward(id, running, orders, &windows, &replies).await;
                open.lock().await.remove(&id);
            });
        }
    }
}

/// The client's number, and the same first frame under another.
fn renumber(first: Host) -> Option<(u32, FirstFrame)> {
    Some(match first {
        Host::Exec { id, exec } => (id, Box::new(|id| Host::Exec { id, exec })),
        Host::Read { id, path, limit } => (id, Box::new(move |id| Host::Read { id, path, limit })),
        Host::Write { id, path, mode, permissions } => {
            (id, Box::new(move |id| Host::Write { id, path, mode, permissions }))
        }
        Host::Stat { id, path } => (id, Box::new(|id| Host::Stat { id, path })),
        Host::List { id, path } => (id, Box::new(|id| Host::List { id, path })),
        Host::ReadWithin { id, within, limit } => (id, Box::new(move |id| Host::ReadWithin { id, within, limit })),
        Host::WriteWithin { id, within, permissions } => {
            (id, Box::new(move |id| Host::WriteWithin { id, within, permissions }))
        }
        Host::LookWithin { id, within, look } => (id, Box::new(move |id| Host::LookWithin { id, within, look })),
        Host::Ping { id } => (id, Box::new(|id| Host::Ping { id })),
        Host::Dial { id, host, port, timeout_ms, window } => {
            let window = window.clamp(1, WINDOW);
            (id, Box::new(move |id| Host::Dial { id, host, port, timeout_ms, window }))
        }
        Host::Attempt { id, attempt, user, timeout_ms } => {
            (id, Box::new(move |id| Host::Attempt { id, attempt, user, timeout_ms }))
        }
        _ => return None,
    })
}

fn failure(id: u32, error: SessionError) -> Guest {
    let message = error.to_string();
    match error {
        SessionError::Failed { kind, message } => Guest::Failed { id, kind, message },
        SessionError::Died(_) | SessionError::Unresponsive(_) => {
            Guest::Failed { id, kind: wire::FailureKind::Other, message }
        }
    }
}

/// Sends what the sandbox changed of its image. Its processes stand still meanwhile, and go on whatever happens.
async fn save(
    id: u32,
    (session, alone): (Session, Alone),
    changes: Option<Changes>,
    windows: Windows,
    replies: Sender,
) {
    let failed = |message: String| Guest::Failed { id, kind: wire::FailureKind::Other, message };
    let Some(changes) = changes else {
        let _ = replies.send(failed("this sandbox has no files of its own to keep".into()));
        return;
    };
    // One at a time: whoever is done first would let the processes go on under the other's eyes.
    let _alone = alone.lock().await;
    let paused = match Paused::begin(&session, &changes).await {
        Ok(paused) => paused,
        Err(error) => {
            let _ = replies.send(failure(id, error));
            return;
        }
    };
    let (chunks, mut incoming) = mpsc::channel::<io::Result<Vec<u8>>>(4);
    tokio::task::spawn_blocking(move || {
        let mut archive = match changes.archive() {
            Ok(archive) => archive,
            Err(error) => return drop(chunks.blocking_send(Err(io::Error::other(error)))),
        };
        loop {
            let mut bytes = vec![0; MAX_CHUNK];
            let read = archive.read(&mut bytes).map(|count| {
                bytes.truncate(count);
                bytes
            });
            let last = !matches!(&read, Ok(bytes) if !bytes.is_empty());
            if chunks.blocking_send(read).is_err() || last {
                return;
            }
        }
    });
    let mut sent = 0;
    let ended = loop {
        match incoming.recv().await {
            Some(Ok(bytes)) if bytes.is_empty() => break Guest::Done { id, bytes: sent },
            Some(Ok(bytes)) => {
                sent += u64::try_from(bytes.len()).unwrap_or(0);
                let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let Ok(permits) = windows[0].acquire_many(count).await else { return };
                permits.forget();
                if replies.send(Guest::Output { id, stream: Stream::Out, bytes }).is_err() {
                    return;
                }
            }
            Some(Err(error)) => break failed(error.to_string()),
            None => break failed("it could not be read".into()),
        }
    };
    // Where the kernel could not hold the processes, only now is it known that they stood still.
    let ended = match paused.end().await {
        Ok(()) => ended,
        Err(error) => failure(id, error),
    };
    let _ = replies.send(ended);
}

/// Hands an operation's events on, as fast as the client takes them.
async fn forward(
    id: u32,
    mut running: Running,
    mut orders: mpsc::UnboundedReceiver<Control>,
    windows: &Windows,
    replies: &Sender,
) {
    loop {
        let event = tokio::select! {
            event = running.next() => event,
            Some(order) = orders.recv() => {
                match order {
                    Control::Kill => running.kill(),
                    Control::Resize(size) => running.resize(size),
                }
                continue;
            }
        };
        let last = event.is_last();
        let message = match event {
            Event::Output(stream, bytes) => {
                let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let window = &windows[usize::from(stream == Stream::Err)];
                // Taken until the client gives it back.
                let Ok(permits) = window.acquire_many(count).await else { return };
                permits.forget();
                Guest::Output { id, stream, bytes }
            }
            Event::Ended(outcome) => Guest::Ended { id, outcome },
            Event::Done(bytes) => Guest::Done { id, bytes },
            Event::Stat(stat) => Guest::Stat { id, stat },
            Event::Entries(entries, last) => Guest::Entries { id, entries, last },
            Event::Pong => Guest::Pong { id },
            Event::Connected => Guest::Connected { id },
            Event::OutputEnd => Guest::OutputEnd { id },
            Event::DialFailed(why, message) => Guest::DialFailed { id, why, message },
            Event::Gone(error) => failure(id, error),
            // A client cannot ask for these: whoever holds the sandbox is its network.
            Event::Accepted(_) | Event::Asked(_) => return,
        };
        if replies.send(message).is_err() || last {
            return;
        }
    }
}
