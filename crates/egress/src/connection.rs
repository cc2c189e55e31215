//! One connection out of a sandbox: what it asks for, what it shows, and only then a connection outside.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use profile::Egress;

use crate::book::{Meaning, is_synthetic};
use crate::head::Head;
use crate::reason::Reason;
use crate::record::{Outcome, Protocol, Record};
use crate::relay::{self, Direction, Ended, Flow, Meter};
use crate::requests::{self, Requests};
use crate::served::Served;
use crate::services::{self, Passed};
use crate::shown::Shown as Presented;
use crate::socket::Socket;
use crate::verdict::{Attempt, Check, Verdict, decide};
use crate::{handshake, names};

const DNS: u16 = 53;
/// What the record of a connection is made of.
pub(crate) struct Story {
    pub(crate) protocol: Protocol,
    name: Option<String>,
    asked: Option<SocketAddr>,
    /// Set once, when there is a connection; read by whoever watches the rules.
    used: Arc<OnceLock<IpAddr>>,
    pub(crate) rule: Option<String>,
    /// The service that the name means, and whether there was a connection to it.
    pub(crate) service: Option<String>,
    pub(crate) reached_service: bool,
    pub(crate) request: Option<String>,
    /// The names that it really presented, once it is refused for them.
    shown: OnceLock<Presented>,
    /// Why it is refused, from the moment on which that is decided: the program is still told so then.
    refused: OnceLock<Reason>,
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

/// Serves one connection to its end, and notes it. `to` is what the program asked for, before rules brought it here.
pub(crate) async fn serve(served: Arc<Served>, stream: Socket, to: Option<SocketAddr>) {
    let mut story = Story {
        protocol: Protocol::Tcp,
        name: None,
        asked: None,
        used: Arc::default(),
        rule: None,
        service: None,
        reached_service: false,
        request: None,
        shown: OnceLock::new(),
        refused: OnceLock::new(),
        meter: Meter::new(),
    };
    let ended = served.ended.clone();
    let fate = tokio::select! {
        fate = tell(&served, stream, to, &mut story) => fate,
        () = ended.cancelled() => match story.refused.get() {
            Some(reason) => Fate::Ended(*reason),
            None if story.was_connected() => Fate::Done,
            None => Fate::Ended(Reason::SandboxEnded),
        },
    };
    let reason = match fate {
        Fate::Resolver => return,
        Fate::Done => None,
        Fate::Ended(reason) => Some(reason),
    };
    if let Some(reason) = reason.filter(|reason| *reason != Reason::Idle && story.was_connected()) {
        // What went before it went: the connection is one record, what ended it another.
        let mut refusal = served.journal.record(story.protocol, Outcome::Refused);
        refusal.reason = Some(reason);
        refusal.name.clone_from(&story.name);
        refusal.service.clone_from(&story.service);
        refusal.port = story.asked.map(|asked| asked.port());
        refusal.asked = story.asked.map(|asked| asked.ip().to_canonical());
        refusal.rule.clone_from(&story.rule);
        refusal.shown = story.shown.take().map(Box::new);
        served.journal.note(refusal);
    }
    let record = story.into_record(&served, reason);
    if record.verdict == Outcome::Refused && record.sent + record.received == 0 {
        served.journal.note(record);
    } else {
        served.journal.note_connection(record).await;
    }
}

impl Story {
    /// Whether there was a connection to anybody.
    fn was_connected(&self) -> bool {
        self.used.get().is_some() || self.reached_service
    }

    fn refuse(&self, reason: Reason, shown: Option<Presented>) {
        let _ = self.refused.set(reason);
        if let Some(shown) = shown {
            let _ = self.shown.set(shown);
        }
    }

