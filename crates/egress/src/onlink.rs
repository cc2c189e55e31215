//! On-link networks: those that the runner's own interfaces are attached to.
//!
//! A host in one of them is a neighbour of the runner, not the external network, even where its address is public: a site
//! often trusts its own range. Only the prefixes of interface addresses count. Routes do not, since a default route
//! without a gateway, as on a point-to-point tunnel, would make the whole internet a neighbour.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// How long a list is good: interfaces come and go, and asking the kernel costs as much as a connection.
const FRESH: Duration = Duration::from_secs(1);
/// Shorter prefixes are ignored: no site has such a network, and it would close most of the internet.
const SHORTEST_V4: u8 = 8;
const SHORTEST_V6: u8 = 16;
/// How often a dump is repeated that changed while it was made.
const TRIES: u32 = 3;

/// The on-link networks of this network namespace, asked for again when they are old.
#[derive(Debug, Default)]
pub(crate) struct OnLink {
    known: Mutex<Option<(Instant, Arc<[IpNet]>)>>,
}

impl OnLink {
    /// Whether the address is on-link. An error means that the kernel did not tell: then nothing is known to be outside.
    pub(crate) fn contains(&self, address: IpAddr) -> io::Result<bool> {
        Ok(self.networks()?.iter().any(|network| network.contains(&address)))
    }

    fn networks(&self) -> io::Result<Arc<[IpNet]>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, networks)) = &*known
            && since.elapsed() < FRESH
        {
            return Ok(Arc::clone(networks));
        }
        let networks: Arc<[IpNet]> = IpNet::aggregate(&ask()?).into();
        *known = Some((Instant::now(), Arc::clone(&networks)));
        Ok(networks)
    }
}

