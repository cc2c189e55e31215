//! The sandbox's network, where the host cannot hold its listeners: they are ours, and what arrives goes to the host over
//! the control stream, one by one, as it asks for them.
//!
//! What lies behind them is decided outside. Whoever takes them from us has a network that ends here; we then end too.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, listen, recvfrom, sendto,
    socket_with, sockopt,
};
use wire::{Guest, MAX_QUESTION};

use crate::failure::Failure;
use crate::links::Link;
use crate::outbox::Outbox;
use crate::server::Stop;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// What the host may ask for at the same time, of each kind.
const MAX_EXPECTED: usize = 256;
/// Connections at the same time. The host's own limit is lower; beyond this one, programs wait.
const MAX_RELAYED: usize = 4096;
/// How long accepting rests when the sandbox is short of something.
const REST: Duration = Duration::from_millis(20);

pub(crate) struct Relay {
    id: u32,
    /// For IPv4, and for IPv6 where the kernel has it.
    tcp: Vec<OwnedFd>,
    udp: Vec<OwnedFd>,
    /// Ids under which the host takes the next connections, with their windows, and the next questions.
    accepts: VecDeque<(u32, u32)>,
    queries: VecDeque<u32>,
    /// Questions without an answer: by which socket, to whom.
    asked: BTreeMap<u32, (usize, SocketAddr)>,
    rest: Option<Instant>,
}

impl Relay {
    /// Listens. Without `SO_REUSEPORT`: nobody can listen beside us.
    pub(crate) fn open(id: u32, tcp: u16, udp: u16) -> Result<Self, Failure> {
        let (mut tcps, mut udps) = (Vec::new(), Vec::new());
        for address in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
            let sockets = bound(SocketAddr::new(address, tcp), SocketType::STREAM).and_then(|connections| {
                listen(&connections, BACKLOG)?;
                Ok((connections, bound(SocketAddr::new(address, udp), SocketType::DGRAM)?))
            });
            match sockets {
                Ok((connections, questions)) => {
                    tcps.push(connections);
                    udps.push(questions);
                }
                // Then there is nothing of it to relay.
                Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) if address.is_ipv6() => {}
                Err(errno) => return Err(Failure::from_errno(errno, "the network's listeners")),
            }
        }
        let (accepts, queries, asked) = (VecDeque::new(), VecDeque::new(), BTreeMap::new());
        Ok(Self { id, tcp: tcps, udp: udps, accepts, queries, asked, rest: None })
    }

    pub(crate) fn is_known(&self, id: u32) -> bool {
        self.id == id
            || self.accepts.iter().any(|(accept, _)| *accept == id)
            || self.queries.contains(&id)
            || self.asked.contains_key(&id)
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn accept(&mut self, id: u32, window: u32) -> Result<(), Failure> {
        if self.accepts.len() >= MAX_EXPECTED {
            return Err(Failure::invalid("so many connections are expected already"));
        }
        self.accepts.push_back((id, window));
        Ok(())
    }

    pub(crate) fn query(&mut self, id: u32) -> Result<(), Failure> {
        if self.queries.len() + self.asked.len() >= MAX_EXPECTED {
            return Err(Failure::invalid("so many questions are expected already"));
        }
        self.queries.push_back(id);
        Ok(())
    }

    /// Tells the program that asked.
    pub(crate) fn answer(&mut self, id: u32, answer: &[u8]) {
        if let Some((at, from)) = self.asked.remove(&id)
            && let Some(socket) = self.udp.get(at)
        {
            // A program that waits no more needs no answer.
            let _ = sendto(socket, answer, SendFlags::empty(), &from);
        }
    }

    /// The host does not wait for this any more.
    pub(crate) fn forget(&mut self, id: u32) {
        self.accepts.retain(|(accept, _)| *accept != id);
        self.queries.retain(|query| *query != id);
        self.asked.remove(&id);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.rest
    }

    /// The descriptors that it waits for.
    pub(crate) fn waits<'a>(&'a self, links: usize, readable: &mut Vec<&'a OwnedFd>) {
        if !self.accepts.is_empty() && links < MAX_RELAYED && self.rest.is_none() {
            readable.extend(&self.tcp);
        }
        if !self.queries.is_empty() {
            readable.extend(&self.udp);
        }
    }

    /// Takes what has come; an error means that the network is lost.
    pub(crate) fn serve(&mut self, links: &mut BTreeMap<u32, Link>, outbox: &mut Outbox) -> Result<(), Stop> {
        if self.rest.is_some_and(|until| until > Instant::now()) {
            return self.take_questions(outbox);
        }
        self.rest = None;
        for listener in &self.tcp {
            while links.len() < MAX_RELAYED
                && let Some(&(id, window)) = self.accepts.front()
            {
                match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                    Ok(socket) => {
                        self.accepts.pop_front();
                        let _ = sockopt::set_tcp_nodelay(&socket, true);
                        outbox.in_order(&Guest::Accepted { id, to: original(&socket) });
                        links.insert(id, Link::accepted(id, socket, window));
                    }
                    Err(Errno::AGAIN) => break,
                    Err(Errno::INTR | Errno::CONNABORTED) => {}
                    Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::PERM) => {
                        self.rest = Some(Instant::now() + REST);
                        break;
                    }
                    // Nobody listens any more.
                    Err(_) => return Err(Stop::Kernel),
                }
            }
        }
        self.take_questions(outbox)
    }

    fn take_questions(&mut self, outbox: &mut Outbox) -> Result<(), Stop> {
        for (at, socket) in self.udp.iter().enumerate() {
            let mut buffer = [0; MAX_QUESTION];
            while let Some(&id) = self.queries.front() {
                match recvfrom(socket, &mut buffer[..], RecvFlags::empty()) {
                    Ok((count, _, from)) => {
                        let Some(from) = from.and_then(|from| SocketAddr::try_from(from).ok()) else { continue };
                        let question = buffer.get(..count).unwrap_or_default().to_vec();
                        self.queries.pop_front();
                        self.asked.insert(id, (at, from));
                        outbox.in_order(&Guest::Asked { id, question });
                    }
                    Err(Errno::AGAIN) => break,
                    // The echo of an answer that nobody waited for.
                    Err(Errno::INTR | Errno::CONNREFUSED) => {}
                    Err(_) => return Err(Stop::Kernel),
                }
            }
        }
        Ok(())
    }
}

fn bound(address: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    bind(&socket, &address)?;
    Ok(socket)
}

/// The address that the program asked for, before rules brought it here.
fn original(socket: &OwnedFd) -> Option<SocketAddr> {
    let local = rustix::net::getsockname(socket).ok().and_then(|local| SocketAddr::try_from(local).ok())?;
    match local {
        SocketAddr::V4(_) => sockopt::ip_original_dst(socket).ok().map(SocketAddr::V4),
        SocketAddr::V6(_) => sockopt::ipv6_original_dst(socket).ok().map(SocketAddr::V6),
    }
}
