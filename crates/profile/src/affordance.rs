//! Affordances: everything an agent can use, with where it runs and what it reaches.
//!
//! A tool, a mount, an environment entry: whatever widens what the agent can do is one of these, is judged by the
//! profile and is written into the log. The standard tools are listed in [`crate::catalogue`].

use std::collections::BTreeSet;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::level::Tooling;
use crate::pattern::HostPattern;

/// What sort of thing it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something the agent calls.
    Tool,
    /// A host directory shown inside.
    Mount,
    /// An environment entry set inside; its value is never recorded.
    Environment,
}

/// Where it executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Runs {
    /// In the sandbox, under all its controls.
    Sandbox,
    /// In our own process: outside the sandbox.
    Host,
    /// At the model provider: outside anything we can see.
    Provider,
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sandbox => "sandbox",
            Self::Host => "host",
            Self::Provider => "provider",
        })
    }
}

/// Which network names it needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// None.
    Nothing,
    /// Whatever the sandbox's own rules allow; works without any.
    Sandbox,
    /// The web, through the sandbox's own rules: pointless without a network, so N2 refuses it.
    Web,
    /// These names, wherever it runs: N1 must list them, N2 refuses them.
    Names(BTreeSet<HostPattern>),
    /// A port of the runner's own machine that the document names: nothing leaves it. N2 refuses it all the same.
    Loopback,
    /// Any name, not through our rules: only N0 grants it.
    Anything,
    /// Whatever the model provider's own computers reach, which is for the provider to say. No N of ours holds there, so
    /// only N0 grants it.
    Provider,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Sandbox => f.write_str("sandbox network"),
            Self::Web => f.write_str("web, by the sandbox's rules"),
            Self::Names(names) => {
                for (index, name) in names.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    name.fmt(f)?;
                }
                Ok(())
            }
            Self::Loopback => f.write_str("a port of this machine"),
            Self::Anything => f.write_str("anything"),
            Self::Provider => f.write_str("the model provider's own network"),
        }
    }
}

impl Serialize for Reach {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing => serializer.collect_seq([(); 0]),
            Self::Sandbox => serializer.serialize_str("sandbox"),
            Self::Web => serializer.serialize_str("web"),
            Self::Names(names) => serializer.collect_seq(names),
            Self::Loopback => serializer.serialize_str("loopback"),
            Self::Anything => serializer.serialize_str("*"),
            Self::Provider => serializer.serialize_str("provider"),
        }
    }
}

/// Whether a call needs somebody's approval under the presets `dev` and `prod`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sensitivity {
    /// Approved by every preset.
    Plain,
    /// Gated by `dev` and `prod`.
    Sensitive,
}

/// Something an agent can use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Affordance {
    /// Its name, as the model or the workload sees it.
    pub name: String,
    /// What sort of thing it is.
    pub kind: Kind,
    /// Where it executes.
    pub runs: Runs,
    /// Which network names it needs.
    pub reach: Reach,
    /// Whether its use is gated by approvals.
    pub sensitivity: Sensitivity,
    /// The strictest tooling level that still grants it.
    pub needs: Tooling,
}

impl Affordance {
    /// A mount or an environment entry: there whatever the tooling level.
    pub fn fixture(name: String, kind: Kind, sensitivity: Sensitivity) -> Self {
        Self { name, kind, runs: Runs::Sandbox, reach: Reach::Nothing, sensitivity, needs: Tooling::T2 }
    }
}
