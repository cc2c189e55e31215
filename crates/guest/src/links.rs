//! Connections that the host speaks through: opened from inside, so that the sandbox's own rules decide.
//!
//! One comes from a host that dials, or from a program that was brought to our listener. A link that dials asks for the
//! name's addresses and tries them in turn; then it carries bytes both ways, without ever waiting: the server's loop calls
//! when something can be done.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, read, write};
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, connect, send, shutdown, socket_with};
use wire::{DialFailure, Guest, MAX_CHUNK, Stream, WINDOW};

use crate::names::{self, Answer, Kind};
use crate::outbox::Outbox;

/// How long a name server may take before the next one is asked, and how often each is.
const ASK_AGAIN: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;
/// The longest answer over UDP that is taken.
const MAX_ANSWER: usize = 4096;
/// The longest that a host may have us wait.
const LONGEST: Duration = Duration::from_mins(10);

/// Why there is no connection, or no more, in words too.
pub(crate) struct Broken {
    pub(crate) why: DialFailure,
    pub(crate) message: String,
}

fn broken(why: DialFailure, message: impl Into<String>) -> Broken {
    Broken { why, message: message.into() }
}

/// A connection under way or open.
pub(crate) struct Link {
    id: u32,
    /// As it was asked for, to be told; bounded by `names`.
    host: String,
    port: u16,
    /// How many bytes may be under way in each direction.
    window: u32,
    deadline: Instant,
    state: State,
}

enum State {
    Asking(Asking),
    Connecting(Connecting),
    Open(Open),
}

/// A question to a name server.
struct Asking {
    socket: Option<OwnedFd>,
    question: Vec<u8>,
    kind: Kind,
    /// Whom to ask yet, in this order.
    servers: VecDeque<SocketAddr>,
    again: Instant,
    last: Answer,
}

/// An attempt to connect.
struct Connecting {
    socket: Option<OwnedFd>,
    target: SocketAddr,
    others: VecDeque<SocketAddr>,
    last: Errno,
}

struct Open {
    socket: OwnedFd,
    /// Whether something came from the host since the last look: then writing is tried at once.
    fresh: bool,
    window: u32,
    credit: u32,
    received: u64,
    waiting: VecDeque<u8>,
    input: Half,
    output: Half,
}

/// One direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Open,
    /// The host has sent everything; what waits is still to be written.
    Ending,
    Ended,
}

impl Link {
    pub(crate) fn new(id: u32, host: &str, port: u16, timeout_ms: u64, window: u32) -> Result<Self, Broken> {
        let now = Instant::now();
        let deadline = now + Duration::from_millis(timeout_ms).min(LONGEST);
        let addresses = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => Some(vec![address]),
            // What this means is not for a resolver to say (RFC 6761, 6.3).
            Err(_) if host.eq_ignore_ascii_case("localhost") => {
                Some(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
            }
            Err(_) => None,
        };
        let state = match addresses {
            Some(addresses) => State::Connecting(Connecting::to(addresses, port)),
            None => State::Asking(Asking::about(host, Kind::V4, now)?),
        };
        Ok(Self { id, host: host.to_owned(), port, window: window.min(WINDOW), deadline, state })
    }

    /// One that a program has opened.
    pub(crate) fn accepted(id: u32, socket: OwnedFd, window: u32) -> Self {
        let window = window.min(WINDOW);
        let state = State::Open(Open::new(socket, window));
        Self { id, host: String::new(), port: 0, window, deadline: Instant::now(), state }
    }

