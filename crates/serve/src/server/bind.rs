//! Where the server listens.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{TcpListener, UnixListener};

use super::tokens::Tokens;

/// Where to listen.
#[derive(Debug)]
pub enum Place {
    /// On a socket that only its owner may open.
    Socket(PathBuf),
    /// On an address; whoever asks needs a token.
    Tcp(SocketAddr, Arc<Tokens>),
}

/// Why nobody listens.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody else does.
    #[error("a server listens on `{}` already", path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// Something else is there.
    #[error("`{}` is not a socket", path.display())]
    NoSocket {
        /// What is there.
        path: PathBuf,
    },
    /// The system says no.
    #[error("cannot listen on `{place}`")]
    Bind {
        /// Where.
        place: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Where the server can be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A socket.
    Socket(PathBuf),
    /// An address, with the port that was really taken.
    Tcp(SocketAddr),
}

pub(crate) enum Listener {
    Socket(UnixListener),
    Tcp(TcpListener, Arc<Tokens>),
}

/// A server that listens and has not begun to serve. Dropping it removes its socket.
pub struct Bound {
    pub(crate) listener: Listener,
    address: Address,
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Bound {
    /// Where it can be found.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Address::Socket(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Listens. A socket that a dead server left is replaced.
pub async fn bind(place: Place) -> Result<Bound, ListenError> {
    match place {
        Place::Socket(path) => {
            let listener = socket(&path)?;
            Ok(Bound { listener: Listener::Socket(listener), address: Address::Socket(path) })
        }
        Place::Tcp(address, tokens) => {
            let failed = |source| ListenError::Bind { place: address.to_string(), source };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            Ok(Bound { listener: Listener::Tcp(listener, tokens), address: Address::Tcp(address) })
        }
    }
}

fn socket(path: &Path) -> Result<UnixListener, ListenError> {
    let failed = |source: io::Error| ListenError::Bind { place: path.display().to_string(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(ListenError::NoSocket { path: path.to_owned() }),
        // Nobody answers: whoever made it is dead.
        Ok(_) => match StdUnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
            Ok(_) => return Err(ListenError::Taken { path: path.to_owned() }),
        },
    }
    let made = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Before it has a name: there is no moment at which others may open it.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&socket, 128)?;
        UnixListener::from_std(std::os::unix::net::UnixListener::from(socket))
    };
    made().map_err(failed)
}
