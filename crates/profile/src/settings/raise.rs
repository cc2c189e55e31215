//! A profile that is raised from outside takes its document along: every network with it, and the place it runs.

use crate::document::{Document, Zone};
use crate::level::{Network, Profile};

/// Applies `profile` to a document that states another one. What is taken away is said in `notes`.
pub(super) fn apply(document: &mut Document, profile: Profile, notes: &mut Vec<String>) {
    let stated = document.profile.value;
    if profile.network > stated.network {
        let zones = document
            .phases
            .values_mut()
            .chain(document.services.values_mut().filter_map(|service| service.network.as_mut()));
        for zone in zones {
            raise(zone, profile.network);
        }
        if profile.network == Network::N2 && document.network.rules.allows_something() {
            document.network.rules = document.network.rules.only_denying();
            notes.push(format!("{profile} was raised from {stated}: the document's lists of allowed names are empty"));
        }
    }
    let disagrees =
        document.sandbox.as_ref().is_some_and(|choice| choice.value.provider.isolation() != profile.isolation);
    // The file's sandbox agreed with the file's H; another H takes a provider of its own, and so another runtime.
    if profile.isolation != stated.isolation && disagrees {
        document.sandbox = None;
        document.runtime = None;
        notes.push(format!("{profile} was raised from {stated}: the document's sandbox and runtime do not apply"));
    }
}

fn raise(zone: &mut Zone, level: Network) {
    zone.level.value = zone.level.value.max(level);
    if zone.level.value == Network::N2 {
        zone.rules = zone.rules.take().map(|rules| rules.only_denying());
    }
}
