//! One side of a connection, whatever carries it: TCP, or a pair of sockets whose other end the runner holds.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::bridge::wait_for_farewell;

/// Called when we break a stream off: its other end cannot tell that from an end of what we send.
pub(crate) type OnReset = Box<dyn FnOnce() + Send + Sync>;

/// A stream of bytes in both directions.
pub(crate) enum Socket {
    /// To a program or to the world.
    Tcp(TcpStream),
    /// To the runner, who speaks with a guest at the other end.
    Handed(UnixStream, Option<OnReset>),
}

impl Socket {
    /// One that came as a descriptor.
    pub(crate) fn handed(descriptor: OwnedFd, on_reset: Option<OnReset>) -> io::Result<Self> {
        let stream = std::os::unix::net::UnixStream::from(descriptor);
        stream.set_nonblocking(true)?;
        Ok(Self::Handed(UnixStream::from_std(stream)?, on_reset))
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Handed(stream, _) => stream.readable().await,
        }
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Handed(stream, _) => stream.writable().await,
        }
    }

    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buffer),
            Self::Handed(stream, _) => stream.try_read(buffer),
        }
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Handed(stream, _) => stream.try_write(bytes),
        }
    }

    /// Small writes leave at once.
    pub(crate) fn do_not_delay(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
        }
    }

    /// Tells the other side that nothing more comes.
    pub(crate) fn end(&self) {
        // One that is gone needs not be told.
        let _ = SockRef::from(self).shutdown(Shutdown::Write);
    }

    /// Ends it so that the other side sees a broken connection, at once.
    pub(crate) fn reset(self) {
        match self {
            Self::Tcp(stream) => {
                let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            }
            Self::Handed(stream, on_reset) => {
                if let Some(on_reset) = on_reset {
                    on_reset();
                    // Whoever is told closes his end; before that, closing ours would look like an end.
                    tokio::spawn(async move { wait_for_farewell(&stream).await });
                }
            }
        }
    }

    /// The address that the program asked for, before rules brought it to the listener.
    pub(crate) fn original(&self) -> Option<SocketAddr> {
        let Self::Tcp(stream) = self else { return None };
        let socket = SockRef::from(stream);
        let found = match stream.local_addr().ok()? {
            SocketAddr::V4(_) => socket.original_dst_v4(),
            SocketAddr::V6(_) => socket.original_dst_v6(),
        };
        found.ok()?.as_socket()
    }

    /// Where it was accepted.
    pub(crate) fn accepted_at(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Handed(..) => None,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Handed(stream, _) => stream.as_fd(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Handed(stream, _) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Handed(stream, _) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Handed(stream, _) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Handed(stream, _) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
