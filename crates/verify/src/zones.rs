//! The phases and services of a plan, by what may leave them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use egress::Reason;
use ipnet::IpNet;
use profile::{Egress, HostName, Network, NetworkRules, Plan};

use crate::network::{Exchange, Expected, To};
use crate::world::ZONE;

/// Phases and services whose network is the same.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    pub(crate) names: Vec<String>,
    pub(crate) level: Network,
    /// The plan's own rules, and at N1 the canaries' names.
    pub(crate) egress: Egress,
}

/// Names that N1 lists for the probes: one that is good, and those whose answers are not.
const LISTED: [&str; 5] = ["allowed", "private", "metadata", "own", "loopback"];

/// Every zone of a plan; that of the agent is first.
pub(crate) fn zones(plan: &Plan) -> Vec<Zone> {
    let phases = plan.network.phases.iter().map(|(name, zone)| ((*name).to_owned(), zone));
    let services = plan.services.iter().map(|(name, service)| (format!("service {name}"), &service.network));
    let mut found: Vec<(&Egress, Zone)> = Vec::new();
    for (name, zone) in phases.chain(services) {
        match found.iter_mut().find(|(egress, known)| **egress == zone.egress && known.level == zone.level) {
            Some((_, known)) => known.names.push(name),
            None => {
                found.push((
                    &zone.egress,
                    Zone { names: vec![name], level: zone.level, egress: listed(zone.level, &zone.egress) },
                ));
            }
        }
    }
    let mut zones: Vec<Zone> = found.into_iter().map(|(_, zone)| zone).collect();
    zones.sort_by_key(|zone| !zone.names.iter().any(|name| name == "agent"));
    zones
}

/// What is in force at N1 with the canaries' names: a list, also where the plan's own is empty.
fn listed(level: Network, egress: &Egress) -> Egress {
    let mut rules = match egress {
        Egress::Listed { rules } => rules.clone(),
        Egress::Nothing if level == Network::N1 => NetworkRules::default(),
        other => return other.clone(),
    };
    rules.allow.extend(LISTED.iter().filter_map(|label| format!("{label}.{ZONE}").parse().ok()));
    Egress::Listed { rules }
}

/// Why the plan's own rules make something else of an exchange than its level does, if they do.
pub(crate) fn altered(exchange: &Exchange, zone: &Zone) -> Option<&'static str> {
    let (Egress::Everything { rules } | Egress::Listed { rules }) = &zone.egress else { return None };
    let expected = exchange.expected(zone.level);
    // No rule opens what is dropped.
    if matches!(expected, Expected::Dropped) {
        return None;
    }
    let reached = matches!(expected, Expected::Reached);
    match (exchange.asks_below(), exchange.to) {
        (Some(label), _) => altered_name(&format!("query.{label}.{ZONE}"), rules, expected),
        (None, To::Address(address)) => altered_address(address, rules, reached),
        (None, To::Name(label)) => altered_name(&format!("{label}.{ZONE}"), rules, expected).or_else(|| {
            let address = exchange.address().filter(|_| reached)?;
            altered_address(address, rules, true)
        }),
    }
}

fn altered_name(name: &str, rules: &NetworkRules, expected: Expected) -> Option<&'static str> {
    let name: HostName = name.parse().ok()?;
    if rules.deny.iter().any(|pattern| pattern.matches(&name)) {
        return Some("the plan's own rules deny the name");
    }
    if rules.allow_private_answers.iter().any(|pattern| pattern.matches(&name)) {
        return Some("the plan's own rules allow the name private answers");
    }
    let unlisted = matches!(expected, Expected::Refused([Reason::NameNotListed]));
    let listed = unlisted && rules.allow.iter().any(|rule| rule.hosts.matches(&name));
    listed.then_some("the plan's own rules list the name")
}

fn altered_address(address: IpAddr, rules: &NetworkRules, reached: bool) -> Option<&'static str> {
    if contains(&rules.deny_cidr, address) {
        return Some("the plan's own rules deny the address");
    }
    (!reached && contains(&rules.allow_cidr, address)).then_some("the plan's own rules open the address")
}

fn contains(nets: &BTreeSet<IpNet>, address: IpAddr) -> bool {
    nets.iter().any(|net| net.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Say;
    use crate::world::PRIVATE;

    #[test]
    fn rules_of_the_plan_itself_are_no_failure_of_a_control() {
        let refused = Expected::Refused(&[Reason::RawAddress]);
        let expected = [refused, refused, refused];
        let exchange = Exchange { to: To::Address(PRIVATE.into()), port: 80, say: Say::Bytes, expected };
        let zone = |rules| Zone {
            names: Vec::new(),
            level: Network::N1,
            egress: listed(Network::N1, &Egress::Listed { rules }),
        };
        assert_eq!(altered(&exchange, &zone(NetworkRules::default())), None);
        let open = NetworkRules { allow_cidr: ["10.0.0.0/8".parse().unwrap()].into(), ..NetworkRules::default() };
        assert!(altered(&exchange, &zone(open)).is_some());
        let wide = || NetworkRules { allow: ["*.example.org".parse().unwrap()].into(), ..NetworkRules::default() };
        let unlisted = Expected::Refused(&[Reason::NameNotListed]);
        let query = Exchange { say: Say::Query, expected: [unlisted; 3], ..exchange };
        assert_eq!(altered(&query, &zone(NetworkRules::default())), None);
        assert!(altered(&query, &zone(wide())).is_some());
        let datagram = Exchange { say: Say::Datagram, expected: [Expected::Dropped; 3], ..exchange };
        assert_eq!(altered(&datagram, &zone(wide())), None);
        let name = Exchange { to: To::Name("allowed"), expected: [Expected::Reached; 3], ..exchange };
        assert_eq!(altered(&name, &zone(NetworkRules::default())), None);
        let deny = NetworkRules { deny: ["*.example.org".parse().unwrap()].into(), ..NetworkRules::default() };
        assert!(altered(&name, &zone(deny)).is_some());
    }
}
