//! The one rule language for the network, on every provider.
//!
//! Owns the rules as data and the pure question "may this name be reached on this port".
//! What a connection must *look like* (TLS with that SNI, HTTP with that Host) is checked by the gateway.
//!
//! Absent, empty and filled: no rules, like an empty `allow_domains`, mean that nothing may leave.
//! `deny_*` beats `allow_*`, always.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Serialize, Serializer};

use crate::hostname::{HostName, HostNameError};
use crate::level::Network;
use crate::pattern::HostPattern;

/// Which ports of a host a rule opens, and what must be spoken there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// 443 with TLS and exactly that SNI; 80 with HTTP and exactly that Host.
    Web,
    /// This port with any bytes, unchecked.
    RawTcp(u16),
}

/// One thing that may be reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllowRule {
    /// Which hosts.
    pub hosts: HostPattern,
    /// Which ports of them.
    pub port: Port,
}

/// Why a text is not an [`AllowRule`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllowRuleError {
    /// The host part is wrong.
    #[error("`{text}` is not a host pattern")]
    Host {
        /// What was written.
        text: String,
        /// What is wrong with it.
        #[source]
        source: HostNameError,
    },
    /// `*` alone.
    #[error("`*` would allow every name")]
    Everything,
    /// Another scheme than `tcp`.
    #[error("`{0}` has a scheme other than tcp://")]
    Scheme(String),
    /// `tcp://name` without a port, or with one that is none.
    #[error("`{0}` needs a port from 1 to 65535")]
    Port(String),
}

impl AllowRuleError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Host { source, .. } => source.hint(),
            Self::Everything => "full network is the level N0, with a justification",
            Self::Scheme(_) => "write the plain name for web ports 443 and 80, or tcp://name:port for raw TCP",
            Self::Port(_) => "write raw TCP as tcp://name:port, for example tcp://git.example.org:22",
        }
    }
}

impl FromStr for AllowRule {
    type Err = AllowRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pattern =
            |host: &str| host.parse().map_err(|source| AllowRuleError::Host { text: text.to_owned(), source });
        if text == "*" {
            return Err(AllowRuleError::Everything);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Self { hosts: pattern(text)?, port: Port::Web });
        };
        if !scheme.eq_ignore_ascii_case("tcp") {
            return Err(AllowRuleError::Scheme(text.to_owned()));
        }
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| AllowRuleError::Port(text.to_owned()))?;
        let PortNumber(port) = port.parse().map_err(|_| AllowRuleError::Port(text.to_owned()))?;
        Ok(Self { hosts: pattern(host)?, port: Port::RawTcp(port) })
    }
}

/// A TCP port.
pub(crate) struct PortNumber(pub(crate) u16);

impl FromStr for PortNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Plain digits: `u16::from_str` would also take a sign.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let port = text.parse().ok().filter(|&port| digits && port != 0);
        port.map(Self).ok_or_else(|| format!("`{text}` is not a port from 1 to 65535"))
    }
}

impl AllowRule {
    /// Whether this rule opens `port` of `name`.
    pub fn opens(&self, name: &HostName, port: u16) -> bool {
        let port_matches = match self.port {
            Port::Web => matches!(port, 80 | 443),
            Port::RawTcp(raw) => raw == port,
        };
        port_matches && self.hosts.matches(name)
    }
}

impl fmt::Display for AllowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Port::Web => self.hosts.fmt(f),
            Port::RawTcp(port) => write!(f, "tcp://{}:{port}", self.hosts),
        }
    }
}

impl Serialize for AllowRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What is listed, as sets: the order in a file means nothing and does not change the plan's hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NetworkRules {
    /// Names and ports that may be reached.
    pub allow: BTreeSet<AllowRule>,
    /// Raw addresses that may be reached without a name.
    pub allow_cidr: BTreeSet<IpNet>,
    /// Names that may resolve to private addresses.
    pub allow_private_answers: BTreeSet<HostPattern>,
    /// Names that are refused even where a rule allows them.
    pub deny: BTreeSet<HostPattern>,
    /// Addresses that are refused even where a rule or an answer gives them.
    pub deny_cidr: BTreeSet<IpNet>,
}

impl NetworkRules {
    /// Whether anything is allowed at all.
    pub fn allows_something(&self) -> bool {
        !self.allow.is_empty() || !self.allow_cidr.is_empty()
    }

