//! The listeners of a captured network, as they come out of a container: by a socket that lies in a directory of its own,
//! taken once.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_peercred, socket_type};
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketType, recvmsg};
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};

/// TCP, UDP, and the same for IPv6.
const KINDS: [(AddressFamily, SocketType); 4] = [
    (AddressFamily::INET, SocketType::STREAM),
    (AddressFamily::INET, SocketType::DGRAM),
    (AddressFamily::INET6, SocketType::STREAM),
    (AddressFamily::INET6, SocketType::DGRAM),
];

/// A socket on which one container's listeners are awaited.
pub(crate) struct Awaited(UnixListener);

impl Awaited {
    /// Whoever the container's root is outside may connect; nobody else comes near the directory.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))?;
        Ok(Self(listener))
    }

    /// The first that comes, within a deadline; `is_of` says whether a process is the container's.
    pub(crate) async fn take(self, deadline: Duration, is_of: impl Fn(u32) -> bool) -> Result<Vec<OwnedFd>, String> {
        let taking = async {
            let (stream, _) = self.0.accept().await.map_err(|error| error.to_string())?;
            let peer = socket_peercred(&stream).map_err(|error| error.to_string())?;
            let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or_default();
            if !is_of(pid) {
                return Err("somebody else answered".to_owned());
            }
            let listeners = receive(&stream).await.map_err(|error| error.to_string())?;
            check(&listeners)?;
            Ok(listeners)
        };
        tokio::time::timeout(deadline, taking)
            .await
            .unwrap_or_else(|_| Err(format!("nothing came within {deadline:?}")))
    }
}

async fn receive(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    loop {
        stream.readable().await?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let received = stream.try_io(Interest::READABLE, || {
            Ok(recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes)
        });
        match received {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                let rights = ancillary.drain().filter_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(rights) => Some(rights),
                    _ => None,
                });
                return Ok(rights.flatten().collect());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// What came is what the gateway serves, and nothing else.
fn check(listeners: &[OwnedFd]) -> Result<(), String> {
    if !matches!(listeners.len(), 2 | 4) {
        return Err(format!("{} descriptors came", listeners.len()));
    }
    for (listener, kind) in listeners.iter().zip(KINDS) {
        let is = |error: rustix::io::Errno| format!("a descriptor that is no socket came: {error}");
        let found = (socket_domain(listener).map_err(is)?, socket_type(listener).map_err(is)?);
        let listens = kind.1 != SocketType::STREAM || socket_acceptconn(listener).map_err(is)?;
        if found != kind || !listens {
            return Err("a socket of another kind came".to_owned());
        }
    }
    Ok(())
}

/// Whether a process is in a container, by the names of its control groups, which everybody may read.
pub(crate) fn is_in(pid: u32, container: &str) -> bool {
    let path = format!("/proc/{pid}/cgroup");
    std::fs::read_to_string(path).is_ok_and(|groups| groups.contains(container))
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::AsFd as _;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    /// Sends descriptors as the entry process does, and returns what is made of them.
    async fn sent(descriptors: &[OwnedFd], is_of: bool) -> Result<usize, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let awaited = Awaited::bind(&path).unwrap();
        let stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let borrowed: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !borrowed.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)));
        }
        sendmsg(&stream, &[IoSlice::new(&[1])], &mut ancillary, SendFlags::empty()).unwrap();
        awaited.take(Duration::from_secs(5), |_| is_of).await.map(|listeners| listeners.len())
    }

    fn listeners() -> Vec<OwnedFd> {
        vec![
            std::net::TcpListener::bind("127.0.0.1:0").unwrap().into(),
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into(),
        ]
    }

    #[tokio::test]
    async fn listeners_are_taken() {
        assert_eq!(sent(&listeners(), true).await, Ok(2));
    }

    #[tokio::test]
    async fn anything_else_is_refused() {
        assert!(sent(&listeners(), false).await.unwrap_err().contains("somebody else"));
        assert!(sent(&[], true).await.unwrap_err().contains("0 descriptors"));
        let mut swapped = listeners();
        swapped.reverse();
        assert!(sent(&swapped, true).await.unwrap_err().contains("another kind"));
        let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let socket = listeners().remove(0);
        assert!(sent(&[file, socket], true).await.unwrap_err().contains("no socket"));
    }

    #[tokio::test]
    async fn nobody_is_not_waited_for_without_end() {
        let directory = tempfile::tempdir().unwrap();
        let awaited = Awaited::bind(&directory.path().join("socket")).unwrap();
        assert!(awaited.take(Duration::from_millis(20), |_| true).await.unwrap_err().contains("nothing came"));
    }

    #[test]
    fn this_process_is_in_no_container_of_that_name() {
        assert!(!is_in(std::process::id(), "0123456789abcdef0123456789abcdef"));
    }
}
