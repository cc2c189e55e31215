//! From a plan to a container of the embedded engine, or of whichever engine the plan names.

use std::sync::Arc;

use ::docker::Pull;
use eval::{ImageDirectory, Inputs};
use image::{Config, ImageError, Opened};
use profile::{Bytes, Document, MountMode, Plan, Provider, Request};
use sandbox::Network::{Captured, Loopback, Relayed};
use sandbox::{
    Image, Limits, Mount, MountSource, SecretMounts, StartError, check_directory_image, check_image_beside,
    check_mounts,
};

use super::{docker, images, network};
use crate::args::CaptureBy;

/// An image that was opened.
pub(super) enum Found {
    /// Of the store; held, so that it stays while sandboxes live.
    Stored(Opened),
    /// Of a daemon, which looks after it.
    AtDaemon(docker::AtDaemon),
}

impl Found {
    /// What it says about running it.
    pub(super) fn config(&self) -> Config {
        match self {
            Self::Stored(opened) => opened.image.config.clone(),
            Self::AtDaemon(found) => docker::config(&found.local),
        }
    }

    /// Its layers, where they are ours.
    pub(super) fn stored(&self) -> Option<&Opened> {
        match self {
            Self::Stored(opened) => Some(opened),
            Self::AtDaemon(_) => None,
        }
    }
}

/// Why an image could not be opened.
pub(super) enum OpenError {
    Image(ImageError),
    Start(StartError),
}

impl OpenError {
    /// As whoever asked has it.
    pub(super) fn either<T>(self, image: impl FnOnce(ImageError) -> T, start: impl FnOnce(StartError) -> T) -> T {
        match self {
            Self::Image(error) => image(error),
            Self::Start(error) => start(error),
        }
    }
}

/// Opens an image for a provider; the host's files and directories need no opening. From here on it is named by its digest,
/// so that the plan says what runs. `stated` beats the document's.
pub(super) fn open_image(
    document: &Document,
    stated: Option<&str>,
    (provider, pull): (Provider, Pull),
    asked: &Request,
) -> Result<(Option<String>, Option<Found>), OpenError> {
    let in_document = document.image.as_ref().map(|image| image.value.as_str());
    let Some(name) = stated.or(in_document) else { return Ok((None, None)) };
    if name == "host" || name.starts_with("dir:") {
        return Ok((stated.map(str::to_owned), None));
    }
    if provider == Provider::Docker {
        let (pinned, found) = docker::open_image(name, pull, secret_mounts(asked)).map_err(OpenError::Start)?;
        return Ok((Some(pinned), Some(Found::AtDaemon(found))));
    }
    let image = images::open(name).map_err(OpenError::Image)?;
    let base = image.image.base.as_ref().map(|base| format!("+{base}")).unwrap_or_default();
    // A path may contain anything: only a name can have a digest of its own.
    let is_path = name.starts_with("oci:") || name.starts_with("archive:");
    let stated = !is_path && name.rsplit_once('@').is_some_and(|(_, digest)| digest.starts_with("sha256:"));
    let pinned = if stated { name.to_owned() } else { format!("{name}@{}", image.image.digest) };
    Ok((Some(format!("{pinned}{base}")), Some(Found::Stored(image))))
}

/// What lies on this host and becomes the image of a document.
pub(super) fn inputs(document: &Document) -> Inputs {
    let Some(name) = document.image.as_ref().map(|image| image.value.as_str()) else { return Inputs::default() };
    let on_host = ["dir:", "oci:", "archive:"].iter().find_map(|kind| name.strip_prefix(kind));
    let whole = |path: &str| ImageDirectory { path: path.into(), leaves_out: Box::new(|_| false) };
    let built = ::docker::Build::parse(name).map(|build| docker::context(&build));
    Inputs { directories: built.into_iter().chain(on_host.map(whole)).collect(), files: Vec::new() }
}

