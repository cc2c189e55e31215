//! What reached the servers, in order. Every server holds a [`Witness`] that writes it down.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use testnet::Seen;
use testnet::control::Reply;

use super::limits::EVENTS;

/// A name has at most 253 characters; a `Host` may pretend to be longer.
const NAME: usize = 255;
const WHAT: usize = 200;
const FIRST_BYTES: usize = 100;

/// Everything that was seen and not yet forgotten.
#[derive(Debug, Default)]
pub(crate) struct Journal(Mutex<Reply>);

impl Journal {
    /// A copy of everything.
    pub(crate) fn read(&self) -> Reply {
        self.pages().clone()
    }

    /// Starts anew.
    pub(crate) fn forget(&self) {
        *self.pages() = Reply::default();
    }

    fn write(&self, seen: Seen) {
        let mut pages = self.pages();
        if pages.events.len() < EVENTS {
            pages.events.push(seen);
        } else {
            pages.unkept += 1;
        }
    }

    fn pages(&self) -> MutexGuard<'_, Reply> {
        // Each change is a single step: what a panicking task left is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kinds of servers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Server {
    Dns,
    Http,
    Https,
    Tcp,
    Udp,
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Dns => "dns",
            Self::Http => "http",
            Self::Https => "https",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// Writes down what one server sees.
#[derive(Debug, Clone)]
pub(crate) struct Witness {
    journal: Arc<Journal>,
    server: Server,
    address: SocketAddr,
}

impl Witness {
    pub(crate) fn new(journal: &Arc<Journal>, server: Server, address: SocketAddr) -> Self {
        Self { journal: Arc::clone(journal), server, address }
    }

    /// Where this server is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Something that the server understood.
    pub(crate) fn saw(&self, name: &str, what: &str) {
        self.journal.write(Seen {
            server: self.server.to_string(),
            address: self.address.ip(),
            port: self.address.port(),
            name: name.chars().take(NAME).collect(),
            what: what.chars().take(WHAT).collect(),
        });
    }

    /// A message that is only bytes. One without any is an event too: it arrived.
    pub(crate) fn saw_message(&self, bytes: &[u8]) {
        self.saw("", &first(bytes).escape_ascii().to_string());
    }

    /// The first bytes of a stream that is only bytes. Without any it has connected, and that was seen.
    pub(crate) fn saw_stream(&self, name: &str, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.saw(name, &first(bytes).escape_ascii().to_string());
        }
    }
}

fn first(bytes: &[u8]) -> &[u8] {
    bytes.get(..FIRST_BYTES).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn witness() -> (Arc<Journal>, Witness) {
        let journal = Arc::default();
        let witness = Witness::new(&journal, Server::Tcp, "8.8.8.8:853".parse().unwrap());
        (journal, witness)
    }

    #[test]
    fn events_are_bounded_in_length_and_number() {
        let (journal, witness) = witness();
        witness.saw(&"n".repeat(1000), &"w".repeat(1000));
        witness.saw_message(&[0; 1000]);
        let events = journal.read().events;
        let lengths: Vec<_> = events.iter().map(|seen| (seen.name.len(), seen.what.len())).collect();
        assert_eq!(lengths, [(NAME, WHAT), (0, WHAT)]);
        for _ in 0..EVENTS {
            witness.saw("", "x");
        }
        let reply = journal.read();
        assert_eq!((reply.events.len(), reply.unkept), (EVENTS, 2));
        journal.forget();
        assert_eq!(journal.read(), Reply::default());
    }

    #[test]
    fn bytes_are_escaped_and_an_empty_message_is_an_event() {
        let (journal, witness) = witness();
        witness.saw_stream("", b"\x16\x03hi\n");
        witness.saw_stream("", b"");
        witness.saw_message(b"");
        let seen = |what: &str| Seen {
            server: "tcp".into(),
            address: "8.8.8.8".parse().unwrap(),
            port: 853,
            name: String::new(),
            what: what.into(),
        };
        assert_eq!(journal.read().events, [seen(r"\x16\x03hi\n"), seen("")]);
    }
}
