//! A captured network, made from inside a fresh namespace: addresses and routes that lead nowhere but to `lo`, listeners
//! for whatever is sent there, and the rules that bring it to them.
//!
//! Nothing lies behind it: who removes the rules has a network namespace without any way out.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::Path;

use mutation::{Mutation, mutated};
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

use crate::netlink::{self, Answer, Batch, CREATE, attributes};
use crate::nftables::{self, Ports};

/// The box's own address.
const OWN_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const OWN_V6: Ipv6Addr = Ipv6Addr::new(0xfd72, 0x696e, 0x6766, 0, 0, 0, 0, 1);
const BOTH: [IpAddr; 2] = [IpAddr::V4(OWN_V4), IpAddr::V6(OWN_V6)];
const V4_ALONE: [IpAddr; 1] = [IpAddr::V4(OWN_V4)];
/// What programs inside find as their name server. Nobody has this address; the rules bring queries to the resolver.
pub(crate) const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// `lo` is the first interface of every namespace.
const LOOPBACK: u32 = 1;
/// Where the guest listens that relays: above the ports that the kernel gives to whoever asks for any.
pub const RELAY_TCP: u16 = 61_953;
/// The same for queries.
pub const RELAY_UDP: u16 = 61_954;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// Entries of connections that are over leave the host's table soon: a flood of short ones must not fill it.
pub(crate) const TIMEOUTS: [(&str, &str); 7] = [
    // What is not begun in the table never comes into it: answers to untracked connections would stay for days.
    ("nf_conntrack_tcp_loose", "0"),
    ("nf_conntrack_tcp_timeout_established", "1200"),
    ("nf_conntrack_udp_timeout", "5"),
    ("nf_conntrack_udp_timeout_stream", "5"),
    ("nf_conntrack_tcp_timeout_time_wait", "2"),
    ("nf_conntrack_tcp_timeout_close", "1"),
    ("nf_conntrack_tcp_timeout_last_ack", "5"),
];

/// Listeners in the order TCP, UDP, and the same for IPv6 where the kernel has it.
pub(crate) type Listeners = Vec<OwnedFd>;

/// What is the same for many networks: the listeners' port, which is free in every namespace that is new, and what is said
/// to the kernel about it. Making it takes as long as saying it, so it is made once.
pub(crate) struct Captor {
    port: u16,
    with_v6: Sayings,
    without_v6: Sayings,
}

struct Sayings {
    rules: Batch,
    routes: Batch,
}

impl Sayings {
    fn new(ports: Ports, own: &[IpAddr]) -> Self {
        let mut rules = nftables::batch(ports);
        let mut routes = Batch::default();
        for own in own {
            route_to_loopback(&mut routes, *own);
        }
        rules.acknowledge_the_last();
        routes.acknowledge_the_last();
        Self { rules, routes }
    }

    /// Brings everything that is sent to these ports.
    fn say(&self, proc: &Path) -> io::Result<()> {
        // Rules first: at no moment does a route lead to where nothing watches.
        send(libc::NETLINK_NETFILTER, &self.rules)?;
        send(libc::NETLINK_ROUTE, &self.routes)?;
        let settings = open(proc.join("sys/net/netfilter"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        TIMEOUTS.into_iter().try_for_each(|(name, value)| set(&settings, name, value))
    }
}

impl Captor {
    pub(crate) fn new() -> Self {
        // One of those that the kernel gives to whoever asks for any, so that no program counts on it.
        let port = 32_768 + u16::try_from(RandomState::new().build_hasher().finish() % 28_000).unwrap_or(0);
        let ports = Ports { tcp: port, udp: port };
        Self { port, with_v6: Sayings::new(ports, &BOTH), without_v6: Sayings::new(ports, &V4_ALONE) }
    }

    /// Captures the network namespace that this process is in; `proc` is where its /proc is mounted.
    pub(crate) fn set_up(&self, proc: &Path) -> io::Result<Listeners> {
        // In the host's own namespace it may be somebody's.
        let port = if mutated(Mutation::HostNetwork) { 0 } else { self.port };
        let v4 = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        let v6 = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port);
        let mut listeners = vec![tcp(v4)?, udp(v4)?];
        let sayings = match (tcp(v6), udp(v6)) {
            (Ok(tcp6), Ok(udp6)) => {
                listeners.extend([tcp6, udp6]);
                &self.with_v6
            }
            // Without IPv6 there is nothing to capture: a program's attempt fails at once.
            _ => &self.without_v6,
        };
        #[cfg(feature = "mutations")]
        crate::mutated::watch_datagrams(&mut listeners)?;
        if mutated(Mutation::HostNetwork) {
            // Nobody but the host's root may make rules there.
            return Ok(listeners);
        }
        sayings.say(proc)?;
        Ok(listeners)
    }
}

/// Captures it for a guest that will listen at its own ports before anything else runs here.
pub(crate) fn set_up_relayed(proc: &Path) -> io::Result<()> {
    // Where there is IPv6, one can listen on its loopback.
    let own: &[IpAddr] = if tcp(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 0)).is_ok() { &BOTH } else { &V4_ALONE };
    Sayings::new(Ports { tcp: RELAY_TCP, udp: RELAY_UDP }, own).say(proc)
}

