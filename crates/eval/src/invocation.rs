//! How an evaluation was asked for: what its log must say so that it can be run again.
//!
//! The record is read back from logs, which may be anybody's files. It holds wishes, never rights: whoever runs it again
//! decides what of it to believe (see `commands/retry.rs` of the command). Values of environment entries are not in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::task::Sources;

/// The largest record that is read back.
const MOST_BYTES: usize = 4 << 20;

/// What the command line said. Absent means that it said nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    /// The version of this record: [`Invocation::SCHEMA`].
    pub schema: String,
    /// The task file, as it was named.
    pub task_file: String,
    /// Where that was.
    pub task_path: String,
    /// What the task was read from.
    pub sources: Sources,
    /// Parameters of the task, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// Another profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Another approval policy: a preset or a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// Why a safeguard is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
    /// Another model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Other models of roles.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub model_roles: BTreeMap<String, Vec<String>>,
    /// Which samples, by position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Which samples, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sample_ids: Vec<String>,
    /// How often each is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
    /// Other limits, by the name of their option without `-limit`, such as `token` and `run-token`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// Names of environment entries that were granted, without their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// Samples at the same time.
    pub max_samples: usize,
    /// Sandboxes at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sandboxes: Option<usize>,
    /// When failed samples fail it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_on_error: Option<String>,
    /// How often a sample that fails is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_on_error: Option<u32>,
    /// Whether it went on with a task that had changed, because somebody said so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed_task: bool,
    /// What the operator granted beyond the document: `local`, `full-network`, `writable-mounts`. A record for readers; it
    /// grants nothing to an evaluation that goes on from the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<String>,
}

impl Invocation {
    /// The version of this record.
    pub const SCHEMA: &str = "ringfence.invocation/1";

    /// What of two wishes is not the same, apart from how they are run; nothing if they are the same.
    pub fn differs(&self, other: &Self) -> Option<&'static str> {
        let run = |name: &str| name.starts_with("run-");
        let limits = |one: &Self| -> BTreeMap<String, String> {
            one.limits.clone().into_iter().filter(|(name, _)| !run(name)).collect()
        };
        let same = [
            (self.sources == other.sources, "the task's files have changed"),
            (self.parameters == other.parameters, "other parameters are given"),
            (self.profile == other.profile, "another profile is given"),
            (self.approval == other.approval, "another approval policy is given"),
            (self.model_roles == other.model_roles, "other models of roles are given"),
            (self.limit == other.limit, "other samples are chosen"),
            (self.sample_ids == other.sample_ids, "other samples are chosen"),
            (self.epochs == other.epochs, "other epochs are given"),
            (limits(self) == limits(other), "other limits are given"),
            (self.environment == other.environment, "other environment entries are granted"),
        ];
        same.into_iter().find(|(same, _)| !same).map(|(_, what)| what)
    }

    /// Reads it back from a log. What this version does not know is an error: it may be what matters.
    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        if value["schema"] != Self::SCHEMA {
            return Err(format!("it is not of the kind {}", Self::SCHEMA));
        }
        if value.to_string().len() > MOST_BYTES {
            return Err(format!("it is larger than {MOST_BYTES} bytes"));
        }
        Self::deserialize(value).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_known_is_refused() {
        let known = Invocation { schema: Invocation::SCHEMA.into(), max_samples: 3, ..Invocation::default() };
        let value = json!(known);
        assert_eq!(Invocation::read(&value), Ok(known));
        let with = |key: &str, more: Value| {
            let mut value = value.clone();
            value[key] = more;
            Invocation::read(&value)
        };
        assert!(with("program", json!("/bin/sh")).is_err());
        assert!(with("schema", json!("ringfence.invocation/2")).is_err());
        assert!(with("epochs", json!(-1)).is_err());
        assert!(with("task_path", json!("x".repeat(MOST_BYTES))).is_err());
        assert!(Invocation::read(&json!(null)).is_err());
    }
}
