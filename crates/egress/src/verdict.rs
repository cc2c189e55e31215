//! The pure decision: may this leave, by which rule, and what must it look like.

use std::net::IpAddr;

use mutation::{Mutation, mutated};
use profile::{AllowRule, Egress, HostName, HostPattern, Port};

use crate::reason::Reason;

/// What a program in a sandbox tries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// Asks for the address of a name.
    Query(HostName),
    /// Connects to a port of a name: the address is one that the resolver handed out for it.
    Name(HostName, u16),
    /// Connects to an address that no name was given for.
    Address(IpAddr, u16),
}

/// What a connection must show before a byte of it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// TLS with exactly that SNI.
    Tls,
    /// HTTP, every request of it with exactly that Host.
    Http(Upgrades),
    /// Nothing: the rule lets any bytes through.
    Nothing,
}

/// Whether a request may turn the connection into something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upgrades {
    /// Into a WebSocket.
    WebSocket,
    /// Never.
    Refused,
}

/// What becomes of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may go on.
    Allowed {
        /// The rule that decided, as it is written.
        rule: String,
        /// What it must look like.
        check: Check,
    },
    /// It ends here.
    Refused(Reason),
}

/// The rule of a level that lists nothing.
const EVERYTHING: &str = "*";

/// Decides an attempt. Where an answer or an address may lead is judged later, by what it is.
pub fn decide(egress: &Egress, attempt: &Attempt) -> Verdict {
    match attempt {
        Attempt::Query(name) => decide_query(egress, name),
        Attempt::Name(name, port) => decide_name(egress, name, *port),
        Attempt::Address(address, _) => decide_address(egress, *address),
    }
}

fn everything() -> Verdict {
    Verdict::Allowed { rule: EVERYTHING.into(), check: Check::Nothing }
}

fn is_denied(egress: &Egress, name: &HostName) -> bool {
    let matches = |pattern: &HostPattern| pattern.matches(name);
    match egress {
        Egress::Everything { rules } | Egress::Listed { rules } => rules.deny.iter().any(matches),
        Egress::Nothing => false,
    }
}

/// Whether a deny rule holds a name that need not be one: by its labels, lower case, as they were asked for.
pub(crate) fn denies_labels(egress: &Egress, labels: &[Vec<u8>]) -> bool {
    let (Egress::Everything { rules } | Egress::Listed { rules }) = egress else { return false };
    let ends_with = |base: &HostName| {
        let base: Vec<&[u8]> = base.as_str().split('.').map(str::as_bytes).collect();
        labels.len() >= base.len() && labels[labels.len() - base.len()..].iter().zip(&base).all(|(a, b)| a == b)
    };
    let count = |base: &HostName| base.as_str().split('.').count();
    rules.deny.iter().any(|pattern| match pattern {
        HostPattern::Exact(name) => labels.len() == count(name) && ends_with(name),
        HostPattern::Below(base) => labels.len() > count(base) && ends_with(base),
    })
}

fn decide_query(egress: &Egress, name: &HostName) -> Verdict {
    if is_denied(egress, name) {
        return Verdict::Refused(Reason::NameDenied);
    }
    match egress {
        Egress::Everything { .. } => everything(),
        Egress::Nothing => Verdict::Refused(Reason::NoNetwork),
        Egress::Listed { rules } => match rules.allow.iter().find(|rule| rule.hosts.matches(name)) {
            Some(rule) => Verdict::Allowed { rule: rule.to_string(), check: Check::Nothing },
            None => Verdict::Refused(Reason::NameNotListed),
        },
    }
}

fn decide_name(egress: &Egress, name: &HostName, port: u16) -> Verdict {
    if is_denied(egress, name) {
        return Verdict::Refused(Reason::NameDenied);
    }
    let rules = match egress {
        Egress::Everything { .. } => return everything(),
        Egress::Nothing => return Verdict::Refused(Reason::NoNetwork),
        Egress::Listed { rules } => rules,
    };
    let mut opening: Vec<&AllowRule> = rules.allow.iter().filter(|rule| rule.opens(name, port)).collect();
    // Of several, the one that lets more through: each of them alone would.
    opening.sort_by_key(|rule| matches!(rule.port, Port::WebSocket | Port::RawTcp(_)));
    match opening.pop() {
        Some(rule) => Verdict::Allowed { rule: rule.to_string(), check: check_of(rule, port) },
        None if rules.allow.iter().any(|rule| rule.hosts.matches(name)) => Verdict::Refused(Reason::PortNotListed),
        None => Verdict::Refused(Reason::NameNotListed),
    }
}

fn check_of(rule: &AllowRule, port: u16) -> Check {
    match rule.port {
        Port::RawTcp(_) => Check::Nothing,
        _ if port == 443 && mutated(Mutation::NoSniCheck) => Check::Nothing,
        _ if port != 443 && mutated(Mutation::NoHostCheck) => Check::Nothing,
        Port::WebSocket => Check::Http(Upgrades::WebSocket),
        Port::Web | Port::Https | Port::Http if port == 443 => Check::Tls,
        Port::Web | Port::Https | Port::Http => Check::Http(Upgrades::Refused),
    }
}

