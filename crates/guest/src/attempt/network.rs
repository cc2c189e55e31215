//! Attempts to speak with somebody.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as LocalName, UnixStream};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto};
use wire::{Attempted, Ending, LocalAddress, MAX_ATTEMPTED};

use super::errno;

/// How long a look for the next connection takes.
const TICK: Duration = Duration::from_millis(5);

struct Clock(Instant);

impl Clock {
    fn of(timeout_ms: u64) -> Self {
        Self(Instant::now() + Duration::from_millis(timeout_ms.min(60_000)))
    }

    /// Never zero, which would mean no limit.
    fn left(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.0
    }
}

/// Reads to the end, the limit or the deadline.
fn receive(clock: &Clock, mut read: impl FnMut(Duration, &mut [u8]) -> io::Result<usize>) -> Attempted {
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    let ending = loop {
        if clock.is_over() {
            break Ending::TimedOut;
        }
        match read(clock.left(), &mut buffer) {
            Ok(0) => break Ending::Closed,
            Ok(count) if received.len() + count > MAX_ATTEMPTED => break Ending::Closed,
            Ok(count) => received.extend(buffer.iter().take(count)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                break Ending::TimedOut;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Ending::Broken(errno(&error)),
        }
    };
    Attempted::Exchanged { received, ending }
}

pub(super) fn tcp(to: SocketAddr, send: &[u8], timeout_ms: u64) -> io::Result<Attempted> {
    let clock = Clock::of(timeout_ms);
    let mut stream = TcpStream::connect_timeout(&to, clock.left())?;
    stream.set_write_timeout(Some(clock.left()))?;
    if let Err(error) = stream.write_all(send) {
        return Ok(Attempted::Exchanged { received: Vec::new(), ending: Ending::Broken(errno(&error)) });
    }
    Ok(receive(&clock, |left, buffer| {
        stream.set_read_timeout(Some(left))?;
        stream.read(buffer)
    }))
}

pub(super) fn udp(to: SocketAddr, send: &[u8], timeout_ms: u64) -> io::Result<Attempted> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    socket.send(send)?;
    socket.set_read_timeout(Some(Clock::of(timeout_ms).left()))?;
    let mut buffer = [0; 4096];
    Ok(match socket.recv(&mut buffer) {
        Ok(count) => {
            Attempted::Exchanged { received: buffer.iter().copied().take(count).collect(), ending: Ending::Closed }
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Attempted::Exchanged { received: Vec::new(), ending: Ending::TimedOut }
        }
        Err(error) => Attempted::Exchanged { received: Vec::new(), ending: Ending::Broken(errno(&error)) },
    })
}

pub(super) fn local(to: &LocalAddress, timeout_ms: u64) -> io::Result<Attempted> {
    let name = match to {
        LocalAddress::Abstract(name) => LocalName::from_abstract_name(name)?,
        LocalAddress::Path(path) => LocalName::from_pathname(path)?,
    };
    let clock = Clock::of(timeout_ms);
    let mut stream = UnixStream::connect_addr(&name)?;
    Ok(receive(&clock, |left, buffer| {
        stream.set_read_timeout(Some(left))?;
        stream.read(buffer)
    }))
}

pub(super) fn listen(port: u16, reply: &[u8], timeout_ms: u64) -> io::Result<Attempted> {
    let clock = Clock::of(timeout_ms);
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    listener.set_nonblocking(true)?;
    let mut amount = 0;
    while !clock.is_over() {
        match listener.accept() {
            Ok((mut stream, _)) => {
                amount += 1;
                // Whoever went away needs no answer.
                let _ = stream.write_all(reply);
            }
            Err(_) => std::thread::sleep(TICK),
        }
    }
    Ok(Attempted::Amount { amount, errno: None })
}

pub(super) fn ping(to: IpAddr, payload: &[u8], timeout_ms: u64) -> io::Result<Attempted> {
    let (family, protocol, request, reply) = match to {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8_u8, 0_u8),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128, 129),
    };
    let open = |kind| rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, Some(protocol));
    // Raw needs a right; the other kind is for those without.
    let socket = open(SocketType::RAW).or_else(|_| open(SocketType::DGRAM))?;
    let mut message = vec![request, 0, 0, 0, 0x52, 0x46, 0, 1];
    message.extend(payload.iter().take(512));
    // The kernel sums up for IPv6 itself.
    if to.is_ipv4() {
        let [high, low] = checksum(&message).to_be_bytes();
        (message[2], message[3]) = (high, low);
    }
    rustix::net::sendto(&socket, &message, SendFlags::empty(), &SocketAddr::new(to, 0))?;
    let clock = Clock::of(timeout_ms);
    let mut buffer = [0; 2048];
    while !clock.is_over() {
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(clock.left()))?;
        let Ok((count, _)) = rustix::net::recv(&socket, &mut buffer, RecvFlags::empty()) else { break };
        let received: Vec<u8> = buffer.iter().copied().take(count).collect();
        // Behind a header of IPv4, or without one.
        let is_reply = [0, 20].iter().any(|&at| received.get(at) == Some(&reply));
        if is_reply && received.ends_with(payload) {
            return Ok(Attempted::Exchanged { received, ending: Ending::Closed });
        }
    }
    Ok(Attempted::Exchanged { received: Vec::new(), ending: Ending::TimedOut })
}

/// RFC 1071.
fn checksum(message: &[u8]) -> u16 {
    let mut sum: u32 = message
        .chunks(2)
        .map(|pair| {
            u32::from(u16::from_be_bytes([pair.first().copied().unwrap_or(0), pair.get(1).copied().unwrap_or(0)]))
        })
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_checksum_is_that_of_the_standard() {
        assert_eq!(super::checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(super::checksum(&[1]), !0x0100);
    }
}
