//! The runner's side of lines to services: it has a guest connect, hands the gateway one end of a pair of sockets, and
//! carries bytes between the other end and the guest.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use sandbox::{Connection, DialError, DialFailure};
use tokio::net::UnixStream;

use crate::bridge::{Bridged, bridge, wait_for_farewell};
use crate::client::Shared;
use crate::link::ToGateway;
use crate::reason::Reason;

/// Answers one question of the gateway's, and serves the line until it ends.
pub(crate) async fn reach(shared: Arc<Shared>, ask: u32, id: u32, service: String, port: u16) {
    let ended = shared.ended.clone();
    tokio::select! {
        () = serve(&shared, ask, id, &service, port) => {}
        () = ended.cancelled() => {}
    }
}

async fn serve(shared: &Shared, ask: u32, id: u32, service: &str, port: u16) {
    let refuse = |reason: Reason| async move {
        let _ = shared.say(&ToGateway::Reached { ask, error: Some(reason) }, &[]).await;
    };
    // The gateway bounds what one sandbox may have; this bounds all of them, whatever it says.
    let Ok(_place) = shared.lines.try_acquire() else { return refuse(Reason::ConnectionLimit).await };
    let neighbours = shared.neighbours().get(&id).cloned();
    let Some(neighbours) = neighbours else { return refuse(Reason::HostUnreachable).await };
    let connection = match neighbours.reach(service, port).await {
        Ok(connection) => connection,
        Err(error) => return refuse(reason_of(&error)).await,
    };
    let Ok((ours, theirs)) = pair() else { return refuse(Reason::ConnectionLimit).await };
    let reached = ToGateway::Reached { ask, error: None };
    if shared.say(&reached, &[theirs.as_fd()]).await.is_err() {
        return;
    }
    // Ours must be the only other holder of it: else its end would not be seen.
    drop(theirs);
    carry(shared, ask, connection, &ours).await;
}

async fn carry(shared: &Shared, ask: u32, connection: Connection, ours: &UnixStream) {
    if bridge(connection, ours).await == Bridged::Broken {
        let _ = shared.say(&ToGateway::Cut { ask }, &[]).await;
        wait_for_farewell(ours).await;
    }
}

/// A pair of stream sockets: one end for us, one to be handed on.
pub(crate) fn pair() -> std::io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}

fn reason_of(error: &DialError) -> Reason {
    match error {
        DialError::Failed { why: DialFailure::Refused | DialFailure::Reset, .. } => Reason::HostRefused,
        DialError::Failed { why: DialFailure::TimedOut, .. } => Reason::HostTimeout,
        DialError::Failed { why: DialFailure::Exhausted, .. } => Reason::ConnectionLimit,
        DialError::Failed { .. } | DialError::Session(_) => Reason::HostUnreachable,
    }
}
