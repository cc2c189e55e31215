//! The profile document: what a user writes down, read strictly.
//!
//! Unknown keys, wrong types and impossible values are problems with a place and a hint, all reported at once. What is
//! well-formed but contradicts itself or its profile is left to [`crate::plan`], which refuses it.

mod file_tools;
mod limits;
mod mount;
mod network;
mod parse;
mod sandbox;
mod search;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::BTreeMap;

use secrecy::SecretString;

use crate::affordance::Affordance;
use crate::approval::{Approval, Audit};
use crate::level::Profile;
use crate::problem::{Located, Place};

pub(crate) use file_tools::Root;
pub use file_tools::{FileMode, FileTools, Preflight};
pub use limits::{Limit, Limits, ServiceLimits, Stated};
pub use mount::{Mount, MountError, MountMode, check_mount_source};
pub use network::{RulesSection, Zone};
pub use sandbox::{Provider, Runtime, SandboxChoice};
pub use search::{ResultFields, SEARCH_QUERY, SearchKey, SearchKind, SearchProvider};

/// A part of a sample's life with its own network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The task's own preparation, before the agent.
    Setup,
    /// The agent at work.
    Agent,
    /// The scorer, after the agent.
    Score,
}

impl Phase {
    /// All phases in the order of a sample's life.
    pub const ALL: [Self; 3] = [Self::Setup, Self::Agent, Self::Score];

    /// Its name in documents and plans.
    pub fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Agent => "agent",
            Self::Score => "score",
        }
    }
}

/// A further container beside the agent's.
#[derive(Debug, Clone)]
pub struct Service {
    /// Where it is declared.
    pub place: Place,
    /// Its image.
    pub image: Located<String>,
    /// The TCP ports at which the sample's other containers reach it.
    pub ports: Vec<u16>,
    /// Its own network; absent means N2.
    pub network: Option<Zone>,
    /// Its environment; values are never recorded.
    pub environment: BTreeMap<String, SecretString>,
    /// Host paths that it sees. A document gives it none; a provider's own file may.
    pub mounts: Vec<Mount>,
    /// What it may use up, where that is not what the agent may.
    pub limits: Option<ServiceLimits>,
}

/// A profile document.
#[derive(Debug, Clone)]
pub struct Document {
    /// The file's name, for messages.
    pub origin: String,
    /// The profile it states.
    pub profile: Located<Profile>,
    /// Which provider runs it; absent means the default of the profile's H.
    pub sandbox: Option<Located<SandboxChoice>>,
    /// The container runtime; absent means the provider's default.
    pub runtime: Option<Located<Runtime>>,
    /// Where setuid programs are allowed to work inside, if they are.
    pub allow_setuid: Option<Place>,
    /// The image; absent means `host`.
    pub image: Option<Located<String>>,
    /// The network rules; absent means that nothing is listed.
    pub network: RulesSection,
    /// The tools; absent means the standard set of the level, `[]` means none.
    pub tools: Option<Vec<Located<Affordance>>>,
    /// Who answers `web_search`, where that is said.
    pub search: Option<SearchProvider>,
    /// Host directories shown inside.
    pub mounts: Vec<Located<Mount>>,
    /// Environment entries set inside; values are never recorded.
    pub environment: BTreeMap<String, SecretString>,
    /// Who says yes to sensitive tools.
    pub approval: Option<Located<Approval>>,
    /// Where the audit chain goes; absent means beside the log.
    pub audit: Option<Located<Audit>>,
    /// The limits that are stated.
    pub limits: Limits,
    /// How the file tools behave.
    pub file_tools: FileTools,
    /// Networks of single phases; absent means the profile's.
    pub phases: BTreeMap<Phase, Zone>,
    /// Further containers.
    pub services: BTreeMap<String, Service>,
    /// Why a safeguard is off.
    pub justification: Option<Located<String>>,
}
