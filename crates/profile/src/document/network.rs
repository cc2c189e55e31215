//! The `network:` section, and the networks of phases and services.

use std::fmt;
use std::str::FromStr;

use ipnet::IpNet;

use crate::address::{check_allow_cidr, unmap};
use crate::hostname::HostName;
use crate::level::Network;
use crate::pattern::HostPattern;
use crate::problem::{Located, Place, Problem};
use crate::reader::{Complaints, Fields, parsed};
use crate::rules::{AllowRule, AllowRuleError, NetworkRules, Port, PortNumber};
use crate::yaml::{Node, Value};

/// Network rules and where the first allowing one stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RulesSection {
    /// The rules.
    pub rules: NetworkRules,
    /// Where the section stands, if it is there.
    pub place: Option<Place>,
}

/// The network of one phase or service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Its level.
    pub level: Located<Network>,
    /// Its own rules; absent means the document's.
    pub rules: Option<NetworkRules>,
}

/// The most rules that one list may have.
const MAX_RULES: usize = 4096;

const RULE_KEYS: &[&str] =
    &["allow_domains", "allow_domains_ports", "allow_cidr", "allow_private_answers", "deny_domains", "deny_cidr"];
const ZONE_KEYS: &[&str] = &[
    "level",
    "allow_domains",
    "allow_domains_ports",
    "allow_cidr",
    "allow_private_answers",
    "deny_domains",
    "deny_cidr",
];

/// Reads `network:` of a document.
pub(super) fn read_section(node: Node, complaints: &Complaints) -> RulesSection {
    let place = Some(node.place);
    let Some(mut fields) = Fields::open(node, "`network`", RULE_KEYS, complaints) else {
        return RulesSection::default();
    };
    let rules = read_rules(&mut fields, complaints);
    fields.close();
    RulesSection { rules, place }
}

/// Reads `network:` of a phase or service: a level, or a mapping with a level and rules.
pub(super) fn read_zone(node: Node, complaints: &Complaints) -> Option<Zone> {
    if let Value::Text(_) = node.value {
        let level = parsed(node, "network", complaints, |error: &crate::level::ParseLevelError| Some(error.hint()))?;
        return Some(Zone { level, rules: None });
    }
    let mut fields = Fields::open(node, "`network`", ZONE_KEYS, complaints)?;
    let place = fields.place();
    let level = fields.parsed("level");
    // Any list, an empty one too, is this network's own: `allow_domains: []` never means the document's.
    let states_rules = RULE_KEYS.iter().any(|key| fields.has(key));
    let rules = read_rules(&mut fields, complaints);
    fields.close();
    if level.is_none() {
        complaints.add(Problem::at(place, "this network needs a `level`").hint("write level: N0, N1 or N2"));
    }
    Some(Zone { level: level?, rules: states_rules.then_some(rules) })
}

fn read_rules(fields: &mut Fields<'_>, complaints: &Complaints) -> NetworkRules {
    let mut rules = NetworkRules::default();
    for node in fields.list("allow_domains") {
        rules
            .allow
            .extend(read_rule(node, "allow_domains", complaints, |rule: &AllowRule, name| rule.hosts.matches(name)));
    }
    let web_hosts: Vec<HostPattern> =
        rules.allow.iter().filter(|rule| rule.port == Port::Web).map(|rule| rule.hosts.clone()).collect();
    for node in fields.list("allow_domains_ports") {
        let place = node.place;
        rules.allow.extend(read_ports(node, &web_hosts, complaints));
        // A port for every listed name is a product: a page of rules must not become a gigabyte of them.
        if rules.allow.len() > MAX_RULES {
            complaints.add(
                Problem::at(place, format!("more than {MAX_RULES} rules"))
                    .hint("use wildcards, or name the domains that need the port"),
            );
            break;
        }
    }
    for node in fields.list("deny_domains") {
        rules.deny.extend(read_rule(node, "deny_domains", complaints, HostPattern::matches));
    }
    for node in fields.list("allow_private_answers") {
        rules.allow_private_answers.extend(read_rule(node, "allow_private_answers", complaints, HostPattern::matches));
    }
    for node in fields.list("allow_cidr") {
        let Some(net) = read_cidr(node, "allow_cidr", complaints) else { continue };
        match (check_allow_cidr(&net.value), net.place) {
            (Ok(()), _) => {
                rules.allow_cidr.insert(net.value);
            }
            (Err(error), place) => {
                complaints.add(Problem {
                    place,
                    message: format!("`allow_cidr` cannot hold {}: {error}", net.value),
                    hint: Some("list the names that are needed in `allow_domains`, or narrower ranges".into()),
                });
            }
        }
    }
    for node in fields.list("deny_cidr") {
        rules.deny_cidr.extend(read_cidr(node, "deny_cidr", complaints).map(|net| net.value));
    }
    rules
}

/// Something a rule list holds: a pattern, with or without a port.
trait Rule: FromStr<Err: fmt::Display> {
    fn hint(error: &Self::Err) -> String;
}

