//! Images at a run's daemon: the shared Debian as it is and with settings, and one static program with nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::daemon::Daemon;
use crate::lanes::{Engine, Image};
use crate::rootfs;
use crate::setup::SetupError;

impl Image {
    fn name(self) -> &'static str {
        match self {
            Self::Debian => "ringfence/debian",
            Self::Plain => "ringfence/plain",
            Self::Static => "ringfence/static",
            Self::Inspect => "ringfence/inspect",
        }
    }

    /// Instructions that `docker import` applies.
    fn changes(self, engine: Engine) -> Vec<&'static str> {
        match self {
            Self::Debian | Self::Static => vec![],
            Self::Inspect => vec!["USER agent", "WORKDIR /home/agent"],
            Self::Plain => {
                let mut changes = vec![
                    "USER agent",
                    "WORKDIR /srv",
                    "ENV PLACE=there",
                    r#"ENTRYPOINT ["sh", "-c"]"#,
                    r#"CMD ["echo said $(id -u) $PWD $PLACE"]"#,
                ];
                // Podman imports no health checks.
                if engine != Engine::Podman {
                    changes.push("HEALTHCHECK CMD touch /srv/checked");
                }
                changes
            }
        }
    }
}

/// Imports an image unless the daemon has it.
pub(crate) fn import(daemon: &mut Daemon, image: Image, target: &Path, log: &Path) -> Result<(), SetupError> {
    if daemon.images.contains(&image) {
        return Ok(());
    }
    let (directory, content) = match image {
        Image::Static => (directory_of("busybox")?, "busybox"),
        Image::Debian | Image::Plain | Image::Inspect => (rootfs::debian(target, log)?, "."),
    };
    let output = crate::process::append(log)?;
    let mut tar = Command::new("tar")
        .arg("-C")
        .arg(directory)
        .args(["--one-file-system", "-c", content])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(output.try_clone()?)
        .spawn()?;
    let mut docker = Command::new("docker");
    docker.envs(daemon.env()).arg("import");
    for change in image.changes(daemon.engine) {
        docker.args(["--change", change]);
    }
    docker.args(["-", image.name()]).stdout(output.try_clone()?).stderr(output);
    if let Some(packed) = tar.stdout.take() {
        docker.stdin(packed);
    }
    let imported = docker.status()?.success();
    // Its end of the pipe is closed with the command.
    drop(docker);
    if !(tar.wait()?.success() && imported) {
        return Err(SetupError::command(&format!("importing {}", image.name()), log));
    }
    daemon.images.insert(image);
    Ok(())
}

fn directory_of(program: &str) -> Result<PathBuf, SetupError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .find(|directory| directory.join(program).is_file())
        .ok_or_else(|| SetupError::Missing(format!("missing {program}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn podman_is_given_no_health_check() {
        let has = |engine| Image::Plain.changes(engine).iter().any(|change| change.starts_with("HEALTHCHECK"));
        assert_eq!([has(Engine::Docker), has(Engine::Podman)], [true, false]);
    }
}
