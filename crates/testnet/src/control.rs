//! What the library and the servers say to each other: one JSON line each way per connection to the socket `control`.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Name of the socket in the directory of a testnet.
pub const SOCKET: &str = "control";
/// Name of the certificate of the authority in the directory of a testnet.
pub const CA: &str = "ca.pem";
/// The line that the servers print when all of them listen.
pub const READY: &str = "ready";

/// Something that reached a server.
///
/// An accepted TCP connection is one event, `connected`, before any byte. Then comes what the server understood:
/// queries, the `hello` of a TLS client, requests; or the first bytes, escaped, where it understood nothing or only
/// echoes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// `dns`, `http`, `https`, `tcp` or `udp`.
    pub server: String,
    /// The server's address, to which the client came.
    pub address: IpAddr,
    /// The server's port.
    pub port: u16,
    /// The name asked for in lower case (`dns`), the `Host` (`http`), the server name in TLS (`https`), or nothing.
    pub name: String,
    /// `connected`, `hello`, the type of a query, `METHOD target`, or escaped bytes; at most 200 characters.
    pub what: String,
}

/// What the library asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Everything that was seen.
    Seen,
    /// Forget it.
    Forget,
}

/// What the servers answer; empty after [`Request::Forget`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// In the order in which it was seen.
    pub events: Vec<Seen>,
    /// How many more there were than the servers keep.
    pub unkept: u64,
}
