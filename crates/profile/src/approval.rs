//! Who says yes to a sensitive tool, and where that is kept.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::problem::nearest_word;

/// An approval policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// Approve all.
    Ci,
    /// Escalate sensitive tools; rejected unless someone approves.
    Dev,
    /// End the sample on a sensitive tool.
    Prod,
    /// The operator's own command: whoever typed it has approved it. Only `ringfence run` states it.
    Operator,
    /// A policy file.
    Policy(String),
}

impl Approval {
    /// The policy in one line, for people.
    pub fn summary(&self) -> &'static str {
        match self {
            Self::Ci => "every call is approved",
            Self::Dev => "sensitive tools need a person's yes, else they are rejected",
            Self::Prod => "a sensitive tool ends the sample",
            Self::Operator => "the operator's own command",
            Self::Policy(_) => "as the policy file says; no decision is a rejection",
        }
    }

    /// How strict a preset is; a policy file cannot be compared.
    pub fn strictness(&self) -> Option<u8> {
        match self {
            Self::Ci => Some(0),
            Self::Dev => Some(1),
            Self::Prod => Some(2),
            Self::Operator | Self::Policy(_) => None,
        }
    }
}

impl fmt::Display for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ci => "ci",
            Self::Dev => "dev",
            Self::Prod => "prod",
            Self::Operator => "operator",
            Self::Policy(path) => path,
        })
    }
}

impl Serialize for Approval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A text that is neither a preset nor a policy file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an approval preset")]
pub struct ParseApprovalError(String);

impl ParseApprovalError {
    /// What the user can do about it.
    pub fn hint(&self) -> String {
        let presets = "use ci, dev, prod or a policy file ending in .yaml, .yml or .json";
        match nearest_word(&self.0, ["ci", "dev", "prod"]) {
            Some(preset) if self.0.len() > 1 => format!("did you mean `{preset}`? {presets}"),
            _ => presets.into(),
        }
    }
}

impl FromStr for Approval {
    type Err = ParseApprovalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "ci" => Ok(Self::Ci),
            "dev" => Ok(Self::Dev),
            "prod" => Ok(Self::Prod),
            lower if [".yaml", ".yml", ".json"].iter().any(|end| lower.ends_with(end)) => Ok(Self::Policy(text.into())),
            _ => Err(ParseApprovalError(text.to_owned())),
        }
    }
}

/// Where the audit chain of approvals and tool calls goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Audit {
    /// Into a file beside the log.
    #[default]
    BesideTheLog,
    /// Into this file.
    File(String),
    /// Nowhere.
    Off,
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BesideTheLog => "beside the log",
            Self::File(path) => path,
            Self::Off => "off",
        })
    }
}
