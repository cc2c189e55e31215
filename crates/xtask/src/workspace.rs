//! The workspace as cargo knows it: packages, their targets, and which of them are test programs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::modules::{self, MERGED};

/// A package that is compiled only when a lane names it.
const ON_REQUEST: &str = "bench";

/// A kind of test program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Unit tests of a library.
    Lib,
    /// Unit tests of a program.
    Bin,
    /// A program in `tests/`.
    Test,
}

/// A test program: a target of a package, compiled with the test harness; or one module of a merged one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Program {
    pub(crate) package: String,
    pub(crate) kind: Kind,
    /// The target's name.
    pub(crate) name: String,
    /// The module of a merged program.
    pub(crate) module: Option<String>,
}

impl Program {
    /// The short form that lanes and reports use.
    pub(crate) fn label(&self) -> String {
        match self.kind {
            Kind::Lib => format!("{}/lib", self.package),
            Kind::Bin => format!("{}/bin {}", self.package, self.name),
            Kind::Test => format!("{}/{}", self.package, self.subject()),
        }
    }

    /// What lanes call a program in tests/: a merged one by its module.
    fn subject(&self) -> &str {
        self.module.as_deref().unwrap_or(&self.name)
    }

    /// What the compiler makes: the whole program.
    pub(crate) fn compiled(&self) -> Self {
        Self { module: None, ..self.clone() }
    }

    /// Cargo's options that choose this program and no other of its package.
    pub(crate) fn options(&self) -> String {
        match self.kind {
            Kind::Lib => "--lib".into(),
            Kind::Bin => format!("--bin {}", self.name),
            Kind::Test => format!("--test {}", self.name),
        }
    }
}

/// Test programs as lanes.toml names them: `sandbox/attacks`, `sandbox/tests`, `*/lib`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selector {
    /// `None` means every package but the one that is compiled on request only.
    package: Option<String>,
    target: String,
}

impl Selector {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((package, target)) if !package.is_empty() && !target.is_empty() && !target.contains('/') => {
                Ok(Self { package: (package != "*").then(|| package.into()), target: target.into() })
            }
            _ => Err(format!("`{text}` is not PACKAGE/TARGET")),
        }
    }

    fn matches(&self, program: &Program, by_default: bool) -> bool {
        let is_package = match &self.package {
            Some(package) => *package == program.package,
            None => program.package != ON_REQUEST,
        };
        is_package
            && match self.target.as_str() {
                "lib" => program.kind == Kind::Lib,
                "bins" => program.kind == Kind::Bin,
                "tests" => program.kind == Kind::Test && by_default,
                name => program.kind == Kind::Test && program.subject() == name,
            }
    }
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
    workspace_root: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
    src_path: PathBuf,
    #[serde(default)]
    test: bool,
    #[serde(default, rename = "required-features")]
    required_features: Vec<String>,
}

impl Target {
    fn test_kind(&self) -> Option<Kind> {
        match self.kind.first()?.as_str() {
            "lib" => Some(Kind::Lib),
            "bin" => Some(Kind::Bin),
            "test" => Some(Kind::Test),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    packages: Vec<Package>,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn load() -> Result<Self, String> {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
        let output = Command::new(cargo())
            .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path", manifest])
            .output()
            .map_err(|error| format!("cargo does not start: {error}"))?;
        if !output.status.success() {
            return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim_end()));
        }
        let metadata: Metadata =
            serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
        Ok(Self { root: metadata.workspace_root, target: metadata.target_directory, packages: metadata.packages })
    }

    /// Every test program, and whether `cargo test` runs it without being asked by name.
    fn programs(&self) -> impl Iterator<Item = (Program, bool)> {
        self.packages.iter().flat_map(|package| {
            package.targets.iter().flat_map(|target| {
                let by_default = target.test && target.required_features.is_empty();
                let program = |kind: Kind, module: Option<String>| {
                    (Program { package: package.name.clone(), name: target.name.clone(), kind, module }, by_default)
                };
                match target.test_kind() {
                    Some(Kind::Test) if target.name == MERGED => modules::of_source(&target.src_path)
                        .into_iter()
                        .map(|module| program(Kind::Test, Some(module)))
                        .collect(),
                    // Only in tests/ may a program be for one lane alone; a library or binary without tests has none.
                    Some(kind) if by_default || kind == Kind::Test => vec![program(kind, None)],
                    _ => Vec::new(),
                }
            })
        })
    }