/// The sandboxes that the plan amounts to; none where it runs on the host itself.
pub(super) fn kind(
    asked: &Request,
    plan: &Plan,
    image: Option<&Found>,
    capture: CaptureBy,
) -> Result<Option<Arc<dyn sandbox::Kind>>, StartError> {
    let not_built = || StartError::Engine(format!("`sandbox: {}` is not built yet", plan.provider).into());
    match (plan.provider, image) {
        (Provider::Local, _) => Ok(None),
        (Provider::Container, image) => {
            let mut made = request(asked, plan, image.and_then(Found::stored))?;
            if capture == CaptureBy::Relayed && made.network == Captured {
                made.network = Relayed;
            }
            Ok(Some(Arc::new(made)))
        }
        (Provider::Docker, Some(Found::AtDaemon(image))) => Ok(Some(Arc::new(docker::kind(asked, plan, image)?))),
        (Provider::Docker | Provider::K8s | Provider::Proxmox | Provider::Qemu, _) => Err(not_built()),
    }
}

/// A container as the plan says.
pub(super) fn request(request: &Request, plan: &Plan, image: Option<&Opened>) -> Result<sandbox::Request, StartError> {
    // Left out only where the plan says that nothing bounds them; else a host without groups is an error.
    let unbounded = plan.residual.iter().any(|residual| residual.id == "unbounded");
    let limits = (!unbounded).then_some(Limits {
        memory: plan.limits.memory.amount.0,
        pids: plan.limits.pids.amount.0,
        cpu_millis: plan.limits.cpu.amount.0,
    });
    let reference = plan.image.as_ref().map_or("host", |image| image.reference.as_str());
    let image = match image {
        Some(opened) => {
            let layers = opened.layers.iter().map(|path| absolute(&path.to_string_lossy()));
            let layers = layers.collect::<Result<Vec<_>, _>>()?;
            match opened.image.base.as_deref() {
                Some(base) => Image::Over(Box::new(host_files(base, request)?), layers),
                None => Image::Layers(layers),
            }
        }
        None => host_files(reference, request)?,
    };
    let mounts = mounts(request)?;
    check_image_beside(&image, &mounts)?;
    let Bytes(disk) = plan.limits.disk.amount;
    Ok(sandbox::Request {
        image,
        begin_with: None,
        system: sandbox::System::AsLeft,
        limits,
        disk,
        mounts,
        allow_setuid: plan.allow_setuid,
        network: if network::is_captured(plan) { Captured } else { Loopback },
    })
}

/// The host paths that the document shows inside, without links, and checked.
pub(super) fn mounts(request: &Request) -> Result<Vec<Mount>, StartError> {
    let mounts = request.document.mounts.iter().map(|mount| {
        let writable = mount.value.mode == MountMode::ReadWrite;
        let source = MountSource::open(&mount.value.source)?.path().to_owned();
        Ok(Mount { source, target: mount.value.target.clone(), writable })
    });
    let mounts = mounts.collect::<Result<Vec<_>, StartError>>()?;
    check_mounts(&mounts, secret_mounts(request))?;
    Ok(mounts)
}

/// Whether the operator lets mounts hold credentials.
pub(super) fn secret_mounts(request: &Request) -> SecretMounts {
    if request.dangerously_mount_secrets { SecretMounts::DangerouslyAllowed } else { SecretMounts::Refused }
}

/// The host's programs, or a directory of the host.
fn host_files(reference: &str, request: &Request) -> Result<Image, StartError> {
    let Some(path) = reference.strip_prefix("dir:") else { return Ok(Image::Host) };
    Ok(Image::Directory(check_directory_image(path, secret_mounts(request))?))
}

/// The path of a layer of the store, which is the operator's own.
fn absolute(path: &str) -> Result<String, StartError> {
    let failed = |source| StartError::MountSource { path: path.to_owned(), source };
    let found = std::fs::canonicalize(path).map_err(failed)?;
    let not_text = |_| failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, "its name is not UTF-8"));
    found.into_os_string().into_string().map_err(not_text)
}
