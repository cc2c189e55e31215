//! Probes of the network: the same bytes from the witness, who has no gateway before them, and from inside.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use egress::{Outcome, Protocol, Reason, Record};
use profile::Network;
use sandbox::{Attempt, Attempted, Sandbox, SessionError, Tried, User};

use crate::bytes;
use crate::probe::Finding;
use crate::scene::secret;
use crate::world::{FORBIDDEN, ZONE, address_of};

/// The sandbox's own resolver.
const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// How long a connection may take: the gateway answers at once, or not at all.
const CONNECTION: u64 = 3000;
/// How long silence is listened to. What arrives at a canary is in its journal, however late an answer would come; only an
/// echo has no journal, and comes back in the kernel, whoever waits for a processor.
const SILENCE: u64 = 50;

/// To whom.
#[derive(Debug, Clone, Copy)]
pub(crate) enum To {
    /// A name below the zone, by the sandbox's resolver.
    Name(&'static str),
    /// An address as it is.
    Address(IpAddr),
}

/// What is said.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Say {
    /// HTTP with this host, of the zone.
    Http(&'static str),
    /// HTTP that asks to be led on.
    Connect,
    /// A greeting of TLS with this server name, of the zone.
    Tls(Option<&'static str>),
    /// Bytes of no protocol.
    Bytes,
    /// A query for a name below `forbidden`.
    Query,
    /// A query for a text below this name, over UDP to the sandbox's own resolver.
    Tunnel(&'static str),
    /// The query over TCP.
    QueryOverTcp,
    /// A datagram.
    Datagram,
    /// An ICMP echo.
    Echo,
}

/// What must become of it at a level.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    /// It arrives.
    Reached,
    /// It does not, and a record says why: one of these.
    Refused(&'static [Reason]),
    /// It does not; such things are dropped before anybody could record them.
    Dropped,
    /// The level promises nothing about it.
    Anything,
}

/// One probe of the network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) to: To,
    pub(crate) port: u16,
    pub(crate) say: Say,
    /// At N0, N1 and N2.
    pub(crate) expected: [Expected; 3],
}

impl Exchange {
    pub(crate) fn expected(&self, level: Network) -> Expected {
        let [n0, n1, n2] = self.expected;
        match level {
            Network::N0 => n0,
            Network::N1 => n1,
            Network::N2 => n2,
        }
    }

    /// The name of the zone below which a query asks, if it is one.
    pub(crate) fn asks_below(&self) -> Option<&'static str> {
        match self.say {
            Say::Query | Say::QueryOverTcp => Some("forbidden"),
            Say::Tunnel(label) => Some(label),
            _ => None,
        }
    }

    fn name(&self) -> Option<String> {
        match self.to {
            To::Name(label) => Some(format!("{label}.{ZONE}")),
            To::Address(_) => None,
        }
    }

    /// Where it is, for whoever needs no resolver.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self.to {
            To::Name(label) => address_of(label).map(IpAddr::from),
            To::Address(address) => Some(address),
        }
    }

    /// What is sent, and what of it is looked for where it arrives.
    fn message(&self) -> (Vec<u8>, Vec<u8>) {
        let nonce = secret();
        let mut random = [0; 32];
        random.copy_from_slice(&[uuid::Uuid::new_v4().into_bytes(), uuid::Uuid::new_v4().into_bytes()].concat());
        let text = nonce.clone().into_bytes();
        let asked = format!("{nonce}.forbidden.{ZONE}");
        match self.say {
            Say::Http(host) => (bytes::get(&format!("{host}.{ZONE}"), &nonce), text),
            Say::Connect => (bytes::connect(&format!("{FORBIDDEN}:443"), &nonce), text),
            Say::Tls(name) => {
                let name = name.map(|label| format!("{label}.{ZONE}"));
                (bytes::tls(name.as_deref(), &random), random.to_vec())
            }
            Say::Bytes | Say::Datagram | Say::Echo => (text.clone(), text),
            Say::Query => (bytes::query(&asked, bytes::A), text),
            Say::Tunnel(label) => (bytes::query(&format!("{nonce}.{label}.{ZONE}"), bytes::TXT), text),
            Say::QueryOverTcp => (bytes::over_tcp(&bytes::query(&asked, bytes::A)), text),
        }
    }

    fn attempt(&self, to: IpAddr, send: Vec<u8>) -> Attempt {
        let address = SocketAddr::new(to, self.port);
        match self.say {
            Say::Datagram | Say::Query | Say::Tunnel(_) => Attempt::Udp { to: address, send, timeout_ms: SILENCE },
            Say::Echo => Attempt::Ping { to, payload: send, timeout_ms: SILENCE },
            // A resolver keeps the connection open.
            Say::QueryOverTcp => Attempt::Tcp { to: address, send, timeout_ms: 2 * SILENCE },
            Say::Http(_) | Say::Connect | Say::Tls(_) | Say::Bytes => {
                Attempt::Tcp { to: address, send, timeout_ms: CONNECTION }
            }
        }
    }
}