    /// The rule that opens `port` of `name`, unless a deny rule beats it.
    pub fn permits(&self, name: &HostName, port: u16) -> Option<&AllowRule> {
        if self.deny.iter().any(|pattern| pattern.matches(name)) {
            return None;
        }
        self.allow.iter().find(|rule| rule.opens(name, port))
    }

    /// Whether every name of `reach` is allowed on its web ports and none is denied.
    pub fn list(&self, reach: &HostPattern) -> bool {
        let denied = self.deny.iter().any(|pattern| pattern.overlaps(reach));
        !denied && self.allow.iter().any(|rule| rule.port == Port::Web && rule.hosts.covers(reach))
    }

    /// These rules as the network level `level` grants them.
    pub fn at(&self, level: Network) -> Egress {
        match level {
            Network::N0 => Egress::Everything { deny: self.deny.clone(), deny_cidr: self.deny_cidr.clone() },
            Network::N1 if self.allows_something() => Egress::Listed { rules: self.clone() },
            Network::N1 | Network::N2 => Egress::Nothing,
        }
    }
}

/// What may leave a sandbox, in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "egress", rename_all = "snake_case")]
pub enum Egress {
    /// Every name but the denied ones.
    Everything {
        /// Names refused nevertheless.
        deny: BTreeSet<HostPattern>,
        /// Addresses refused nevertheless.
        deny_cidr: BTreeSet<IpNet>,
    },
    /// Only what is listed.
    Listed {
        /// The list.
        rules: NetworkRules,
    },
    /// Nothing at all.
    Nothing,
}

impl Egress {
    /// Whether `port` of `name` may be reached.
    pub fn permits(&self, name: &HostName, port: u16) -> bool {
        match self {
            Self::Everything { deny, .. } => !deny.iter().any(|pattern| pattern.matches(name)),
            Self::Listed { rules } => rules.permits(name, port).is_some(),
            Self::Nothing => false,
        }
    }

    /// Whether the raw address may be reached by listing, without a name.
    pub fn permits_address(&self, address: IpAddr) -> bool {
        match self {
            Self::Everything { deny_cidr, .. } => !deny_cidr.iter().any(|net| net.contains(&address)),
            Self::Listed { rules } => {
                !rules.deny_cidr.iter().any(|net| net.contains(&address))
                    && rules.allow_cidr.iter().any(|net| net.contains(&address))
            }
            Self::Nothing => false,
        }
    }
}

/// Why an address range may not stand in `allow_cidr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// The runner's own loopback.
    #[error("loopback addresses are the runner's own")]
    Loopback,
    /// Link-local addresses, where clouds keep credentials.
    #[error("link-local addresses hold the metadata services of clouds")]
    LinkLocal,
    /// The range the gateway hands out for names.
    #[error("198.18.0.0/15 is what the gateway hands out for names")]
    Synthetic,
    /// Everything.
    #[error("the range is every address")]
    Everything,
    /// Unspecified, multicast or broadcast.
    #[error("unspecified, multicast and broadcast addresses are not hosts")]
    NotAHost,
}

/// Checks one entry of `allow_cidr`: what no list may open is an error here, not a surprise later.
///
/// ```
/// use profile::{check_allow_cidr, CidrError};
/// assert_eq!(check_allow_cidr(&"169.254.169.254/32".parse()?), Err(CidrError::LinkLocal));
/// assert_eq!(check_allow_cidr(&"203.0.113.0/24".parse()?), Ok(()));
/// # Ok::<(), ipnet::AddrParseError>(())
/// ```
pub fn check_allow_cidr(net: &IpNet) -> Result<(), CidrError> {
    if net.prefix_len() == 0 {
        return Err(CidrError::Everything);
    }
    // A v4-mapped range is judged as the IPv4 range that it reaches.
    if let IpNet::V6(v6) = net
        && v6.prefix_len() >= 96
        && let Some(v4) = v6.network().to_ipv4_mapped()
        && let Ok(mapped) = IpNet::new(IpAddr::V4(v4), v6.prefix_len() - 96)
    {
        return check_allow_cidr(&mapped);
    }
    for (reserved, error) in reserved() {
        if reserved.contains(net) || net.contains(&reserved) {
            return Err(error);
        }
    }
    Ok(())
}

