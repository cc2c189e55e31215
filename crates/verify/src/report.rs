//! What a verification came to.

use std::collections::BTreeMap;

use profile::{Isolation, Network, Profile, Tooling};
use serde::Serialize;

use crate::control::Control;
use crate::probe::{Axis, Speed, Verdict};

/// What one probe came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Probed {
    /// The probe.
    pub id: &'static str,
    /// The control that it tests.
    pub control: Control,
    /// The letter that it speaks for.
    pub axis: Axis,
    /// The phases and services that it speaks for; none: all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// What it rests on. May hold texts from inside: untrusted.
    pub evidence: String,
}

/// A profile as it was seen; a letter that nothing shows is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    /// T.
    pub tooling: Option<Tooling>,
    /// H.
    pub isolation: Option<Isolation>,
    /// N.
    pub network: Option<Network>,
}

impl std::fmt::Display for Observed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        fn letter<T: ToString>(level: Option<T>, axis: &str) -> String {
            level.map_or_else(|| format!("{axis}?"), |level| level.to_string())
        }
        let (t, h, n) = (letter(self.tooling, "T"), letter(self.isolation, "H"), letter(self.network, "N"));
        write!(f, "{t}.{h}.{n}")
    }
}

impl Serialize for Observed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A phase or a service whose profile was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// What the plan says.
    pub planned: Profile,
    /// What was seen.
    pub observed: Observed,
}

/// How the verification ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Everything that the plan promises was seen.
    AsPlanned,
    /// Something does not hold.
    Downgrade,
    /// Something was not shown.
    Unproven,
}

/// A verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The format of this record.
    pub schema: &'static str,
    /// What was asked for.
    pub requested: Profile,
    /// What was planned.
    pub planned: Profile,
    /// The plan.
    pub plan_hash: String,
    /// How much was tried.
    pub speed: Speed,
    /// How it ended.
    pub conclusion: Conclusion,
    /// Each phase and service.
    pub zones: BTreeMap<String, Seen>,
    /// Every probe.
    pub probes: Vec<Probed>,
    /// How long it took.
    pub duration_ms: u64,
}

impl Report {
    /// The format of this record.
    pub const SCHEMA: &'static str = "ringfence.verification/1";

    /// How many probes came to this.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.probes.iter().filter(|probed| probed.verdict == verdict).count()
    }

    /// The agent's own profile as it was seen.
    pub fn observed(&self) -> Option<Observed> {
        self.zones.get("agent").map(|seen| seen.observed)
    }

    /// The probes that stand in the way.
    pub fn unmet(&self) -> impl Iterator<Item = &Probed> {
        self.probes.iter().filter(|probed| matches!(probed.verdict, Verdict::Fail | Verdict::Unknown))
    }
}
