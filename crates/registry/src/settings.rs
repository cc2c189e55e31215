//! What a caller may choose.

use std::net::SocketAddr;
use std::time::Duration;

/// How a registry is asked. The default is right but for tests and odd networks.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long anything may take.
    pub timing: Timing,
    /// The largest layer, in bytes.
    pub max_layer: u64,
    /// Through what other machines are asked. This machine itself is always asked directly.
    pub proxies: Proxies,
    /// Certificates of authorities (DER) to trust beside the system's. Empty: only the system's.
    pub authorities: Vec<Vec<u8>>,
    /// Addresses of hosts that are not to be looked up. Empty: every name is looked up.
    pub addresses: Vec<(String, SocketAddr)>,
}

/// How long anything may take.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Until a connection stands, with TLS.
    pub connect: Duration,
    /// Until the head of an answer is there, with the connection; then until the next byte.
    pub idle: Duration,
    /// For a whole manifest or token: these are small, and a trickle is an attack. Blobs may take as long as they move.
    pub document: Duration,
    /// Before the first repetition; four times that before the second.
    pub backoff: Duration,
}

/// Through what other machines are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxies {
    /// What `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` say. A proxy carries TLS that it cannot read.
    Environment,
    /// Directly.
    None,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timing: Timing::default(),
            max_layer: 16 << 30,
            proxies: Proxies::Environment,
            authorities: Vec::new(),
            addresses: Vec::new(),
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            document: Duration::from_mins(1),
            backoff: Duration::from_millis(500),
        }
    }
}
