//! The plan: what will be enforced, by which mechanism, what is granted, what is recorded and what remains.
//!
//! [`compile`] is pure: the same request and the same facts give the same plan and the same hash, on any machine.

mod assess;
mod canonical;
mod controls;
mod explain;
mod limits;
mod nearest;
mod network;
mod residual;
mod statements;
#[cfg(test)]
mod tests;
mod tooling;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::affordance::Affordance;
use crate::approval::{Approval, Audit};
use crate::document::{Limits, Provider, Runtime, SearchProvider, ServiceLimits};
use crate::facts::Facts;
use crate::grant::Withheld;
use crate::level::{Network, Profile};
use crate::refusal::Refusal;
use crate::rules::Egress;
use crate::settings::{FileToolsInForce, Request};

pub use explain::{Explanation, explain};

/// Which kernel stands between the agent and the host. This, not H, says how strong the wall is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelBoundary {
    /// The host's (or node's) own kernel: its whole system-call surface, less what a filter takes away.
    Shared,
    /// A kernel in user space (gVisor) in front of the host's.
    UserSpace,
    /// A kernel of its own in a virtual machine.
    Own,
}

impl KernelBoundary {
    /// The boundary in one line, for people.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Shared => "shared kernel: the agent's system calls reach the host's kernel",
            Self::UserSpace => "user-space kernel: system calls are served in front of the host's kernel",
            Self::Own => "own kernel: a virtual machine stands between the agent and the host",
        }
    }
}

/// Something that is enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Control {
    /// Its stable name.
    pub id: &'static str,
    /// What holds because of it.
    pub promise: String,
    /// What makes it hold.
    pub mechanism: String,
}

/// How surely the plan names one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pin {
    /// By digest.
    Digest,
    /// By a name whose digest is recorded when the image is opened.
    AtStart,
    /// Not at all: its content is whatever is there.
    Unpinned,
}

/// The image of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Image {
    /// Where it comes from.
    pub reference: String,
    /// How surely that is one image.
    pub pin: Pin,
}

/// The network of one phase or service, in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ZonePlan {
    /// Its level.
    pub level: Network,
    /// What may leave.
    #[serde(flatten)]
    pub egress: Egress,
}

/// A further container of the sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServicePlan {
    /// Its image.
    pub image: Image,
    /// The TCP ports that the sample's other containers reach.
    pub ports: Vec<u16>,
    /// The names of its environment entries.
    pub environment: Vec<String>,
    /// Host paths that it sees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// What it may use up, where that is not what the agent may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ServiceLimits>,
    /// Its network.
    pub network: ZonePlan,
}

/// The topology and rules of the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NetworkPlan {
    /// How the sandbox is connected, in one line.
    pub topology: &'static str,
    /// Setup, agent and score.
    pub phases: BTreeMap<&'static str, ZonePlan>,
}

/// An affordance that was asked for and is not granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotGranted {
    /// Its name.
    pub name: String,
    /// Why not.
    pub reason: Withheld,
}

/// What remains although everything is enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Residual {
    /// Its stable name.
    pub id: &'static str,
    /// What remains.
    pub text: String,
}

/// What will be enforced, granted and recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The format of this record.
    pub schema: &'static str,
    /// The profile in force.
    pub profile: Profile,
    /// Who runs it.
    pub provider: Provider,
    /// The provider's configuration file.
    pub provider_config: Option<String>,
    /// The container runtime, where one was named.
    pub runtime: Option<Runtime>,
    /// Whether setuid programs work inside, within the sandbox's own user namespace.
    pub allow_setuid: bool,
    /// Which kernel stands between.
    pub kernel_boundary: KernelBoundary,
    /// The agent's image; absent where the provider's configuration names it.
    pub image: Option<Image>,
    /// Everything that is enforced.
    pub controls: Vec<Control>,
    /// Everything that the agent can use.
    pub affordances: Vec<Affordance>,
    /// What was asked for and is withheld.
    pub withheld: Vec<NotGranted>,
    /// Who answers `web_search`, where it is granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchProvider>,
    /// How the file tools behave.
    pub file_tools: FileToolsInForce,
    /// Whether calls of one step may be made at the same time; else only the first is approved.
    pub parallel_calls: bool,
    /// Who says yes to sensitive tools; absent only where none is required.
    pub approval: Option<Approval>,
    /// Where the audit chain goes.
    pub audit: Audit,
    /// Why a safeguard is off.
    pub justification: Option<String>,
    /// How the network is made.
    pub network: NetworkPlan,
    /// Further containers.
    pub services: BTreeMap<String, ServicePlan>,
    /// What one sample may use up.
    pub limits: Limits,
    /// What goes into the log.
    pub recorded: Vec<String>,
    /// What remains.
    pub residual: Vec<Residual>,
    /// Things worth knowing that change nothing.
    pub notes: Vec<String>,
}

impl Plan {
    /// The format of this record.
    pub const SCHEMA: &'static str = "ringfence.plan/1";
}

/// Compiles what is asked for into a plan, or says everything that stands in the way.
pub fn compile(request: &Request, facts: &Facts) -> Result<Plan, Refusal> {
    let assessment = assess::assess(request, facts);
    if assessment.unmet.is_empty() {
        return Ok(assessment.plan);
    }
    Err(nearest::refuse(request, facts, assessment.unmet))
}
