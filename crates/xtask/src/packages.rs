//! Debian packages that lanes need: found by what they bring, installed in one call of apt-get if something is missing.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::process;
use crate::setup::SetupError;
use crate::tools::{Evidence, Tools};

const LIMIT: Duration = Duration::from_mins(30);

/// Whether a program is in PATH.
pub(crate) fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

fn is_there(evidence: &Evidence) -> bool {
    match evidence {
        Evidence::Program(program) => is_in_path(program),
        Evidence::File(path) => Path::new(path).exists(),
        Evidence::Module(module) => quiet("python3", &["-c", &format!("import {module}")]),
    }
}

fn quiet(program: &str, arguments: &[&str]) -> bool {
    let command =
        Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    command.is_ok_and(|status| status.success())
}

/// The packages among these that are not there.
pub(crate) fn missing<'a>(tools: &Tools, packages: impl Iterator<Item = &'a String>) -> BTreeSet<&'a str> {
    packages.filter(|name| tools.debian.get(*name).is_none_or(|e| !is_there(e))).map(String::as_str).collect()
}

/// Installs packages. Those that the machine's suite does not have are left out: in some, another package brings the same.
pub(crate) fn install(packages: &BTreeSet<&str>, log: &Path) -> Result<(), SetupError> {
    apt(&["update", "-qq"], log)?;
    let known = packages.iter().filter(|name| quiet("apt-cache", &["show", "--no-all-versions", name]));
    let mut arguments = vec!["install", "-y", "-qq"];
    arguments.extend(known);
    apt(&arguments, log)
}

fn apt(arguments: &[&str], log: &Path) -> Result<(), SetupError> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    if process::run(&mut command, log, LIMIT, &|_| ())?.success() {
        Ok(())
    } else {
        Err(SetupError::command(&process::command_name(&command), log))
    }
}

/// Why these packages are missing, with what to do.
pub(crate) fn advice(missing: &BTreeSet<&str>) -> String {
    let names = missing.iter().copied().collect::<Vec<_>>().join(" ");
    format!("missing {names}; hint: run it as root where there is apt-get, or install these packages")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_seen_by_what_they_bring() {
        let table = r#"
            cargo = {}
            go = {}
            python = {}
            [debian]
            bash = { program = "sh" }
            none = { program = "no-such-program-anywhere" }
            root = { file = "/" }
            gone = { file = "/no/such/file" }
        "#;
        let tools = Tools::parse(table).unwrap();
        let names = ["bash", "none", "root", "gone"].map(str::to_owned);
        assert_eq!(missing(&tools, names.iter()), ["gone", "none"].into());
    }
}