    /// The programs that a selector names: at least one.
    pub(crate) fn select(&self, selector: &Selector) -> Result<Vec<Program>, String> {
        let chosen: Vec<Program> = self
            .programs()
            .filter(|(program, by_default)| selector.matches(program, *by_default))
            .map(|(program, _)| program)
            .collect();
        if chosen.is_empty() { Err(format!("no test program is {selector:?}")) } else { Ok(chosen) }
    }

    /// Test programs that none of these selectors names.
    pub(crate) fn without_a_lane(&self, selectors: &[&Selector]) -> Vec<Program> {
        let has_lane = |program: &Program, default| selectors.iter().any(|selector| selector.matches(program, default));
        self.programs().filter(|(program, default)| !has_lane(program, *default)).map(|(program, _)| program).collect()
    }

    /// A test program whose compilation leaves this binary in the target directory: cargo builds a package's binaries for
    /// its programs in tests/, with the features that all of these have.
    pub(crate) fn beside(&self, binary: &str) -> Option<Program> {
        let has_it = |package: &&Package| {
            package.targets.iter().any(|target| target.name == binary && target.test_kind() == Some(Kind::Bin))
        };
        let package = &self.packages.iter().find(has_it)?.name;
        self.programs()
            .find(|(program, by_default)| *by_default && program.kind == Kind::Test && program.package == *package)
            .map(|(program, _)| program.compiled())
    }

    /// Packages to leave out of a compilation of these programs.
    pub(crate) fn excluded(&self, programs: &BTreeSet<Program>) -> Vec<&str> {
        let is_wanted = programs.iter().any(|program| program.package == ON_REQUEST);
        self.packages
            .iter()
            .map(|package| package.name.as_str())
            .filter(|name| *name == ON_REQUEST && !is_wanted)
            .collect()
    }

    pub(crate) fn package_of(&self, manifest: &Path) -> Option<&str> {
        self.packages.iter().find(|package| package.manifest_path == manifest).map(|package| package.name.as_str())
    }

    /// A package's directory and version.
    pub(crate) fn place_of(&self, package: &str) -> Option<(&Path, &str)> {
        let package = self.packages.iter().find(|known| known.name == package)?;
        Some((package.manifest_path.parent()?, &package.version))
    }

    /// Packages whose libraries have examples in their documentation.
    pub(crate) fn with_doctests(&self) -> Vec<&str> {
        let libraries =
            self.packages.iter().filter(|package| package.targets.iter().any(|t| t.test_kind() == Some(Kind::Lib)));
        libraries
            .filter(|package| package.manifest_path.parent().is_some_and(|place| has_doctest(&place.join("src"))))
            .map(|package| package.name.as_str())
            .collect()
    }
}

/// The cargo that started us, or the one in PATH.
pub(crate) fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn has_doctest(directory: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return has_doctest(&path);
        }
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        is_source && std::fs::read_to_string(&path).is_ok_and(|source| has_example(&source))
    })
}

/// Whether a documentation comment opens a code block that rustdoc runs: one without a language, or Rust's.
fn has_example(source: &str) -> bool {
    let mut inside = false;
    for line in source.lines() {
        let line = line.trim_start();
        let Some(text) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else { continue };
        let Some(language) = text.trim().strip_prefix("```") else { continue };
        let runs = ["", "rust", "no_run", "should_panic", "compile_fail", "edition"];
        if !inside && runs.iter().any(|start| language.split(',').any(|word| word.trim() == *start)) {
            return true;
        }
        inside = !inside;
    }
    false
}

#[cfg(test)]
#[path = "workspace_tests.rs"]
mod tests;
