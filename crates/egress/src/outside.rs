//! The world outside, as the gateway reaches it: names by our own resolver, then addresses that were judged first.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_proto::op::{Query, ResponseCode};
use hickory_proto::rr::Record;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::{Resolver, TokioResolver};
use mutation::{Mutation, mutated};
use profile::{Egress, HostName, NetworkRules};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::onlink::OnLink;
use crate::reach::{self, Private};
use crate::reason::Reason;
use crate::verdict::Attempt;

/// How long a lookup may take.
const LOOKUP: Duration = Duration::from_secs(10);
/// When the next address is tried beside the one before (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);
/// How many addresses of a name are tried.
const MAX_ADDRESSES: usize = 6;

/// Names and connections outside.
pub(crate) struct Outside {
    resolver: TokioResolver,
    connect: Duration,
    on_link: OnLink,
    /// Addresses as they were answered, judged by nobody, as long as the answer holds.
    answers: Mutex<HashMap<HostName, Answered>>,
}

/// Until when, and what.
type Answered = (Instant, Arc<[IpAddr]>);

/// Names whose addresses are kept.
const MAX_ANSWERS: usize = 4096;

/// The resolver that the host is configured with, as its file said at one time: a process that is confined reads no files.
#[derive(Debug, Clone, Default)]
pub struct HostResolver(Option<(ResolverConfig, ResolverOpts)>);

impl HostResolver {
    /// Reads `/etc/resolv.conf`. A host without one resolves nothing; a sandbox that may reach nothing needs none.
    pub fn read() -> Self {
        Self(hickory_resolver::system_conf::read_system_conf().ok())
    }
}

/// Why the gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// Names cannot be looked up.
    #[error("cannot use this host's resolver: {0}")]
    Resolver(String),
    /// Which networks are the runner's own is unknown.
    #[error("cannot list the addresses of this host's interfaces: {0}")]
    Interfaces(std::io::Error),
}

impl Outside {
    /// With the host's resolver, or another.
    pub(crate) fn new(
        upstream: Option<SocketAddr>,
        host: &HostResolver,
        connect: Duration,
    ) -> Result<Self, OutsideError> {
        let failed = |error: NetError| OutsideError::Resolver(error.to_string());
        let on_link = OnLink::default();
        // Where this cannot be asked for, every connection would be refused: better said at the start.
        on_link.contains(IpAddr::from([0, 0, 0, 0])).map_err(OutsideError::Interfaces)?;
        let mut builder = match upstream {
            None => {
                let (config, options) = host.0.clone().unwrap_or_else(|| {
                    (ResolverConfig::from_parts(None, Vec::new(), Vec::new()), ResolverOpts::default())
                });
                Resolver::builder_with_config(config, TokioRuntimeProvider::default()).with_options(options)
            }
            Some(address) => {
                let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                    connection.port = address.port();
                    connection
                });
                let server = NameServerConfig::new(address.ip(), true, connections.into());
                let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
                Resolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
        };
        let options = builder.options_mut();
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // The host's own names are the host's.
        options.use_hosts_file = ResolveHosts::Never;
        options.timeout = Duration::from_secs(3);
        options.attempts = 2;
        Ok(Self { resolver: builder.build().map_err(failed)?, connect, on_link, answers: Mutex::default() })
    }

    /// The addresses of a name that may be connected to. Absolute: no search domain is ever tried.
    pub(crate) async fn resolve(&self, name: &HostName, egress: &Egress) -> Result<Vec<IpAddr>, Reason> {
        let found = self.addresses_of(name).await?;
        let (Egress::Everything { rules } | Egress::Listed { rules }) = egress else { return Err(Reason::NoNetwork) };
        let private = private_answers(rules, name);
        let mut first = Reason::Unresolved;
        let mut usable = Vec::new();
        for &address in found.iter() {
            match self.judge(address, private, rules) {
                None => usable.push(address),
                Some(reason) if first == Reason::Unresolved => first = reason,
                Some(_) => {}
            }
        }
        if usable.is_empty() {
            return Err(first);
        }
        Ok(interleave(usable))
    }

    /// All addresses of a name. The resolver remembers answers too, but takes longer to say so than connecting does.
    async fn addresses_of(&self, name: &HostName) -> Result<Arc<[IpAddr]>, Reason> {
        let kept = self.answers.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some((until, addresses)) = kept
            && until > Instant::now()
        {
            return Ok(addresses);
        }
        let found = tokio::time::timeout(LOOKUP, self.resolver.lookup_ip(format!("{name}."))).await;
        let found = found.map_err(|_| Reason::Unresolved)?.map_err(|_| Reason::Unresolved)?;
        let addresses: Arc<[IpAddr]> = found.iter().collect();
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MAX_ANSWERS {
            answers.clear();
        }
        answers.insert(name.clone(), (found.valid_until(), Arc::clone(&addresses)));
        Ok(addresses)
    }

    /// An address that a program asked for without a name: listed ones as they are, others like an answer.
    pub(crate) fn accept_raw(&self, address: IpAddr, egress: &Egress) -> Result<Vec<IpAddr>, Reason> {
        let (Egress::Everything { rules } | Egress::Listed { rules }) = egress else { return Err(Reason::NoNetwork) };
        let listed = rules.allow_cidr.iter().any(|net| net.contains(&address));
        match self.judge(address, if listed { Private::Allowed } else { Private::Refused }, rules) {
            // A site's own ranges may be anything but the runner, loopback and metadata.
            Some(Reason::AnswerSpecial) if listed => Ok(vec![address]),
            Some(reason) => Err(reason),
            None => Ok(vec![address]),
        }
    }

    /// Whether an address that is in use would still be used by these rules.
    pub(crate) fn still_accepts(&self, attempt: &Attempt, address: IpAddr, egress: &Egress) -> bool {
        let (Egress::Everything { rules } | Egress::Listed { rules }) = egress else { return false };
        match attempt {
            Attempt::Address(asked, _) => self.accept_raw(*asked, egress).is_ok(),
            Attempt::Name(name, _) | Attempt::Query(name) => {
                self.judge(address, private_answers(rules, name), rules).is_none()
            }
        }
    }

    /// Why an address may not be connected to, if so: by what it is, then by where this host is.
    fn judge(&self, address: IpAddr, private: Private, rules: &NetworkRules) -> Option<Reason> {
        let refused = reach::refusal(address, private, &rules.deny_cidr);
        if refused.is_some() || reach::is_own(address) {
            return refused.or(Some(Reason::AnswerOwn));
        }
        // A private address that is allowed was listed as the site's own; a public one needs its range to be.
        if reach::is_private(address) || rules.allow_cidr.iter().any(|net| net.contains(&address)) {
            return None;
        }
        // What cannot be told apart from a neighbour is one.
        self.on_link.contains(address).unwrap_or(true).then_some(Reason::AnswerOnLink)
    }

    /// Connects to the first address that answers.
    pub(crate) async fn connect(&self, addresses: &[IpAddr], port: u16) -> Result<TcpStream, Reason> {
        match tokio::time::timeout(self.connect, race(addresses, port)).await {
            Ok(result) => result,
            Err(_) => Err(Reason::HostTimeout),
        }
    }

    /// Any records of a name, for programs whose network is not restricted.
    pub(crate) async fn look_up(&self, query: &Query) -> (ResponseCode, Vec<Record>) {
        let mut name = query.name().clone();
        name.set_fqdn(true);
        match tokio::time::timeout(LOOKUP, self.resolver.lookup(name, query.query_type())).await {
            Ok(Ok(found)) => (ResponseCode::NoError, found.answers().to_vec()),
            Ok(Err(NetError::Dns(DnsError::NoRecordsFound(none)))) => (none.response_code, Vec::new()),
            Ok(Err(_)) | Err(_) => (ResponseCode::ServFail, Vec::new()),
        }
    }
}

