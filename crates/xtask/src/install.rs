//! Tools that lanes need beside Debian packages: parts of the Rust toolchain, subcommands of cargo, Python packages in one
//! environment, Go programs. Versions are tools.toml's; everything but the toolchain's parts goes to the target directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::printer::Printer;
use crate::process;
use crate::setup::SetupError;
use crate::tools::Tools;
use crate::workspace::cargo;

const LIMIT: Duration = Duration::from_hours(1);

/// Prints names and versions of what an environment has, as pins have them.
const INSTALLED: &str = "import importlib.metadata as m
for d in m.distributions(): print(d.metadata['Name'] + '==' + d.version)";

/// Where tools go.
#[derive(Debug)]
pub(crate) struct Installer<'a> {
    pub(crate) tools: &'a Tools,
    pub(crate) target: &'a Path,
    pub(crate) printer: &'a Printer,
    pub(crate) log: PathBuf,
    /// Nothing may be installed: what is not there is missing.
    pub(crate) only_look: bool,
}

impl Installer<'_> {
    fn run(&self, what: &str, command: &mut Command) -> Result<(), SetupError> {
        if process::run(command, &self.log, LIMIT, &|_| ())?.success() {
            Ok(())
        } else {
            Err(SetupError::command(what, &self.log))
        }
    }

    /// Says what is about to be installed, or that it is missing.
    fn may_install(&self, what: &str) -> Result<(), SetupError> {
        if self.only_look {
            return Err(SetupError::Missing(format!("missing {what}")));
        }
        self.printer.line(&format!("  installing {what}"));
        Ok(())
    }

    /// A part of the Rust toolchain: `fmt` or `clippy`.
    pub(crate) fn component(&self, name: &str) -> Result<(), SetupError> {
        if output(Command::new(cargo()).args([name, "--version"])).is_some() {
            return Ok(());
        }
        let component = if name == "fmt" { "rustfmt" } else { name };
        self.may_install(component)?;
        self.run(&format!("installing {component}"), Command::new("rustup").args(["component", "add", component]))
    }

    /// A subcommand of cargo, in this very version: in PATH, or in the target directory.
    pub(crate) fn cargo_tool(&self, name: &str) -> Result<(), SetupError> {
        let tool = self.tools.cargo.get(name).ok_or_else(|| SetupError::Failed(format!("unknown tool {name}")))?;
        let directories = [self.venv().join("bin"), self.target.join("tools/bin")];
        let has_version = |program: &Path| {
            let command = name.strip_prefix("cargo-").unwrap_or(name);
            output(Command::new(program).args([command, "--version"]))
                .is_some_and(|text| text.split_whitespace().any(|word| word == tool.version))
        };
        let candidates = directories.iter().map(|directory| directory.join(name)).chain([PathBuf::from(name)]);
        if candidates.into_iter().any(|program| has_version(&program)) {
            return Ok(());
        }
        let wanted = format!("{name}@{}", tool.version);
        self.may_install(&wanted)?;
        if tool.wheel && self.wheel(name, &tool.version).is_ok() {
            return Ok(());
        }
        let mut command = Command::new(cargo());
        command.args(["install", "--locked", "--quiet", "--debug", &wanted, "--root"]).arg(self.target.join("tools"));
        // The lanes' own settings are not meant for it.
        command.env_remove("RUSTFLAGS").env_remove("CARGO_TARGET_DIR");
        self.run(&format!("installing {wanted}"), &mut command)
    }

    /// The binary wheel of a tool, if the Python package index has that version.
    fn wheel(&self, name: &str, version: &str) -> Result<(), SetupError> {
        self.environment()?;
        let mut command = Command::new(self.venv().join("bin/pip"));
        command.args(["install", "--quiet", "--no-deps", "--only-binary", ":all:", &format!("{name}=={version}")]);
        self.run(&format!("installing the wheel of {name}"), &mut command)
    }

    /// The one Python environment of all lanes.
    pub(crate) fn venv(&self) -> PathBuf {
        self.target.join("python")
    }

    fn environment(&self) -> Result<(), SetupError> {
        let python = self.venv().join("bin/python");
        if output(Command::new(&python).args(["-m", "pip", "--version"])).is_some() {
            return Ok(());
        }
        self.may_install("the Python environment")?;
        // One that was interrupted, or whose Python is gone.
        let _ = std::fs::remove_dir_all(self.venv());
        self.run("making a Python environment", Command::new("python3").args(["-m", "venv"]).arg(self.venv()))
    }

    /// Python packages of these groups, at their pinned versions, beside those of other groups.
    pub(crate) fn python(&self, groups: &[String]) -> Result<(), SetupError> {
        if groups.is_empty() {
            return Ok(());
        }
        self.environment()?;
        let python = self.venv().join("bin/python");
        let listed = output(Command::new(&python).args(["-c", INSTALLED])).unwrap_or_default();
        let installed: BTreeSet<String> = listed.lines().map(normalised).collect();
        let missing: Vec<String> =
            self.tools.pins(groups).into_iter().filter(|pin| !installed.contains(&normalised(pin))).collect();
        if missing.is_empty() {
            return Ok(());
        }
        self.may_install(&missing.join(" "))?;
        // All pins hold for all groups: no group's packages replace another's.
        let constraints = self.target.join("python-pins.txt");
        let every: Vec<String> = self.tools.python.keys().cloned().collect();
        std::fs::write(&constraints, self.tools.pins(&every).join("\n"))?;
        let mut command = Command::new(self.venv().join("bin/pip"));
        command.args(["install", "--quiet", "--constraint"]).arg(&constraints).args(&missing);
        self.run("installing Python packages", &mut command)
    }

    /// A Go program, built of its module.
    pub(crate) fn go_tool(&self, name: &str) -> Result<PathBuf, SetupError> {
        let tool = self.tools.go.get(name).ok_or_else(|| SetupError::Failed(format!("unknown tool {name}")))?;
        let directory = self.target.join("go").join(&tool.version);
        let program = directory.join(name);
        if program.exists() {
            return Ok(program);
        }
        self.may_install(name)?;
        let mut command = Command::new("go");
        command.args(["install", &format!("{}@{}", tool.module, tool.version)]);
        command.env("GOBIN", &directory).env("CGO_ENABLED", "0");
        self.run(&format!("building {name}"), &mut command)?;
        Ok(program)
    }
}

/// What a command prints, if it succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A pin with the name as the index compares names.
fn normalised(pin: &str) -> String {
    let (name, version) = pin.split_once("==").unwrap_or((pin, ""));
    format!("{}=={version}", name.to_ascii_lowercase().replace(['_', '.'], "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages_are_compared_as_the_index_does() {
        assert_eq!(normalised("types-PyYAML==6.0"), "types-pyyaml==6.0");
        assert_eq!(normalised("inspect_evals==0.26.0"), normalised("inspect-evals==0.26.0"));
    }

    #[test]
    fn what_may_not_be_installed_is_missing() {
        let place = tempfile::tempdir().unwrap();
        let tools = Tools::parse(crate::TOOLS).unwrap();
        let (log, printer) = (place.path().join("log"), Printer::new());
        let installer = Installer { tools: &tools, target: place.path(), printer: &printer, log, only_look: true };
        let error = installer.python(&["api".into()]).unwrap_err();
        assert!(matches!(error, SetupError::Missing(_)), "{error}");
    }
}
