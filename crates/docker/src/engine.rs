//! A daemon that we ask. Every question has a deadline and a name; only so many containers are begun at the same time.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::SystemVersion;
use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::endpoint::{Endpoint, Surroundings};
use crate::error::DockerError;

/// Containers that are begun or ended at the same time: more would only wait for each other in the daemon.
const AT_ONCE: usize = 8;

/// How long a daemon may take before it counts as hung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For a question about what is.
    pub question: Duration,
    /// For making, starting or ending a container.
    pub work: Duration,
    /// For the next sign of life while an image is fetched or built.
    pub progress: Duration,
    /// For the whole of a build, whatever signs of life it gives.
    pub build: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            question: Duration::from_secs(20),
            work: Duration::from_mins(1),
            progress: Duration::from_mins(10),
            build: Duration::from_hours(2),
        }
    }
}

/// A daemon. All of a process share the bound on how much is begun at the same time.
#[derive(Clone)]
pub struct Engine {
    client: Docker,
    endpoint: Endpoint,
    version: Arc<SystemVersion>,
    patience: Patience,
    room: Arc<Semaphore>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Logins are sent in the alphabet of web addresses, which is what daemons read; the client has the other one.
fn for_web_addresses(mut request: bollard::BollardRequest) -> bollard::BollardRequest {
    for name in ["x-registry-auth", "x-registry-config"] {
        let Some(value) = request.headers_mut().get_mut(name) else { continue };
        if let Ok(written) = web_alphabet(value.as_bytes()).try_into() {
            *value = written;
        }
    }
    request
}

fn web_alphabet(base64: &[u8]) -> Vec<u8> {
    let replaced = |byte: &u8| match byte {
        b'+' => b'-',
        b'/' => b'_',
        other => *other,
    };
    base64.iter().map(replaced).collect()
}

/// The room at a daemon is one for the whole process, however often it is connected with.
fn room_at(endpoint: &str) -> Arc<Semaphore> {
    static ROOMS: Mutex<BTreeMap<String, Weak<Semaphore>>> = Mutex::new(BTreeMap::new());
    let mut rooms = ROOMS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(room) = rooms.get(endpoint).and_then(Weak::upgrade) {
        return room;
    }
    let room = Arc::new(Semaphore::new(AT_ONCE));
    rooms.insert(endpoint.to_owned(), Arc::downgrade(&room));
    room
}

impl Engine {
    /// The daemon that the surroundings of this process name.
    pub async fn find() -> Result<Self, DockerError> {
        let endpoint = Endpoint::find(&Surroundings::of_this_process())?;
        Self::connect(endpoint, Patience::default()).await
    }

    /// Asks a daemon for its version, and speaks the older one of its and ours from then on.
    pub async fn connect(endpoint: Endpoint, patience: Patience) -> Result<Self, DockerError> {
        // The client's own deadline is the longest of ours, which hold for the whole answer.
        let seconds = patience.work.max(patience.progress).as_secs().max(1);
        let client = match &endpoint {
            Endpoint::Unix(path) => Docker::connect_with_unix(&path.to_string_lossy(), seconds, API_DEFAULT_VERSION),
            Endpoint::Tcp(address) => Docker::connect_with_http(address, seconds, API_DEFAULT_VERSION),
            Endpoint::Tls(address, certificates) => {
                // Whoever was first keeps it; both are the same.
                let _ = rustls::crypto::ring::default_provider().install_default();
                let file = |name: &str| certificates.join(name);
                let (key, cert, ca) = (file("key.pem"), file("cert.pem"), file("ca.pem"));
                Docker::connect_with_ssl(address, &key, &cert, &ca, seconds, API_DEFAULT_VERSION)
            }
        };
        let shown = endpoint.to_string();
        let client = client.map_err(|error| DockerError::of("connect", &shown, patience.question, error))?;
        let client = client.with_request_modifier(for_web_addresses);
        let room = room_at(&shown);
        let engine = Self { client, endpoint, version: Arc::default(), patience, room };
        let client = engine.ask("version", Docker::negotiate_version).await?;
        let engine = Self { client, ..engine };
        let version = Arc::new(engine.ask("version", |client| async move { client.version().await }).await?);
        Ok(Self { version, ..engine })
    }

    /// What it says of itself.
    pub(crate) fn version(&self) -> &SystemVersion {
        &self.version
    }

    /// Whether it mounts a part of a volume when it is told to; before this version of the API it mounts all of it.
    pub(crate) fn knows_subpaths(&self) -> bool {
        let spoken = self.client.client_version();
        !self.is_podman() && (spoken.major_version, spoken.minor_version) >= (1, 45)
    }

    /// Whether it is Podman's compatible service, which leaves out some of what the Engine does.
    pub(crate) fn is_podman(&self) -> bool {
        self.version.components.iter().flatten().any(|component| component.name.starts_with("Podman"))
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    pub(crate) fn client(&self) -> &Docker {
        &self.client
    }

    /// Room to begin or end a container; held while that lasts.
    pub(crate) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        // Never closed.
        Arc::clone(&self.room).acquire_owned().await.ok()
    }

    /// A question about what is.
    pub(crate) async fn ask<T, F>(
        &self,
        call: &'static str,
        question: impl FnOnce(Docker) -> F,
    ) -> Result<T, DockerError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.within(call, self.patience.question, question(self.client.clone())).await
    }

    /// Making, starting or ending something.
    pub(crate) async fn order<T, F>(
        &self,
        call: &'static str,
        order: impl FnOnce(Docker) -> F,
    ) -> Result<T, DockerError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.within(call, self.patience.work, order(self.client.clone())).await
    }

    /// The whole answer within a deadline.
    pub(crate) async fn within<T>(
        &self,
        call: &'static str,
        deadline: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, DockerError> {
        let endpoint = self.endpoint.to_string();
        match tokio::time::timeout(deadline, work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(DockerError::of(call, &endpoint, deadline, error)),
            Err(_) => Err(DockerError::Hangs { call, endpoint, deadline }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_written_as_daemons_read_them() {
        assert_eq!(web_alphabet(b"ab+/c="), b"ab-_c=");
    }
}