    fn into_record(self, served: &Served, reason: Option<Reason>) -> Record {
        let outcome = match reason {
            None | Some(Reason::Idle) => Outcome::Allowed,
            Some(_) if self.was_connected() => Outcome::Allowed,
            Some(
                Reason::Unresolved
                | Reason::HostRefused
                | Reason::HostUnreachable
                | Reason::HostTimeout
                | Reason::SandboxEnded,
            ) => Outcome::Failed,
            Some(_) => Outcome::Refused,
        };
        let mut record = served.journal.record(self.protocol, outcome);
        record.reason = reason;
        record.name = self.name;
        record.service = self.service;
        record.port = self.asked.map(|asked| asked.port());
        record.asked = self.asked.map(|asked| asked.ip().to_canonical());
        record.used = self.used.get().copied();
        record.rule = self.rule;
        record.request = self.request;
        record.shown = self.shown.into_inner().map(Box::new);
        record.sent = self.meter.sent.load(Ordering::Relaxed);
        record.received = self.meter.received.load(Ordering::Relaxed);
        record.duration_ms = self.meter.elapsed_ms();
        record.time_ms = record.last_ms.saturating_sub(record.duration_ms);
        record
    }
}

async fn tell(served: &Served, stream: Socket, to: Option<SocketAddr>, story: &mut Story) -> Fate {
    stream.do_not_delay();
    let asked = to.map(|asked| SocketAddr::new(asked.ip().to_canonical(), asked.port()));
    // Straight to the listener, past the rules: there is no destination to it, or one that is the listener's own side.
    let Some(asked) = asked.filter(|asked| !asked.ip().is_loopback()) else {
        story.asked = stream.accepted_at();
        stream.reset();
        return Fate::Ended(Reason::CapturePort);
    };
    story.asked = Some(asked);
    if asked.port() == DNS {
        let mut stream = stream;
        return match names::serve_tcp(served, &mut stream).await {
            Ok(()) => Fate::Resolver,
            Err(reason) => Fate::Ended(reason),
        };
    }
    let attempt = match aim_of(served, asked, story) {
        Ok(Aim::Outside(attempt)) => attempt,
        Ok(Aim::Service(name)) => {
            let passed = services::pass(served, &stream, &name, asked.port(), story).await;
            return match passed {
                Ok(Passed::Done) => Fate::Done,
                Ok(Passed::Broken) => {
                    stream.reset();
                    Fate::Done
                }
                Err(reason) => {
                    stream.reset();
                    Fate::Ended(reason)
                }
            };
        }
        Err(reason) => {
            stream.reset();
            return Fate::Ended(reason);
        }
    };
    let mut rules = served.watch();
    let verdict = decide(&rules.borrow_and_update(), &attempt);
    let check = match verdict {
        Verdict::Refused(reason) => {
            stream.reset();
            return Fate::Ended(reason);
        }
        Verdict::Allowed { rule, check } => {
            story.rule = Some(rule);
            check
        }
    };
    let used = Arc::clone(&story.used);
    let allows = |rules: &Egress| {
        let same = matches!(decide(rules, &attempt), Verdict::Allowed { check: now, .. } if now == check);
        same && used.get().is_none_or(|address| served.outside.still_accepts(&attempt, *address, rules))
    };
    let ended = {
        let work = pass(served, &stream, &attempt, asked.port(), check, story, &allows);
        let forbidden = async {
            while rules.changed().await.is_ok() {
                if !allows(&rules.borrow_and_update()) {
                    return Reason::RulesChanged;
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            ended = work => ended,
            reason = forbidden => Err(reason),
        }
    };
    match ended {
        Ok(()) => Fate::Done,
        Err(reason) => {
            stream.reset();
            Fate::Ended(reason)
        }
    }
}

/// Where a connection wants to go.
enum Aim {
    Outside(Attempt),
    Service(Arc<str>),
}

/// An address of the range for names is the name it was given for.
fn aim_of(served: &Served, asked: SocketAddr, story: &mut Story) -> Result<Aim, Reason> {
    match asked.ip() {
        IpAddr::V4(v4) if is_synthetic(v4) => {
            let meaning = served.book().meaning_of(v4).cloned().ok_or(Reason::NoSuchName)?;
            match meaning {
                Meaning::Name(name) => {
                    story.name = Some(name.to_string());
                    Ok(Aim::Outside(Attempt::Name(name, asked.port())))
                }
                Meaning::Service(name) => {
                    story.name = Some(name.to_string());
                    Ok(Aim::Service(name))
                }
            }
        }
        address => {
            story.name = served.remembered(address).map(|name| name.to_string());
            Ok(Aim::Outside(Attempt::Address(address, asked.port())))
        }
    }
}

/// What a connection showed before anything left.
enum Shown {
    Nothing,
    Tls { first: Vec<u8>, greeting: usize, name: String },
    Http { first: Vec<u8>, head: Head, name: String },
}

/// Reads what the rule wants to see.
async fn show(
    served: &Served,
    stream: &Socket,
    attempt: &Attempt,
    check: Check,
    story: &mut Story,
) -> Result<Shown, Reason> {
    let (Attempt::Name(name, _), limit) = (attempt, served.limits.greeting) else { return Ok(Shown::Nothing) };
    let name = name.to_string();
    match check {
        Check::Nothing => Ok(Shown::Nothing),
        Check::Tls => {
            story.protocol = Protocol::Tls;
            let mut first = Vec::new();
            match in_time(limit, handshake::greeting(stream, &mut first, &name)).await {
                Ok(greeting) => Ok(Shown::Tls { first, greeting, name }),
                Err(reason) => {
                    story.refuse(reason, Presented::by_tls(&first));
                    Err(reason)
                }
            }
        }
        Check::Http(upgrades) => {
            story.protocol = Protocol::Http;
            let mut first = Vec::new();
            match in_time(limit, requests::first(stream, &mut first, &name, upgrades)).await {
                Ok(head) => {
                    story.request = Some(head.request.clone());
                    Ok(Shown::Http { first, head, name })
                }
                Err(reason) => {
                    story.refuse(reason, Presented::by_http(&first));
                    requests::forbid(stream, reason).await;
                    Err(reason)
                }
            }
        }
    }
}

/// Looks up, judges and connects; judges again by the rules of that moment, before a byte is sent.
async fn connect(
    served: &Served,
    attempt: &Attempt,
    port: u16,
    story: &Story,
    allows: &impl Fn(&Egress) -> bool,
) -> Result<Socket, Reason> {
    let rules = served.rules();
    let addresses = match attempt {
        Attempt::Name(name, _) | Attempt::Query(name) => served.outside.resolve(name, &rules).await?,
        Attempt::Address(address, _) => served.outside.accept_raw(*address, &rules)?,
    };
    let other = served.outside.connect(&addresses, port).await?;
    let address = other.peer_addr().map_err(|_| Reason::HostUnreachable)?.ip();
    let _ = story.used.set(address);
    if allows(&served.rules()) { Ok(Socket::Tcp(other)) } else { Err(Reason::RulesChanged) }
}

/// Checks, connects, and moves bytes until one side is done.
async fn pass(
    served: &Served,
    stream: &Socket,
    attempt: &Attempt,
    port: u16,
    check: Check,
    story: &mut Story,
    allows: &impl Fn(&Egress) -> bool,
) -> Result<(), Reason> {
    let shown = show(served, stream, attempt, check, story).await?;
    let other = match connect(served, attempt, port, story, allows).await {
        Ok(other) => other,
        Err(reason) => {
            if let Shown::Http { .. } = shown {
                story.refuse(reason, None);
                requests::forbid(stream, reason).await;
            }
            return Err(reason);
        }
    };
    other.do_not_delay();
    let crowded = served.is_crowded();
    if crowded {
        relay::restrain(stream);
        relay::restrain(&other);
    }
    let flow = Flow { meter: &story.meter, allowance: &served.allowance, buffers: &served.buffers, crowded };
    let work = async {
        match shown {
            Shown::Nothing => {
                both(flow.pump(stream, &other, Direction::Out), flow.pump(&other, stream, Direction::In)).await
            }
            Shown::Tls { first, greeting, name } => {
                let limit = served.limits.greeting;
                match handshake::pass(&flow, stream, &other, first, greeting, (&name, limit), &story.shown).await {
                    Ok(()) => {
                        both(flow.pump(stream, &other, Direction::Out), flow.pump(&other, stream, Direction::In)).await
                    }
                    Err(ended) => ended,
                }
            }
            Shown::Http { first, head, name } => {
                let (name, shown) = (name.as_str(), &story.shown);
                let mut passing = Requests { flow: &flow, stream, other: &other, name, shown, bytes: first };
                match passing.begin(head).await {
                    Ok(began) => both(passing.pass(began), flow.pump(&other, stream, Direction::In)).await,
                    Err(ended) => ended,
                }
            }
        }
    };
    tokio::select! {
        ended = work => match ended {
            Ended::Done => Ok(()),
            Ended::Cut(reason) => Err(reason),
        },
        () = story.meter.idle(served.limits.idle) => Err(Reason::Idle),
    }
}

/// Both directions to their ends, or until one of them is cut.
pub(crate) async fn both(out: impl Future<Output = Ended>, back: impl Future<Output = Ended>) -> Ended {
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
pub(crate) async fn read_more(stream: &Socket, bytes: &mut Vec<u8>) -> Result<(), Reason> {
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
