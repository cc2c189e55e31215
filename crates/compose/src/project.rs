//! A Compose file that can be had: services, who reaches whom, and the order in which they start.

use std::collections::{BTreeMap, BTreeSet};

use profile::{Located, Unmet};

use crate::names::{NetworkName, ServiceName, VolumeName};
use crate::reading::{Ignored, Origin};
use crate::service::{Attachment, Service};

/// A Compose file that was read and has nothing in it that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Which file.
    pub origin: String,
    /// What it calls itself.
    pub name: Option<Located<String>>,
    /// Its services in the order of the file, then those of included files; never empty.
    pub services: Vec<Service>,
    /// The service that an agent gets: the one with `x-default: true`, else the one called `default`, else the first.
    pub default: ServiceName,
    /// Its networks; `default` is there if a service uses it.
    pub networks: BTreeMap<NetworkName, Network>,
    /// Its named volumes.
    pub volumes: BTreeSet<VolumeName>,
    /// What was left out, in the order of the files.
    pub ignored: Vec<Ignored>,
    /// The variables that it asked for, and who had them.
    pub variables: BTreeMap<String, Origin>,
    /// Those of the runner's that are part of an image's name or of a build: a daemon carries them where no rule holds.
    pub told_daemon: BTreeSet<String>,
}

/// A network of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Network {
    /// Its services reach each other, and outside what the profile allows.
    Open,
    /// Its services reach each other and nothing else (`internal: true`).
    Internal,
}

/// A service that another one reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour<'a> {
    /// Which.
    pub service: &'a Service,
    /// By which names: its own, and its aliases on the networks that both are on.
    pub names: BTreeSet<&'a str>,
}

/// What the file asks for and does not get.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {} of {origin} cannot be had", unmet.len(), if unmet.len() == 1 { "wish" } else { "wishes" })]
pub struct Refused {
    /// Which file.
    pub origin: String,
    /// Every wish, in the order of the text; never empty.
    pub unmet: Vec<Unmet>,
}

impl Project {
    /// The service of that name.
    pub fn service(&self, name: &ServiceName) -> Option<&Service> {
        self.services.iter().find(|service| service.name == *name)
    }

    /// Whether a service may reach what the profile allows outside; if not, other services are all that it reaches.
    pub fn reaches_outside(&self, service: &Service) -> bool {
        match &service.attachment {
            Attachment::None => false,
            Attachment::Bridge => true,
            Attachment::Networks(networks) => {
                networks.keys().any(|name| self.networks.get(name) == Some(&Network::Open))
            }
        }
    }

    /// The network level of a service: the sample's, or the strictest if it reaches nothing outside anyway.
    pub fn network_level(&self, service: &Service, sample: profile::Network) -> profile::Network {
        if self.reaches_outside(service) { sample } else { profile::Network::N2 }
    }

    /// The services that `from` reaches: those on a network with it.
    pub fn neighbours<'a>(&'a self, from: &Service) -> Vec<Neighbour<'a>> {
        let Attachment::Networks(own) = &from.attachment else { return Vec::new() };
        let others = self.services.iter().filter(|other| other.name != from.name);
        let neighbours = others.filter_map(|service| {
            let Attachment::Networks(theirs) = &service.attachment else { return None };
            let shared: Vec<_> = theirs.iter().filter(|(network, _)| own.contains_key(*network)).collect();
            let names = std::iter::once(service.name.as_str())
                .chain(shared.iter().flat_map(|(_, aliases)| aliases.iter().map(|alias| alias.value.as_str())))
                .collect();
            (!shared.is_empty()).then_some(Neighbour { service, names })
        });
        neighbours.collect()
    }

    /// The order of starting: the services of each layer need only those of the layers before.
    pub fn start_layers(&self) -> Vec<Vec<&ServiceName>> {
        let (layers, _) = layers(&self.services);
        layers
    }
}

/// Services in layers, and those that wait for each other in a circle.
pub(crate) fn layers(services: &[Service]) -> (Vec<Vec<&ServiceName>>, Vec<&Service>) {
    let mut waiting: Vec<&Service> = services.iter().collect();
    let mut started: BTreeSet<&ServiceName> = BTreeSet::new();
    let mut layers = Vec::new();
    loop {
        let all: BTreeSet<&ServiceName> = waiting.iter().map(|service| &service.name).collect();
        let is_ready = |service: &Service| {
            // A dependency that is not required may be missing altogether.
            service.depends_on.iter().all(|needed| started.contains(&needed.service) || !all.contains(&needed.service))
        };
        let (ready, later): (Vec<&Service>, Vec<&Service>) = waiting.into_iter().partition(|service| is_ready(service));
        if ready.is_empty() {
            return (layers, later);
        }
        let names: Vec<&ServiceName> = ready.iter().map(|service| &service.name).collect();
        started.extend(names.iter().copied());
        layers.push(names);
        waiting = later;
    }
}
