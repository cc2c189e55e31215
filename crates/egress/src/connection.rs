//! One connection out of a sandbox: what it asks for, what it shows, and only then a connection outside.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use profile::HostName;
use socket2::SockRef;
use tokio::net::TcpStream;

use crate::book::is_synthetic;
use crate::hello::{MAX_HELLO, check_hello, read_hello};
use crate::outside::Outside;
use crate::reason::Reason;
use crate::record::{Outcome, Protocol, Record};
use crate::relay::{Direction, Ended, Flow, Meter};
use crate::served::Served;
use crate::verdict::{Attempt, Check, Verdict, decide};
use crate::{names, requests};

const DNS: u16 = 53;
/// The most that is read before a connection has shown what it is: a greeting and what came with it.
const MAX_FIRST: usize = MAX_HELLO + 8192;

/// What the record of a connection is made of.
pub(crate) struct Story {
    pub(crate) protocol: Protocol,
    name: Option<HostName>,
    asked: Option<SocketAddr>,
    used: Option<IpAddr>,
    rule: Option<String>,
    pub(crate) request: Option<String>,
    pub(crate) meter: Meter,
}

/// How it came to an end.
pub(crate) enum Fate {
    /// As connections end.
    Done,
    Ended(Reason),
    /// It was a connection to the resolver, which keeps its own records.
    Resolver,
}

/// Serves one connection to its end, and notes it.
pub(crate) async fn serve(served: Arc<Served>, stream: TcpStream) {
    let mut story = Story {
        protocol: Protocol::Tcp,
        name: None,
        asked: None,
        used: None,
        rule: None,
        request: None,
        meter: Meter::new(),
    };
    let ended = served.ended.clone();
    let fate = tokio::select! {
        fate = tell(&served, stream, &mut story) => fate,
        () = ended.cancelled() => Fate::Done,
    };
    let reason = match fate {
        Fate::Resolver => return,
        Fate::Done => None,
        Fate::Ended(reason) => Some(reason),
    };
    let record = story.into_record(&served, reason);
    if record.verdict == Outcome::Refused && record.sent + record.received == 0 {
        served.journal.note(record);
    } else {
        served.journal.note_connection(record).await;
    }
}

impl Story {
    fn into_record(self, served: &Served, reason: Option<Reason>) -> Record {
        let outcome = match reason {
            None | Some(Reason::Idle) => Outcome::Allowed,
            Some(Reason::Unresolved | Reason::HostRefused | Reason::HostUnreachable | Reason::HostTimeout) => {
                Outcome::Failed
            }
            Some(_) => Outcome::Refused,
        };
        let mut record = served.journal.record(self.protocol, outcome);
        record.reason = reason;
        record.name = self.name.map(|name| name.to_string());
        record.port = self.asked.map(|asked| asked.port());
        record.asked = self.asked.map(|asked| asked.ip().to_canonical());
        record.used = self.used;
        record.rule = self.rule;
        record.request = self.request;
        record.sent = self.meter.sent.load(Ordering::Relaxed);
        record.received = self.meter.received.load(Ordering::Relaxed);
        record.duration_ms = self.meter.elapsed_ms();
        record.time_ms = record.last_ms.saturating_sub(record.duration_ms);
        record
    }
}