fn decide_address(egress: &Egress, address: IpAddr) -> Verdict {
    let address = address.to_canonical();
    let rules = match egress {
        Egress::Everything { rules } | Egress::Listed { rules } => rules,
        Egress::Nothing => return Verdict::Refused(Reason::NoNetwork),
    };
    if rules.deny_cidr.iter().any(|net| net.contains(&address)) {
        return Verdict::Refused(Reason::AddressDenied);
    }
    match rules.allow_cidr.iter().find(|net| net.contains(&address)) {
        Some(net) => Verdict::Allowed { rule: net.to_string(), check: Check::Nothing },
        None if matches!(egress, Egress::Everything { .. }) => everything(),
        None if address.is_ipv6() && mutated(Mutation::Ipv6Open) => everything(),
        None => Verdict::Refused(Reason::RawAddress),
    }
}

#[cfg(test)]
mod tests {
    use profile::NetworkRules;
    use proptest::prelude::*;

    use super::*;

    fn rules(allow: &[&str], deny: &[&str]) -> NetworkRules {
        NetworkRules {
            allow: allow.iter().map(|text| text.parse().unwrap()).collect(),
            deny: deny.iter().map(|text| text.parse().unwrap()).collect(),
            allow_cidr: ["203.0.113.0/24".parse().unwrap()].into(),
            deny_cidr: ["203.0.113.9/32".parse().unwrap()].into(),
            ..NetworkRules::default()
        }
    }

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    fn allowed(rule: &str, check: Check) -> Verdict {
        Verdict::Allowed { rule: rule.into(), check }
    }

    #[test]
    fn the_rule_says_what_a_connection_must_look_like() {
        let listed =
            Egress::Listed { rules: rules(&["a.org", "ws://a.org", "tcp://b.org:22", "*.c.org"], &["bad.c.org"]) };
        let connect = |host: &str, port: u16| decide(&listed, &Attempt::Name(name(host), port));
        assert_eq!(connect("a.org", 443), allowed("a.org", Check::Tls));
        assert_eq!(connect("a.org", 80), allowed("ws://a.org", Check::Http(Upgrades::WebSocket)));
        assert_eq!(connect("b.org", 22), allowed("tcp://b.org:22", Check::Nothing));
        assert_eq!(connect("x.c.org", 80), allowed("*.c.org", Check::Http(Upgrades::Refused)));
        assert_eq!(connect("b.org", 443), Verdict::Refused(Reason::PortNotListed));
        assert_eq!(connect("c.org", 443), Verdict::Refused(Reason::NameNotListed));
        assert_eq!(connect("bad.c.org", 443), Verdict::Refused(Reason::NameDenied));
    }

    #[test]
    fn raw_addresses_need_a_range_and_deny_beats_it() {
        let listed = Egress::Listed { rules: rules(&["a.org"], &[]) };
        let connect = |address: &str| decide(&listed, &Attempt::Address(address.parse().unwrap(), 443));
        assert_eq!(connect("203.0.113.1"), allowed("203.0.113.0/24", Check::Nothing));
        assert_eq!(connect("::ffff:203.0.113.1"), allowed("203.0.113.0/24", Check::Nothing));
        assert_eq!(connect("203.0.113.9"), Verdict::Refused(Reason::AddressDenied));
        assert_eq!(connect("93.184.215.10"), Verdict::Refused(Reason::RawAddress));
    }

    #[test]
    fn deny_holds_names_that_are_none() {
        let everything = Egress::Everything { rules: rules(&[], &["*.evil.net", "bad.org"]) };
        let denied = |text: &str| {
            let labels: Vec<Vec<u8>> = text.split('.').map(|label| label.as_bytes().to_vec()).collect();
            denies_labels(&everything, &labels)
        };
        for name in ["a+b.evil.net", "_x.evil.net", "-x.y.evil.net", "\u{1b}.evil.net", "bad.org"] {
            assert!(denied(name), "{name}");
        }
        for name in ["evil.net", "notevil.net", "_x.bad.org", "a.evil.net.org"] {
            assert!(!denied(name), "{name}");
        }
    }

    #[test]
    fn nothing_is_nothing() {
        for attempt in [
            Attempt::Query(name("a.org")),
            Attempt::Name(name("a.org"), 443),
            Attempt::Address("203.0.113.1".parse().unwrap(), 443),
        ] {
            assert_eq!(decide(&Egress::Nothing, &attempt), Verdict::Refused(Reason::NoNetwork));
        }
    }

    proptest! {
        /// A denied name is refused whatever else is written.
        #[test]
        fn deny_beats_allow(host in "([ab]\\.){1,2}org", port: u16) {
            let both = rules(&["*.org.org", "a.org", "*.a.org", "*.b.org", "tcp://a.org:22"], &[&host]);
            for egress in [Egress::Listed { rules: both.clone() }, Egress::Everything { rules: both.clone() }] {
                prop_assert_eq!(
                    decide(&egress, &Attempt::Name(name(&host), port)),
                    Verdict::Refused(Reason::NameDenied)
                );
                prop_assert_eq!(decide(&egress, &Attempt::Query(name(&host))), Verdict::Refused(Reason::NameDenied));
            }
        }

        /// The decision agrees with the profile's own question.
        #[test]
        fn agrees_with_the_profile(host in "([ab]\\.){1,3}org", port in prop_oneof![Just(80_u16), Just(443), Just(22), any::<u16>()]) {
            let egress = Egress::Listed { rules: rules(&["a.org", "*.b.org", "tcp://b.a.org:22"], &["a.b.org"]) };
            let verdict = decide(&egress, &Attempt::Name(name(&host), port));
            prop_assert_eq!(matches!(verdict, Verdict::Allowed { .. }), egress.permits(&name(&host), port));
        }
    }
}
