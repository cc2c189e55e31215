//! The one rule language for the network, on every provider.
//!
//! Owns the rules as data and the pure question "may this name be reached on this port".
//! What a connection must *look like* (TLS with that SNI, HTTP with that Host) is checked by the gateway.
//!
//! Absent, empty and filled: no rules, like an empty `allow_domains`, mean that nothing may leave.
//! `deny_*` beats `allow_*`, always.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Serialize, Serializer};

use crate::hostname::{HostName, HostNameError};
use crate::level::Network;
use crate::pattern::HostPattern;

/// Which ports of a host a rule opens, and what must be spoken there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// Both of the next two.
    Web,
    /// 443 with TLS and exactly that SNI.
    Https,
    /// 80 with HTTP and exactly that Host.
    Http,
    /// 80 with HTTP and exactly that Host, which may become a WebSocket: opaque from then on.
    WebSocket,
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
    /// Another scheme than `tcp`, `https`, `http` or `ws`.
    #[error("`{0}` has a scheme other than https://, http://, ws:// or tcp://")]
    Scheme(String),
    /// `tcp://name` without a port, or with one that is none.
    #[error("`{0}` needs a port from 1 to 65535")]
    Port(String),
    /// Raw TCP on the port of name servers.
    #[error("`{0}` would open the port of name servers, which the gateway answers itself")]
    RawDns(String),
    /// Raw TCP on a port that has a check.
    #[error("`{0}` would open a web port without its check")]
    RawWeb(String),
}

impl AllowRuleError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Host { source, .. } => source.hint(),
            Self::Everything => "full network is the level N0, with a justification",
            Self::Scheme(_) => "write the plain name for web ports 443 and 80, or tcp://name:port for raw TCP",
            Self::Port(_) => "write raw TCP as tcp://name:port, for example tcp://git.example.org:22",
            Self::RawDns(_) => "list the names that are needed; they are resolved without a rule",
            Self::RawWeb(_) => {
                "write https://name for 443 with that SNI, http://name for 80 with that Host, or the plain name"
            }
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
        match scheme.to_ascii_lowercase().as_str() {
            "https" => return Ok(Self { hosts: pattern(rest)?, port: Port::Https }),
            "http" => return Ok(Self { hosts: pattern(rest)?, port: Port::Http }),
            "ws" => return Ok(Self { hosts: pattern(rest)?, port: Port::WebSocket }),
            "tcp" => {}
            _ => return Err(AllowRuleError::Scheme(text.to_owned())),
        }
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| AllowRuleError::Port(text.to_owned()))?;
        let PortNumber(port) = port.parse().map_err(|_| AllowRuleError::Port(text.to_owned()))?;
        if matches!(port, 80 | 443) {
            return Err(AllowRuleError::RawWeb(text.to_owned()));
        }
        if port == 53 {
            return Err(AllowRuleError::RawDns(text.to_owned()));
        }
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
    /// Whether this rule opens everything that `other` opens.
    pub fn covers(&self, other: &Self) -> bool {
        let ports = self.port == other.port
            || matches!((self.port, other.port), (Port::Web, Port::Https | Port::Http) | (Port::WebSocket, Port::Http));
        ports && self.hosts.covers(&other.hosts)
    }

    /// Whether this rule opens `port` of `name`.
    pub fn opens(&self, name: &HostName, port: u16) -> bool {
        let port_matches = match self.port {
            Port::Web => matches!(port, 80 | 443),
            Port::Https => port == 443,
            Port::Http | Port::WebSocket => port == 80,
            Port::RawTcp(raw) => raw == port,
        };
        port_matches && self.hosts.matches(name)
    }
}

impl fmt::Display for AllowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Port::Web => self.hosts.fmt(f),
            Port::Https => write!(f, "https://{}", self.hosts),
            Port::Http => write!(f, "http://{}", self.hosts),
            Port::WebSocket => write!(f, "ws://{}", self.hosts),
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
    /// Whether any rule allows something.
    pub fn allows_something(&self) -> bool {
        !self.allow.is_empty() || !self.allow_cidr.is_empty() || !self.allow_private_answers.is_empty()
    }

    /// The same without anything that allows.
    #[must_use]
    pub fn only_denying(&self) -> Self {
        Self { deny: self.deny.clone(), deny_cidr: self.deny_cidr.clone(), ..Self::default() }
    }

    /// The rule that opens `port` of `name`, unless a deny rule beats it.
    pub fn permits(&self, name: &HostName, port: u16) -> Option<&AllowRule> {
        if self.deny.iter().any(|pattern| pattern.matches(name)) {
            return None;
        }
        self.allow.iter().find(|rule| rule.opens(name, port))
    }

    /// Whether every name of `reach` is allowed with TLS and none is denied.
    pub fn list(&self, reach: &HostPattern) -> bool {
        let denied = self.deny.iter().any(|pattern| pattern.overlaps(reach));
        !denied
            && self.allow.iter().any(|rule| matches!(rule.port, Port::Web | Port::Https) && rule.hosts.covers(reach))
    }

    /// These rules as the network level `level` grants them.
    pub fn at(&self, level: Network) -> Egress {
        match level {
            Network::N0 => Egress::Everything { rules: Self { allow: BTreeSet::new(), ..self.clone() } },
            Network::N1 if self.allows_something() => Egress::Listed { rules: self.clone() },
            Network::N1 | Network::N2 => Egress::Nothing,
        }
    }

    /// Whether `self` keeps at least what `other` denies.
    fn denies_what(&self, other: &Self) -> bool {
        let names = other.deny.iter().all(|theirs| self.deny.iter().any(|ours| ours.covers(theirs)));
        names && other.deny_cidr.iter().all(|theirs| self.deny_cidr.iter().any(|ours| ours.contains(theirs)))
    }

    /// Whether the raw addresses and private answers of `self` are among those of `other`.
    fn addresses_within(&self, other: &Self) -> bool {
        let raw = self.allow_cidr.iter().all(|ours| other.allow_cidr.iter().any(|theirs| theirs.contains(ours)));
        let covered = |ours: &HostPattern| other.allow_private_answers.iter().any(|theirs| theirs.covers(ours));
        raw && self.allow_private_answers.iter().all(covered)
    }
}

