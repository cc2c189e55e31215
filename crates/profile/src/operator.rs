//! Operator grants: H0, N0 and writable host mounts are used only when the operator granted them.
//!
//! Documents and logs come from task authors. They may request these three, but only the operator can grant them: on the
//! command line, or in a configuration file that only the operator can write. The caller collects the grants;
//! [`Grants::missing`] compares them with what a plan would use.

use crate::document::{Mount, MountMode};
use crate::level::{Isolation, Network, Profile};
use crate::plan::Plan;
use crate::refusal::{Cause, Unmet};
use crate::settings::Request;

/// What the operator granted. The default grants nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Grants {
    /// Commands may run on this host without isolation (H0).
    pub local: bool,
    /// Phases and services may have the full network (N0).
    pub full_network: bool,
    /// Mounts that a document names may be writable.
    pub writable_mounts: bool,
}

impl Grants {
    /// Also grants the levels of a profile that the operator named; `None` adds nothing.
    #[must_use]
    pub fn with_profile(self, named: Option<Profile>) -> Self {
        Self {
            local: self.local || named.is_some_and(|profile| profile.isolation == Isolation::H0),
            full_network: self.full_network || named.is_some_and(|profile| profile.network == Network::N0),
            ..self
        }
    }

    /// The union of two sets of grants.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            local: self.local || other.local,
            full_network: self.full_network || other.full_network,
            writable_mounts: self.writable_mounts || other.writable_mounts,
        }
    }

    /// The granted words, as the configuration file and the log write them.
    pub fn words(self) -> Vec<&'static str> {
        let all =
            [(self.local, "local"), (self.full_network, "full-network"), (self.writable_mounts, "writable-mounts")];
        all.into_iter().filter_map(|(granted, word)| granted.then_some(word)).collect()
    }

    /// Everything that the plan would use and the operator did not grant.
    ///
    /// Mounts without a place in a document were named on the command line, which grants them.
    pub fn missing(self, request: &Request, plan: &Plan) -> Vec<Unmet> {
        let mut unmet = Vec::new();
        let place = request.document.profile.place;
        let is_local = plan.profile.isolation == Isolation::H0 || plan.provider.isolation() == Isolation::H0;
        if is_local && !self.local {
            let reason = "H0 runs commands on this host without isolation, which a document cannot grant";
            let hint = "if you mean it, say --allow-local, or name the profile with --profile";
            unmet.push(Unmet::new(Cause::Required, "operator.local", reason).hint(hint).at(place));
        }
        let zones = plan.network.phases.values().chain(plan.services.values().map(|service| &service.network));
        let is_open = plan.profile.network == Network::N0 || zones.into_iter().any(|zone| zone.level == Network::N0);
        if is_open && !self.full_network {
            let reason = "N0 is the full network, which a document cannot grant";
            let hint = "if you mean it, say --allow-full-network, or name the profile with --profile";
            unmet.push(Unmet::new(Cause::Required, "operator.full_network", reason).hint(hint).at(place));
        }
        if !self.writable_mounts {
            let stated = request.document.mounts.iter().filter(|mount| mount.place.is_some());
            let stated = stated.map(|mount| (&mount.value, mount.place));
            let of_services = request.document.services.values();
            let of_services = of_services.flat_map(|service| service.mounts.iter().map(|mount| (mount, None)));
            let writable = |(mount, _): &(&Mount, _)| mount.mode == MountMode::ReadWrite;
            unmet.extend(stated.chain(of_services).filter(writable).map(|(mount, place)| {
                let reason = format!("`{mount}` is a writable host mount, which a document cannot grant");
                let hint = "if you mean it, say --allow-writable-mounts; `run` also takes the mount itself: --mount";
                Unmet::new(Cause::Required, "operator.writable_mounts", reason).hint(hint).at(place)
            }));
        }
        unmet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, Environment, Facts, Overrides, compile};

    fn missing(text: &str, grants: Grants) -> Vec<String> {
        let document = Document::parse("a.yaml", text).unwrap();
        let request = Request::resolve(document, &Environment::default(), Overrides::default());
        let plan = compile(&request, &Facts::assumed()).unwrap();
        grants.missing(&request, &plan).into_iter().map(|unmet| unmet.control).collect()
    }

    const H0: &str = "profile: T0.H0.N0\napproval: ci\njustification: j\n";

    #[test]
    fn a_document_alone_grants_neither_h0_nor_n0_nor_writable_mounts() {
        let none = Grants::default();
        assert_eq!(missing(H0, none), ["operator.local", "operator.full_network"]);
        assert_eq!(missing(H0, Grants { local: true, ..none }), ["operator.full_network"]);
        assert_eq!(missing(H0, none.with_profile("T0.H0.N0".parse().ok())), Vec::<String>::new());
        // Naming a profile grants the levels in it, not the ones that the document has beside it.
        assert_eq!(missing(H0, none.with_profile("T0.H1.N2".parse().ok())).len(), 2);
        let mounts = "profile: T0.H1.N2\napproval: ci\nmounts: ['a:/a', 'b:/b:rw', 'c:/c:rw']\n";
        assert_eq!(missing(mounts, none), ["operator.writable_mounts"; 2]);
        assert_eq!(missing(mounts, Grants { writable_mounts: true, ..none }), Vec::<String>::new());
    }

    #[test]
    fn a_single_phase_or_service_at_n0_needs_the_grant_too() {
        let phase = "profile: T0.H1.N2\napproval: ci\njustification: j\nphases: {setup: {network: N0}}\n";
        assert_eq!(missing(phase, Grants::default()), ["operator.full_network"]);
        assert_eq!(missing(phase, Grants { full_network: true, ..Grants::default() }), Vec::<String>::new());
    }

    #[test]
    fn grants_have_words_and_join() {
        let all = Grants { local: true, full_network: true, writable_mounts: true };
        assert_eq!(all.words(), ["local", "full-network", "writable-mounts"]);
        assert_eq!(Grants { local: true, ..Grants::default() }.or(Grants::default()).words(), ["local"]);
    }
}