impl Rule for AllowRule {
    fn hint(error: &AllowRuleError) -> String {
        match error {
            // The layer below knows best what is wrong with a host.
            AllowRuleError::Host { source, .. } => format!("{source}; {}", error.hint()),
            _ => error.hint().to_owned(),
        }
    }
}

impl Rule for HostPattern {
    fn hint(error: &crate::hostname::HostNameError) -> String {
        error.hint().to_owned()
    }
}

/// One entry of a rule list: a text, or `{name, match: [...], no_match: [...]}` whose examples are checked here.
fn read_rule<R: Rule>(
    node: Node,
    key: &str,
    complaints: &Complaints,
    matches: impl Fn(&R, &HostName) -> bool,
) -> Option<R> {
    if !matches!(node.value, Value::Map(_)) {
        return parsed(node, key, complaints, |error| Some(R::hint(error))).map(|rule| rule.value);
    }
    let mut fields = Fields::open(node, "a rule", &["name", "match", "no_match"], complaints)?;
    let place = fields.place();
    let has_name = fields.has("name");
    let rule = fields.take("name").and_then(|name| parsed::<R>(name, key, complaints, |error| Some(R::hint(error))));
    let examples = [("match", true), ("no_match", false)]
        .map(|(key, expected)| fields.list(key).into_iter().map(move |node| (key, expected, node)).collect::<Vec<_>>());
    fields.close();
    let Some(rule) = rule else {
        if !has_name {
            complaints.add(Problem::at(place, "a rule needs a `name`"));
        }
        return None;
    };
    for (key, expected, node) in examples.into_iter().flatten() {
        let hint = |error: &crate::hostname::HostNameError| Some(error.hint().to_owned());
        let Some(example) = parsed::<HostName>(node, key, complaints, hint) else { continue };
        if matches(&rule.value, &example.value) != expected {
            let does = if expected { "does not match" } else { "matches" };
            complaints.add(Problem {
                place: example.place,
                message: format!("the rule {does} its `{key}` example `{}`", example.value),
                hint: Some("`*.name` matches every name below `name`, and not `name` itself".into()),
            });
        }
    }
    Some(rule.value)
}

/// One entry of `allow_domains_ports`: `{port, domain?, protocol?}`; without a domain, for every listed name.
fn read_ports(node: Node, listed: &[HostPattern], complaints: &Complaints) -> Vec<AllowRule> {
    let Some(mut fields) = Fields::open(node, "a port rule", &["port", "domain", "protocol"], complaints) else {
        return Vec::new();
    };
    let place = fields.place();
    let has_port = fields.has("port");
    let port = fields.parsed::<PortNumber>("port");
    let hint = |error: &crate::hostname::HostNameError| Some(error.hint().to_owned());
    let domain = fields.take("domain").map(|node| parsed::<HostPattern>(node, "domain", complaints, hint));
    let protocol = fields.text("protocol");
    fields.close();
    if let Some(protocol) = protocol.filter(|protocol| !protocol.value.eq_ignore_ascii_case("tcp")) {
        complaints.add(
            Problem {
                place: protocol.place,
                message: format!("protocol `{}` cannot be allowed", protocol.value),
                hint: None,
            }
            .hint("only TCP leaves a sandbox; names are resolved by the gateway"),
        );
        return Vec::new();
    }
    let Some(port) = port else {
        if has_port {
            return Vec::new();
        }
        complaints
            .add(Problem::at(place, "a port rule needs a `port`").hint("write {domain: git.example.org, port: 22}"));
        return Vec::new();
    };
    let hosts = match domain {
        Some(Some(domain)) => vec![domain.value],
        Some(None) => return Vec::new(),
        None => listed.to_vec(),
    };
    if hosts.is_empty() {
        complaints.add(Problem::at(place, "a port rule without a `domain` needs names in `allow_domains`"));
    }
    // 80 and 443 of a name stay checked web ports; opening them raw would undo the SNI and Host checks.
    let port = match port.value.0 {
        80 => Port::Http,
        443 => Port::Https,
        port => Port::RawTcp(port),
    };
    hosts.into_iter().map(|hosts| AllowRule { hosts, port }).collect()
}

/// An address range, or one address.
fn read_cidr(node: Node, key: &str, complaints: &Complaints) -> Option<Located<IpNet>> {
    let hint = |_: &String| Some("write an address range such as 203.0.113.0/24, or one address".to_owned());
    let Located { value: Cidr(net), place } = parsed(node, key, complaints, hint)?;
    Some(Located { value: net, place })
}

struct Cidr(IpNet);

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let net = text.parse::<IpNet>().or_else(|_| text.parse::<std::net::IpAddr>().map(IpNet::from));
        // Host bits mean nothing in a range; without them two spellings are one rule.
        // One spelling per range, or a deny rule in the other would not match.
        net.map(|net| Self(unmap(net.trunc()))).map_err(|_| format!("`{text}` is not an address range"))
    }
}
