//! From a plan to a container of a Docker daemon.

use std::io::IsTerminal as _;

use docker::{Build, Docker, Engine, Local, Patience, Pull};
use eval::ImageDirectory;
use image::Config;
use indicatif::ProgressBar;
use profile::{Document, Facts, Plan, Provider, Request};
use sandbox::Network::{Captured, Loopback};
use sandbox::{Limits, SecretMounts, StartError};

use super::{container, network};

/// An image that a daemon has.
#[derive(Debug, Clone)]
pub(super) struct AtDaemon {
    pub(super) endpoint: docker::Endpoint,
    pub(super) local: Local,
}

/// Facts that a plan is made by: a daemon is asked only where one is wanted.
pub(super) fn facts(document: &Document, stated: Option<Provider>) -> Facts {
    let named = document.sandbox.as_ref().map(|choice| choice.value.provider);
    if stated.or(named) == Some(Provider::Docker) {
        return host::docker_facts(&host::Surroundings::of_this_process());
    }
    host::kernel_facts()
}

/// What the daemon calls an image: `docker:` before it means the same.
fn name_there(reference: &str) -> &str {
    reference.strip_prefix("docker:").unwrap_or(reference)
}

/// Finds, fetches or builds an image. From here on it is named by its id, so that the plan says what runs.
pub(super) fn open_image(reference: &str, pull: Pull, secrets: SecretMounts) -> Result<(String, AtDaemon), StartError> {
    let build = Build::parse(reference).map(|build| build.check(secrets)).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Helper)?;
    let mut told = progress();
    let mut progress = told.line();
    let found = runtime.block_on(async {
        let engine = Engine::find().await?;
        let local = match build {
            Some(build) => engine.build(&build, pull, &mut progress).await?,
            None => engine.image(name_there(reference), pull, &mut progress).await?,
        };
        Ok::<_, docker::DockerError>(AtDaemon { endpoint: engine.endpoint().clone(), local })
    });
    let found = found?;
    Ok((pinned(reference, &found.local.id), found))
}

/// The directory that an image is built of.
pub(super) fn context(build: &Build) -> ImageDirectory {
    let (path, build) = (build.directory.clone(), build.clone());
    ImageDirectory { path, leaves_out: Box::new(move |below| build.leaves_out(below)) }
}

/// A name with what it means now.
pub(super) fn pinned(reference: &str, id: &str) -> String {
    // A directory may be called anything: only a name can have a digest of its own.
    let stated = reference.rsplit_once('@').is_some_and(|(_, digest)| digest.starts_with("sha256:"));
    match reference {
        _ if stated && Build::parse(reference).is_none() => reference.to_owned(),
        // Its own id is no name of its own.
        _ if id.ends_with(reference.trim_start_matches("sha256:")) => format!("image@{id}"),
        _ => format!("{reference}@{id}"),
    }
}

/// Shows how far a daemon is, where somebody looks.
pub(super) struct Progress(Option<ProgressBar>);

pub(super) fn progress() -> Progress {
    Progress(std::io::stderr().is_terminal().then(ProgressBar::new_spinner))
}

impl Progress {
    /// Who is told a line at a time.
    pub(super) fn line(&mut self) -> impl FnMut(String) {
        move |line| {
            if let Some(bar) = &self.0 {
                bar.set_message(line);
                bar.tick();
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// What an image of a daemon says about running it.
pub(super) fn config(local: &Local) -> Config {
    let Local { env, user, workdir, entrypoint, command, .. } = local.clone();
    Config { env, user, workdir, entrypoint, command }
}

/// The containers that the plan amounts to.
pub(super) fn kind(asked: &Request, plan: &Plan, image: &AtDaemon) -> Result<Docker, StartError> {
    let bounded = |what: &str| {
        let named = |promise: &str| promise.split([' ', ',']).any(|word| word == what);
        plan.controls.iter().any(|control| control.id == "limits" && named(&control.promise))
    };
    // Left out only where the plan says that nothing bounds them.
    let limits = bounded("memory").then_some(Limits {
        memory: plan.limits.memory.amount.0,
        pids: plan.limits.pids.amount.0,
        cpu_millis: plan.limits.cpu.amount.0,
    });
    let request = docker::Request {
        limits,
        mounts: container::mounts(asked)?,
        network: if network::is_captured(plan) { Captured } else { Loopback },
        runtime: plan.runtime.as_ref().map(|runtime| runtime.0.clone()),
        own_kernel: plan.kernel_boundary == profile::plan::KernelBoundary::Own,
        allow_setuid: plan.allow_setuid,
        ..docker::Request::of(&image.local.id)
    };
    Ok(Docker { endpoint: image.endpoint.clone(), patience: Patience::default(), request, copies_programs: false })
}

#[cfg(test)]
mod tests {
    use super::pinned;

    #[test]
    fn a_pin_is_what_the_daemon_has_and_never_part_of_a_path() {
        let (id, other) = (format!("sha256:{}", "a".repeat(64)), format!("sha256:{}", "b".repeat(64)));
        assert_eq!(pinned("debian:12", &id), format!("debian:12@{id}"));
        assert_eq!(pinned(&format!("debian@{other}"), &id), format!("debian@{other}"));
        assert_eq!(pinned(&id, &id), format!("image@{id}"));
        let directory = format!("build:/srv/x@{other}");
        assert_eq!(pinned(&directory, &id), format!("{directory}@{id}"));
    }
}