/// The address that the program asked for, before the rules brought it here.
fn original(stream: &TcpStream) -> Option<SocketAddr> {
    let socket = SockRef::from(stream);
    let found = match stream.local_addr().ok()? {
        SocketAddr::V4(_) => socket.original_dst_v4(),
        SocketAddr::V6(_) => socket.original_dst_v6(),
    };
    let address = found.ok()?.as_socket()?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

/// Ends a connection so that the program sees it at once.
fn reset(stream: TcpStream) {
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    drop(stream);
}

async fn tell(served: &Served, stream: TcpStream, story: &mut Story) -> Fate {
    let _ = stream.set_nodelay(true);
    // Straight to the listener, past the rules: there is no destination to it, or one that is the listener's own side.
    let Some(asked) = original(&stream).filter(|asked| !asked.ip().is_loopback()) else {
        story.asked = stream.local_addr().ok();
        reset(stream);
        return Fate::Ended(Reason::CapturePort);
    };
    story.asked = Some(asked);
    if asked.port() == DNS {
        names::serve_tcp(served, stream).await;
        return Fate::Resolver;
    }
    let attempt = match attempt_of(served, asked, story) {
        Ok(attempt) => attempt,
        Err(reason) => {
            reset(stream);
            return Fate::Ended(reason);
        }
    };
    let mut rules = served.watch();
    let verdict = decide(&rules.borrow_and_update(), &attempt);
    let check = match verdict {
        Verdict::Refused(reason) => {
            reset(stream);
            return Fate::Ended(reason);
        }
        Verdict::Allowed { rule, check } => {
            story.rule = Some(rule);
            check
        }
    };
    let ended = {
        let work = pass(served, &stream, &attempt, asked.port(), check, story);
        let forbidden = async {
            loop {
                if rules.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
                if !matches!(decide(&rules.borrow_and_update(), &attempt), Verdict::Allowed { check: now, .. } if now == check)
                {
                    return Reason::RulesChanged;
                }
            }
        };
        tokio::select! {
            ended = work => ended,
            reason = forbidden => Err(reason),
        }
    };
    match ended {
        Ok(()) => Fate::Done,
        Err(reason) => {
            reset(stream);
            Fate::Ended(reason)
        }
    }
}

/// An address of the range for names is the name it was given for.
fn attempt_of(served: &Served, asked: SocketAddr, story: &mut Story) -> Result<Attempt, Reason> {
    match asked.ip() {
        IpAddr::V4(v4) if is_synthetic(v4) => {
            let name = served.book().name_of(v4).cloned().ok_or(Reason::NoSuchName)?;
            story.name = Some(name.clone());
            Ok(Attempt::Name(name, asked.port()))
        }
        address => {
            story.name = served.remembered(address);
            Ok(Attempt::Address(address, asked.port()))
        }
    }
}

/// Checks, connects, and moves bytes until one side is done.
async fn pass(
    served: &Served,
    stream: &TcpStream,
    attempt: &Attempt,
    port: u16,
    check: Check,
    story: &mut Story,
) -> Result<(), Reason> {
    let mut first = Vec::new();
    let mut head = None;
    match (check, attempt) {
        (Check::Tls, Attempt::Name(name, _)) => {
            story.protocol = Protocol::Tls;
            first = in_time(served.limits.greeting, greeting(stream, name.as_str())).await?;
        }
        (Check::Http(upgrades), Attempt::Name(name, _)) => {
            story.protocol = Protocol::Http;
            let read = in_time(served.limits.greeting, requests::first(stream, &mut first, name.as_str(), upgrades));
            match read.await {
                Ok(read) => {
                    story.request = Some(read.request.clone());
                    head = Some((read, upgrades, name.as_str()));
                }
                Err(reason) => {
                    requests::forbid(stream, reason).await;
                    return Err(reason);
                }
            }
        }
        _ => {}
    }
    let rules = served.rules();
    let addresses = match attempt {
        Attempt::Name(name, _) | Attempt::Query(name) => served.outside.resolve(name, &rules).await,
        Attempt::Address(address, _) => Outside::accept_raw(*address, &rules),
    };
    let connected = match addresses {
        Ok(addresses) => served.outside.connect(&addresses, port).await,
        Err(reason) => Err(reason),
    };
    let other = match connected {
        Ok(other) => other,
        Err(reason) => {
            if head.is_some() {
                requests::forbid(stream, reason).await;
            }
            return Err(reason);
        }
    };
    let _ = other.set_nodelay(true);
    story.used = other.peer_addr().ok().map(|address| address.ip());
    let flow = Flow { meter: &story.meter, allowance: &served.allowance, buffers: &served.buffers };
    let out = async {
        match head {
            None => {
                if let Err(ended) = flow.write(&other, &first, Direction::Out).await {
                    return ended;
                }
                drop(std::mem::take(&mut first));
                flow.pump(stream, &other, Direction::Out).await
            }
            Some((head, upgrades, name)) => requests::pass(&flow, stream, &other, first, head, name, upgrades).await,
        }
    };
    let back = flow.pump(&other, stream, Direction::In);
    tokio::select! {
        ended = both(out, back) => match ended {
            Ended::Done => Ok(()),
            Ended::Cut(reason) => Err(reason),
        },
        () = story.meter.idle(served.limits.idle) => Err(Reason::Idle),
    }
}

/// Both directions to their ends, or until one of them is cut.
async fn both(out: impl Future<Output = Ended>, back: impl Future<Output = Ended>) -> Ended {
    tokio::pin!(out, back);
    let (mut out_done, mut back_done) = (false, false);
    while !(out_done && back_done) {
        let ended = tokio::select! {
            ended = &mut out, if !out_done => { out_done = true; ended }
            ended = &mut back, if !back_done => { back_done = true; ended }
        };
        if let Ended::Cut(_) = ended {
            return ended;
        }
    }
    Ended::Done
}

async fn in_time<T>(limit: Duration, work: impl Future<Output = Result<T, Reason>>) -> Result<T, Reason> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(Reason::TooSlow))
}

/// Reads what there is behind the bytes that are known; an end is too slow for ever.
pub(crate) async fn read_more(stream: &TcpStream, bytes: &mut Vec<u8>) -> Result<(), Reason> {
    loop {
        stream.readable().await.map_err(|_| Reason::TooSlow)?;
        let mut part = [0; 4096];
        match stream.try_read(&mut part) {
            Ok(0) => return Err(Reason::TooSlow),
            Ok(count) => {
                bytes.extend_from_slice(&part[..count]);
                return Ok(());
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return Err(Reason::TooSlow),
        }
    }
}

/// The first bytes of a connection, once they are a greeting for this name.
async fn greeting(stream: &TcpStream, name: &str) -> Result<Vec<u8>, Reason> {
    let mut bytes = Vec::new();
    loop {
        read_more(stream, &mut bytes).await?;
        if let Some(hello) = read_hello(&bytes)? {
            return check_hello(&hello, name).map(|()| bytes);
        }
        if bytes.len() > MAX_FIRST {
            return Err(Reason::HelloTooLong);
        }
    }
}
