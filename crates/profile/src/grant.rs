//! What a profile grants: *requested ∩ granted*, and nothing else.
//!
//! Pure and small on purpose: "raising a level never adds a permission" is a property of this file.

use serde::Serialize;

use crate::affordance::{Affordance, Kind, Reach};
use crate::level::{Network, Profile, Tooling};
use crate::rules::NetworkRules;

/// Why a profile does not grant an affordance.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Withheld {
    /// The tooling level is stricter than the affordance needs.
    #[error("it needs {needs}, and the profile is {profile}")]
    Tooling {
        /// The strictest level that grants it.
        needs: Tooling,
        /// The profile in force.
        profile: Profile,
    },
    /// It needs a network and there is none.
    #[error("it reaches {reach}, and N2 grants no network, wherever it runs")]
    NoNetwork {
        /// What it reaches.
        #[serde(serialize_with = "as_text")]
        reach: Reach,
    },
    /// It reaches something that is not listed.
    #[error("it reaches {reach}, which the network rules do not allow as a whole")]
    NotListed {
        /// What it reaches.
        #[serde(serialize_with = "as_text")]
        reach: Reach,
    },
    /// A setting narrows it away.
    #[error("{setting} narrows it away")]
    Narrowed {
        /// Which setting.
        setting: String,
    },
}

fn as_text<S: serde::Serializer>(reach: &Reach, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(reach)
}

/// Judges one affordance by the profile and the rules.
pub fn judge(profile: Profile, rules: &NetworkRules, affordance: &Affordance) -> Result<(), Withheld> {
    // Mounts and environment entries are the operator's own choice; they widen no tool.
    // T2 has no tools at all, whatever one says of itself.
    let beyond = profile.tooling > affordance.needs || profile.tooling == Tooling::T2;
    if affordance.kind == Kind::Tool && beyond {
        return Err(Withheld::Tooling { needs: affordance.needs, profile });
    }
    let reach = &affordance.reach;
    match (profile.network, reach) {
        (_, Reach::Nothing | Reach::Sandbox) | (Network::N0 | Network::N1, Reach::Web | Reach::Loopback) => Ok(()),
        (Network::N2, Reach::Web | Reach::Loopback | Reach::Names(_) | Reach::Anything | Reach::Provider) => {
            Err(Withheld::NoNetwork { reach: reach.clone() })
        }
        (level @ (Network::N0 | Network::N1), Reach::Names(_) | Reach::Anything | Reach::Provider) => {
            if allowed(level, rules, reach) { Ok(()) } else { Err(Withheld::NotListed { reach: reach.clone() }) }
        }
    }
}

/// Whether the rules allow all of `reach` at N0 or N1.
fn allowed(level: Network, rules: &NetworkRules, reach: &Reach) -> bool {
    match (level, reach) {
        (Network::N0, Reach::Names(names)) => {
            !names.iter().any(|name| rules.deny.iter().any(|deny| deny.overlaps(name)))
        }
        (Network::N1, Reach::Names(names)) => names.iter().all(|name| rules.list(name)),
        // Outside our rules nobody can keep a deny list, so there must be none.
        (Network::N0, _) => rules.deny.is_empty() && rules.deny_cidr.is_empty(),
        (Network::N1 | Network::N2, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::affordance::{Runs, Sensitivity};
    use crate::hostname::HostName;
    use crate::level::Isolation;
    use crate::pattern::HostPattern;
    use crate::rules::AllowRule;

    fn profiles() -> impl Strategy<Value = Profile> {
        (prop::sample::select(Tooling::ALL), prop::sample::select(Isolation::ALL), prop::sample::select(Network::ALL))
            .prop_map(|(t, h, n)| Profile::new(t, h, n))
    }

    fn patterns() -> impl Strategy<Value = HostPattern> {
        "(\\*\\.)?([ab]\\.){1,2}org".prop_map(|text| text.parse().unwrap())
    }

    fn rules() -> impl Strategy<Value = NetworkRules> {
        let allow = "(tcp://|https://)?(\\*\\.)?([ab]\\.){1,2}org".prop_map(|text| {
            let port = if text.starts_with("tcp") { ":22" } else { "" };
            format!("{text}{port}").parse::<AllowRule>().unwrap()
        });
        (prop::collection::btree_set(allow, 0..4), prop::collection::btree_set(patterns(), 0..2))
            .prop_map(|(allow, deny)| NetworkRules { allow, deny, ..NetworkRules::default() })
    }

    fn affordances() -> impl Strategy<Value = Affordance> {
        let reach = prop_oneof![
            Just(Reach::Nothing),
            Just(Reach::Sandbox),
            Just(Reach::Web),
            Just(Reach::Anything),
            Just(Reach::Provider),
            Just(Reach::Loopback),
            prop::collection::btree_set(patterns(), 1..3).prop_map(Reach::Names),
        ];
        let kind = prop::sample::select(&[Kind::Tool, Kind::Mount, Kind::Environment][..]);
        let runs = prop::sample::select(&[Runs::Sandbox, Runs::Host, Runs::Provider][..]);
        (kind, runs, reach, prop::sample::select(Tooling::ALL)).prop_map(|(kind, runs, reach, needs)| Affordance {
            name: "x".into(),
            kind,
            runs,
            reach,
            sensitivity: Sensitivity::Plain,
            needs,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn raising_a_level_never_adds_an_affordance(a in profiles(), b in profiles(), rules in rules(), thing in affordances()) {
            if a <= b && judge(b, &rules, &thing).is_ok() {
                prop_assert!(judge(a, &rules, &thing).is_ok(), "{b} grants what {a} does not");
            }
        }

        #[test]
        fn raising_a_level_never_adds_a_reachable_host(
            a in prop::sample::select(Network::ALL),
            b in prop::sample::select(Network::ALL),
            rules in rules(),
            name in "([abc]\\.){1,3}org",
            port in prop::sample::select(&[22u16, 80, 443, 8080][..]),
        ) {
            let name: HostName = name.parse().unwrap();
            if a <= b && rules.at(b).permits(&name, port) {
                prop_assert!(rules.at(a).permits(&name, port));
            }
        }
    }

    #[test]
    fn n2_refuses_reach_wherever_it_runs() {
        let rules = NetworkRules { allow: BTreeSet::from(["a.org".parse().unwrap()]), ..NetworkRules::default() };
        let profile: Profile = "T0.H1.N2".parse().unwrap();
        for runs in [Runs::Sandbox, Runs::Host, Runs::Provider] {
            let thing = Affordance {
                name: "search".into(),
                kind: Kind::Tool,
                runs,
                reach: Reach::Names(BTreeSet::from(["a.org".parse().unwrap()])),
                sensitivity: Sensitivity::Plain,
                needs: Tooling::T1,
            };
            assert!(matches!(judge(profile, &rules, &thing), Err(Withheld::NoNetwork { .. })), "{runs}");
        }
    }
}
