//! The runner's side of lines to services: it has a guest connect, hands the gateway one end of a pair of sockets, and
//! carries bytes between the other end and the guest.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use sandbox::{Connection, DialError, DialFailure};
use tokio::net::UnixStream;

use crate::bridge::{Bridged, bridge, wait_for_farewell};
use crate::client::Shared;
use crate::link::ToGateway;
use crate::neighbours::Neighbourhood;
use crate::reason::Reason;
use crate::switchboard::Neighbours;

/// Whom one sandbox may reach, and through whom.
#[derive(Clone)]
pub(crate) struct Board {
    pub(crate) known: Arc<Neighbourhood>,
    pub(crate) through: Arc<dyn Neighbours>,
}

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
    let board = shared.neighbours().get(&id).cloned();
    let Some(board) = board else { return refuse(Reason::HostUnreachable).await };
    // Decided by the gateway already; but that reads what strangers send, and may be theirs by now.
    // An alias leads to the service that it was declared for.
    let service = match board.known.decide(service, port) {
        Ok(service) => service,
        Err(reason) => return refuse(reason).await,
    };
    let connection = match board.through.reach(service, port).await {
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

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Mutex;

    use super::*;
    use crate::link::Inbox;
    use crate::neighbours::Neighbour;

    /// Notes whom it is asked for, and reaches nobody.
    #[derive(Default)]
    struct Noting(Mutex<Vec<(String, u16)>>);

    impl Neighbours for Noting {
        fn reach(
            &self,
            service: &str,
            port: u16,
        ) -> Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send>> {
            self.0.lock().unwrap().push((service.into(), port));
            let failed = DialError::Failed { why: DialFailure::Refused, message: String::new() };
            Box::pin(std::future::ready(Err(failed)))
        }
    }

    #[tokio::test]
    async fn a_gateway_that_is_somebody_elses_reaches_only_what_was_declared() {
        let (ours, gateway) = UnixStream::pair().unwrap();
        let shared = Arc::new(Shared::over(ours));
        let noting = Arc::new(Noting::default());
        let declared = Neighbour { service: "db".into(), aliases: vec!["store".into()], ports: vec![5432] };
        let known = Arc::new(Neighbourhood::new(vec![declared]).unwrap());
        shared.neighbours().insert(7, Board { known, through: Arc::clone(&noting) as Arc<dyn Neighbours> });
        let cases = [
            (7, "db", 22, Reason::ServicePort),
            (7, "web", 80, Reason::NoSuchName),
            (8, "db", 5432, Reason::HostUnreachable),
            (7, "db", 5432, Reason::HostRefused),
            (7, "store", 5432, Reason::HostRefused),
        ];
        let mut inbox = Inbox::default();
        for (ask, (id, service, port, reason)) in (0..).zip(cases) {
            reach(Arc::clone(&shared), ask, id, service.into(), port).await;
            let (answer, _) = inbox.receive::<ToGateway>(&gateway).await.unwrap().unwrap();
            let ToGateway::Reached { ask: to, error } = answer else { unreachable!("another answer") };
            assert_eq!((to, error), (ask, Some(reason)), "{service}:{port}");
        }
        assert_eq!(*noting.0.lock().unwrap(), [("db".to_owned(), 5432), ("db".to_owned(), 5432)]);
    }
}
