//! The nearest profiles that could be had, when the one asked for cannot.

use super::assess::assess;
use crate::facts::Facts;
use crate::level::{Isolation, Network, Profile, Tooling};
use crate::refusal::{Alternative, Cause, Refusal, Unmet};
use crate::settings::Request;

/// How many alternatives are worth reading.
const SHOWN: usize = 3;

pub(super) fn refuse(request: &Request, facts: &Facts, unmet: Vec<Unmet>) -> Refusal {
    let document = &request.document;
    Refusal {
        schema: Refusal::SCHEMA,
        profile: request.profile,
        origin: document.profile.place.is_some().then(|| document.origin.clone()),
        nearest: alternatives(request, facts, &unmet),
        unmet,
    }
}

/// Other profiles under which the same request would hold, those that grant no more first, then by distance.
fn alternatives(request: &Request, facts: &Facts, unmet: &[Unmet]) -> Vec<Alternative> {
    // Where only statements are missing, only a profile that needs none of them helps.
    let only_statements = unmet.iter().all(|obstacle| obstacle.cause == Cause::Required);
    let asked = request.profile;
    let mut candidates: Vec<Profile> = Profile::all()
        .filter(|&profile| profile != asked)
        .filter(|&profile| {
            let obstacles = assess(&request.under(profile), facts).unmet;
            obstacles.iter().all(|obstacle| obstacle.cause == Cause::Required && !only_statements)
        })
        .collect();
    candidates.sort_by_key(|&profile| (widened(asked, profile), distance(asked, profile)));
    candidates.truncate(SHOWN);
    let alternative =
        |profile| Alternative { profile, weaker: widened(asked, profile) > 0, difference: difference(asked, profile) };
    candidates.into_iter().map(alternative).collect()
}

/// How many letters are weaker; no isolation at all counts twice.
fn widened(from: Profile, to: Profile) -> usize {
    let unisolated = to.isolation == Isolation::H0 && from.isolation > Isolation::H0;
    usize::from(to.tooling < from.tooling)
        + usize::from(to.network < from.network)
        + usize::from(to.isolation < from.isolation)
        + usize::from(unisolated)
}

fn distance(from: Profile, to: Profile) -> usize {
    let tooling = steps(Tooling::ALL, from.tooling, to.tooling);
    let isolation = steps(Isolation::ALL, from.isolation, to.isolation);
    let network = steps(Network::ALL, from.network, to.network);
    tooling + isolation + network
}

fn steps<L: PartialEq>(levels: &[L], from: L, to: L) -> usize {
    let at = |level: L| levels.iter().position(|other| *other == level).unwrap_or_default();
    at(from).abs_diff(at(to))
}

fn difference(from: Profile, to: Profile) -> String {
    let mut parts = Vec::new();
    if to.tooling != from.tooling {
        parts.push(format!(
            "{} {}",
            if to.tooling > from.tooling { "narrower tooling:" } else { "wider tooling:" },
            to.tooling.summary()
        ));
    }
    if to.isolation != from.isolation {
        let isolation = to.isolation.summary();
        let weaker = if to.isolation < from.isolation { "less isolation: " } else { "" };
        parts.push(format!("{weaker}on {isolation}"));
    }
    if to.network != from.network {
        parts.push(format!(
            "{} {}",
            if to.network > from.network { "narrower network:" } else { "wider network:" },
            to.network.summary()
        ));
    }
    // The first word, so that no list of alternatives hides it.
    let prefix = if widened(from, to) > 0 { "Weaker: " } else { "" };
    format!("{prefix}{}", parts.join("; "))
}
