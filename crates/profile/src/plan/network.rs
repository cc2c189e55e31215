//! Phases and services: each with its own network, none a way around the agent's.

use std::collections::BTreeMap;

use super::assess::image_plan;
use super::{NetworkPlan, ServicePlan, ZonePlan};
use crate::document::{Document, Phase, Provider};
use crate::level::{Isolation, Network, Profile};
use crate::refusal::{Cause, Unmet};
use crate::zones::{Effective, Zones};

fn plan_of(zone: &Effective) -> ZonePlan {
    ZonePlan { level: zone.level, egress: zone.egress() }
}

/// The network part of a plan.
pub(super) fn network_plan(zones: &Zones, provider: Provider) -> NetworkPlan {
    let phases = zones.phases().into_iter().map(|(phase, zone)| (phase.name(), plan_of(zone))).collect();
    NetworkPlan { topology: topology(provider), phases }
}

/// The services of a plan.
pub(super) fn service_plans(document: &Document, zones: &Zones) -> BTreeMap<String, ServicePlan> {
    let plan = |(name, service): (&String, &crate::document::Service)| {
        let network = zones.services.get(name).map(plan_of)?;
        let plan = ServicePlan {
            image: image_plan(&service.image.value),
            ports: service.ports.clone(),
            environment: service.environment.keys().cloned().collect(),
            mounts: service.mounts.iter().map(ToString::to_string).collect(),
            limits: service.limits,
            network,
        };
        Some((name.clone(), plan))
    };
    document.services.iter().filter_map(plan).collect()
}

/// Everything that speaks against these networks.
pub(super) fn conflicts(profile: Profile, document: &Document, zones: &Zones, provider: Provider) -> Vec<Unmet> {
    let mut unmet = Vec::new();
    if profile.network == Network::N2 && document.network.rules.allows_something() {
        unmet.push(
            Unmet::new(
                Cause::Contradiction,
                "network.rules",
                format!("{profile} allows no network, but `network` allows some names or addresses"),
            )
            .hint("choose N1, or give the phase that needs them its own network: phases: {setup: {network: {level: N1, allow_domains: [...]}}}")
            .at(document.network.place),
        );
    }
    let stated = document.phases.iter().map(|(phase, zone)| (phase.name().to_owned(), zone));
    let services =
        document.services.iter().filter_map(|(name, service)| Some((name.clone(), service.network.as_ref()?)));
    for (name, zone) in stated.chain(services) {
        if zone.level.value == Network::N2
            && zone.rules.as_ref().is_some_and(crate::rules::NetworkRules::allows_something)
        {
            unmet.push(
                Unmet::new(
                    Cause::Contradiction,
                    format!("network.{name}"),
                    "this network is N2 and allows some names or addresses",
                )
                .hint("choose N1, or remove the list")
                .at(zone.level.place),
            );
        }
    }
    for (phase, zone) in [(Phase::Agent, &zones.agent), (Phase::Score, &zones.score)] {
        if zone.level < profile.network {
            let reason = format!("the phase `{}` at {} is weaker than {profile}", phase.name(), zone.level);
            unmet.push(way_out(phase.name(), reason, zone));
        }
    }
    if !zones.score.egress().is_within(&zones.agent.egress()) {
        let reason = "the scorer may reach what the agent may not: what the agent left behind could use it".to_owned();
        unmet.push(way_out("score", reason, &zones.score));
    }
    for (name, zone) in &zones.services {
        if !zone.egress().is_within(&zones.agent.egress()) {
            let reason = format!(
                "the service `{name}` may reach what the agent may not, so the agent could use it as a way out"
            );
            unmet.push(way_out(name, reason, zone));
        }
    }
    unmet.extend(provider_conflicts(document, zones, provider));
    unmet
}

fn way_out(name: &str, reason: String, zone: &Effective) -> Unmet {
    Unmet::new(Cause::Contradiction, format!("network.{name}"), reason)
        .hint("give it no more than the agent has; what needs more belongs into `setup`, which ends before the agent starts")
        .at(zone.place)
}

fn provider_conflicts(document: &Document, zones: &Zones, provider: Provider) -> Vec<Unmet> {
    let mut unmet = Vec::new();
    if !document.services.is_empty() && !matches!(provider, Provider::Docker | Provider::K8s) {
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
    let denies = |zone: &Effective| !zone.rules.deny.is_empty() || !zone.rules.deny_cidr.is_empty();
    if provider.isolation() == Isolation::H0 && zones.all().any(denies) {
        unmet.push(
            Unmet::new(
                Cause::Unenforceable,
                "network.deny",
                "a local process shares the host's network, so nothing can be denied to it",
            )
            .hint("choose H1 or above, or remove the deny rules")
            .at(document.network.place),
        );
    }
    unmet
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
