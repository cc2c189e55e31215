//! A service in another sandbox: there for its own neighbours, and for nobody else.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use sandbox::{Attempt, Attempted, Sandbox, SessionError, Tried, User};

use crate::bytes;
use crate::host::{attempt, words};
use crate::probe::Finding;

const PORT: u16 = 8123;
/// The address that every sandbox has for itself.
const OWN: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const PATIENCE: Duration = Duration::from_secs(5);

fn connect(address: Ipv4Addr) -> Attempt {
    Attempt::Tcp { to: SocketAddr::from((address, PORT)), send: Vec::new(), timeout_ms: 1000 }
}

fn has_token(tried: &Tried, token: &str) -> bool {
    matches!(tried, Tried::Answered(Attempted::Exchanged { received, .. }) if bytes::contains(received, token.as_bytes()))
}

/// Listens in one sandbox, and connects from it and from another.
pub(crate) async fn probe(inside: &Sandbox, sibling: &Sandbox, token: &str) -> Result<Finding, SessionError> {
    let timeout_ms = u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX);
    let listen = Attempt::Listen { port: PORT, reply: token.into(), timeout_ms };
    let listening = sibling.attempt(listen, User::Default, PATIENCE);
    let connecting = async {
        let deadline = Instant::now() + PATIENCE / 2;
        // It takes a moment until somebody listens.
        while !has_token(&attempt(sibling, connect(Ipv4Addr::LOCALHOST)).await?, token) {
            if Instant::now() > deadline {
                return Ok(Finding::unknown("it is not reached in its own sandbox either"));
            }
        }
        let mut seen = Vec::new();
        for address in [Ipv4Addr::LOCALHOST, OWN] {
            let tried = attempt(inside, connect(address)).await?;
            if has_token(&tried, token) {
                return Ok(Finding::fail(format!("canary bytes arrived from {address}")));
            }
            seen.push(format!("{address}: {}", words(&tried)));
        }
        Ok(Finding::pass(format!("{}; its own sandbox reaches it", seen.join(", "))))
    };
    // Whoever listens is ended with the answer.
    tokio::select! {
        found = connecting => found,
        listened = listening => Ok(Finding::unknown(format!("nobody listens: {}", words(&listened?)))),
    }
}