/// One side's attempt: what to look for, and what came back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    nonce: Vec<u8>,
    received: Vec<u8>,
    /// In words, for the evidence.
    answer: String,
}

impl Said {
    /// Whether canary bytes arrived, there or here. An echo comes back from a kernel, which keeps no journal.
    fn reached(&self, arrived: &[Vec<u8>], token: &str, say: Say) -> bool {
        let came_back = bytes::contains(&self.received, token.as_bytes())
            || (matches!(say, Say::Echo) && bytes::contains(&self.received, &self.nonce));
        came_back || arrived.iter().any(|bytes| bytes::contains(bytes, &self.nonce))
    }
}

async fn say(exchange: &Exchange, from: &Sandbox, to: IpAddr) -> Result<Said, SessionError> {
    let (send, nonce) = exchange.message();
    let tried = from.attempt(exchange.attempt(to, send), User::Default, Duration::from_millis(2 * CONNECTION)).await?;
    let (received, answer) = match tried {
        Tried::Answered(Attempted::Exchanged { received, ending }) => {
            let answer = format!("{} bytes back, {ending:?}", received.len()).to_lowercase();
            (received, answer)
        }
        Tried::Answered(Attempted::Refused(errno)) => (Vec::new(), crate::host::error(errno)),
        other => (Vec::new(), format!("{other:?}")),
    };
    Ok(Said { nonce, received, answer })
}

/// What the witness says: straight to where it is.
pub(crate) async fn witness(exchange: &Exchange, witness: &Sandbox) -> Result<Said, SessionError> {
    match exchange.address() {
        Some(address) => say(exchange, witness, address).await,
        None => Ok(Said::default()),
    }
}

/// What is said inside: names by the sandbox's own resolver.
pub(crate) async fn inside(exchange: &Exchange, inside: &Sandbox) -> Result<Said, SessionError> {
    let to = match (exchange.to, exchange.say) {
        // Asked of whoever the sandbox finds.
        (_, Say::Tunnel(_)) => NAME_SERVER.into(),
        (To::Address(address), _) => address,
        (To::Name(label), _) => {
            let query = bytes::query(&format!("{label}.{ZONE}"), bytes::A);
            let ask = Attempt::Udp { to: SocketAddr::new(NAME_SERVER.into(), 53), send: query, timeout_ms: CONNECTION };
            let tried = inside.attempt(ask, User::Default, Duration::from_millis(2 * CONNECTION)).await?;
            let found = match &tried {
                Tried::Answered(Attempted::Exchanged { received, .. }) => bytes::address(received),
                _ => None,
            };
            match found {
                Some(address) => address.into(),
                None => return Ok(Said { answer: "the name has no address".into(), ..Said::default() }),
            }
        }
    };
    say(exchange, inside, to).await
}

/// What both sides came to.
pub(crate) struct Observed<'a> {
    pub(crate) witness: &'a Said,
    pub(crate) inside: &'a Said,
    pub(crate) arrived: &'a [Vec<u8>],
    pub(crate) token: &'a str,
    pub(crate) records: &'a [Record],
    /// Whether the plan promises records.
    pub(crate) recorded: bool,
}

/// The record that says why an exchange was refused.
fn refusal<'a>(exchange: &Exchange, reasons: &[Reason], nonce: &[u8], records: &'a [Record]) -> Option<&'a Record> {
    records.iter().find(|record| {
        let because =
            record.verdict == Outcome::Refused && record.reason.is_some_and(|reason| reasons.contains(&reason));
        let name = record.name.as_deref().unwrap_or_default();
        let about = match exchange.say {
            // Every query is for a name of its own.
            Say::Query | Say::Tunnel(_) | Say::QueryOverTcp => bytes::contains(name.as_bytes(), nonce),
            _ if record.protocol == Protocol::Dns => exchange.name().as_deref() == Some(name),
            _ => {
                let at = match exchange.to {
                    To::Name(_) => exchange.name().as_deref() == Some(name) || record.asked == exchange.address(),
                    To::Address(address) => record.asked == Some(address),
                };
                at && record.port == Some(exchange.port)
            }
        };
        because && about
    })
}