/// What may leave a sandbox, in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "egress", rename_all = "snake_case")]
pub enum Egress {
    /// Every name and globally reachable address but the denied ones; listed addresses and private answers too.
    Everything {
        /// What is denied, and which addresses are reached although they are not global.
        rules: NetworkRules,
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
            Self::Everything { rules } => !rules.deny.iter().any(|pattern| pattern.matches(name)),
            Self::Listed { rules } => rules.permits(name, port).is_some(),
            Self::Nothing => false,
        }
    }

    /// Whether the raw address may be reached without a name. Whether it is globally reachable is for the gateway.
    pub fn permits_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let within = |nets: &BTreeSet<IpNet>| nets.iter().any(|net| net.contains(&address));
        match self {
            Self::Everything { rules } => !within(&rules.deny_cidr),
            Self::Listed { rules } => !within(&rules.deny_cidr) && within(&rules.allow_cidr),
            Self::Nothing => false,
        }
    }

    /// Whether everything that `self` lets out, `other` lets out too.
    pub fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nothing, _) => true,
            (_, Self::Nothing) | (Self::Everything { .. }, Self::Listed { .. }) => false,
            (Self::Everything { rules: ours }, Self::Everything { rules: theirs }) => {
                ours.denies_what(theirs) && ours.addresses_within(theirs)
            }
            (Self::Listed { rules: ours }, Self::Everything { rules: theirs }) => {
                let untouched =
                    ours.allow.iter().all(|rule| !theirs.deny.iter().any(|deny| deny.overlaps(&rule.hosts)));
                (untouched || ours.denies_what(theirs)) && ours.addresses_within(theirs)
            }
            (Self::Listed { rules: ours }, Self::Listed { rules: theirs }) => {
                let listed = ours.allow.iter().all(|rule| theirs.allow.iter().any(|theirs| theirs.covers(rule)));
                listed && ours.denies_what(theirs) && ours.addresses_within(theirs)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::unmap;

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
    fn deny_beats_allow_in_any_spelling_of_an_address() {
        let deny_cidr = BTreeSet::from(["10.0.0.0/8".parse().unwrap()]);
        let allow_cidr =
            BTreeSet::from([unmap("::ffff:10.0.0.0/104".parse().unwrap()), "203.0.113.0/24".parse().unwrap()]);
        let rules = NetworkRules { allow_cidr, deny_cidr, ..NetworkRules::default() };
        for level in [Network::N0, Network::N1] {
            assert!(!rules.at(level).permits_address("10.0.0.5".parse().unwrap()));
            assert!(!rules.at(level).permits_address("::ffff:10.0.0.5".parse().unwrap()));
            assert!(rules.at(level).permits_address("::ffff:203.0.113.9".parse().unwrap()));
        }
    }

    #[test]
    fn one_port_of_a_name_is_not_the_other() {
        let rules = rules(&["https://a.example.org", "http://b.example.org"], &[]);
        assert!(
            rules.permits(&name("a.example.org"), 443).is_some() && rules.permits(&name("a.example.org"), 80).is_none()
        );
        assert!(
            rules.permits(&name("b.example.org"), 80).is_some() && rules.permits(&name("b.example.org"), 443).is_none()
        );
    }

    #[test]
    fn egress_within_is_a_subset() {
        let listed = |allow: &[&str], deny: &[&str]| rules(allow, deny).at(Network::N1);
        let everything = |deny: &[&str]| rules(&[], deny).at(Network::N0);
        assert!(listed(&["a.org"], &[]).is_within(&listed(&["a.org", "b.org"], &[])));
        assert!(listed(&["https://x.a.org"], &[]).is_within(&listed(&["*.a.org"], &[])));
        assert!(!listed(&["a.org"], &[]).is_within(&listed(&["https://a.org"], &[])));
        assert!(!listed(&["*.a.org"], &[]).is_within(&listed(&["*.a.org"], &["x.a.org"])));
        assert!(!listed(&["x.a.org"], &[]).is_within(&everything(&["*.a.org"])));
        assert!(listed(&["a.org"], &[]).is_within(&everything(&["b.org"])));
        assert!(!everything(&[]).is_within(&everything(&["b.org"])));
        assert!(everything(&["*.a.org"]).is_within(&everything(&["x.a.org"])));
        assert!(!everything(&[]).is_within(&listed(&["a.org"], &[])));
        assert!(Egress::Nothing.is_within(&Egress::Nothing) && !listed(&["a.org"], &[]).is_within(&Egress::Nothing));
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
}
