//! What the DNS servers know.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};

use testnet::{addresses, names};

use super::message::{Answer, Kind, Query, Record};
use Record::{A, Aaaa, Txt};

const TTL: u32 = 60;

/// All names but those that are not the same every time.
const RECORDS: &[(&str, &[Record])] = &[
    (names::WWW, &[A(addresses::WEB[0]), Aaaa(addresses::WEB_V6[0])]),
    (names::PACKAGES, &[A(addresses::WEB[1])]),
    (names::GIT, &[A(addresses::WEB[2])]),
    (names::API, &[A(addresses::WEB[3]), Aaaa(addresses::WEB_V6[3])]),
    (names::EVIL, &[A(addresses::EVIL)]),
    (names::V6ONLY, &[Aaaa(addresses::WEB_V6[0])]),
    (names::PRIVATE, &[A(addresses::PRIVATE)]),
    (names::PRIVATE2, &[A(addresses::PRIVATE2)]),
    (names::SHARED, &[A(addresses::SHARED)]),
    (names::LOOP, &[A(Ipv4Addr::LOCALHOST)]),
    (names::ZERO, &[A(Ipv4Addr::UNSPECIFIED)]),
    (names::META, &[A(addresses::METADATA)]),
    (names::RUNNER, &[A(addresses::RUNNER)]),
    (names::MAPPED, &[Aaaa(Ipv4Addr::LOCALHOST.to_ipv6_mapped())]),
    // Both carry 10.66.0.10, the private server: 0a42:000a.
    (names::NAT64, &[Aaaa(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0xa42, 0xa))]),
    (names::SIXTOFOUR, &[Aaaa(Ipv6Addr::new(0x2002, 0xa42, 0xa, 0, 0, 0, 0, 1))]),
    (names::MIXED, &[A(addresses::PRIVATE), A(addresses::WEB[0])]),
    (names::DEAD, &[A(addresses::DEAD)]),
    (names::REFUSED, &[A(addresses::WEB[0])]),
    (names::TXT, &[Txt(names::CANARY_TEXT)]),
];

/// Who answers.
#[derive(Debug)]
pub(crate) enum Resolver {
    /// Knows the names of the testnet, and that of the attacker among them, which rebinds.
    Honest {
        /// Whether the next answer for the name that rebinds is the private address.
        rebound: AtomicBool,
    },
    /// Leads everyone to the evil server.
    Lying,
}

impl Resolver {
    pub(crate) fn honest() -> Self {
        Self::Honest { rebound: AtomicBool::new(false) }
    }

    pub(super) fn resolve(&self, query: &Query) -> Answer {
        let (ttl, records) = match self {
            Self::Lying => (TTL, vec![A(addresses::EVIL)]),
            Self::Honest { rebound } if query.name == names::REBIND => {
                // Only a question for the address takes a turn: clients ask for IPv6 beside it, in any order.
                let private = query.kind == Kind::A && rebound.fetch_not(Ordering::Relaxed);
                (0, vec![A(if private { addresses::PRIVATE } else { addresses::WEB[0] })])
            }
            Self::Honest { .. } => match lookup(&query.name) {
                Some(records) => (TTL, records),
                None => return Answer::NoSuchName,
            },
        };
        Answer::Records { ttl, records: records.into_iter().filter(|record| record.kind() == query.kind).collect() }
    }
}

fn lookup(name: &str) -> Option<Vec<Record>> {
    let below_wild = name.strip_suffix(names::WILD).and_then(|below| below.strip_suffix('.'));
    if below_wild.is_some_and(|below| !below.is_empty()) {
        return Some(vec![A(addresses::WEB[4])]);
    }
    RECORDS.iter().find(|(known, _)| *known == name).map(|(_, records)| records.to_vec())
}

#[cfg(test)]
mod tests {
    use super::super::message::tests::query;
    use super::*;

    const TYPE_A: u16 = 1;
    const TYPE_TXT: u16 = 16;
    const TYPE_AAAA: u16 = 28;

    fn ask(resolver: &Resolver, name: &str, kind: u16) -> Answer {
        resolver.resolve(&Query::parse(&query(name, kind)).unwrap())
    }

    fn records(records: &[Record]) -> Answer {
        Answer::Records { ttl: TTL, records: records.to_vec() }
    }

    #[test]
    fn an_answer_has_the_records_of_the_type() {
        let resolver = Resolver::honest();
        assert_eq!(ask(&resolver, "WWW.example.ORG", TYPE_A), records(&[A(addresses::WEB[0])]));
        assert_eq!(ask(&resolver, names::WWW, TYPE_AAAA), records(&[Aaaa(addresses::WEB_V6[0])]));
        assert_eq!(ask(&resolver, names::WWW, TYPE_TXT), records(&[]));
        assert_eq!(ask(&resolver, names::V6ONLY, TYPE_A), records(&[]));
        assert_eq!(ask(&resolver, names::TXT, TYPE_TXT), records(&[Txt("canary-text")]));
        assert_eq!(ask(&resolver, names::MIXED, TYPE_A), records(&[A(addresses::PRIVATE), A(addresses::WEB[0])]));
        assert_eq!(ask(&resolver, "missing.example.org", TYPE_A), Answer::NoSuchName);
    }

    #[test]
    fn wrapped_addresses_are_those_of_the_private_server() {
        let wrapped = |name, text: &str| {
            assert_eq!(lookup(name), Some(vec![Aaaa(text.parse().unwrap())]));
        };
        wrapped(names::MAPPED, "::ffff:127.0.0.1");
        wrapped(names::NAT64, "64:ff9b::10.66.0.10");
        wrapped(names::SIXTOFOUR, "2002:a42:a::1");
    }

    #[test]
    fn everything_below_wild_exists_but_not_wild_itself() {
        for name in ["a.wild.example.org", "a.b.c.wild.example.org"] {
            assert_eq!(lookup(name), Some(vec![A(addresses::WEB[4])]), "{name}");
        }
        for name in ["wild.example.org", "bewild.example.org", ".wild.example.org", "wild.example.org.evil.net"] {
            assert_eq!(lookup(name), None, "{name}");
        }
    }

    #[test]
    fn rebinding_alternates_per_question_for_the_address() {
        let resolver = Resolver::honest();
        let turn = |kind| ask(&resolver, names::REBIND, kind);
        let answer = |address| Answer::Records { ttl: 0, records: vec![A(address)] };
        assert_eq!(turn(TYPE_A), answer(addresses::WEB[0]));
        assert_eq!(turn(TYPE_AAAA), Answer::Records { ttl: 0, records: Vec::new() });
        assert_eq!(turn(TYPE_A), answer(addresses::PRIVATE));
        assert_eq!(turn(TYPE_A), answer(addresses::WEB[0]));
    }

    #[test]
    fn the_lying_resolver_knows_every_name() {
        assert_eq!(ask(&Resolver::Lying, "missing.example.org", TYPE_A), records(&[A(addresses::EVIL)]));
    }
}