    /// Whether the host dialled it.
    pub(crate) fn is_dialled(&self) -> bool {
        self.port != 0
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Asking(asking) => Some(self.deadline.min(asking.again)),
            State::Connecting(_) => Some(self.deadline),
            State::Open(_) => None,
        }
    }

    /// The descriptors that it waits for.
    pub(crate) fn waits<'a>(&'a self, full: bool, readable: &mut Vec<&'a OwnedFd>, writable: &mut Vec<&'a OwnedFd>) {
        match &self.state {
            State::Asking(asking) => readable.extend(&asking.socket),
            State::Connecting(connecting) => writable.extend(&connecting.socket),
            State::Open(open) => {
                if !full && open.credit > 0 && open.output == Half::Open {
                    readable.push(&open.socket);
                }
                if !open.waiting.is_empty() {
                    writable.push(&open.socket);
                }
            }
        }
    }

    pub(crate) fn grant(&mut self, bytes: u32) {
        if let State::Open(open) = &mut self.state {
            open.credit = open.credit.saturating_add(bytes).min(open.window);
        }
    }

    /// Takes bytes for the other side. A host that sends before the connection stands is not heard.
    pub(crate) fn take_input(&mut self, bytes: &[u8]) {
        if let State::Open(open) = &mut self.state
            && open.input != Half::Ending
        {
            open.waiting.extend(bytes);
            open.fresh = true;
        }
    }

    pub(crate) fn end_input(&mut self) {
        if let State::Open(open) = &mut self.state
            && open.input == Half::Open
        {
            open.input = Half::Ending;
            open.fresh = true;
        }
    }

    /// Has the other side see a broken connection when this one is closed, unless the host has said all that it had to.
    pub(crate) fn break_off(&self) {
        if let State::Open(open) = &self.state
            && open.input == Half::Open
        {
            let _ = rustix::net::sockopt::set_socket_linger(&open.socket, Some(Duration::ZERO));
        }
    }

    /// How many bytes the other side has sent.
    pub(crate) fn received(&self) -> u64 {
        match &self.state {
            State::Open(open) => open.received,
            State::Asking(_) | State::Connecting(_) => 0,
        }
    }

    /// Does whatever can be done without waiting; true when both directions have ended. `ready` is what the kernel has
    /// something to say about: of many connections most are silent.
    pub(crate) fn serve(&mut self, ready: &BTreeSet<RawFd>, outbox: &mut Outbox) -> Result<bool, Broken> {
        if let State::Asking(asking) = &mut self.state
            && let Some(addresses) = asking.go_on(&self.host)?
        {
            self.state = State::Connecting(Connecting::to(addresses, self.port));
        }
        if let State::Connecting(connecting) = &mut self.state
            && let Some(socket) = connecting.go_on(&self.host)?
        {
            outbox.in_order(&Guest::Connected { id: self.id });
            self.state = State::Open(Open::new(socket, self.window));
        }
        match &mut self.state {
            State::Open(open) => {
                let woken = ready.contains(&open.socket.as_raw_fd());
                if woken || std::mem::take(&mut open.fresh) { open.carry(self.id, outbox) } else { Ok(false) }
            }
            State::Asking(_) | State::Connecting(_) if self.deadline <= Instant::now() => {
                Err(broken(DialFailure::TimedOut, format!("{}: no connection in time", self.host)))
            }
            State::Asking(_) | State::Connecting(_) => Ok(false),
        }
    }
}

impl Asking {
    fn about(host: &str, kind: Kind, now: Instant) -> Result<Self, Broken> {
        // Nobody but who is asked can answer; that the number is not easily guessed costs nothing.
        let id = u16::try_from(RandomState::new().hash_one(host) & 0xffff).unwrap_or(0);
        let Some(question) = names::question(id, host, kind) else {
            return Err(broken(DialFailure::Invalid, "this is neither a name nor an address"));
        };
        let all = names::servers();
        if all.is_empty() {
            return Err(broken(DialFailure::NoResolver, format!("{host}: the sandbox has no name server")));
        }
        let servers = all.iter().copied().cycle().take(all.len() * ROUNDS).collect();
        Ok(Self { socket: None, question, kind, servers, again: now, last: Answer::Failed })
    }

    /// The addresses, when they are known.
    fn go_on(&mut self, host: &str) -> Result<Option<Vec<IpAddr>>, Broken> {
        let mut buffer = [0; MAX_ANSWER];
        while let Some(socket) = &self.socket {
            match read(socket, &mut buffer[..]) {
                Ok(count) => match names::answer(&self.question, self.kind, &buffer[..count]) {
                    None => {}
                    Some(Answer::Addresses(addresses)) => return Ok(Some(addresses)),
                    Some(Answer::Nothing) if self.kind == Kind::V4 => {
                        *self = Self::about(host, Kind::V6, Instant::now())?;
                    }
                    Some(Answer::Nothing | Answer::NoSuchName) => {
                        return Err(broken(DialFailure::UnknownName, format!("{host}: no such name")));
                    }
                    // Perhaps another one knows.
                    Some(Answer::Failed) => {
                        self.last = Answer::Nothing;
                        self.socket = None;
                        self.again = Instant::now();
                    }
                },
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.socket = None;
                    self.again = Instant::now();
                }
            }
        }
        if self.again <= Instant::now() {
            let Some(server) = self.servers.pop_front() else {
                let said = if self.last == Answer::Nothing { "cannot say" } else { "does not answer" };
                return Err(broken(DialFailure::NoResolver, format!("{host}: the name server {said}")));
            };
            self.again = Instant::now() + ASK_AGAIN;
            // One that cannot be asked is as one that does not answer.
            self.socket = ask(server, &self.question).ok();
            if self.socket.is_none() {
                self.again = Instant::now();
            }
        }
        Ok(None)
    }
}

