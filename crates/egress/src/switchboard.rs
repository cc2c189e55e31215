//! Who reaches whom in a sample: services by name, and the guests that speak for them.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandbox::{Connection, DialError, DialFailure, Sandbox, Session};

/// How long a service's own guest may take to connect.
const DIAL: Duration = Duration::from_secs(4);
/// Where a service listens: everywhere or on loopback; if not there, on the address that its sandbox has.
const PLACES: [&str; 2] = ["localhost", "198.18.0.1"];

/// Whoever can connect to the services of a sample. Dropping the future gives up.
pub trait Neighbours: Send + Sync {
    /// A connection to a port of a service. Both were declared when the sandbox that asks was attached.
    fn reach(&self, service: &str, port: u16) -> Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send>>;
}

/// The services of one sample. Each has a board of its own, so no name leads into another sample.
///
/// Every provider can be on it: all that is used of a sandbox is its guest.
#[derive(Debug, Default)]
pub struct Switchboard {
    services: Mutex<HashMap<String, Session>>,
}

impl Switchboard {
    /// A board without services.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn services(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on connections to this service go to this sandbox. One that was registered before is replaced; its
    /// connections stay.
    pub fn register(&self, service: &str, sandbox: &Sandbox) {
        self.services().insert(service.to_ascii_lowercase(), sandbox.session().clone());
    }

    /// Nobody is connected to this service any more. Connections that stand end with its sandbox.
    pub fn forget(&self, service: &str) {
        self.services().remove(&service.to_ascii_lowercase());
    }
}

impl Neighbours for Switchboard {
    fn reach(&self, service: &str, port: u16) -> Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send>> {
        let session = self.services().get(service).cloned();
        Box::pin(async move {
            // Declared, and not started yet or ended: as a host where nobody listens.
            let mut last = failed(DialFailure::Refused, "the service does not run");
            let Some(session) = session else { return Err(last) };
            for place in PLACES {
                match session.dial(place, port, DIAL).await {
                    Ok(connection) => return Ok(connection),
                    Err(error @ DialError::Failed { why: DialFailure::Refused, .. }) => last = error,
                    Err(error) => return Err(error),
                }
            }
            Err(last)
        })
    }
}

fn failed(why: DialFailure, message: &str) -> DialError {
    DialError::Failed { why, message: message.to_owned() }
}
