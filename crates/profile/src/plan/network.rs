//! Phases and services: each with its own network, none a way around another's.

use std::collections::{BTreeMap, BTreeSet};

use super::assess::image_plan;
use super::{NetworkPlan, ServicePlan, ZonePlan};
use crate::document::{Document, Phase, Provider, Zone};
use crate::level::{Network, Profile};
use crate::refusal::{Cause, Unmet};
use crate::rules::NetworkRules;

/// The networks of all phases and services, and what speaks against them.
pub(super) struct Zones {
    pub(super) network: NetworkPlan,
    pub(super) services: BTreeMap<String, ServicePlan>,
    pub(super) unmet: Vec<Unmet>,
}

impl Zones {
    /// Every network level that occurs in the sample.
    pub(super) fn levels(&self) -> BTreeSet<Network> {
        let phases = self.network.phases.values().map(|zone| zone.level);
        phases.chain(self.services.values().map(|service| service.network.level)).collect()
    }
}

pub(super) fn zones(profile: Profile, document: &Document, provider: Provider) -> Zones {
    let rules = &document.network.rules;
    let mut unmet = Vec::new();
    if profile.network == Network::N2 && rules.allows_something() {
        unmet.push(
            Unmet::new(Cause::Contradiction, "network.rules", format!("{profile} allows no network, but `network` allows some names or addresses"))
                .hint("choose N1, or give the phase that needs them its own network: phases: {setup: {network: {level: N1, allow_domains: [...]}}}")
                .at(document.network.place),
        );
    }
    let mut phases = BTreeMap::new();
    for phase in Phase::ALL {
        let stated = document.phases.get(&phase);
        let level = stated.map_or(profile.network, |zone| zone.level.value);
        // An explicitly raised profile raises every phase that the document does not hold higher.
        let level = if phase == Phase::Setup { level } else { level.max(profile.network) };
        if let Some(zone) = stated {
            unmet.extend(check_zone(zone, rules));
            if phase != Phase::Setup && zone.level.value < profile.network && profile == document.profile.value {
                unmet.push(weaker_phase(phase, zone, profile));
            }
        }
        phases.insert(phase.name(), zone_plan(level, stated.and_then(|zone| zone.rules.as_ref()), rules));
    }
    let mut services = BTreeMap::new();
    for (name, service) in &document.services {
        let level = service.network.as_ref().map_or(Network::N2, |zone| zone.level.value);
        if let Some(zone) = &service.network {
            unmet.extend(check_zone(zone, rules));
            if level < profile.network {
                unmet.push(
                    Unmet::new(
                        Cause::Contradiction,
                        format!("network.services.{name}"),
                        format!(
                            "the agent at {} could use the service `{name}` at {level} as a way out",
                            profile.network
                        ),
                    )
                    .hint(format!("give the service {} or a stricter level", profile.network))
                    .at(zone.level.place),
                );
            }
        }
        let own_rules = service.network.as_ref().and_then(|zone| zone.rules.as_ref());
        services.insert(
            name.clone(),
            ServicePlan {
                image: image_plan(&service.image),
                ports: service.ports.clone(),
                environment: service.environment.keys().cloned().collect(),
                network: zone_plan(level, own_rules, rules),
            },
        );
    }
    if !services.is_empty()
        && matches!(provider, Provider::Local | Provider::Container | Provider::Proxmox | Provider::Qemu)
    {
        unmet.push(
            Unmet::new(
                Cause::Unenforceable,
                "services",
                format!("`sandbox: {provider}` runs one container per sample, and the document has services"),
            )
            .hint("use sandbox: docker at H1, or k8s at H2")
            .at(document.services.values().map(|service| service.place).min()),
        );
    }
    Zones { network: NetworkPlan { topology: topology(provider), phases }, services, unmet }
}

fn weaker_phase(phase: Phase, zone: &Zone, profile: Profile) -> Unmet {
    let why = match phase {
        Phase::Agent => "the profile's N is the agent's",
        Phase::Setup | Phase::Score => "what the agent left behind could use it",
    };
    Unmet::new(
        Cause::Contradiction,
        format!("network.phases.{}", phase.name()),
        format!("the phase `{}` at {} is weaker than {profile}: {why}", phase.name(), zone.level.value),
    )
    .hint("install what it needs in the phase `setup`, which ends before the agent starts")
    .at(zone.level.place)
}

/// A zone with a list must be at a level that has one.
fn check_zone(zone: &Zone, document_rules: &NetworkRules) -> Option<Unmet> {
    let own = zone.rules.as_ref().unwrap_or(document_rules);
    let contradicts = zone.level.value == Network::N2 && zone.rules.is_some() && own.allows_something();
    contradicts.then(|| {
        Unmet::new(Cause::Contradiction, "network.rules", "this network is N2 and allows some names or addresses")
            .hint("choose N1, or remove the list")
            .at(zone.level.place)
    })
}

/// A zone's own list, or the document's; the document's deny rules hold everywhere.
fn zone_plan(level: Network, own: Option<&NetworkRules>, document: &NetworkRules) -> ZonePlan {
    let mut rules = own.unwrap_or(document).clone();
    rules.deny.extend(document.deny.iter().cloned());
    rules.deny_cidr.extend(document.deny_cidr.iter().copied());
    ZonePlan { level, egress: rules.at(level) }
}

fn topology(provider: Provider) -> &'static str {
    match provider {
        Provider::Local => "the host's own network",
        Provider::Container | Provider::Docker => {
            "loopback only; connections are captured inside and served by the gateway outside"
        }
        Provider::K8s | Provider::Proxmox | Provider::Qemu => {
            "loopback only; connections are relayed over the control stream to the gateway"
        }
    }
}
