//! A sandbox's network over its control stream, for providers whose listeners we cannot hold.
//!
//! The guest listens, and hands on what arrives when we ask for it. What it claims is believed of its own sandbox only:
//! the address that a program asked for is what the gateway judges, and nothing else follows from it.

use std::net::SocketAddr;
use std::sync::Arc;

use wire::Host;

use crate::connection::Connection;
use crate::operation::{Event, Running};
use crate::session::{Session, SessionError};

/// A network that a guest relays. The last clone closes its listeners; the end of the guest ends it.
#[derive(Debug, Clone)]
pub struct Relay {
    session: Session,
    _network: Arc<Running>,
}

/// A connection that a program inside has opened.
#[derive(Debug)]
pub struct Arrived {
    /// The address that it asked for, as its guest says; `None` if it went straight to the listener.
    pub to: Option<SocketAddr>,
    /// Its bytes.
    pub connection: Connection,
}

/// A question of a program inside to a name server. Dropping it is silence.
#[derive(Debug)]
pub struct Inquiry {
    /// Its bytes, bounded, and read by nobody yet.
    pub question: Vec<u8>,
    running: Running,
}

impl Inquiry {
    /// Tells the program.
    pub fn answer(mut self, answer: Vec<u8>) {
        self.running.answer(answer);
    }
}

impl Session {
    /// Has the guest be the sandbox's network, at the ports to which its rules bring everything. Before any command.
    pub async fn relay(&self, tcp: u16, udp: u16) -> Result<Relay, SessionError> {
        let mut running = self.begin(|id| Host::Relay { id, tcp, udp })?;
        match running.next().await {
            Event::Connected => Ok(Relay { session: self.clone(), _network: Arc::new(running) }),
            Event::Gone(error) => Err(error),
            _ => Err(SessionError::Died("its guest answered a question with something else".into())),
        }
    }
}

impl Relay {
    /// The next connection. Any number may be waited for at the same time; an error means that the network is gone.
    pub async fn accept(&self) -> Result<Arrived, SessionError> {
        let mut running = self.session.begin_link(|id, window| Host::Accept { id, window })?;
        match running.next().await {
            Event::Accepted(to) => Ok(Arrived { to, connection: Connection::over(running) }),
            Event::Gone(error) => Err(error),
            _ => Err(SessionError::Died("its guest handed on something else than a connection".into())),
        }
    }

    /// The next question. Any number may be waited for at the same time; an error means that the network is gone.
    pub async fn question(&self) -> Result<Inquiry, SessionError> {
        let mut running = self.session.begin(|id| Host::Query { id })?;
        match running.next().await {
            Event::Asked(question) => Ok(Inquiry { question, running }),
            Event::Gone(error) => Err(error),
            _ => Err(SessionError::Died("its guest handed on something else than a question".into())),
        }
    }

    /// Resolves when the sandbox is gone, and its network with it.
    pub async fn gone(&self) {
        self.session.gone().await;
    }
}
