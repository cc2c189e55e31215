//! The lane's own Docker daemon, through its own client.

use std::path::Path;
use std::process::Command;

/// The client of the daemon that the lane started; never of one that the machine has.
fn docker() -> Command {
    let own = std::env::var("DOCKER_HOST").unwrap_or_default();
    assert!(own.starts_with("unix:///"), "DOCKER_HOST names no daemon: run this by `./test.sh docker`");
    let mut command = Command::new("docker");
    // The builder that every version has; the other is a package of its own.
    command.env("DOCKER_BUILDKIT", "0");
    command
}

/// Output of a command that must succeed.
pub(crate) fn output(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

pub(crate) fn import(file: &Path, tag: &str) {
    output(docker().arg("import").args([file, Path::new(tag)]));
}

/// Whether the daemon copies whole trees for its layers, for want of a better way.
pub(crate) fn copies_trees() -> bool {
    output(docker().args(["info", "--format", "{{.Driver}}"])) == b"vfs\n"
}

pub(crate) fn save(tag: &str, file: &Path) {
    output(docker().args(["save", tag, "-o"]).arg(file));
}

/// Builds an image of these instructions, without a network.
pub(crate) fn build(tag: &str, instructions: &str) {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("Dockerfile"), instructions).unwrap();
    output(docker().args(["build", "--quiet", "--network", "none", "--tag", tag]).arg(place.path()));
}

/// What a container of an image writes, without a network.
pub(crate) fn run(options: &[&str], tag: &str, command: &[&str]) -> Vec<u8> {
    output(docker().args(["run", "--rm", "--network", "none"]).args(options).arg(tag).args(command))
}
