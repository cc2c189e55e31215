//! Compiles all test programs of a run in one call of cargo, and says where each is.
//!
//! One call with `--workspace` means one set of features: nothing is compiled twice. A step with features of its own (the
//! programs from which controls can be taken away) is another call: its hooks are in no ordinary program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::process::{self, RunError};
use crate::workspace::{Kind, Program, Workspace, cargo};

/// The profile of all lanes.
pub(crate) const PROFILE: &str = "ci";
const LIMIT: std::time::Duration = std::time::Duration::from_hours(2);

/// Compiled test programs.
pub(crate) type Executables = BTreeMap<Program, PathBuf>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    #[error("the test programs do not compile: the errors stand above")]
    Compiler,
    #[error("cargo: {0}")]
    Run(#[from] RunError),
    #[error("cargo's messages cannot be kept: {0}")]
    Messages(#[from] std::io::Error),
    #[error("cargo compiled everything but {0}")]
    Absent(String),
}

/// Cargo's arguments for these programs.
fn arguments(workspace: &Workspace, programs: &BTreeSet<Program>, features: Option<&str>) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["test", "--profile", PROFILE, "--no-run", "--workspace", "--message-format", "json-render-diagnostics"]
            .map(str::to_owned)
            .into();
    for package in workspace.excluded(programs) {
        arguments.extend(["--exclude".into(), package.into()]);
    }
    if let Some(features) = features {
        arguments.extend(["--features".into(), features.into()]);
    }
    if programs.iter().any(|program| program.kind == Kind::Lib) {
        arguments.push("--lib".into());
    }
    if programs.iter().any(|program| program.kind == Kind::Bin) {
        arguments.push("--bins".into());
    }
    let tests: BTreeSet<_> = programs.iter().filter(|program| program.kind == Kind::Test).map(|p| &p.name).collect();
    arguments.extend(tests.into_iter().flat_map(|name| ["--test".into(), name.clone()]));
    arguments
}

/// What cargo says about a finished target.
#[derive(Debug, Deserialize)]
struct Artifact {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<ArtifactTarget>,
    profile: Option<ArtifactProfile>,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct ArtifactTarget {
    kind: Vec<String>,
    name: String,
}

#[derive(Debug, Deserialize)]
struct ArtifactProfile {
    test: bool,
}

/// The test programs among cargo's messages.
fn executables(messages: &str, package_of: &dyn Fn(&Path) -> Option<String>) -> Executables {
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    artifacts
        .filter(|artifact| artifact.reason == "compiler-artifact")
        .filter(|artifact| artifact.profile.as_ref().is_some_and(|profile| profile.test))
        .filter_map(|artifact| {
            let target = artifact.target?;
            let kind = match target.kind.first()?.as_str() {
                "lib" => Kind::Lib,
                "bin" => Kind::Bin,
                "test" => Kind::Test,
                _ => return None,
            };
            let package = package_of(&artifact.manifest_path?)?;
            Some((Program { package, kind, name: target.name, module: None }, artifact.executable?))
        })
        .collect()
}

/// Compiles them; cargo's own words go to the terminal.
pub(crate) fn compile(
    workspace: &Workspace,
    programs: &BTreeSet<Program>,
    features: Option<&str>,
    log: &Path,
) -> Result<Executables, CompileError> {
    if let Some(parent) = log.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut command = Command::new(cargo());
    command.current_dir(&workspace.root).args(arguments(workspace, programs, features));
    command.stdin(Stdio::null()).stdout(std::fs::File::create(log)?);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let name = process::command_name(&command);
    let child = process::spawn(&mut command).map_err(|source| RunError::Start { program: name, source })?;
    if !process::wait(child, LIMIT, &|_| ())?.success() {
        return Err(CompileError::Compiler);
    }
    let package_of = |manifest: &Path| workspace.package_of(manifest).map(str::to_owned);
    let compiled = executables(&std::fs::read_to_string(log)?, &package_of);
    let absent: Vec<_> =
        programs.iter().filter(|program| !compiled.contains_key(program)).map(Program::label).collect();
    if absent.is_empty() { Ok(compiled) } else { Err(CompileError::Absent(absent.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(package: &str, kind: Kind, name: &str) -> Program {
        Program { package: package.into(), kind, name: name.into(), module: None }
    }

    #[test]
    fn only_test_programs_are_taken_from_cargos_messages() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","target":{"kind":["bin"],"name":"ringfence"},"profile":{"test":false},"executable":"/t/ringfence"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","target":{"kind":["test"],"name":"run"},"profile":{"test":true},"executable":"/t/deps/run-1"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/jail/Cargo.toml","target":{"kind":["lib"],"name":"jail"},"profile":{"test":true},"executable":"/t/deps/jail-2"}
{"reason":"build-script-executed","package_id":"x"}
{"reason":"build-finished","success":true}
not json
"#;
        let package_of = |manifest: &Path| {
            let name = manifest.parent()?.file_name()?.to_str()?;
            Some(if name == "cli" { "ringfence" } else { name }.to_owned())
        };
        let expected = [
            (program("jail", Kind::Lib, "jail"), "/t/deps/jail-2".into()),
            (program("ringfence", Kind::Test, "run"), "/t/deps/run-1".into()),
        ];
        assert_eq!(executables(messages, &package_of), expected.into());
    }

    #[test]
    fn one_call_compiles_what_is_wanted_and_nothing_else() {
        let workspace = Workspace::load().unwrap();
        let wanted = [program("sandbox", Kind::Test, "snapshots"), program("ringfence", Kind::Test, "snapshots")];
        let words = arguments(&workspace, &wanted.into(), None).join(" ");
        assert_eq!(
            words,
            "test --profile ci --no-run --workspace --message-format json-render-diagnostics --exclude bench --test snapshots"
        );
        let words = arguments(&workspace, &[program("bench", Kind::Bin, "bench")].into(), Some("a/b")).join(" ");
        assert!(words.ends_with("--features a/b --bins") && !words.contains("--exclude"), "{words}");
    }
}
