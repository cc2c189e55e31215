//! The runner's side of a network that a guest relays: it takes connections and questions from the guest, and hands them to
//! the gateway, which judges them like any others.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use sandbox::{Relay, SessionError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::bridge::bridge;
use crate::client::{Notice, Shared};
use crate::gateway::Lost;
use crate::link::ToGateway;
use crate::reaching::pair;

/// Connections and questions that are waited for at the same time. More would only wait elsewhere.
const ACCEPTING: usize = 32;
const ASKING: usize = 64;
/// How long the gateway may take for an answer: longer than whoever it asks.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why a part of it ended.
enum End {
    /// The guest's side: the sandbox has no network any more.
    Guest(SessionError),
    /// The gateway's, which says so itself.
    Gateway,
}

/// Serves until the order to end; a guest that goes away before has lost its sandbox the network.
pub(crate) async fn relay(
    shared: Arc<Shared>,
    id: u32,
    relay: Relay,
    ended: CancellationToken,
    notices: mpsc::UnboundedSender<Notice>,
) {
    let mut parts = JoinSet::new();
    for _ in 0..ACCEPTING {
        parts.spawn(accept(Arc::clone(&shared), id, relay.clone(), ended.clone()));
    }
    for _ in 0..ASKING {
        parts.spawn(ask(Arc::clone(&shared), id, relay.clone()));
    }
    tokio::select! {
        Some(part) = parts.join_next() => {
            let why = match part {
                Ok(End::Gateway) => return,
                Ok(End::Guest(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            if !ended.is_cancelled() {
                let _ = notices.send(Notice::Lost(Lost { id, why }));
            }
        }
        () = ended.cancelled() => {}
    }
}

/// Hands connections on, one after the other.
async fn accept(shared: Arc<Shared>, id: u32, relay: Relay, ended: CancellationToken) -> End {
    loop {
        let arrived = match relay.accept().await {
            Ok(arrived) => arrived,
            Err(error) => return End::Guest(error),
        };
        // Short of descriptors: the program sees a broken connection.
        let Ok((ours, theirs)) = pair() else { continue };
        let ended = ended.child_token();
        let number = shared.number_connection(ended.clone());
        let incoming = ToGateway::Incoming { id, number, to: arrived.to };
        if shared.say(&incoming, &[theirs.as_fd()]).await.is_err() {
            return End::Gateway;
        }
        drop(theirs);
        let shared = Arc::clone(&shared);
        // Ends with the guest, with the gateway's end of the pair, or by order. What is dropped is broken off.
        tokio::spawn(async move {
            tokio::select! {
                _ = bridge(arrived.connection, &ours) => {}
                () = ended.cancelled() => {}
            }
            shared.connections().remove(&number);
        });
    }
}

/// Hands questions on, and answers back.
async fn ask(shared: Arc<Shared>, id: u32, relay: Relay) -> End {
    loop {
        let inquiry = match relay.question().await {
            Ok(inquiry) => inquiry,
            Err(error) => return End::Guest(error),
        };
        let (sender, answer) = oneshot::channel();
        let number = shared.expect_answer(sender);
        let question = ToGateway::Question { id, number, question: inquiry.question.clone() };
        if shared.say(&question, &[]).await.is_err() {
            return End::Gateway;
        }
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        shared.expect_no_answer(number);
        match answer {
            // What is no question gets no answer.
            Ok(Ok(answer)) if !answer.is_empty() => inquiry.answer(answer),
            _ => drop(inquiry),
        }
    }
}
