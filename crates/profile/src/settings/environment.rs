//! The environment variables that Inspect users already have.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use crate::approval::Approval;
use crate::document::{FileMode, Preflight};
use crate::glob::{Glob, GlobList};
use crate::level::Profile;
use crate::problem::{Problem, Problems};
use crate::units::{Bytes, Millis};

/// Every variable we read, with what it does.
pub const VARIABLES: &[(&str, &str)] = &[
    ("INSPECT_PROFILE", "the profile; may only raise the file's"),
    ("INSPECT_ENABLE_EXEC", "bash, bash_session, python"),
    ("INSPECT_ENABLE_WEB_SEARCH", "web_search"),
    ("INSPECT_ENABLE_WEB_BROWSER", "web_browser"),
    ("INSPECT_APPROVAL_PRESET", "the approval preset; may only be stricter than the file's"),
    ("INSPECT_AGENTS_FS_MODE", "store or sandbox"),
    ("INSPECT_AGENTS_FS_ROOT", "the directory that the file tools are confined to"),
    ("INSPECT_AGENTS_FS_READ_ONLY", "whether the file tools may only read"),
    ("INSPECT_AGENTS_FS_MAX_BYTES", "the largest file that the file tools touch"),
    ("INSPECT_FS_ALLOW", "globs; the file tools touch only what these allow too"),
    ("INSPECT_FS_DENY", "further globs that the file tools may not touch"),
    ("INSPECT_AGENTS_TOOL_TIMEOUT", "seconds that one tool call may take"),
    ("INSPECT_MAX_TOOL_OUTPUT", "bytes of one tool call's output that the model is shown"),
    ("INSPECT_SANDBOX_PREFLIGHT", "auto, skip or force"),
    ("INSPECT_DISABLE_TOOL_PARALLEL", "whether only the first call of a step is approved"),
];

/// A variable that switches something: unset changes nothing, off narrows it away, on must be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// `1`, `true`, `yes`, `on`.
    On,
    /// `0`, `false`, `no`, `off`.
    Off,
}

impl FromStr for Switch {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Ok(Self::On),
            "0" | "false" | "no" | "off" => Ok(Self::Off),
            _ => Err("is neither on (1, true, yes, on) nor off (0, false, no, off)"),
        }
    }
}

/// What the environment says, parsed. Absent means unset; an empty variable counts as unset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `INSPECT_PROFILE`.
    pub profile: Option<Profile>,
    /// `INSPECT_ENABLE_EXEC`.
    pub enable_exec: Option<Switch>,
    /// `INSPECT_ENABLE_WEB_SEARCH`.
    pub enable_web_search: Option<Switch>,
    /// `INSPECT_ENABLE_WEB_BROWSER`.
    pub enable_web_browser: Option<Switch>,
    /// `INSPECT_APPROVAL_PRESET`.
    pub approval: Option<Approval>,
    /// `INSPECT_AGENTS_FS_MODE`.
    pub fs_mode: Option<FileMode>,
    /// `INSPECT_AGENTS_FS_ROOT`.
    pub fs_root: Option<String>,
    /// `INSPECT_AGENTS_FS_READ_ONLY`.
    pub fs_read_only: Option<Switch>,
    /// `INSPECT_AGENTS_FS_MAX_BYTES`.
    pub fs_max_bytes: Option<Bytes>,
    /// `INSPECT_FS_ALLOW`.
    pub fs_allow: Option<Vec<Glob>>,
    /// `INSPECT_FS_DENY`.
    pub fs_deny: Option<Vec<Glob>>,
    /// `INSPECT_AGENTS_TOOL_TIMEOUT`.
    pub tool_timeout: Option<Millis>,
    /// `INSPECT_MAX_TOOL_OUTPUT`.
    pub max_tool_output: Option<Bytes>,
    /// `INSPECT_SANDBOX_PREFLIGHT`.
    pub preflight: Option<Preflight>,
    /// `INSPECT_DISABLE_TOOL_PARALLEL`.
    pub disable_parallel: Option<Switch>,
}

impl Environment {
    /// Reads the variables that we know out of all that are set.
    pub fn parse(variables: &BTreeMap<String, String>) -> Result<Self, Problems> {
        let mut reader = Reader { variables, problems: Vec::new() };
        let environment = Self {
            profile: reader.profile(),
            enable_exec: reader.value("INSPECT_ENABLE_EXEC"),
            enable_web_search: reader.value("INSPECT_ENABLE_WEB_SEARCH"),
            enable_web_browser: reader.value("INSPECT_ENABLE_WEB_BROWSER"),
            approval: reader.value("INSPECT_APPROVAL_PRESET"),
            fs_mode: reader.value("INSPECT_AGENTS_FS_MODE"),
            fs_root: reader.value::<crate::document::Root>("INSPECT_AGENTS_FS_ROOT").map(|root| root.0),
            fs_read_only: reader.value("INSPECT_AGENTS_FS_READ_ONLY"),
            fs_max_bytes: reader.value("INSPECT_AGENTS_FS_MAX_BYTES"),
            fs_allow: reader.value::<GlobList>("INSPECT_FS_ALLOW").map(|list| list.0),
            fs_deny: reader.value::<GlobList>("INSPECT_FS_DENY").map(|list| list.0),
            tool_timeout: reader.value("INSPECT_AGENTS_TOOL_TIMEOUT"),
            max_tool_output: reader.value("INSPECT_MAX_TOOL_OUTPUT"),
            preflight: reader.value("INSPECT_SANDBOX_PREFLIGHT"),
            disable_parallel: reader.value("INSPECT_DISABLE_TOOL_PARALLEL"),
        };
        if reader.problems.is_empty() {
            Ok(environment)
        } else {
            Err(Problems { origin: "the environment".into(), problems: reader.problems })
        }
    }
}

struct Reader<'a> {
    variables: &'a BTreeMap<String, String>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    fn value<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> Option<T> {
        let text = self.text(name)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                let problem =
                    Problem::new(format!("{name}={text}: {error}")).hint(format!("correct it, or unset {name}"));
                self.problems.push(problem);
                None
            }
        }
    }

    fn profile(&mut self) -> Option<Profile> {
        let text = self.text("INSPECT_PROFILE")?;
        match text.parse::<Profile>() {
            Ok(profile) => Some(profile),
            Err(error) => {
                let problem = Problem::new(format!("INSPECT_PROFILE: {error}")).hint(error.hint());
                self.problems.push(problem);
                None
            }
        }
    }
}