/// Where another engine made the container, the file may only be read: then that engine must have set it.
fn set(settings: &OwnedFd, name: &str, value: &str) -> io::Result<()> {
    let open = |flags: OFlags| openat(settings, name, flags | OFlags::CLOEXEC, Mode::empty()).map(File::from);
    match open(OFlags::WRONLY) {
        Ok(mut setting) => setting.write_all(value.as_bytes()),
        Err(Errno::ROFS) => {
            let mut found = String::new();
            open(OFlags::RDONLY)?.read_to_string(&mut found)?;
            if found.trim() == value { Ok(()) } else { Err(Errno::ROFS.into()) }
        }
        Err(error) => Err(error.into()),
    }
}

/// Everything that is not the box's own goes to `lo`, from its own address.
fn route_to_loopback(batch: &mut Batch, own: IpAddr) {
    const NEW_ADDRESS: u16 = 20;
    const NEW_ROUTE: u16 = 24;
    const MAIN_TABLE: u8 = 254;
    const STATIC: u8 = 4;
    const UNICAST: u8 = 1;
    /// Duplicate address detection would make the address wait.
    const NO_DAD: u8 = 2;
    let (family, bytes, prefix) = match own {
        IpAddr::V4(own) => (libc::AF_INET, own.octets().to_vec(), 32),
        IpAddr::V6(own) => (libc::AF_INET6, own.octets().to_vec(), 128),
    };
    let family = u8::try_from(family).unwrap_or(0);
    let mut head = vec![family, prefix, if own.is_ipv6() { NO_DAD } else { 0 }, 0];
    head.extend(LOOPBACK.to_ne_bytes());
    let address = attributes(&[(1, bytes.clone()), (2, bytes.clone())]);
    batch.message(NEW_ADDRESS, CREATE, Answer::Acknowledged, &head, &address);
    let scope = if own.is_ipv4() { 253 } else { 0 }; // link
    let mut head = vec![family, 0, 0, 0, MAIN_TABLE, STATIC, scope, UNICAST];
    head.extend(0_u32.to_ne_bytes());
    let route = attributes(&[(4, LOOPBACK.to_ne_bytes().to_vec()), (7, bytes)]);
    batch.message(NEW_ROUTE, CREATE, Answer::Acknowledged, &head, &route);
}

fn send(protocol: i32, batch: &Batch) -> io::Result<()> {
    let number = netlink::open(protocol)?;
    // WHY: closed when done.
    // SAFETY: the kernel just gave us this descriptor.
    let _socket = unsafe { OwnedFd::from_raw_fd(number) };
    netlink::exchange(number, batch)
}

fn bound(address: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    bind(&socket, &address)?;
    Ok(socket)
}

fn tcp(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = bound(address, SocketType::STREAM)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn udp(address: SocketAddr) -> io::Result<OwnedFd> {
    bound(address, SocketType::DGRAM)
}