/// Asks the kernel for the addresses of all interfaces (rtnetlink(7), `RTM_GETADDR`).
fn ask() -> io::Result<Vec<IpNet>> {
    const GET_ADDRESS: u16 = 22;
    const REQUEST_DUMP: u16 = 0x301;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    for try_number in 1..=TRIES {
        let mut request = Vec::with_capacity(24);
        request.extend(24_u32.to_ne_bytes());
        request.extend(GET_ADDRESS.to_ne_bytes());
        request.extend(REQUEST_DUMP.to_ne_bytes());
        request.extend(try_number.to_ne_bytes()); // sequence
        request.extend([0; 4 + 8]); // port, and a head for any family
        send(&socket, &request, SendFlags::empty())?;
        let mut dump = Dump { sequence: try_number, ..Dump::default() };
        let mut buffer = vec![0; 64 << 10];
        while !dump.done {
            // The kernel puts the next part of a dump there before it returns: there is never anything to wait for.
            let (_, length) = recv(socket.as_fd(), &mut buffer[..], RecvFlags::TRUNC | RecvFlags::DONTWAIT)?;
            let datagram = buffer.get(..length).ok_or_else(|| invalid("a longer answer than there is room for"))?;
            dump.read(datagram)?;
        }
        if !dump.interrupted {
            return Ok(dump.networks);
        }
    }
    Err(invalid("the addresses of interfaces keep changing"))
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The answer to a request for all addresses.
#[derive(Debug, Default)]
struct Dump {
    sequence: u32,
    networks: Vec<IpNet>,
    done: bool,
    /// An address came or went meanwhile: some may be missing.
    interrupted: bool,
}

impl Dump {
    fn read(&mut self, mut datagram: &[u8]) -> io::Result<()> {
        const ERROR: u16 = 2;
        const DONE: u16 = 3;
        const NEW_ADDRESS: u16 = 20;
        const INTERRUPTED: u16 = 0x10;
        while let Some((head, _)) = datagram.split_first_chunk::<16>() {
            let length =
                usize::try_from(u32::from_ne_bytes([head[0], head[1], head[2], head[3]])).unwrap_or(usize::MAX);
            let (kind, flags) = (u16::from_ne_bytes([head[4], head[5]]), u16::from_ne_bytes([head[6], head[7]]));
            let sequence = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
            let payload = datagram.get(16..length).ok_or_else(|| invalid("an answer that is cut"))?;
            datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
            // The rest of a dump that was given up.
            if sequence != self.sequence {
                continue;
            }
            self.interrupted |= flags & INTERRUPTED != 0;
            match kind {
                DONE => self.done = true,
                ERROR => {
                    let code = payload.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                }
                NEW_ADDRESS => self.networks.extend(network_of(payload)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The network of one interface address: its prefix, or with a peer that of the peer.
fn network_of(payload: &[u8]) -> Option<IpNet> {
    const ADDRESS: u16 = 1;
    let (&[family, prefix, ..], mut attributes) = payload.split_first_chunk::<8>()?;
    while let Some((&[l0, l1, k0, k1], _)) = attributes.split_first_chunk::<4>() {
        let (length, kind) = (usize::from(u16::from_ne_bytes([l0, l1])), u16::from_ne_bytes([k0, k1]));
        let value = attributes.get(4..length)?;
        if kind == ADDRESS {
            return network(family, value, prefix);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn network(family: u8, address: &[u8], prefix: u8) -> Option<IpNet> {
    let (address, shortest): (IpAddr, u8) = match i32::from(family) {
        2 => (Ipv4Addr::from(<[u8; 4]>::try_from(address).ok()?).into(), SHORTEST_V4),
        10 => (Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?).into(), SHORTEST_V6),
        _ => return None,
    };
    (prefix >= shortest).then(|| IpNet::new(address, prefix).ok()).flatten().map(|network| network.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(16 + payload.len()).unwrap();
        let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes()].concat();
        bytes.extend([7_u32.to_ne_bytes(), [0; 4]].concat());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn address(prefix: u8, attributes: &[(u16, &str)]) -> Vec<u8> {
        let mut payload = vec![0, prefix, 0, 0, 2, 0, 0, 0];
        for (kind, address) in attributes {
            let octets = match address.parse().unwrap() {
                IpAddr::V4(v4) => v4.octets().to_vec(),
                IpAddr::V6(v6) => v6.octets().to_vec(),
            };
            payload[0] = if octets.len() == 4 { 2 } else { 10 };
            payload.extend(u16::try_from(4 + octets.len()).unwrap().to_ne_bytes());
            payload.extend(kind.to_ne_bytes());
            payload.extend(octets);
        }
        message(20, 2, &payload)
    }

    fn networks(messages: &[Vec<u8>]) -> Vec<String> {
        let mut dump = Dump { sequence: 7, ..Dump::default() };
        dump.read(&[&messages.concat()[..], &message(3, 2, &[0; 4])].concat()).unwrap();
        assert!(dump.done);
        dump.networks.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_prefixes_of_interface_addresses_are_the_networks() {
        let ordinary = address(24, &[(1, "93.184.215.7"), (2, "93.184.215.7")]);
        let v6 = address(64, &[(1, "2606:2800:220:1::7")]);
        // With a peer, `IFA_LOCAL` is ours and the prefix is the peer's.
        let peer = address(32, &[(2, "93.184.1.1"), (1, "93.184.9.9")]);
        assert_eq!(networks(&[ordinary, v6, peer]), ["93.184.215.0/24", "2606:2800:220:1::/64", "93.184.9.9/32"]);
    }

    #[test]
    fn prefixes_that_would_close_the_internet_are_ignored() {
        for (prefix, text) in [(0, "93.184.215.7"), (7, "93.184.215.7"), (0, "2606::1"), (15, "2606::1")] {
            assert_eq!(networks(&[address(prefix, &[(1, text)])]), [""; 0], "{text}/{prefix}");
        }
        assert_eq!(networks(&[address(8, &[(1, "93.184.215.7")])]), ["93.0.0.0/8"]);
        assert_eq!(networks(&[address(33, &[(1, "93.184.215.7")])]), [""; 0], "what is no prefix");
    }

    #[test]
    fn broken_answers_are_errors_and_not_an_empty_list() {
        let mut dump = Dump { sequence: 7, ..Dump::default() };
        let denied = message(2, 0, &(-13_i32).to_ne_bytes());
        assert_eq!(dump.read(&denied).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let whole = address(24, &[(1, "93.184.215.7")]);
        assert!(dump.read(&whole[..20]).is_err());
        dump.read(&message(20, 0x12, &[])).unwrap();
        assert!(dump.interrupted && !dump.done);
        for end in 0..whole.len() {
            let _ = dump.read(&whole[..end]);
        }
    }

    #[test]
    fn this_host_has_loopback_on_link() {
        let on_link = OnLink::default();
        assert!(on_link.contains("127.9.9.9".parse().unwrap()).unwrap());
        // Of a range that no host has (RFC 1112).
        assert!(!on_link.contains("240.0.0.1".parse().unwrap()).unwrap());
    }
}