/// What it shows at a level. Pure.
pub(crate) fn judge(exchange: &Exchange, level: Network, observed: &Observed<'_>) -> Finding {
    let Observed { witness, inside, arrived, token, records, recorded } = observed;
    let expected = exchange.expected(level);
    if matches!(expected, Expected::Anything) {
        return Finding::unclaimed(format!("{level} promises nothing about it"));
    }
    let reached = inside.reached(arrived, token, exchange.say);
    match expected {
        Expected::Reached if reached => Finding::pass("canary bytes arrived"),
        Expected::Reached => Finding::fail(format!("not reached: {}", inside.answer)),
        _ if reached => Finding::fail("canary bytes arrived"),
        _ if !witness.reached(arrived, token, exchange.say) => {
            Finding::unknown(format!("it was not reached without the gateway either: {}", witness.answer))
        }
        Expected::Refused(reasons) if *recorded => match refusal(exchange, reasons, &inside.nonce, records) {
            Some(record) => {
                let reason = record.reason.map_or("refused", Reason::code);
                Finding::pass(format!("refused and recorded: {reason}"))
            }
            None => Finding::unknown(format!("not reached, and no record says why: {}", inside.answer)),
        },
        _ => Finding::pass(format!("nothing arrived, and without the gateway it does: {}", inside.answer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Verdict;
    use crate::world::METADATA;

    const TOKEN: &str = "token";

    fn exchange() -> Exchange {
        let refused = Expected::Refused(&[Reason::RawAddress]);
        let to = To::Address(METADATA.into());
        Exchange { to, port: 80, say: Say::Bytes, expected: [Expected::Reached, refused, Expected::Anything] }
    }

    fn said(nonce: &str, received: &str) -> Said {
        Said { nonce: nonce.into(), received: received.into(), answer: "a".into() }
    }

    fn record(reason: &str, asked: IpAddr, port: u16) -> Record {
        serde_json::from_value(serde_json::json!({
            "time_ms": 0, "sandbox": "s", "protocol": "tcp", "verdict": "refused", "reason": reason, "asked": asked,
            "port": port, "sent": 0, "received": 0, "duration_ms": 0, "count": 1, "last_ms": 0,
        }))
        .unwrap()
    }

    fn verdict(level: Network, arrived: &[&str], records: &[Record], received: &str) -> Verdict {
        let arrived: Vec<Vec<u8>> = arrived.iter().map(|text| text.as_bytes().to_vec()).collect();
        let (witness, inside) = (said("witness", ""), said("inside", received));
        let observed =
            Observed { witness: &witness, inside: &inside, arrived: &arrived, token: TOKEN, records, recorded: true };
        judge(&exchange(), level, &observed).verdict
    }

    #[test]
    fn a_refusal_counts_only_with_a_witness_and_a_record() {
        let refused = [record("raw_address", METADATA.into(), 80)];
        assert_eq!(verdict(Network::N1, &["a witness b"], &refused, ""), Verdict::Pass);
        assert_eq!(verdict(Network::N1, &[], &refused, ""), Verdict::Unknown, "nobody showed that it is there");
        assert_eq!(verdict(Network::N1, &["witness"], &[], ""), Verdict::Unknown, "nobody says why");
        for other in [
            record("no_network", METADATA.into(), 80),
            record("raw_address", METADATA.into(), 443),
            record("raw_address", FORBIDDEN.into(), 80),
        ] {
            assert_eq!(verdict(Network::N1, &["witness"], &[other], ""), Verdict::Unknown, "another record");
        }
    }

    #[test]
    fn canary_bytes_decide() {
        let refused = [record("raw_address", METADATA.into(), 80)];
        assert_eq!(verdict(Network::N1, &["witness", "inside"], &refused, ""), Verdict::Fail, "they arrived there");
        assert_eq!(verdict(Network::N1, &["witness"], &refused, "xtokenx"), Verdict::Fail, "they came back");
        assert_eq!(verdict(Network::N0, &["witness", "inside"], &[], ""), Verdict::Pass);
        assert_eq!(verdict(Network::N0, &["witness"], &[], ""), Verdict::Fail);
        assert_eq!(verdict(Network::N2, &["witness", "inside"], &[], ""), Verdict::Unclaimed);
    }
}
