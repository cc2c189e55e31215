//! Docker, where a daemon answers: `docker run` of an image with busybox and nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) const IMAGE: &str = "ringfence-bench";
const RUN: &str = "run --rm --network none ringfence-bench /bin/true";
/// Where a static busybox is, by distribution.
const BUSYBOX: [&str; 2] = ["/bin/busybox", "/usr/bin/busybox"];

/// The arguments that run /bin/true in a fresh container, or why there is none.
pub(crate) fn arguments() -> Result<&'static str, String> {
    // With a limit: DOCKER_HOST may name a machine that does not answer.
    succeeds(Command::new("timeout").args(["5", "docker", "version"])).map_err(|_| "no daemon answers".to_owned())?;
    if succeeds(Command::new("docker").args(["image", "inspect", IMAGE])).is_err() {
        import()?;
    }
    Ok(RUN)
}

/// Makes the image: a tree of one program and two links.
fn import() -> Result<(), String> {
    let busybox = BUSYBOX.into_iter().find(|path| Path::new(path).exists()).ok_or("no busybox to make an image of")?;
    let tree = || -> std::io::Result<tempfile::TempDir> {
        let tree = tempfile::tempdir()?;
        fs::create_dir(tree.path().join("bin"))?;
        fs::copy(busybox, tree.path().join("bin/busybox"))?;
        for name in ["true", "sh"] {
            symlink("busybox", tree.path().join("bin").join(name))?;
        }
        Ok(tree)
    };
    let tree = tree().map_err(|error| error.to_string())?;
    let script = format!("tar -C \"$0\" -c . | docker import - {IMAGE}");
    succeeds(Command::new("sh").args(["-c", &script]).arg(tree.path()))
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}