fn ask(server: SocketAddr, question: &[u8]) -> Result<OwnedFd, Errno> {
    let socket = open(server, SocketType::DGRAM)?;
    // Connected: the kernel drops what others send.
    connect(&socket, &server)?;
    send(&socket, question, SendFlags::empty())?;
    Ok(socket)
}

fn open(to: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

impl Connecting {
    fn to(addresses: Vec<IpAddr>, port: u16) -> Self {
        let mut others: VecDeque<SocketAddr> =
            addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect();
        let target = others.pop_front().unwrap_or(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port));
        Self { socket: None, target, others, last: Errno::HOSTUNREACH }
    }

    /// The connection, when it stands.
    fn go_on(&mut self, host: &str) -> Result<Option<OwnedFd>, Broken> {
        loop {
            let socket = match self.socket.take() {
                Some(socket) => Ok(socket),
                None => open(self.target, SocketType::STREAM),
            };
            // Asked again, the kernel says how far it is: under way, done, or why not.
            let tried = socket.and_then(|socket| match connect(&socket, &self.target) {
                Ok(()) | Err(Errno::ISCONN) => Ok(Some(socket)),
                Err(Errno::INPROGRESS | Errno::ALREADY | Errno::INTR) => {
                    self.socket = Some(socket);
                    Ok(None)
                }
                Err(errno) => Err(errno),
            });
            match tried {
                Ok(connected) => return Ok(connected),
                Err(errno) => self.last = errno,
            }
            let Some(next) = self.others.pop_front() else { return Err(no_connection(self.last, host)) };
            self.target = next;
        }
    }
}

fn no_connection(errno: Errno, host: &str) -> Broken {
    let why = match errno {
        Errno::CONNREFUSED => DialFailure::Refused,
        Errno::CONNRESET | Errno::CONNABORTED | Errno::PIPE => DialFailure::Reset,
        Errno::TIMEDOUT => DialFailure::TimedOut,
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN | Errno::ADDRNOTAVAIL | Errno::ACCESS | Errno::PERM => {
            DialFailure::Unreachable
        }
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN => DialFailure::Exhausted,
        _ => DialFailure::Other,
    };
    broken(why, format!("{host}: {}", std::io::Error::from(errno)))
}

impl Open {
    fn new(socket: OwnedFd, window: u32) -> Self {
        let (input, output) = (Half::Open, Half::Open);
        Self { socket, fresh: true, window, credit: window, received: 0, waiting: VecDeque::new(), input, output }
    }

    fn carry(&mut self, id: u32, outbox: &mut Outbox) -> Result<bool, Broken> {
        self.send(id, outbox);
        while self.output == Half::Open && self.credit > 0 && !outbox.is_full() {
            let mut buffer = vec![0; MAX_CHUNK.min(usize::try_from(self.credit).unwrap_or(MAX_CHUNK))];
            match read(&self.socket, &mut *buffer) {
                Ok(0) => {
                    self.output = Half::Ended;
                    outbox.in_order(&Guest::OutputEnd { id });
                }
                Ok(count) => {
                    buffer.truncate(count);
                    let taken = u32::try_from(count).unwrap_or(u32::MAX);
                    self.credit = self.credit.saturating_sub(taken);
                    self.received += u64::from(taken);
                    outbox.in_order(&Guest::Output { id, stream: Stream::Out, bytes: buffer });
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(no_connection(errno, "the connection")),
            }
        }
        Ok(self.output == Half::Ended && self.input == Half::Ended)
    }

    fn send(&mut self, id: u32, outbox: &mut Outbox) {
        let mut written = 0;
        while !self.waiting.is_empty() && self.input != Half::Ended {
            match write(&self.socket, self.waiting.as_slices().0) {
                Ok(count) => {
                    self.waiting.drain(..count);
                    written += count;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // Nobody reads any more; what was said before that is still read, or the reason is.
                Err(_) => self.input = Half::Ended,
            }
        }
        if self.input == Half::Ended {
            written += self.waiting.len();
            self.waiting.clear();
        }
        if self.input == Half::Ending && self.waiting.is_empty() {
            // One that is broken already says so when it is read.
            let _ = shutdown(&self.socket, Shutdown::Write);
            self.input = Half::Ended;
        }
        if written > 0 {
            outbox.urgent(&Guest::Credit { id, bytes: u32::try_from(written).unwrap_or(u32::MAX) });
        }
    }
}
