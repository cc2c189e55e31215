//! Ringfence profiles: what a sandbox `Tx.Hx.Nx` grants, and the plan that it compiles to.
//!
//! Pure: no I/O, no async, no clock. The flow is
//! [`Document::parse`] → [`Request::resolve`] → [`plan::compile`], with [`Facts`] from the crate `host`.
//!
//! [`source`] is for other readers of such files.
//!
//! Start reading at [`level`](Profile), then [`judge`] (what is granted), then [`plan`].

mod address;
mod affordance;
mod approval;
mod catalogue;
mod choose;
mod document;
mod facts;
mod glob;
mod grant;
mod hostname;
mod level;
mod operator;
mod pattern;
pub mod plan;
mod problem;
mod reader;
mod refusal;
mod rules;
mod settings;
pub mod source;
mod units;
mod words;
mod yaml;
mod zones;

pub use address::{CidrError, check_allow_cidr};
pub use affordance::{Affordance, Kind, Reach, Runs, Sensitivity};
pub use approval::{Approval, Audit, ParseApprovalError};
pub use catalogue::{default_tools, standard_tool, standard_tools};
pub use choose::{Answers, Audience, Choice, Internet, Priority, Tools, choose};
pub use document::{
    Document, FileMode, FileTools, Limit, Limits, Mount, MountError, MountMode, Phase, Preflight, Provider,
    ResultFields, RulesSection, Runtime, SEARCH_QUERY, SandboxChoice, SearchKey, SearchKind, SearchProvider, Service,
    ServiceLimits, Stated, Zone, check_mount_source,
};
pub use facts::{Capability, Facts, Finding, Status};
pub use glob::Glob;
pub use grant::{Withheld, judge};
pub use hostname::{HostName, HostNameError};
pub use level::{Isolation, Network, ParseLevelError, ParseProfileError, Profile, TYPICAL, Tooling};
pub use operator::Grants;
pub use pattern::HostPattern;
pub use plan::{Explanation, Plan, compile, explain};
pub use problem::{Located, Place, Problem, Problems};
pub use refusal::{Alternative, Cause, Refusal, Unmet};
pub use rules::{AllowRule, AllowRuleError, Egress, NetworkRules, Port};
pub use settings::{Environment, FileToolsInForce, Overrides, Provenance, Request, Source, Switch, VARIABLES};
pub use units::{Bytes, Count, MilliCpus, Millis, ParseAmountError};
pub use yaml::MAX_DOCUMENT_BYTES;