fn private_answers(rules: &NetworkRules, name: &HostName) -> Private {
    let allowed = rules.allow_private_answers.iter().any(|pattern| pattern.matches(name));
    if allowed || mutated(Mutation::PrivateAnswers) { Private::Allowed } else { Private::Refused }
}

/// IPv6 and IPv4 in turn, so that one broken family costs one step.
fn interleave(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = addresses.into_iter().partition(IpAddr::is_ipv6);
    let longest = v6.len().max(v4.len());
    (0..longest).flat_map(|at| [v6.get(at), v4.get(at)]).flatten().copied().take(MAX_ADDRESSES).collect()
}

async fn race(addresses: &[IpAddr], port: u16) -> Result<TcpStream, Reason> {
    if let [only] = addresses {
        // Nothing to race with: no task of its own.
        let stream = TcpStream::connect((*only, port)).await.map_err(|error| reason_of(&error))?;
        return if is_to_itself(&stream) { Err(Reason::AnswerOwn) } else { Ok(stream) };
    }
    let mut running = JoinSet::new();
    let mut waiting = addresses.iter();
    let mut last = Reason::HostUnreachable;
    loop {
        // Two at a time: descriptors are everybody's.
        let started = if running.len() < 2 { waiting.next().copied() } else { None };
        if let Some(address) = started {
            running.spawn(TcpStream::connect((address, port)));
        }
        if running.is_empty() {
            return Err(last);
        }
        tokio::select! {
            Some(ended) = running.join_next() => match ended {
                Ok(Ok(stream)) if !is_to_itself(&stream) => return Ok(stream),
                Ok(Ok(_)) => last = Reason::AnswerOwn,
                Ok(Err(error)) => last = reason_of(&error),
                Err(_) => {}
            },
            () = tokio::time::sleep(STAGGER), if started.is_some() => {}
        }
    }
}

/// Between the judgement and the connection the address may have become ours.
fn is_to_itself(stream: &TcpStream) -> bool {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(local), Ok(peer)) => local.ip() == peer.ip(),
        _ => true,
    }
}

fn reason_of(error: &std::io::Error) -> Reason {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => Reason::HostRefused,
        std::io::ErrorKind::TimedOut => Reason::HostTimeout,
        _ => Reason::HostUnreachable,
    }
}
