//! Serving: the addresses, every server on them, and the socket over which the library asks what was seen.

mod control;
mod dns;
mod echo;
mod http;
mod internet;
mod journal;
mod limits;
mod pending;
mod tcp;
mod tls;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use testnet::control::{CA, READY, SOCKET};
use tokio::io::AsyncReadExt as _;
use tokio::sync::Semaphore;

use http::Site;
use journal::Journal;
use tls::Authority;

/// Why the servers do not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("cannot run `ip` (hint: it is part of iproute2)")]
    Ip(#[source] io::Error),
    #[error("cannot give this namespace its addresses; ip said: {said}")]
    Addresses { said: String },
    #[error("cannot make the certificate authority")]
    Authority(#[from] tls::TlsError),
    #[error("cannot write the certificate to {}", path.display())]
    Certificate { path: PathBuf, source: io::Error },
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot listen on {}", path.display())]
    Control { path: PathBuf, source: io::Error },
    #[error("cannot use standard input and output")]
    Streams(#[source] io::Error),
}

/// What all servers share.
#[derive(Debug)]
pub(crate) struct World {
    journal: Arc<Journal>,
    authority: Authority,
    site: Site,
    /// One permit per open TCP connection.
    connections: Arc<Semaphore>,
}

/// Serves until standard input ends: with the process that started this one, however that ends.
///
/// The tasks of the servers belong to the runtime and end with it.
pub(crate) async fn serve(directory: &Path, root: Option<PathBuf>) -> Result<(), ServeError> {
    internet::dress().await?;
    let world = Arc::new(World {
        journal: Arc::default(),
        authority: Authority::create()?,
        site: Site::new(root),
        connections: Arc::new(Semaphore::new(limits::CONNECTIONS)),
    });
    let path = directory.join(CA);
    std::fs::write(&path, world.authority.pem()).map_err(|source| ServeError::Certificate { path, source })?;
    internet::listen(&world).await?;
    let path = directory.join(SOCKET);
    control::listen(&path, &world.journal).map_err(|source| ServeError::Control { path, source })?;
    writeln!(io::stdout().lock(), "{READY}").map_err(ServeError::Streams)?;
    wait_for_the_end().await.map_err(ServeError::Streams)
}

async fn wait_for_the_end() -> io::Result<()> {
    let mut input = tokio::io::stdin();
    let mut ignored = [0; 64];
    while input.read(&mut ignored).await? > 0 {}
    Ok(())
}
