//! The table of tools, as tools.toml has it: names, pinned versions, where they come from.
//!
//! Installing is `install.rs`'s and `packages.rs`'s.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tools {
    pub(crate) cargo: BTreeMap<String, CargoTool>,
    pub(crate) go: BTreeMap<String, GoTool>,
    /// Python packages and their versions, by group.
    pub(crate) python: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) debian: BTreeMap<String, Evidence>,
}

/// A subcommand of cargo.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CargoTool {
    pub(crate) version: String,
    /// The Python package index may have it as a binary wheel.
    #[serde(default)]
    pub(crate) wheel: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GoTool {
    pub(crate) module: String,
    pub(crate) version: String,
}

/// What shows that a Debian package is there.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Evidence {
    /// A program in PATH.
    Program(String),
    File(String),
    /// A module that `python3` can import.
    Module(String),
}

impl Tools {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The names that this table does not have.
    pub(crate) fn unknown(&self, packages: &[String], tools: &[String], python: &[String]) -> Vec<String> {
        let packages = packages.iter().filter(|name| !self.debian.contains_key(*name));
        let tools = tools.iter().filter(|name| !self.cargo.contains_key(*name));
        let python = python.iter().filter(|name| !self.python.contains_key(*name));
        packages.chain(tools).chain(python).map(|name| format!("`{name}`")).collect()
    }

    /// `NAME==VERSION` of these groups of Python packages.
    pub(crate) fn pins(&self, groups: &[String]) -> Vec<String> {
        let chosen = groups.iter().filter_map(|group| self.python.get(group));
        chosen.flatten().map(|(name, version)| format!("{name}=={version}")).collect()
    }

    /// The version of a Python package, in whichever group it is.
    pub(crate) fn version_of(&self, package: &str) -> Option<&str> {
        self.python.values().find_map(|group| group.get(package)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_this_repository_is_sound() {
        let tools = Tools::parse(crate::TOOLS).unwrap();
        assert_eq!(tools.version_of("inspect_evals"), Some("0.26.0"));
        assert_eq!(tools.pins(&["api".into()]), ["schemathesis==4.32.5"]);
        let pins = tools.pins(&tools.python.keys().cloned().collect::<Vec<_>>());
        let mut names: Vec<_> = pins.iter().filter_map(|pin| pin.split("==").next()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a package is pinned in two groups");
    }

    #[test]
    fn a_tool_without_a_version_is_refused() {
        let error = Tools::parse("go = {}\npython = {}\ndebian = {}\n[cargo.cargo-deny]\nwheel = true\n").unwrap_err();
        assert!(error.contains("missing field `version`"), "{error}");
    }
}
