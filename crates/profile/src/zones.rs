//! The networks of a sample in force: one per phase, one per service.
//!
//! A phase has its own network if the document says so. Otherwise setup has the profile's, the agent has the profile's,
//! and the scorer has the agent's. A service has none. The document's deny rules hold everywhere.

use std::collections::BTreeMap;

use crate::document::{Document, Phase, Zone};
use crate::level::{Network, Profile};
use crate::problem::Place;
use crate::rules::{Egress, NetworkRules};

/// One network in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effective {
    pub(crate) level: Network,
    pub(crate) rules: NetworkRules,
    /// Where the document states it, if it does.
    pub(crate) place: Option<Place>,
}

impl Effective {
    pub(crate) fn egress(&self) -> Egress {
        self.rules.at(self.level)
    }
}

/// All networks of a sample.
#[derive(Debug, Clone)]
pub(crate) struct Zones {
    pub(crate) setup: Effective,
    pub(crate) agent: Effective,
    pub(crate) score: Effective,
    pub(crate) services: BTreeMap<String, Effective>,
}

impl Zones {
    pub(crate) fn of(document: &Document, profile: Profile) -> Self {
        let rules = &document.network.rules;
        let profiles_own = Effective { level: profile.network, rules: rules.clone(), place: None };
        let stated = |phase| document.phases.get(&phase).map(|zone| effective(zone, rules));
        let agent = stated(Phase::Agent).unwrap_or_else(|| profiles_own.clone());
        let service = |zone: Option<&Zone>| match zone {
            Some(zone) => effective(zone, rules),
            None => Effective { level: Network::N2, rules: rules.only_denying(), place: None },
        };
        Self {
            setup: stated(Phase::Setup).unwrap_or(profiles_own),
            score: stated(Phase::Score).unwrap_or_else(|| Effective { place: None, ..agent.clone() }),
            agent,
            services: document
                .services
                .iter()
                .map(|(name, own)| (name.clone(), service(own.network.as_ref())))
                .collect(),
        }
    }

    pub(crate) fn phases(&self) -> [(Phase, &Effective); 3] {
        [(Phase::Setup, &self.setup), (Phase::Agent, &self.agent), (Phase::Score, &self.score)]
    }

    /// Every network of the sample.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Effective> {
        [&self.setup, &self.agent, &self.score].into_iter().chain(self.services.values())
    }

    /// The profile as the agent's own network has it.
    pub(crate) fn agent_profile(&self, profile: Profile) -> Profile {
        Profile { network: self.agent.level, ..profile }
    }
}

fn effective(zone: &Zone, document: &NetworkRules) -> Effective {
    let mut rules = zone.rules.as_ref().unwrap_or(document).clone();
    rules.deny.extend(document.deny.iter().cloned());
    rules.deny_cidr.extend(document.deny_cidr.iter().copied());
    Effective { level: zone.level.value, rules, place: zone.level.place }
}