fn reserved() -> impl Iterator<Item = (IpNet, CidrError)> {
    let v4 = |a, b, c, d, prefix| IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix);
    let v6 = |first, last, prefix| IpNet::new_assert(IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, last)), prefix);
    [
        (v4(127, 0, 0, 0, 8), CidrError::Loopback),
        (v6(0, 1, 128), CidrError::Loopback),
        (v4(169, 254, 0, 0, 16), CidrError::LinkLocal),
        (v6(0xfe80, 0, 10), CidrError::LinkLocal),
        (v4(198, 18, 0, 0, 15), CidrError::Synthetic),
        (v4(0, 0, 0, 0, 8), CidrError::NotAHost),
        (v4(224, 0, 0, 0, 3), CidrError::NotAHost),
        (v6(0, 0, 128), CidrError::NotAHost),
        (v6(0xff00, 0, 8), CidrError::NotAHost),
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str]) -> NetworkRules {
        NetworkRules {
            allow: allow.iter().map(|text| text.parse().unwrap()).collect(),
            deny: deny.iter().map(|text| text.parse().unwrap()).collect(),
            ..NetworkRules::default()
        }
    }

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[test]
    fn plain_names_open_web_ports_only() {
        let rules = rules(&["example.org", "tcp://git.example.org:22"], &[]);
        assert!(rules.permits(&name("example.org"), 443).is_some());
        assert!(rules.permits(&name("example.org"), 80).is_some());
        assert!(rules.permits(&name("example.org"), 22).is_none());
        assert!(rules.permits(&name("git.example.org"), 22).is_some());
        assert!(rules.permits(&name("git.example.org"), 443).is_none());
    }

    #[test]
    fn deny_beats_allow() {
        let rules = rules(&["*.example.org", "bad.example.org"], &["bad.example.org"]);
        assert!(rules.permits(&name("good.example.org"), 443).is_some());
        assert!(rules.permits(&name("bad.example.org"), 443).is_none());
        assert!(!rules.list(&"*.example.org".parse().unwrap()), "a reach that includes a denied name is not listed");
    }

    #[test]
    fn empty_list_means_nothing_may_leave() {
        assert_eq!(NetworkRules::default().at(Network::N1), Egress::Nothing);
        assert!(!Egress::Nothing.permits(&name("example.org"), 443));
    }

    #[test]
    fn what_is_not_a_rule_says_what_to_write() {
        let errors: Vec<String> = [
            "*",
            "https://example.org",
            "tcp://example.org",
            "tcp://example.org:0",
            "tcp://example.org:+22",
            "tcp://:22",
            "tcp://1.2.3.4:22",
            "*.org",
            "localhost",
            "example.org:8080",
        ]
        .iter()
        .map(|text| match text.parse::<AllowRule>() {
            Ok(rule) => format!("{text:?} parsed as {rule}"),
            Err(error) => format!("{error}; {}", error.hint()),
        })
        .collect();
        insta::assert_snapshot!(errors.join("\n"));
    }

    #[test]
    fn no_list_opens_the_runner_or_the_metadata_service() {
        for (net, error) in [
            ("127.0.0.1/32", CidrError::Loopback),
            ("126.0.0.0/7", CidrError::Loopback),
            ("::1/128", CidrError::Loopback),
            ("::ffff:127.0.0.0/104", CidrError::Loopback),
            ("::ffff:a9fe:a9fe/128", CidrError::LinkLocal),
            ("::ffff:0:0/96", CidrError::Everything),
            ("169.254.169.254/32", CidrError::LinkLocal),
            ("fe80::/64", CidrError::LinkLocal),
            ("0.0.0.0/0", CidrError::Everything),
            ("::/0", CidrError::Everything),
            ("198.19.0.0/16", CidrError::Synthetic),
            ("224.0.0.1/32", CidrError::NotAHost),
            ("255.255.255.255/32", CidrError::NotAHost),
        ] {
            assert_eq!(check_allow_cidr(&net.parse().unwrap()), Err(error), "{net}");
        }
        for net in ["203.0.113.0/24", "10.1.2.0/24", "2001:db8::/32"] {
            assert_eq!(check_allow_cidr(&net.parse().unwrap()), Ok(()), "{net}");
        }
    }
}
