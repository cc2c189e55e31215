//! A command that streams, over a WebSocket.
//!
//! The first message is the command, as text. Binary messages begin with a byte that says which stream: 0 input (nothing
//! after it is its end), 1 output, 2 errors. Text messages are orders from the client, and last how it ended.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use sandbox::{Event, Input, Running, Stream};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::exec::{Ended, ExecWish, Size};
use super::extract::{Caller, Id, parse};
use super::problem::{Answer, Code, Problem, ProblemBody};
use crate::app::App;
use crate::life::held::Using;
use crate::server::Seat;

/// How long a client may take to say what it wants.
const FIRST: Duration = Duration::from_secs(30);
/// The largest message.
const MAX_MESSAGE: usize = 4 << 20;
/// How often a client that says nothing is asked whether it is there.
const PING: Duration = Duration::from_secs(20);

/// How long the last words of a server that ends may take.
const FAREWELL: Duration = Duration::from_secs(5);

/// Messages of input that wait for the command.
const BACKLOG: usize = 4;

const INPUT: u8 = 0;

/// What a client says while a command runs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// `KILL` or `TERM`: both end the command's whole tree.
    signal: Option<String>,
    /// The terminal has another size.
    resize: Option<Size>,
}

/// Runs a command whose input and output stream over a WebSocket. A client that goes away ends it.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/exec/stream", tag = "commands",
    params(("id" = String, Path, description = "The sandbox")), responses(
    (status = 101, description = "A WebSocket; its first message is an `ExecWish`"),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn stream(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Id,
    Extension(seat): Extension<Arc<Seat>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer<Response> {
    let held = app.sandboxes.find(&caller.owner, &id.0)?;
    let upgrade = upgrade.map_err(|error| Problem::bad(error.body_text()).hint("connect with a WebSocket"))?;
    let upgrade = upgrade.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE).write_buffer_size(0);
    app.metrics.count_exec();
    let tasks = app.tasks.clone();
    // It counts as a connection to its end, and the server waits for it.
    Ok(upgrade.on_upgrade(move |socket| {
        tasks.track_future(async move {
            let closing = app.closing.clone();
            let closed = async {
                closing.cancelled().await;
                tokio::time::sleep(FAREWELL).await;
            };
            tokio::select! {
                () = serve(app, held, socket) => {}
                () = closed => {}
            }
            drop(seat);
        })
    }))
}

async fn serve(app: Arc<App>, held: Using, mut socket: WebSocket) {
    let closing = app.closing.clone();
    let begun = tokio::select! {
        begun = begin(&held, &mut socket) => begun,
        () = closing.cancelled() => return,
    };
    let last = match begun {
        Err(problem) => json!(problem.body()),
        Ok(running) => {
            let (sink, source) = socket.split();
            let (orders, taken) = mpsc::channel(8);
            let (chunks, fed) = mpsc::channel(BACKLOG);
            let (input, terminal) = (running.input(), running.input());
            let (mut sink, last) = tokio::select! {
                told = tell(running, sink, taken) => told,
                // The client is gone: dropping the command ends its tree.
                () = hear(source, &terminal, chunks, orders) => return,
                never = feed(input, fed) => match never {},
            };
            let Some(last) = last else { return };
            finish(&mut sink, last).await;
            return;
        }
    };
    let _ = socket.send(Message::Text(last.to_string().into())).await;
    let _ = socket.send(Message::Close(None)).await;
}

async fn finish(sink: &mut SplitSink<WebSocket, Message>, last: serde_json::Value) {
    let ended = async {
        sink.send(Message::Text(last.to_string().into())).await?;
        sink.send(Message::Close(None)).await
    };
    // Whoever does not take it is gone.
    let _ = tokio::time::timeout(FIRST, ended).await;
}

/// Waits for the command and starts it.
async fn begin(held: &Using, socket: &mut WebSocket) -> Answer<Running> {
    let first = async {
        loop {
            match socket.recv().await {
                Some(Ok(Message::Text(text))) => return Ok(text),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return Err(Problem::bad("the first message is not a command as text")),
            }
        }
    };
    let text = tokio::time::timeout(FIRST, first).await;
    let text = text.map_err(|_| Problem::new(Code::Timeout, "no command came"))??;
    let wish: ExecWish = parse(text.as_bytes())?;
    if wish.stdin_base64.is_some() {
        return Err(Problem::bad("a command that streams has its input in messages, not in `stdin_base64`"));
    }
    let service = held.service(wish.service.as_deref())?;
    Ok(service.view.start(wish.exec(service)?)?)
}

type Told = (SplitSink<WebSocket, Message>, Option<serde_json::Value>);

/// Tells the client what the command says; the end of it comes back, or nothing where nobody listens.
async fn tell(
    mut running: Running,
    mut sink: SplitSink<WebSocket, Message>,
    mut orders: mpsc::Receiver<Order>,
) -> Told {
    let mut beat = tokio::time::interval(PING);
    beat.tick().await;
    loop {
        let event = tokio::select! {
            event = running.next() => event,
            Some(order) = orders.recv() => {
                if order.signal.is_some() {
                    running.kill();
                }
                continue;
            }
            _ = beat.tick() => {
                if sink.send(Message::Ping(Bytes::new())).await.is_err() {
                    return (sink, None);
                }
                continue;
            }
        };
        let last = match event {
            Event::Output(stream, bytes) => {
                let mut message = BytesMut::with_capacity(bytes.len() + 1);
                message.put_u8(if stream == Stream::Out { 1 } else { 2 });
                message.extend_from_slice(&bytes);
                if sink.send(Message::Binary(message.freeze())).await.is_err() {
                    return (sink, None);
                }
                continue;
            }
            Event::Ended(outcome) => json!(Ended::from(outcome)),
            Event::Gone(error) => json!(Problem::from(error).body()),
            _ => json!(Problem::new(Code::SandboxGone, "the guest answered a command with something else").body()),
        };
        return (sink, Some(last));
    }
}

/// Gives the command its input, beside what the client orders: one that reads nothing can still be ended.
async fn feed(input: Input, mut chunks: mpsc::Receiver<Bytes>) -> Infallible {
    while let Some(bytes) = chunks.recv().await {
        if bytes.is_empty() {
            input.end().await;
        } else if input.write(&bytes).await.is_err() {
            // It reads no more; how it ended is told in a moment.
            chunks.close();
        }
    }
    std::future::pending().await
}

/// Hears what the client says, until it is gone or says what cannot be understood.
async fn hear(
    mut source: SplitStream<WebSocket>,
    terminal: &Input,
    chunks: mpsc::Sender<Bytes>,
    orders: mpsc::Sender<Order>,
) {
    while let Some(Ok(message)) = source.next().await {
        match message {
            Message::Binary(bytes) => {
                if bytes.first() != Some(&INPUT) {
                    return;
                }
                // Nobody takes it where the command reads no more.
                let _ = chunks.send(bytes.slice(1..)).await;
            }
            Message::Text(text) => {
                let Ok(order) = parse::<Order>(text.as_bytes()) else { return };
                if order.signal.as_deref().is_some_and(|signal| !matches!(signal, "KILL" | "TERM")) {
                    return;
                }
                // At once: input that the client sends after it must find the new size.
                if let Some(size) = order.resize {
                    terminal.resize(size.into());
                }
                if orders.send(order).await.is_err() {
                    return;
                }
            }
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Close(_) => return,
        }
    }
}
